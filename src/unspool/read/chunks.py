"""A file as text: whole lines, many at a time, with nothing decoded.

Apart from `tail.py`, which says what lines mean: who only looks for something in them need not load that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unspool.errors import Unreadable
from unspool.files.open import reason, regular
from unspool.read.lines import MAX_LINE


class Limits(NamedTuple):
    """How much is held at once."""

    piece: int = 256 * 1024
    """Bytes per read."""
    line: int = MAX_LINE
    """Longer lines are kept by place."""


LIMITS = Limits()


class Lines(NamedTuple):
    """Some whole lines: a part of what was read."""

    offset: int
    """Where in the file `data` begins."""
    data: bytes
    start: int
    """Where in `data` the first line begins."""
    end: int
    """Where the last one ends."""


def whole_lines(
    path: Path | str, limits: Limits = LIMITS, start: int = 0, left_out: list[tuple[int, int]] | None = None
) -> Iterator[Lines]:
    """Yield the lines of a file from a line's start on, many at a time.

    One that is longer than a piece comes by itself: it is looked through for its end, and then read again at once, so
    that it is held once. Those that are too long are left out; where they are and how long goes into the list, if there
    is one.
    """
    file, status = regular(path)
    try:
        reached, size = start, status.st_size  # no more is asked for than there is: making room for it takes time
        while reached < size and (data := read_at(file, reached, min(limits.piece, size - reached), path)):
            end = data.rfind(b"\n") + 1
            if not end and reached + len(data) < size:
                del data
                length = _length(file, reached, size, path)
                if length <= limits.line:
                    yield _line(file, reached, length, path)
                elif left_out is not None:
                    left_out.append((reached, length))
                reached += length
                continue
            end = end or len(data)  # the last line may have no end
            yield Lines(reached, data, 0, end)
            reached += end
    finally:
        os.close(file)


def _length(file: int, offset: int, size: int, path: Path | str) -> int:
    """Return how long the line is that begins there, its end included."""
    reached = offset
    while reached < size and (data := read_at(file, reached, min(LIMITS.piece, size - reached), path)):
        if end := data.find(b"\n") + 1:
            return reached + end - offset
        reached += len(data)
    return reached - offset


def _line(file: int, offset: int, length: int, path: Path | str) -> Lines:
    data = read_at(file, offset, length, path)
    return Lines(offset, data, 0, len(data))


def read_at(file: int, offset: int, length: int, path: Path | str) -> bytes:
    """Read from an open file."""
    try:
        return os.pread(file, length, offset)
    except OSError as error:
        raise Unreadable(f"cannot read `{path}`: {reason(error)}") from None
