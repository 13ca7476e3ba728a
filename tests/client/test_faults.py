"""What goes wrong around a conversation: full disks, huge results, tools that never end. Each has its outcome."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.talk import (
    Echo,
    Session,
    all_lines,
    converse,
    ending,
    fitted,
    manuscript,
    of,
    opened,
    place,
    sound,
    talk,
)
from unspool.client import events
from unspool.client.chat import Chat
from unspool.client.config import SessionStart
from unspool.client.session.writer import append_bytes
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import ToolOutcome
from unspool.edit.rules import check
from unspool.errors import Unwritable

ROOT = Path(__file__).parents[2]


class Flood(Echo):
    """Says far too much."""

    name = "Flood"

    def check(self, input: dict[str, Any]) -> None:
        """Accept any input."""

    async def run(self, input: dict[str, Any], desk: ToolContext, call_id: str) -> ToolOutcome:
        return ToolOutcome(content="x" * 50_000_000, result={"size": 50_000_000})


def test_a_line_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    code = """
import resource, signal, sys
from pathlib import Path
from unspool.client.session.writer import append_bytes
from unspool.errors import Unwritable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
append_bytes(path, b'{"a": 1}\\n')
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    append_bytes(path, b'{"b": "' + b"x" * 1000 + b'"}\\n')
except Unwritable as error:
    print(error.message)
append_bytes(path, b'{"c": 3}\\n')
"""
    path = tmp_path / "some.jsonl"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert "cannot write" in done.stdout
    assert path.read_bytes() == b'{"a": 1}\n{"c": 3}\n'


def test_a_torn_line_is_ended_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_bytes(b'{"torn')
    append_bytes(path, b'{"b": 2}\n')
    assert path.read_bytes() == b'{"torn\n{"b": 2}\n'


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "some.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unwritable):
        append_bytes(tmp_path / "some.jsonl", b"{}\n")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("room", [0, 700, 1500, 2500, 3000])
def test_a_disk_that_is_full_ends_the_turn_and_leaves_a_session_to_go_on_with(tmp_path: Path, room: int) -> None:
    call = {"type": "tool_use", "name": "Echo", "input": {"text": "hello"}}
    script = {"cues": {"Go.": [{"content": ["I ask.", call]}, "Done."], "Well?": ["On."]}}

    async def go() -> tuple[Session, list[Any]]:
        session = await opened(place(tmp_path), script)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            found = await session.say("Go.")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)
        await session.chat.close()
        return session, found

    session, found = asyncio.run(go())
    (failed,) = of(events.TurnFailed, found)
    assert failed.exit_code == 4
    assert "cannot write" in failed.message
    assert ending(found) == "failed"
    if session.chat.path.exists() and session.chat.path.stat().st_size:
        written = manuscript(session.chat.path)
        assert len(written.items) == len(written.entries)
        talk(place(tmp_path), script, "Well?", start=SessionStart(resume=session.chat.path))


def test_a_config_folder_that_is_for_reading_only_says_so(tmp_path: Path) -> None:
    there = place(tmp_path)
    there.config.mkdir(mode=0o500)
    if os.access(there.config, os.W_OK):
        pytest.skip("this user may write everywhere")

    _, found = converse(there, ["Hello."], "Hi.")
    (failed,) = of(events.TurnFailed, found)
    assert (failed.exit_code, "permission denied" in failed.message) == (4, True)


def test_a_result_of_fifty_megabytes_is_kept_and_the_session_stays_sound(tmp_path: Path) -> None:
    script = [{"content": [{"type": "tool_use", "name": "Flood", "input": {}}]}, {"error": {"status": 413}}]
    session, found = converse(place(tmp_path), script, "Go.", fittings=fitted([Flood()]))
    assert found[-1].ending in ("context_full", "failed")
    assert check.check_rules(manuscript(session.chat.path)) == []


def test_a_tool_that_never_ends_is_ended_by_a_limit_of_time(tmp_path: Path) -> None:
    never = {"type": "tool_use", "name": "Echo", "input": {"text": "never"}}
    session, found = talk(place(tmp_path), [{"content": [never]}], "Go.", max_seconds=0.2)
    assert ending(found) == "max_seconds"
    assert "[Request interrupted by user for tool use]" in str(all_lines(session.chat.path))
    sound(session.chat)


def test_an_api_that_stalls_can_be_interrupted(tmp_path: Path) -> None:
    script = [{"content": "I say something.", "break": {"how": "stall", "after": 3, "seconds": 60}}]

    def interrupt_soon(chat: Chat) -> None:
        asyncio.get_running_loop().call_later(0.1, chat.interrupt)

    _, found = talk(place(tmp_path), script, interrupt_soon, "Go.")
    assert ending(found) == "interrupted"
