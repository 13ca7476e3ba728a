"""What a file has to say since it was last read, in batches that are whole."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.world import lines, whole
from tests.profiles import examples
from unspool.errors import NotFound
from unspool.graph.session_facts_from_entries import collect_facts
from unspool.read.lines import Change
from unspool.store.archive.archive import decompress
from unspool.store.sync.read_file import BATCH_BYTES, Batch, ReadTask, read_batches
from unspool.testing.build import assistant, raw, session, user

DATA = b"".join(lines(3)[:20])


def joined(found: list[Batch]) -> bytes:
    return b"".join(decompress(frame.data) for batch in found for frame in batch.frames)


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def goes_on(task: ReadTask, batch: Batch) -> ReadTask:
    return msgspec.structs.replace(task, position=batch.position, state=batch.state)


@given(st.lists(st.integers(0, len(DATA)), max_size=5))
@settings(max_examples=examples(50), deadline=None)
def test_where_a_file_was_cut_between_reads_does_not_matter(cuts: list[int]) -> None:
    with TemporaryDirectory() as place:
        path = Path(place) / "a.jsonl"
        path.touch()
        task, read = ReadTask(str(path), "session"), 0
        numbers: list[tuple[str, int]] = []
        for cut in [*sorted(cuts), len(DATA)]:
            add(path, DATA[path.stat().st_size : cut])
            (batch,) = read_batches(task)
            assert batch.start == read
            assert batch.position.offset == len(whole(DATA[:cut]))
            assert joined([batch]) == DATA[read:cut]
            assert batch.is_first
            assert batch.is_last
            task, read = goes_on(task, batch), batch.position.offset
            numbers += [(one.id, one.output) for one in batch.responses]
        (once,) = read_batches(ReadTask(str(path), "session"))
        (last,) = read_batches(task)
    assert last.facts == once.facts
    assert dict(numbers) == {one.id: one.output for one in once.responses}


def test_the_facts_are_those_of_all_lines(tmp_path: Path) -> None:
    made = session(user("hi"), assistant("ho"), user("more"), assistant("hu"))
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(made.lines[:2]))
    task = ReadTask(str(path), "session")
    (first,) = read_batches(task)
    add(path, b"".join(made.lines[2:]))
    (second,) = read_batches(goes_on(task, first))
    assert first.facts == collect_facts(made.entries[:2])
    assert second.facts == collect_facts(made.entries)
    assert (second.change, second.lines) == (Change.GROWN, 2)


def test_a_long_file_comes_in_batches_each_of_which_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = lines(1)[1][:-1] + b" " * 100_000 + b"\n"
    path.write_bytes(line * 420)
    found = list(read_batches(ReadTask(str(path), "session")))
    assert len(found) == 3
    assert [batch.is_first for batch in found] == [True, False, False]
    assert [batch.is_last for batch in found] == [False, False, True]
    assert sum(batch.lines for batch in found) == 420
    assert joined(found) == path.read_bytes()
    for before, after in pairwise(found):
        assert after.start == before.position.offset
        assert after.frames[0].start == after.start
        assert BATCH_BYTES <= before.position.offset - before.start < 2 * BATCH_BYTES
    assert sum(batch.bytes_read for batch in found) <= path.stat().st_size + 4 * 4096 * 3


@pytest.mark.parametrize("rewritten", [True, False])
def test_a_file_that_is_not_what_it_was_is_read_from_the_start(tmp_path: Path, rewritten: bool) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(DATA)
    task = ReadTask(str(path), "session")
    (first,) = read_batches(task)
    if not rewritten:
        path.write_bytes(DATA.replace(b"prompt 1", b"prompt X"))
    (again,) = read_batches(msgspec.structs.replace(goes_on(task, first), is_rewritten=rewritten))
    assert again.change is Change.REWRITTEN
    assert (again.start, again.lines) == (0, first.lines)
    assert joined([again]) == path.read_bytes()


def test_a_summary_that_comes_later_has_the_file_read_again(tmp_path: Path) -> None:
    made = session(user("hi"), assistant("ho"), version="2.0.76")
    path = tmp_path / "a.jsonl"
    path.write_bytes(made.data)
    task = ReadTask(str(path), "session")
    (first,) = read_batches(task)
    summary = b'{"type":"summary","summary":"Of it","leafUuid":"%s"}\n' % str(made.records[0].uuid).encode()
    add(path, summary)
    (again,) = read_batches(goes_on(task, first))
    assert again.replaces_rows
    assert again.start == 0
    assert again.facts
    assert again.facts.title == "Of it"


def test_lines_that_cannot_be_read_are_kept_by_place(tmp_path: Path) -> None:
    made = session(user("hi"), raw(b"no\n"), assistant("ho"), raw(b"torn"))
    path = tmp_path / "a.jsonl"
    path.write_bytes(made.data)
    (batch,) = read_batches(ReadTask(str(path), "session"))
    assert [(offset, length) for offset, length, _ in batch.bad_lines] == [(len(made.lines[0]), 3)]
    assert batch.position.offset == len(made.data) - 4
    assert joined([batch]) == made.data


def test_an_agent_tells_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "agent-a1.jsonl"
    path.write_bytes(
        session(user("go"), assistant("gone"), agent="a1").data
        + session(user("go"), id="20000000-0000-4000-8000-000000000002", agent="a1").data
    )
    (batch,) = read_batches(ReadTask(str(path), "agent"))
    assert batch.owners == ["00000000-0000-4000-8000-000000000001", "20000000-0000-4000-8000-000000000002"]
    assert [one.agent_id for one in batch.responses] == ["a1"]
    assert (batch.facts, batch.state, batch.lines) == (None, b"", 3)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        list(read_batches(ReadTask(str(tmp_path / "a.jsonl"), "session")))


@pytest.mark.parametrize("kind", ["session", "agent"])
def test_a_whole_document_is_read_though_a_torn_one_follows_on_its_line(tmp_path: Path, kind: str) -> None:
    first, second = (line.rstrip(b"\n") for line in session(assistant("ho"), assistant("he")).lines)
    path = tmp_path / "a.jsonl"
    path.write_bytes(first + second[:100])
    task = ReadTask(str(path), kind)
    (torn,) = read_batches(task)
    assert (len(torn.responses), torn.position.offset, torn.bad_lines) == (1, len(first), [])
    assert joined([torn]) == first + second[:100]
    add(path, second[100:] + b"\n")
    (rest,) = read_batches(goes_on(task, torn))
    assert (len(rest.responses), rest.position.offset, rest.bad_lines) == (1, len(first + second) + 1, [])
    assert joined([rest]) == second + b"\n"
