"""A file as text: whole lines, many at a time, with nothing decoded.

Apart from `tail.py`, which says what lines mean: who only looks for something in them need not load that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unspool.errors import Unreadable
from unspool.read.files import reason, regular
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

    Those that are too long are left out; where they are and how long goes into the list, if there is one.
    """
    file, status = regular(path)
    try:
        reached, held, length = start, list[bytes](), 0
        size = status.st_size  # no more is asked for than there is: making room for it takes time
        while reached < size and (data := read_at(file, reached, min(limits.piece, size - reached), path)):
            first = data.find(b"\n") + 1 if length else 0
            end = data.rfind(b"\n") + 1
            if first:
                if length <= limits.line:
                    line = b"".join([*held, data[:first]])
                    yield Lines(reached - length, line, 0, len(line))
                elif left_out is not None:
                    left_out.append((reached - length, length + first))
            if end > first:
                yield Lines(reached, data, first, end)
            if end:
                held, length = [], 0
            length += len(data) - end
            held = [*held, data[end:]] if length <= limits.line else []
            reached += len(data)
        if held and length:
            line = b"".join(held)
            yield Lines(reached - length, line, 0, len(line))
        elif length and left_out is not None:
            left_out.append((reached - length, length))
    finally:
        os.close(file)


def read_at(file: int, offset: int, length: int, path: Path | str) -> bytes:
    """Read from an open file."""
    try:
        return os.pread(file, length, offset)
    except OSError as error:
        raise Unreadable(f"cannot read `{path}`: {reason(error)}") from None
