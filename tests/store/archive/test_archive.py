"""The archive gives back what was put in, whatever happens in between."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unspool.store.archive.archive as archive_module
from unspool.errors import NotFound, Unreadable, UnspoolError
from unspool.read.lines import LineBuffer
from unspool.store.archive.archive import Archive, ArchivedFile, FrameBuilder
from unspool.store.database import open_archive

ABOUT = ArchivedFile(0, "/c", "/c/a.jsonl", 1, "session", None, "a", None, 1, 2, 3)

goes = st.lists(st.tuples(st.text("ab\n", max_size=12).map(str.encode), st.booleans()), max_size=8)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """An empty archive."""
    with closing(open_archive(tmp_path / "own")) as database:
        yield Archive(database)


def in_memory() -> Archive:
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.executescript(Path(archive_module.__file__).with_name("archive.sql").read_text())
    return Archive(database)


def put(archive: Archive, data: bytes, start: int, about: ArchivedFile = ABOUT) -> int | None:
    """Archive what a file has from `start` on; return where the next reading begins, nothing if it was refused."""
    framing, lines = FrameBuilder(start), LineBuffer(start)
    lines.feed(data[start:])
    framing.feed(data[start:], lines.offset)
    frames = framing.take(lines.offset, is_last=True)
    return lines.offset if archive.put(about, frames, start, lines.offset, is_first=True) else None


def bytes_of(archive: Archive, about: ArchivedFile = ABOUT) -> bytes:
    return b"".join(data for _, data in archive.read(archive.find(about.path, about.generation)))


def places(archive: Archive) -> list[tuple[int, int]]:
    return archive.database.execute("SELECT start, length FROM frames ORDER BY start").fetchall()


@given(goes)
def test_a_file_that_grows_is_kept_byte_for_byte_even_if_some_goes_are_done_twice(
    goes: list[tuple[bytes, bool]],
) -> None:
    archive, data, read = in_memory(), b"", 0
    for more, was_forgotten in goes:
        data += more
        reached = put(archive, data, read)
        assert reached is not None
        assert bytes_of(archive) == data
        assert archive.length(archive.find(ABOUT.path)) == len(data)
        if not was_forgotten:  # else the process was killed before the store knew of it
            read = reached
    archive.database.close()


def test_lines_archived_by_a_killed_process_are_not_there_twice(archive: Archive) -> None:
    first, second, third = b"one one one\n", b"two two\n", b"three\n"
    assert put(archive, first, 0) == len(first)
    put(archive, first + second, len(first))
    assert places(archive) == [(0, len(first + second))]
    put(archive, first + second + third, len(first))
    assert bytes_of(archive) == first + second + third


def test_a_line_at_a_time_does_not_cost_a_frame_each(archive: Archive) -> None:
    data, read = b"", 0
    for number in range(300):
        data += b"line %d\n" % number
        read = put(archive, data, read) or 0
    assert bytes_of(archive) == data
    assert len(places(archive)) < 12


def test_a_torn_line_is_a_frame_of_its_own_until_it_is_whole(archive: Archive) -> None:
    read = put(archive, b"whole\nto", 0)
    assert (read, places(archive)) == (6, [(0, 6), (6, 2)])
    put(archive, b"whole\ntorn\n", 6)
    assert places(archive) == [(0, 11)]
    assert bytes_of(archive) == b"whole\ntorn\n"


def test_what_does_not_go_on_where_the_archive_ends_is_refused(archive: Archive) -> None:
    put(archive, b"one\n", 0)
    assert put(archive, b"one\ntwo\nthree\n", 8) is None
    assert bytes_of(archive) == b"one\n"
    assert put(archive, b"one\ntwo\nthree\n", 0) == 14
    assert bytes_of(archive) == b"one\ntwo\nthree\n"


def test_generations_of_a_file_are_kept_apart(archive: Archive) -> None:
    put(archive, b"old\n", 0)
    put(archive, b"new\n", 0, ABOUT._replace(generation=2))
    assert bytes_of(archive) == b"old\n"
    assert archive.find(ABOUT.path).generation == 2
    assert [about.generation for about in archive.files()] == [1, 2]


def test_what_was_never_archived_is_named(archive: Archive) -> None:
    with pytest.raises(NotFound, match=r"not in the archive: `/c/b.jsonl`"):
        archive.find("/c/b.jsonl")


def damaged(archive: Archive) -> bytes:
    """Damage the middle one of three frames; return what was in the others."""
    parts = [b"a" * 90 + b"\n", b"b" * 30 + b"\n", b"c" * 5 + b"\n"]
    data = b""
    for part in parts:
        data += part
        put(archive, data, len(data) - len(part))
    assert len(places(archive)) == 3
    archive.database.execute("UPDATE frames SET data = zeroblob(9) WHERE start = 91")
    return data.replace(parts[1], b" " * 30 + b"\n")


def test_a_damaged_frame_is_named_and_costs_no_other(archive: Archive) -> None:
    rest = damaged(archive)
    with pytest.raises(Unreadable, match=r"the archive of `/c/a.jsonl` is damaged at 91: "):
        bytes_of(archive)
    holes: list[UnspoolError] = []
    assert b"".join(data for _, data in archive.read(archive.find(ABOUT.path), holes)) == rest
    assert len(holes) == 1


def test_a_frame_that_is_missing_is_named_and_costs_no_other(archive: Archive) -> None:
    rest = damaged(archive)
    archive.database.execute("DELETE FROM frames WHERE start = 91")
    with pytest.raises(Unreadable, match=r"lacks bytes 91 to 122"):
        bytes_of(archive)
    holes: list[UnspoolError] = []
    assert b"".join(data for _, data in archive.read(archive.find(ABOUT.path), holes)) == rest


def test_a_file_whose_last_frame_is_damaged_can_grow(archive: Archive) -> None:
    put(archive, b"one\n", 0)
    archive.database.execute("UPDATE frames SET data = zeroblob(9)")
    assert put(archive, b"one\ntwo two\n", 4) == 12
    assert places(archive) == [(0, 4), (4, 8)]


def test_a_damaged_frame_that_would_have_to_be_cut_makes_the_file_be_given_whole(archive: Archive) -> None:
    put(archive, b"one\ntwo\n", 0)
    archive.database.execute("UPDATE frames SET data = zeroblob(9)")
    assert put(archive, b"one\ntwo\n", 4) is None
    assert put(archive, b"one\ntwo\n", 0) == 8
    assert bytes_of(archive) == b"one\ntwo\n"


def test_other_bytes_on_disk_are_noticed_up_to_an_offset(archive: Archive, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    about = ABOUT._replace(path=str(path))
    put(archive, b"one\ntwo\nto", 0, about)
    found = archive.find(str(path))
    for data, differs in (
        (b"one\ntwo\nto", False),
        (b"one\ntwo\nother", False),
        (b"one\ntwO\nto", True),
        (b"one\n", True),
    ):
        path.write_bytes(data)
        assert archive.differs(found, 8) is differs


def test_a_file_that_was_written_again_is_known_by_its_new_place(archive: Archive) -> None:
    put(archive, b"one\n", 0)
    put(archive, b"two\n", 0, ABOUT._replace(generation=2))
    archive.update_stamp(ABOUT.path, 7, 8, 9)
    assert archive.find(ABOUT.path)[-3:] == (7, 8, 9)
    assert archive.find(ABOUT.path, 1)[-3:] == (1, 2, 3)


def test_the_sizes_are_those_of_all_files(archive: Archive) -> None:
    assert (archive.sizes(), archive.is_empty()) == ((0, 0), True)
    put(archive, b"one\n" * 1000, 0)
    raw, kept = archive.sizes()
    assert (raw, archive.is_empty()) == (4000, False)
    assert 0 < kept < 200


hostile = st.sampled_from([-(2**63), -1, 0, 1, 5, 10**6, 2**40, 2**63 - 1])


@given(hostile, hostile, st.sampled_from([b"", b"x", archive_module.compress(b"abc\n"), archive_module.compress(b"")]))
def test_a_frame_that_cannot_be_costs_neither_memory_nor_the_other_frames(start: int, length: int, data: bytes) -> None:
    archive = in_memory()
    put(archive, b"one\n", 0)
    with closing(archive.database):
        insert = "INSERT OR IGNORE INTO frames SELECT id, ?, ?, ? FROM sources"
        archive.database.execute(insert, (start, length, data))
        file = archive.find(ABOUT.path)
        holes: list[UnspoolError] = []
        read = dict(archive.read(file, holes))
        assert read[0] == b"one\n" or holes
        assert sum(map(len, read.values())) <= 2**30 + 300 * 2**20
        archive.length(file)
        archive.sizes()
