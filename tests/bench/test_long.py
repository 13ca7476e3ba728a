from pathlib import Path

import pytest

from bench import long
from bench.long import Length
from unspool.format.codec import decode
from unspool.format.records import Entry
from unspool.graph.threads import find_threads

SMALL = Length(1_000_000, 550)


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    return long.session(SMALL)


def test_a_session_is_as_long_as_asked_for(lines: list[bytes]) -> None:
    assert SMALL.records is not None
    assert SMALL.records <= len(lines) < SMALL.records * 1.2
    assert 0.8 * SMALL.size < sum(map(len, lines)) < 1.25 * SMALL.size
    by_size = long.session(Length(2_000_000))
    assert 2_000_000 <= sum(map(len, by_size)) < 8_000_000


def test_the_same_length_gives_the_same_bytes(lines: list[bytes]) -> None:
    assert long.session(SMALL) == lines


def test_it_is_one_conversation_without_a_flaw(lines: list[bytes]) -> None:
    items, offset = [], 0
    for line in lines:
        items += decode(line, offset)
        offset += len(line)
    entries = [item for item in items if isinstance(item, Entry)]
    assert len(entries) == len(lines)
    assert not any(entry.flaws for entry in entries)
    known = {entry.record.uuid for entry in entries}
    assert all(entry.record.parent_uuid in {*known, None} for entry in entries)
    assert len(find_threads(entries)) == 1


def test_lines_that_are_added_are_answers_that_go_on(lines: list[bytes]) -> None:
    more = long.appended(b"".join(lines), "2026-01-05T09:00:00.000Z")
    (first,), (second,) = decode(next(more), 0), decode(next(more), 0)
    assert isinstance(first, Entry)
    assert isinstance(second, Entry)
    assert second.record.parent_uuid == first.record.uuid


def test_a_folder_is_made_once(tmp_path: Path) -> None:
    folder = long.folder("long", SMALL, tmp_path)
    before = long.file(folder).stat().st_mtime_ns
    assert long.folder("long", SMALL, tmp_path) == folder
    assert long.file(folder).stat().st_mtime_ns == before
