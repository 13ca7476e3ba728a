"""Sessions that hypothesis makes up: steps in any order, with branches, queues, parallel calls and damage."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import strategies as st

from unspool.errors import UsageError
from unspool.testing.build import (
    Built,
    Step,
    Writer,
    assistant,
    attachment,
    compaction,
    image,
    note,
    progress,
    queued,
    raw,
    result_block,
    rewind,
    session,
    system,
    thinking,
    tool_result,
    tool_use,
    user,
)


def lenient(step: Step) -> Step:
    """Return a step that is left out where it makes no sense: a result without a call, a rewind too far."""

    def write(writer: Writer) -> None:
        with suppress(UsageError):
            step.write(writer)

    return Step(write)


AGAIN = {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "a"}, tool_use("Bash", id="again")]}
STEPS = [
    user("hi"),
    user("wait"),
    user("look", image()),
    user("<command-name>/x</command-name>"),
    user("[Request interrupted by user]"),
    user("<system-reminder>be good</system-reminder>"),
    user("inner", isSidechain=True),
    assistant("ho"),
    assistant("ho", isSidechain=True),
    assistant(thinking("hm"), "look", tool_use("Read", file_path="/a")),
    assistant(tool_use("Bash", command="ls"), tool_use("Grep", pattern="x"), tool_use("Read", file_path="/b")),
    assistant(tool_use("Task", prompt="do it", description="d")),
    assistant("a", message=AGAIN, timestamp="2026-01-05T09:00:00.000Z"),
    assistant("API Error: 500", model="<synthetic>", isApiErrorMessage=True),
    tool_result("one\ntwo"),
    tool_result("Exit code 1\nno", error=True),
    tool_result([{"type": "text", "text": "t"}, image()]),
    user(result_block("gone", "y")),
    queued("wait"),
    queued("wait", taken=False),
    queued("more"),
    rewind(1),
    rewind(2),
    compaction("so far", keep=1),
    system("turn_duration", durationMs=5),
    system("stop_hook_summary", hookCount=1),
    system("brand_new"),
    attachment("file", filename="/a"),
    attachment("brand_new"),
    progress("hook_progress", hookName="x"),
    progress("bash_progress", output="x"),
    note("mode", mode="plan"),
    note("pr-link", prNumber=1, prUrl="https://x.test/1"),
    note("last-prompt", leafUuid="00000000-0000-4000-8000-000000000000"),
    note("brand-new"),
    raw(b'{"torn\n'),
    raw(b"\n"),
    raw(b'{"type":"mode"}{"type":"mode"}\n'),
]
steps = st.lists(st.sampled_from(STEPS).map(lenient), max_size=25)
versions = st.sampled_from(["2.1.325", "2.0.76", "1.0.40"])


def made(some: list[Step], version: str = "2.1.325") -> Built:
    """Return a session of these steps."""
    return session(*some, id="11111111-1111-4111-8111-111111111111", version=version)
