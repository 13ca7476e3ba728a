"""A file as text: whole lines, many at a time, with nothing decoded.

Apart from `tail.py`, which says what lines mean: who only looks for something in them need not load that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unspool.errors import Unreadable
from unspool.read.files import open_regular, reason
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


def whole_lines(path: Path | str, limits: Limits = LIMITS) -> Iterator[Lines]:
    """Yield the lines of a file, many at a time; those that are too long are left out."""
    with open_regular(path) as file:
        reached, held, length = 0, list[bytes](), 0
        while data := read_at(file, reached, limits.piece, path):
            first = data.find(b"\n") + 1 if length else 0
            end = data.rfind(b"\n") + 1
            if first and length <= limits.line:
                line = b"".join([*held, data[:first]])
                yield Lines(reached - length, line, 0, len(line))
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


def read_at(file: int, offset: int, length: int, path: Path | str) -> bytes:
    """Read from an open file."""
    try:
        return os.pread(file, length, offset)
    except OSError as error:
        raise Unreadable(f"cannot read `{path}`: {reason(error)}") from None
