"""Which lines can bill something. In: text of whole lines. Out: where those lines are that need to be decoded.

Rules
  1. A line without the bytes `"usage"` bills nothing. A key written with escapes (`"\\u0075sage"`) would be missed: no
     program writes one.
  2. The usage of nearly every answer begins as the program writes it, and a long needle is found twice as fast as a
     short one. So the lines with that beginning are found first, and those between them searched for the short one.
  3. A line may have had others appended to it, without a line end between them: what its first bytes say is not said
     of all of it. A long line that begins as a user's is searched whole for an answer as the program writes it, and its
     beginning and end for any other. What would be missed is an answer that another program wrote, after a user's line
     and with more than 1 KB after it, and no line end on either side.
"""

from __future__ import annotations

from collections.abc import Iterator

_WRITTEN = b'"usage":{"input_tokens":'
"""The beginning of a usage object in all 4,329 lines of the files at hand that Claude Code wrote."""
_ANY = b'"usag'
"""Without the end, whose quotation mark is everywhere, it is found a tenth faster."""
_USER = b'"type":"user","message":{"role":"user"'
"""Stands before what makes a line long."""
_LONG = 4096
"""Bytes. Shorter lines are searched as fast as it would take to look at their ends."""
_HEAD = _TAIL = 1024


def candidates(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield beginning and end of the lines between `start` and `stop` that can bill something, in order."""
    find, rfind = data.find, data.rfind
    while (found := find(_WRITTEN, start, stop)) >= 0:
        begin = rfind(b"\n", start, found) + 1 or start
        if begin != start and (begin - start > _LONG or find(_ANY, start, begin) >= 0):
            yield from _between(data, start, begin)
        start = find(b"\n", found, stop) + 1 or stop
        yield begin, start
    yield from _between(data, start, stop)


def _between(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield those of lines in which no usage begins as the program writes it."""
    find = data.find
    while start < stop:
        end = find(b"\n", start, stop) + 1 or stop
        users = find(_USER, start, start + _HEAD) if end - start > _LONG else -1
        if users < 0:
            is_candidate = find(_ANY, start, end) >= 0
        else:
            is_candidate = find(_ANY, end - _TAIL, end) >= 0 or find(_ANY, start, users) >= 0
        if is_candidate:
            yield start, end
        start = end
