"""Responses counted line by line, with as little work as a line needs. In: the lines of files. Out: a `Counting`.

Rules
  1. The outcome is that of `answers.of_entry` and `Counting.add` for every line.
  2. A line without the bytes `"usage"` bills nothing and need not be decoded (`take_text`). A key written with escapes
     (`"\\u0075sage"`) would be missed: no program writes one.
  3. A line that repeats the usage of the line before, or tells less, is only noted: no `Response` is made of it.
  4. What the narrow decoder refuses, and every progress line, goes the long way.
"""

from __future__ import annotations

from typing import Generic

from unspool.format.codec import decode
from unspool.format.entry import Buffer, Entry, Item
from unspool.format.records import Assistant
from unspool.format.recover import UNDECODABLE
from unspool.prices.answers import Answer, Dropped, Response, billed_line, content_size, of_entry, response, stem
from unspool.prices.responses import Counting, S

_NEEDLE = b'"usage"'
_WRITTEN = len("2026-01-05T09:00:00.000Z")


class Tally(Generic[S]):
    """Takes the lines of one file."""

    def __init__(self, counting: Counting[S], source: S, file: str) -> None:
        self._counting, self._source, self._file = counting, source, file
        self._home = stem(file)
        self._last: Answer | None = None
        """The last answer that a `Response` was made of."""
        self.dropped: list[Dropped] = []

    def take_text(self, lines: bytes, offset: int) -> None:
        """Take whole lines, the first of which begins at `offset`; only those that can carry usage are decoded."""
        view, find = memoryview(lines), lines.find
        found = find(_NEEDLE)
        while found >= 0:
            start = lines.rfind(b"\n", 0, found) + 1
            end = find(b"\n", found) + 1 or len(lines)
            line = view[start:end]
            try:
                answer = billed_line(line)
            except UNDECODABLE:
                self.take_items(decode(line, offset + start))
            else:
                if answer.type == "assistant":
                    self.take(answer, line, offset + start)
                elif answer.type == "progress":
                    self.take_items(decode(line, offset + start))
            found = find(_NEEDLE, end)

    def take_items(self, items: list[Item]) -> None:
        """Take what lines hold."""
        for item in items:
            if isinstance(item, Entry):
                self.take_entry(item)

    def take_entry(self, entry: Entry) -> None:
        """Take a line that has been decoded."""
        if type(entry.record) is Assistant:
            self.take(entry.record, entry.raw, entry.offset)
        elif (found := of_entry(entry, self._file)) is not None:
            self._add(found)

    def take(self, answer: Answer, line: Buffer, offset: int) -> None:
        """Take an answer's line."""
        if self._last is not None and _repeats(answer, self._last):
            final = answer.message.stop_reason is not None
            size = 0 if final else content_size(answer, line)
            self._counting.repeat(self._source, answer.message.id or "", offset, final=final, size=size)
            return
        found = response(answer, line, offset, self._home)
        self._last = answer if isinstance(found, Response) else None
        self._add(found)

    def _add(self, found: Response | Dropped) -> None:
        if isinstance(found, Response):
            self._counting.add(self._source, found)
        else:
            self.dropped.append(found)


def _repeats(answer: Answer, last: Answer) -> bool:
    """Tell whether a line adds nothing to the one before but its own content: it cannot be the one that counts."""
    message, before = answer.message, last.message
    if message.id is None or message.id != before.id:
        return False
    usage, most = message.usage, before.usage
    if usage is None or most is None or usage.output_tokens > most.output_tokens:
        return False
    time, earlier = answer.timestamp, last.timestamp
    if not time or not earlier or not len(time) == len(earlier) == _WRITTEN or not time[-1] == earlier[-1] == "Z":
        return False
    return (
        time >= earlier
        and (usage.output_tokens < most.output_tokens or usage == most)
        and message.model == before.model
        and answer.is_sidechain == last.is_sidechain
        and answer.session_id == last.session_id
        and answer.agent_id == last.agent_id
        and answer.forked_from == last.forked_from
    )
