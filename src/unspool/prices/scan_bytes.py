"""Counts the billed responses in raw text, decoding only the lines that can bill something.

Rules
  1. What bills something is an assistant line, or a progress line that repeats one: it has the bytes `"usage"`. Written
     with escapes (`"\\u0075sage"`) they would be missed: no known program writes them so. Only lines that have them
     are decoded.
  2. The first bytes of a line do not describe all of it: others may have been appended without a line end. So every
     byte is searched, once, with the machine's vector instructions: `bytes.find` takes five times as long.
  3. What the narrow decoder refuses, and every progress line, is decoded in full.
"""

from __future__ import annotations

from ahocorasick_rs import BytesAhoCorasick

from unspool.format import DECODE_ERRORS, Buffer, decode_billed_line
from unspool.prices.responses import LineCounter, SourceKey

_find_usage = BytesAhoCorasick([b'"usage"']).find_matches_as_indexes


def count_text(counter: LineCounter[SourceKey], offset: int, data: bytes, start: int, stop: int) -> None:
    """Count the whole lines from `start` to `stop` of data that was read at a file's `offset`."""
    view, add_line, find, rfind = memoryview(data), counter.add_line, data.find, data.rfind
    for _, match, _ in _find_usage(data):
        if match < start:  # before the first line, or a second match in a line that was counted
            continue
        if match >= stop:
            return
        begin = rfind(b"\n", start, match) + 1 or start
        start = find(b"\n", match, stop) + 1 or stop
        line = view[begin:start]
        try:
            record = decode_billed_line(line)
        except DECODE_ERRORS:
            _count_in_full(counter, line, offset + begin)
            continue
        if record.type == "assistant":
            add_line(record, line, offset + begin)
        elif record.type == "progress":
            _count_in_full(counter, line, offset + begin)


def _count_in_full(counter: LineCounter[SourceKey], line: Buffer, offset: int) -> None:
    from unspool.format import Entry, decode
    from unspool.prices.from_entries import response_of_entry

    for item in decode(line, offset):
        if isinstance(item, Entry) and (result := response_of_entry(item, counter.file)) is not None:
            counter.add(result)
