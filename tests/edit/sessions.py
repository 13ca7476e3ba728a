"""Sessions made up for editing: by hand, and by hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from unspool.edit.planning.plan import EditIds
from unspool.edit.session_text import SessionText, parse_session_text
from unspool.testing.build import (
    Built,
    Step,
    assistant,
    attachment,
    compaction,
    image,
    note,
    progress,
    queued,
    raw,
    rewind,
    session,
    snapshot,
    system,
    text,
    thinking,
    tool_result,
    tool_use,
    user,
)

NEW = "11111111-1111-4111-8111-111111111111"
LONG = "a long result, line by line\n" * 80
VERSIONS = ("2.0.76", "2.1.29", "2.1.100", "2.1.200", "2.1.325")


def ids(session_id: str = NEW) -> EditIds:
    return EditIds(session_id, b"seed", "b" * 36, "c" * 36, "2030-01-01T00:00:00.000Z")


def manuscript(built: Built, *, id: str | None = None, tail: bytes = b"") -> SessionText:
    return parse_session_text(id or built.id, built.data + tail)


def work(version: str = "2.1.325") -> Built:
    """Five turns: thinking, parallel calls, a long result, a picture, the same file read twice and changed."""
    path = "/home/me/project/a.py"
    return session(
        user("Read the file."),
        assistant(thinking("Files first."), "I look.", tool_use("Read", id="toolu_1", file_path=path)),
        tool_result(LONG, id="toolu_1", structured={"type": "text", "file": {"filePath": path, "content": LONG}}),
        assistant(thinking("Clear."), "It is long."),
        user("Do two things."),
        assistant(
            "At once.", tool_use("Bash", id="toolu_2", command="ls"), tool_use("Grep", id="toolu_3", pattern="x")
        ),
        tool_result(LONG, id="toolu_2"),
        tool_result("short", id="toolu_3"),
        assistant("Both done."),
        user("Look at the picture.", image()),
        assistant("A dot."),
        snapshot(**{"a.py": {"backupFileName": "abc@v1", "version": 1, "backupTime": "2026-01-05T09:00:00.000Z"}}),
        user("Change the file."),
        assistant(thinking("How?"), tool_use("Edit", id="toolu_4", file_path=path, old_string="a", new_string="b")),
        tool_result("changed", id="toolu_4"),
        assistant(tool_use("Read", id="toolu_5", file_path=path)),
        tool_result(LONG, id="toolu_5"),
        assistant(thinking("Good."), "Changed."),
        note("custom-title", customTitle="a title"),
        user("Thanks."),
        assistant(thinking("A thank-you."), "You are welcome."),
        version=version,
    )


def open_loop(version: str = "2.1.325") -> Built:
    """A session that ends while the model works."""
    return session(
        user("One."),
        assistant(thinking("Old."), tool_use("Bash", id="toolu_1", command="ls")),
        tool_result(LONG, id="toolu_1"),
        assistant(thinking("Older."), "Done."),
        user("Two."),
        assistant(thinking("New."), tool_use("Bash", id="toolu_2", command="ls")),
        tool_result(LONG, id="toolu_2"),
        assistant(thinking("Newer."), tool_use("Bash", id="toolu_3", command="ls")),
        tool_result(LONG, id="toolu_3"),
        version=version,
    )


_TOOLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Read", {"file_path": "/a"}),
    ("Bash", {"command": "ls"}),
    ("Edit", {"file_path": "/a"}),
)


def _calls(number: int) -> list[dict[str, Any]]:
    """Return one to three calls."""
    chosen = [_TOOLS[(number + at) % 3] for at in range(1 + number % 3)]
    return [tool_use(name, id=f"toolu_{number}_{at}", **given) for at, (name, given) in enumerate(chosen)]


@st.composite
def turns(draw: st.DrawFn, number: int) -> list[Step]:
    """One turn: a prompt, calls in parallel, results as they come, things beside, an answer."""
    steps: list[Step] = [
        user(f"Prompt {number}.", image()) if draw(st.integers(0, 9)) == 0 else user(f"Prompt {number}.")
    ]
    if draw(st.booleans()):
        steps.append(snapshot())
    for part in range(draw(st.integers(0, 3))):
        key = number * 10 + part
        calls = _calls(key)
        before = [thinking(f"thought {key}")] if draw(st.booleans()) else []
        words = [text(f"words {key}")] if draw(st.booleans()) else []
        steps.append(assistant(*before, *words, *calls))
        if draw(st.booleans()):
            steps.append(progress("bash_progress", tool=calls[0]["id"], output="…"))
        order = draw(st.permutations(calls))
        for call in order:
            content: Any = LONG if draw(st.booleans()) else "short"
            if draw(st.integers(0, 9)) == 0:
                content = [{"type": "text", "text": "see"}, image()]
            steps.append(tool_result(content, id=call["id"], structured={"stdout": LONG}))
        if draw(st.integers(0, 4)) == 0:
            steps.append(attachment("hook_additional_context", content=["beside"], hookName="PostToolUse"))
        if draw(st.integers(0, 6)) == 0:
            steps.append(queued(f"Meanwhile {key}."))
    if draw(st.integers(0, 7)):
        steps.append(assistant(thinking(f"last {number}"), f"Answer {number}."))
    return steps


@st.composite
def built(draw: st.DrawFn) -> tuple[Built, bytes]:
    """A session of any version, with branches, compactions, sidechains, unknown lines; and a torn tail."""
    steps: list[Step] = []
    count = draw(st.integers(1, 6))
    for number in range(count):
        steps += draw(turns(number))
        match draw(st.integers(0, 9)):
            case 0:
                steps.append(compaction(f"Summary {number}.", keep=draw(st.integers(0, 3))))
            case 1:
                steps.append(rewind())
            case 2:
                steps.append(note("a-new-type", value=[number]))
            case 3:
                steps.append(system("turn_duration", durationMs=5))
            case 4:
                steps.append(raw(b"not json at all\n"))
            case 5:
                steps.append(note("permission-mode", permissionMode="plan"))
            case _:
                pass
    steps.append(user("The end."))
    steps.append(assistant("Ended."))
    version = draw(st.sampled_from(VERSIONS))
    tail = draw(st.sampled_from([b"", b"", b'{"type":"user","mess']))
    return session(*steps, version=version), tail
