"""Some lines of a text of any size: pieces of bytes in, the lines asked for out, and what the whole is. Pure.

Rules
  1. Memory does not grow with the text: of what nobody could be shown, only the lines are counted.
  2. UTF-16 is known by its mark; what is no text is shown as U+FFFD.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

ROOM = 1 << 20
"""More bytes than a model is ever shown."""


class Excerpt(NamedTuple):
    """Some lines of a text."""

    lines: list[str]
    """Without line ends. All of those asked for, or more bytes than there is room for."""
    total: int
    """Lines of the whole; what follows the last line end is one, even if it is empty."""
    size: int
    digest: bytes
    """Of the whole, SHA-256."""


class _Whole:
    """Looks at all bytes as they pass."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.size = 0
        self.digest = hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.digest.update(piece)
            self.size += len(piece)
            yield piece


def excerpt(pieces: Iterable[bytes], first: int, limit: int | None) -> Excerpt:
    """Return lines from the first asked for, counted from 1."""
    whole = _Whole(pieces)
    last = None if limit is None else first + limit - 1
    kept: list[bytes] = []
    number, unended, room = 1, b"", ROOM
    for piece in _as_utf8(iter(whole)):
        ends = piece.count(b"\n")
        if number + ends < first or (last is not None and number > last) or room < 0:
            number += ends
            unended = piece.rpartition(b"\n")[2][:ROOM] if ends else (unended + piece)[:ROOM]
            continue
        *ended, rest = piece.split(b"\n")
        for line in ended:
            line = unended + line
            if number >= first and (last is None or number <= last) and room >= 0:
                kept.append(line)
                room -= len(line) + 1
            number, unended = number + 1, b""
        unended = (unended + rest)[:ROOM]
    if number >= first and (last is None or number <= last) and room >= 0:
        kept.append(unended)
    lines = [line.removesuffix(b"\r").decode("utf-8", "replace") for line in kept[:-1]]
    lines += [_last(line, is_ended=number - first >= len(kept)) for line in kept[-1:]]
    return Excerpt(lines, number, whole.size, whole.digest.digest())


def _last(line: bytes, *, is_ended: bool) -> str:
    r"""A `\r` that no `\n` follows is part of its line."""
    return (line.removesuffix(b"\r") if is_ended else line).decode("utf-8", "replace")


def _as_utf8(pieces: Iterator[bytes]) -> Iterator[bytes]:
    first = next(pieces, b"")
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield first
        yield from pieces
        return
    encoding = "utf-16-le" if first.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(first).encode()
    for piece in pieces:
        yield decoder.decode(piece).encode()
    yield decoder.decode(b"", final=True).encode()
