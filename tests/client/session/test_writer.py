"""`client/session/writer.py` and its neighbours: lines, times, names."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.client.loop.inbox import Done, Inbox, Interrupted
from unspool.client.session.registration import branch, slug
from unspool.client.session.transcript import Conversation
from unspool.client.session.writer import Envelope, Writer

START = datetime(2026, 1, 5, 9, tzinfo=UTC)


def writer(path: Path, times: list[datetime]) -> Writer:
    clock = iter(times)
    return Writer(path, Envelope(session_id="s", cwd="/x"), lambda: next(clock), lambda: str(uuid4()))


@given(st.lists(st.integers(-5000, 5000), min_size=1, max_size=30))
def test_times_grow_whatever_the_clock_does(jumps: list[int]) -> None:
    made = writer(Path("/nowhere"), [START + timedelta(microseconds=jump * 700) for jump in jumps])
    made.go_on(None, START)
    times = [made.now() for _ in jumps]
    assert times == sorted(set(times))
    assert all(len(time) == len("2026-01-05T09:00:00.000Z") for time in times)
    assert times[0] > START.isoformat()


def test_lines_hang_on_each_other_and_nothing_on_what_lies_beside(tmp_path: Path) -> None:
    made = writer(tmp_path / "a" / "b.jsonl", [START] * 9)
    first = made.tell({"type": "user"})
    made.beside({"type": "progress"})
    made.note({"type": "last-prompt"})
    second = made.tell({"type": "assistant"})
    summary = made.begin_again({"type": "system"}, {"type": "user"})
    lines = [msgspec.json.decode(line) for line in made.path.read_bytes().splitlines()]
    assert [line.get("parentUuid") for line in lines] == [None, first, None, first, None, lines[4]["uuid"]]
    assert lines[4]["logicalParentUuid"] == second
    assert made.parent == summary
    assert "uuid" not in lines[2]


def test_a_session_has_a_name_that_can_be_said() -> None:
    names = {slug(str(uuid4())) for _ in range(200)}
    assert len(names) > 190
    assert all(len(name.split("-")) == 3 and name.isascii() and name.islower() for name in names)
    assert slug("a") == slug("a")


@pytest.mark.parametrize(
    ("head", "name"), [("ref: refs/heads/main\n", "main"), ("ref: refs/heads/a/b\n", "a/b"), ("0123abcd\n", "HEAD")]
)
def test_the_branch_is_that_of_the_repository_around(tmp_path: Path, head: str, name: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(head)
    (tmp_path / "src" / "deep").mkdir(parents=True)
    assert branch(tmp_path / "src" / "deep") == name


def test_a_worktree_says_where_its_head_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "HEAD").write_text("ref: refs/heads/side\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".git").write_text("gitdir: ../real\n")
    assert branch(tmp_path / "tree") == "side"
    (tmp_path / "tree" / ".git").write_text("something else\n")
    assert branch(tmp_path / "tree") == ""


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def test_what_one_side_says_in_a_row_is_one_message() -> None:
    talk = Conversation()
    talk.hear("One.")
    talk.hear([text("Two."), text("   ")])
    talk.say("a", text("Yes."))
    talk.say("a", {"type": "tool_use", "id": "t"})
    talk.say("a", text("And."))
    talk.settle()
    talk.say("b", {"type": "thinking", "thinking": "Hm."})
    talk.settle()
    assert talk.messages == [
        {"role": "user", "content": [text("One.\n"), text("Two.")]},
        {"role": "assistant", "content": [text("Yes."), text("And."), {"type": "tool_use", "id": "t"}]},
    ]


def test_an_interrupt_goes_before_everything_that_waits() -> None:
    async def go() -> None:
        inbox = Inbox()
        inbox.put(1)
        assert await inbox.take() == 1
        assert await inbox.take(0.01) is None
        inbox.put(2)
        inbox.interrupt()
        with pytest.raises(Interrupted):
            await inbox.take()
        inbox.clear()
        assert await inbox.take(0) is None

    asyncio.run(go())


def test_a_job_that_ends_is_told_however_it_ends() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def go() -> None:
        inbox = Inbox()
        job = inbox.start("it", fails())
        done = await inbox.take()
        assert done == Done("it", job)
        with pytest.raises(ValueError, match="no"):
            done.job.result()
        inbox.start("never", asyncio.Event().wait())
        await inbox.stop()
        assert await inbox.take(0) is None

    asyncio.run(go())
