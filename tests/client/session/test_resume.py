"""A session that is gone on with knows the files it had seen, and its list."""

from pathlib import Path
from typing import Any

import pytest

from tests.client.talk import Place, Session, fitted, of, place, talk
from unspool.client import events
from unspool.client.config import SessionStart
from unspool.client.loop.agent import Services
from unspool.client.tools.registry import built_in_tools, run_tool

UNREAD = "<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>"
CHANGED = "<tool_use_error>File has been modified since read"


def file_tools() -> Services:
    wanted = {"Read", "Write", "Edit", "TodoWrite"}
    return fitted([tool for tool in built_in_tools() if tool.name in wanted])._replace(run_tool=run_tool)


def use(name: str, **given: Any) -> dict[str, Any]:
    return {"content": [{"type": "tool_use", "name": name, "input": given}]}


def make(
    there: Place, prompt: str, *steps: Any, start: SessionStart | None = None
) -> tuple[Session, list[events.CallEnded]]:
    session, found = talk(there, {"cues": {prompt: [*steps, "Done."]}}, prompt, start=start, fittings=file_tools())
    return session, of(events.CallEnded, found)


@pytest.fixture
def there(tmp_path: Path) -> Place:
    there = place(tmp_path)
    for name in "abcd":
        (there.work / f"{name}.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    return there


def test_what_was_seen_may_be_changed_after_a_resumption_if_it_is_as_it_was(there: Place) -> None:
    todos = [{"content": "x", "status": "pending", "activeForm": "y"}]
    session, _ = make(
        there,
        "Look.",
        use("Read", file_path="a.txt"),
        use("Read", file_path="b.txt", offset=1, limit=1),
        use("Read", file_path="c.txt"),
        use("Read", file_path="d.txt"),
        use("Edit", file_path="d.txt", old_string="one", new_string="1\n1"),
        use("Write", file_path="new.txt", content="one\ntwo\n"),
        use("TodoWrite", todos=todos),
    )
    (there.work / "c.txt").write_text("another")
    again, ended = make(
        there,
        "Change.",
        *(
            use("Edit", file_path=f"{name}.txt", old_string="two", new_string="2")
            for name in ("a", "b", "c", "d", "new")
        ),
        use("Edit", file_path="a.txt", old_string="2", new_string="zwei"),
        start=SessionStart(resume=session.chat.path),
    )
    told = [str(call.content) for call in ended]
    assert [call.is_error for call in ended] == [False, True, True, False, False, False], told
    assert told[1] == UNREAD
    assert told[2].startswith(CHANGED)
    assert (there.work / "a.txt").read_bytes() == b"one\r\nzwei\r\nthree\r\n"
    assert (there.work / "d.txt").read_bytes() == b"1\r\n1\r\n2\r\nthree\r\n"
    assert again.chat.todos == todos


def test_a_list_that_was_done_is_not_taken_up_again(there: Place) -> None:
    done = [{"content": "x", "status": "completed", "activeForm": "y"}]
    session, _ = make(there, "Do it.", use("TodoWrite", todos=done))
    again, _ = make(there, "Go on.", start=SessionStart(resume=session.chat.path))
    assert again.chat.todos == []
