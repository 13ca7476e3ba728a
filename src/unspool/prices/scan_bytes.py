"""What text says of billed responses. In: text of whole lines. Out: a `Tally` that has taken them.

Rules
  1. What bills something is an answer, or a progress line that repeats one: it has the bytes `"usage"`. Written with
     escapes (`"\\u0075sage"`) they would be missed: no program writes them so. Only lines that have them are decoded.
  2. What the first bytes of a line say is not said of all of it: others may have been appended without a line end. So
     every byte is searched, once, with the machine's vector instructions: `bytes.find` takes five times as long.
  3. What the narrow decoder refuses, and every progress line, goes the long way.
"""

from __future__ import annotations

from ahocorasick_rs import BytesAhoCorasick

from unspool.format.base import UNDECODABLE, Buffer
from unspool.prices.line_counter import Tally
from unspool.prices.responses import S, billed_line

_usages = BytesAhoCorasick([b'"usage"']).find_matches_as_indexes


def take_text(tally: Tally[S], offset: int, data: bytes, start: int, stop: int) -> None:
    """Take the whole lines from `start` to `stop` in what was read at `offset`; most need not be decoded."""
    view, take, find, rfind = memoryview(data), tally.take, data.find, data.rfind
    for _, found, _ in _usages(data):
        if found < start:  # before the first line, or once more in one that was taken
            continue
        if found >= stop:
            return
        begin = rfind(b"\n", start, found) + 1 or start
        start = find(b"\n", found, stop) + 1 or stop
        line = view[begin:start]
        try:
            answer = billed_line(line)
        except UNDECODABLE:
            _take_the_long_way(tally, line, offset + begin)
            continue
        if answer.type == "assistant":
            take(answer, line, offset + begin)
        elif answer.type == "progress":
            _take_the_long_way(tally, line, offset + begin)


def _take_the_long_way(tally: Tally[S], line: Buffer, offset: int) -> None:
    from unspool.format.codec import decode
    from unspool.format.entry import Entry
    from unspool.prices.from_entries import of_entry

    for item in decode(line, offset):
        if isinstance(item, Entry) and (found := of_entry(item, tally.file)) is not None:
            tally.add(found)
