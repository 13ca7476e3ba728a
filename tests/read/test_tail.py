"""A growing file, read in several goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import objects, written
from unspool.errors import NotFound, Refused, Unreadable
from unspool.format.records import BadLine, Blank, Entry, Item
from unspool.read.lines import START, Change, Position, ReadLimits
from unspool.read.tail import pieces
from unspool.testing.build import assistant, session, user

LINES = session(user("one"), assistant("two"), user("three"), assistant("four")).lines


def items(path: Path, position: Position = START, *, final: bool = False) -> tuple[list[Item], Position, Change]:
    found: list[Item] = []
    change = Change.NEW
    for piece in pieces(path, position, final=final):
        found += piece.items
        position, change = piece.position, piece.change
    return found, position, change


lines = st.lists(
    st.one_of(
        objects.map(lambda value: written(value) + b"\n"),
        st.sampled_from([b"\n", b"\r\n", b'{"type":"user"}{"type":"mode"}\n', b'{"torn', b"\0\0\n", b'"}\n', b"[1]\n"]),
        st.binary(max_size=30),
    ),
    max_size=6,
).map(b"".join)


@given(lines, st.data())
def test_reading_in_goes_is_reading_once(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, draw: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("tail") / "s.jsonl"
    path.write_bytes(data)
    once, _, _ = items(path, final=True)
    assert [item.offset for item in once] == _starts(once)
    assert sum(item.length for item in once) == len(data)

    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=4)))
    path.write_bytes(b"")
    in_goes: list[Item] = []
    position = START
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        with path.open("ab") as file:
            file.write(data[start:end])
        found, position, change = items(path, position)
        assert change in (Change.NEW, Change.GROWN, Change.SAME)
        in_goes += found
    found, position, _ = items(path, position, final=True)
    assert in_goes + found == once
    assert position.offset == len(data)


def _starts(found: list[Item]) -> list[int]:
    at, starts = 0, []
    for item in found:
        starts.append(at)
        at += item.length
    return starts


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(LINES[:2]))
    return path


def test_only_new_lines_are_read_again(path: Path) -> None:
    first, position, change = items(path)
    assert (len(first), change) == (2, Change.NEW)
    assert items(path, position) == ([], position, Change.SAME)
    with path.open("ab") as file:
        file.write(LINES[2])
    second, position, change = items(path, position)
    assert [item.offset for item in second] == [len(LINES[0] + LINES[1])]
    assert change is Change.GROWN


def test_a_torn_line_is_left_for_the_next_read(path: Path) -> None:
    _, position, _ = items(path)
    with path.open("ab") as file:
        file.write(LINES[2][:50])
    assert items(path, position)[0] == []
    with path.open("ab") as file:
        file.write(LINES[2][50:])
    (entry,) = items(path, position)[0]
    assert isinstance(entry, Entry)
    assert entry.line == LINES[2]


def test_at_the_end_a_whole_document_counts_without_its_line_end(path: Path) -> None:
    path.write_bytes(LINES[0].rstrip())
    (entry,), position, _ = items(path, final=True)
    assert isinstance(entry, Entry)
    with path.open("ab") as file:
        file.write(b"\n" + LINES[1])
    assert [type(item) for item in items(path, position)[0]] == [Blank, Entry]


def test_at_the_end_a_torn_line_is_a_bad_one(path: Path) -> None:
    path.write_bytes(LINES[0][:60])
    assert items(path, final=True)[0] == [BadLine(0, 60, "truncated JSON object")]


def _truncate(path: Path) -> None:
    path.write_bytes(LINES[0])


def _replace(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes() + LINES[2])
    other.replace(path)


def _rewrite_head(path: Path) -> None:
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(data.replace(b"one", b"ONE") + LINES[2])


def _rewrite_end(path: Path) -> None:
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(data.replace(b"two", b"TWO") + LINES[2])


@pytest.mark.parametrize(
    ("harm", "change"),
    [
        (_truncate, Change.TRUNCATED),
        (_replace, Change.REPLACED),
        (_rewrite_head, Change.REWRITTEN),
        (_rewrite_end, Change.REWRITTEN),
    ],
)
def test_a_file_that_is_no_longer_the_same_is_read_from_the_start(
    path: Path, harm: Callable[[Path], None], change: Change
) -> None:
    _, position, _ = items(path)
    harm(path)
    found, position, seen = items(path, position)
    assert seen is change
    assert found[0].offset == 0
    assert position.offset == path.stat().st_size


def test_a_rewrite_far_from_the_head_is_noticed_at_the_boundary(path: Path) -> None:
    filler = b'{"type":"mode","mode":"x"}\n' * 1000
    path.write_bytes(filler + LINES[0])
    _, position, _ = items(path)
    path.write_bytes(filler + LINES[0].replace(b"one", b"ONE") + LINES[1])
    assert items(path, position)[2] is Change.REWRITTEN


def test_an_empty_file_has_a_position_too(path: Path) -> None:
    path.write_bytes(b"")
    found, position, change = items(path)
    assert (found, position.offset, change) == ([], 0, Change.NEW)
    path.write_bytes(LINES[0])
    assert items(path, position)[2] is Change.GROWN


def test_a_long_line_is_kept_by_place(path: Path) -> None:
    path.write_bytes(LINES[0] + b'{"type":"user","x":"' + b"x" * 5000 + b'"}\n' + LINES[1])
    found = [item for piece in pieces(path, limits=ReadLimits(line=2000)) for item in piece.items]
    assert [type(item) for item in found] == [Entry, BadLine, Entry]
    assert found[1] == BadLine(len(LINES[0]), 5023, "too long: 5,023 bytes")


def test_pieces_come_as_they_are_read(path: Path) -> None:
    path.write_bytes(b"".join(LINES))
    found = list(pieces(path, limits=ReadLimits(piece=100)))
    assert len(found) == len(LINES)
    middle = found[1].position
    assert [item for piece in pieces(path, middle) for item in piece.items] == found[2].items + found[3].items


def test_what_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        items(tmp_path / "none.jsonl")


def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f.jsonl")
    with pytest.raises(Unreadable, match="not a regular file"):
        items(tmp_path / "f.jsonl")


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.jsonl").symlink_to(path)
    with pytest.raises(Refused, match="is a symbolic link"):
        items(tmp_path / "link.jsonl")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        items(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_read_that_fails_is_said_in_words() -> None:
    with pytest.raises(Unreadable, match="cannot read `/proc/self/mem`"):
        items(Path("/proc/self/mem"))
