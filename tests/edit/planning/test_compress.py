"""What a compression keeps of the turns that stay."""

from __future__ import annotations

import json

import pytest

from tests.edit.sessions import NEW, ids, manuscript
from unspool.edit.planning.plan import Compress, Trim
from unspool.edit.planning.planner import PreparedEdit, prepare_edit
from unspool.edit.session_text import SessionText, parse_session_text
from unspool.edit.verify.verify import verify_edit
from unspool.testing.build import Step, assistant, attachment, progress, session, tool_result, tool_use, user

SAID = "what the hook said"


def hook(name: str) -> Step:
    return attachment("hook_additional_context", hookName=name, content=[SAID])


def hooked(version: str) -> SessionText:
    """Three turns, each with what a hook said; the last one with a call and its progress."""
    said = hook("UserPromptSubmit")
    return manuscript(
        session(
            user("First."),
            said,
            assistant("One."),
            user("Second."),
            said,
            assistant("Two."),
            user("Third."),
            said,
            assistant(tool_use("Bash", id="toolu_1", command="ls")),
            progress("bash_progress", tool="toolu_1"),
            tool_result("a", id="toolu_1"),
            hook("PostToolUse:Bash"),
            assistant("Three."),
            version=version,
        )
    )


def said(prepared: PreparedEdit) -> int:
    return json.dumps([message.json for message in prepared.after.messages]).count(SAID)


@pytest.mark.parametrize("version", ["2.1.29", "2.1.100", "2.1.325"])
@pytest.mark.parametrize(("keep_last", "kept"), [(0, 0), (1, 2), (2, 3)])
@pytest.mark.parametrize("in_place", [False, True])
def test_the_turns_that_stay_keep_their_attachments(version: str, keep_last: int, kept: int, in_place: bool) -> None:
    source = hooked(version)
    prepared = prepare_edit(source, Compress(keep_last=keep_last), ids(source.id if in_place else NEW))
    assert said(prepared) == kept
    assert verify_edit(prepared).faults == ()


def test_a_kept_line_that_would_leave_the_context_is_a_fault() -> None:
    prepared = prepare_edit(hooked("2.1.325"), Compress(keep_last=1), ids(NEW))
    left = [line for line in prepared.after.lines if line.record.uuid != prepared.plan.kept_in_context[-1]]
    broken = prepared._replace(after=prepared.after._replace(lines=left))
    assert [fault.partition(":")[0] for fault in verify_edit(broken).faults] == ["G6"]


def test_what_a_segment_preserves_without_a_list_outlives_a_trim() -> None:
    compressed = prepare_edit(hooked("2.1.325"), Compress(keep_last=1), ids(NEW)).result
    lines = [json.loads(line) for line in compressed.data.splitlines()]
    for line in lines:  # as 2.1.100 writes it
        line.get("compactMetadata", {}).pop("preservedMessages", None)
    old = parse_session_text(NEW, b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    trimmed = prepare_edit(old, Trim(tools=()), ids("22222222-2222-4222-8222-222222222222"))
    assert verify_edit(trimmed).faults == ()
    assert [message.role for message in trimmed.after.messages] == ["user", "assistant"]
    assert said(trimmed) == 1
