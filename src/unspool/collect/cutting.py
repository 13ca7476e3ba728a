"""Bytes of a source cut into pieces for segments: bytes in, redacted lines out. Knows nothing of files or stores.

Rules
  1. A piece ends with a line, and after about as many bytes as asked for. A longer line has a piece of its own.
  2. Nothing unredacted leaves here. A line that is too long to be redacted becomes a marker (`oversized`).
  3. Blank lines are passed over; everything else is in some piece once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from unspool.collect.segments import Line
from unspool.read.lines import MAX_LINE
from unspool.read.position import SAMPLE
from unspool.redact.lines import plain, redact_line, suspects
from unspool.redact.replace import Counts, Redactor


class Piece(NamedTuple):
    """Lines that become one segment."""

    start: int
    end: int
    lines: list[Line]
    counts: Counts
    """Secrets that were replaced, by kind."""
    head: bytes = b""
    tail: bytes = b""
    """Its first and last bytes, as they were: for hashes, never for sending."""


def pieces(redactor: Redactor, data: Iterable[bytes], start: int, size: int) -> Iterator[Piece]:
    """Yield what a source says from a place on. All that comes is taken: the last line need have no end."""
    held, length = list[bytes](), 0
    skipped = 0
    """Bytes of a line that is too long to be held."""
    for piece in data:
        if skipped:
            end = piece.find(b"\n") + 1
            skipped += end or len(piece)
            if not end:
                continue
            yield _oversized(redactor, start, skipped, ending=1)
            start, skipped, piece = start + skipped, 0, piece[end:]
        held.append(piece)
        length += len(piece)
        if length < size:
            continue
        lines, at = _joined(held), 0
        while len(lines) - at >= size and (end := _end(lines, at, size)):
            yield _piece(redactor, lines[at:end], start)
            start, at = start + end - at, end
        held, length = [lines[at:]], len(lines) - at
        if length > MAX_LINE:
            skipped, held, length = length, [], 0
    if skipped:
        yield _oversized(redactor, start, skipped, ending=0)
    elif length:
        yield _piece(redactor, _joined(held), start)


def _joined(held: list[bytes]) -> bytes:
    return held[0] if len(held) == 1 else b"".join(held)


def _end(lines: bytes, start: int, size: int) -> int:
    """Return where the last line ends that fits, or the first one if none does; 0 if none has an end."""
    return lines.rfind(b"\n", start, start + size) + 1 or lines.find(b"\n", start + size) + 1


def whole(redactor: Redactor, data: bytes) -> Piece:
    """Return a side file as a piece of one line."""
    counts: Counts = Counter()
    line = _line(redactor, data, 0, counts)
    return Piece(0, len(data), [line], counts)


def _piece(redactor: Redactor, data: bytes, start: int) -> Piece:
    suspicious, counts = set(suspects(redactor, data)), Counter[str]()
    lines, at = list[Line](), 0
    for line in data.split(b"\n"):
        length = len(line)
        if at in suspicious:
            lines.append(_line(redactor, line, start + at, counts))
        elif line and not line.isspace():
            text, is_json = plain(line)
            lines.append(Line(start + at, length, text, not is_json))
        at += length + 1
    return Piece(start, start + len(data), lines, counts, data[:SAMPLE], data[-SAMPLE:])


def _line(redactor: Redactor, line: bytes, offset: int, counts: Counts) -> Line:
    redacted = redact_line(redactor, line)
    for hit in redacted.hits:
        counts[hit.kind] += hit.number
    return Line(offset, len(line), redacted.text, not redacted.is_json)


def _oversized(redactor: Redactor, start: int, length: int, ending: int) -> Piece:
    text = redactor.marker("oversized", f"{length} bytes at {start}".encode())
    return Piece(start, start + length, [Line(start, length - ending, f'"{text}"')], Counter({"oversized": 1}))
