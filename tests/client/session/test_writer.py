"""`client/session/writer.py` and its neighbours: lines, times, names."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.client.loop.inbox import EventQueue, Interrupted, JobEnded
from unspool.client.session.file_backups import FileBackups
from unspool.client.session.registration import git_branch, session_slug
from unspool.client.session.rewind import restore_files
from unspool.client.session.transcript import MessageList
from unspool.client.session.writer import SessionWriter, write_private_file
from unspool.format import FileBackup, LineEnvelope, written_lines

START = datetime(2026, 1, 5, 9, tzinfo=UTC)


def writer(path: Path, times: list[datetime], last: datetime | None = None) -> SessionWriter:
    clock, envelope = iter(times), LineEnvelope(session_id="s", cwd="/x")
    return SessionWriter(path, envelope, lambda: next(clock), lambda: str(uuid4()), last_time=last)


@given(st.lists(st.integers(-5000, 5000), min_size=1, max_size=30))
def test_times_grow_whatever_the_clock_does(jumps: list[int]) -> None:
    made = writer(Path("/nowhere"), [START + timedelta(microseconds=jump * 700) for jump in jumps], START)
    times = [made.next_timestamp() for _ in jumps]
    assert times == sorted(set(times))
    assert all(len(time) == len("2026-01-05T09:00:00.000Z") for time in times)
    assert times[0] > START.isoformat()


def test_lines_hang_on_each_other_and_nothing_on_what_lies_beside(tmp_path: Path) -> None:
    made = writer(tmp_path / "a" / "b.jsonl", [START] * 9)
    user = written_lines.UserLine(written_lines.UserMessage("Go."))
    first = made.append_message(user)
    made.append_beside(written_lines.ProgressLine(data={}, tool_use_id="bash-0", parent_tool_use_id="t"))
    made.append_note(written_lines.CustomTitleLine(custom_title="It", session_id="s"))
    second = made.append_message(user)
    summary = made.append_boundary(written_lines.SystemLine("compact_boundary"), user)
    lines = [msgspec.json.decode(line) for line in made.path.read_bytes().splitlines()]
    assert [line.get("parentUuid") for line in lines] == [None, first, None, first, None, lines[4]["uuid"]]
    assert lines[4]["logicalParentUuid"] == second
    assert made.parent == summary
    assert "uuid" not in lines[2]


def test_a_session_has_a_name_that_can_be_said() -> None:
    names = {session_slug(str(uuid4())) for _ in range(200)}
    assert len(names) > 190
    assert all(len(name.split("-")) == 3 and name.isascii() and name.islower() for name in names)
    assert session_slug("a") == session_slug("a")


@pytest.mark.parametrize(
    ("head", "name"), [("ref: refs/heads/main\n", "main"), ("ref: refs/heads/a/b\n", "a/b"), ("0123abcd\n", "HEAD")]
)
def test_the_branch_is_that_of_the_repository_around(tmp_path: Path, head: str, name: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head)
    (tmp_path / "src" / "deep").mkdir(parents=True)
    assert git_branch(tmp_path / "src" / "deep") == name


def test_a_worktree_says_where_its_head_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "HEAD").write_text("ref: refs/heads/side\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".git").write_text("gitdir: ../real\n")
    assert git_branch(tmp_path / "tree") == "side"
    (tmp_path / "tree" / ".git").write_text("something else\n")
    assert git_branch(tmp_path / "tree") == ""


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def test_what_one_side_says_in_a_row_is_one_message() -> None:
    talk = MessageList()
    talk.add_user("One.")
    talk.add_user([text("Two."), text("   ")])
    talk.add_block("a", text("Yes."))
    talk.add_block("a", {"type": "tool_use", "id": "t"})
    talk.add_block("a", text("And."))
    talk.end_response()
    talk.add_block("b", {"type": "thinking", "thinking": "Hm."})
    talk.end_response()
    assert talk.messages == [
        {"role": "user", "content": [text("One.\n"), text("Two.")]},
        {"role": "assistant", "content": [text("Yes."), text("And."), {"type": "tool_use", "id": "t"}]},
    ]


def test_an_interrupt_goes_before_everything_that_waits() -> None:
    async def go() -> None:
        inbox = EventQueue()
        inbox.put(1)
        assert await inbox.take() == 1
        assert await inbox.take(0.01) is None
        inbox.put(2)
        inbox.interrupt()
        with pytest.raises(Interrupted):
            await inbox.take()
        inbox.begin_turn(lambda event: None)
        assert await inbox.take(0) is None

    asyncio.run(go())


def test_a_job_that_ends_is_told_however_it_ends() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def go() -> None:
        inbox = EventQueue()
        job = inbox.start("it", fails())
        done = await inbox.take()
        assert done == JobEnded("it", job)
        with pytest.raises(ValueError, match="no"):
            done.job.result()
        inbox.start("never", asyncio.Event().wait())
        await inbox.stop()
        assert await inbox.take(0) is None

    asyncio.run(go())


def test_what_the_client_writes_beside_the_session_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    (tmp_path / "a.py").write_text("before")
    backups = FileBackups(tmp_path / "history", tmp_path, lambda: "2026-01-01T00:00:00.000Z")
    backups.back_up(tmp_path / "a.py")
    (kept,) = (tmp_path / "history").iterdir()
    (tmp_path / "a.py").write_text("after")
    assert restore_files(backups, tmp_path, {"a.py": FileBackup(kept.name, 1, "")}) == ["a.py"]
    write_private_file(tmp_path / "todos" / "a.json", b"[]")
    assert {path.stat().st_ino for path in (kept, tmp_path / "a.py", tmp_path / "todos" / "a.json")} <= {*flushed}
