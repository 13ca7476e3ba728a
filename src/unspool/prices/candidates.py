"""Which lines can bill something. In: text of whole lines. Out: where those lines are that need to be decoded.

Rules
  1. What bills something is an answer, or a progress line that repeats one: it has the bytes `"usage"`. Written with
     escapes (`"\\u0075sage"`) they would be missed: no program writes them so.
  2. What the first bytes of a line say is not said of all of it: others may have been appended without a line end. So
     every byte is searched, once, with the machine's vector instructions: `bytes.find` takes five times as long.
"""

from __future__ import annotations

from collections.abc import Iterator

from ahocorasick_rs import BytesAhoCorasick

_usages = BytesAhoCorasick([b'"usage"']).find_matches_as_indexes


def candidates(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield beginning and end of the lines between `start` and `stop` that can bill something, in order."""
    find, rfind = data.find, data.rfind
    for _, found, _ in _usages(data):
        if found < start:  # before the first line, or once more in one that was yielded
            continue
        if found >= stop:
            return
        begin = rfind(b"\n", start, found) + 1 or start
        start = find(b"\n", found, stop) + 1 or stop
        yield begin, start
