"""What text says of billed responses. In: text of whole lines. Out: a `Tally` that has taken them.

Rules
  1. Only lines that can bill something are decoded (`candidates.py`).
  2. What the narrow decoder refuses, and every progress line, goes the long way.
"""

from __future__ import annotations

from unspool.format.shape import UNDECODABLE, Buffer
from unspool.prices.answers import billed_line
from unspool.prices.candidates import candidates
from unspool.prices.responses import S
from unspool.prices.tally import Tally


def take_text(tally: Tally[S], offset: int, data: bytes, start: int, stop: int) -> None:
    """Take the whole lines from `start` to `stop` in what was read at `offset`; most need not be decoded."""
    view, take = memoryview(data), tally.take
    for begin, end in candidates(data, start, stop):
        line = view[begin:end]
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
    from unspool.prices.entries import of_entry

    for item in decode(line, offset):
        if isinstance(item, Entry) and (found := of_entry(item, tally.file)) is not None:
            tally.add(found)
