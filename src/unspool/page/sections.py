"""Stretches of a file told again: its lines and its index in, sections with rows out.

Rules
  1. A stretch is read from its place and told with what the index knows of the rest: where results stand that came
     later, which lines were written before, which prompts waited in the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from unspool.export.depth import Depth
from unspool.export.story import Known
from unspool.format.blocks import ToolResult, ToolUse
from unspool.format.entry import Entry, Item
from unspool.format.records import Assistant, User
from unspool.graph.tool_calls import ToolCall
from unspool.page.index import Index
from unspool.page.line_reader import Lines
from unspool.page.rows import Around, Block, Row, Section, blocks, each, rows, shown


class Telling:
    """Tells what stands where."""

    def __init__(self, lines: Lines, index: Index, prefix: str, agent_of: Callable[[str], str | None]) -> None:
        self._lines = lines
        self._index = index
        self._prefix = prefix
        self._agent_of = agent_of
        self.blobs: dict[str, int] = {}
        """Where pictures are that were told of, by their digest."""

    def turns(self, numbers: range | None, depth: Depth) -> list[Section]:
        """Return turns with their rows; all of them if none are named."""
        parts = self._index.parts
        numbers = range(len(parts)) if numbers is None else numbers
        return [
            self._section(number, chunk, depth)
            for number in numbers
            if 0 <= number < len(parts) and (number or self._index.has_opening)
            for chunk in range(len(parts[number].chunks))
        ]

    def block(self, block: Block, depth: Depth) -> list[Section]:
        """Return what a page loads at once."""
        numbers = range(block.first, block.last + 1)
        return [self._section(number, chunk, depth) for number in numbers for chunk in self._chunks(block, number)]

    def spans(self) -> Iterator[tuple[Block, int, int]]:
        """Yield each block with where it begins and ends."""
        for block in blocks(self._index):
            start, _ = self._span(block.first, block.first_chunk)
            _, end = self._span(block.last, block.last_chunk)
            yield block, start, end

    def spans_of(self, block: Block) -> Iterator[tuple[int, int]]:
        """Yield where the chunks of a block begin and end."""
        for number in range(block.first, block.last + 1):
            yield from (self._span(number, chunk) for chunk in self._chunks(block, number))

    def rows_at(self, item: Item) -> tuple[Row, ...]:
        """Return the rows of one line."""
        found = rows([item], self._around([item]))
        return tuple(row for one in found for row in (one.rows or (one,)))

    def call_at(self, offset: int, block: int) -> ToolCall | None:
        """Return the tool call that stands at a place."""
        entry = self._lines.entry(offset)
        if entry is None or not isinstance(entry.record, User | Assistant):
            return None
        among = entry.record.message.blocks
        use = among[block] if block < len(among) else None
        if not isinstance(use, ToolUse) or use.id not in self._index.calls:
            return None
        return self._call(use, entry, {offset: entry})

    def _section(self, number: int, chunk: int, depth: Depth) -> Section:
        part, ways = self._index.parts[number], self._index.branches.ways()
        items = self._lines.between(*self._span(number, chunk))
        told = rows(items, self._around(items))
        self.blobs |= {picture.digest: picture.place for row in each(told) for picture in row.pictures}
        return Section(
            number=number,
            chunk=chunk,
            chunks=len(part.chunks),
            left=self._is_left(number),
            starts_branch=part.start in ways.forks,
            rows=shown(told, depth),
        )

    def _is_left(self, number: int) -> bool:
        """Tell whether a turn is on a branch that was left; one that no branch knows is where the one before it is."""
        ways = self._index.branches.ways()
        while number > 0:
            start = self._index.parts[number].start
            if start in ways.known:
                return start not in ways.active
            number -= 1
        return False

    def _chunks(self, block: Block, number: int) -> range:
        first = block.first_chunk if number == block.first else 0
        last = block.last_chunk if number == block.last else len(self._index.parts[number].chunks) - 1
        return range(first, last + 1)

    def _span(self, number: int, chunk: int) -> tuple[int, int]:
        chunks = self._index.parts[number].chunks
        end = chunks[chunk + 1].start if chunk + 1 < len(chunks) else self._index.range_of(number)[1]
        return chunks[chunk].start, end

    def _around(self, items: Sequence[Item]) -> Around:
        index = self._index
        entries = {item.offset: item for item in items if isinstance(item, Entry)}
        calls: dict[str, ToolCall] = {}
        orphans: dict[str, int] = {}
        for entry in entries.values():
            if not isinstance(entry.record, User | Assistant):
                continue
            for block in entry.record.message.blocks:
                if isinstance(block, ToolUse):
                    called = index.calls.get(block.id)
                    if block.id not in calls or (called and called.use == entry.offset):
                        calls[block.id] = self._call(block, entry, entries)
                elif isinstance(block, ToolResult) and index.calls[block.tool_use_id].use < 0:
                    orphans[block.tool_use_id] = index.calls[block.tool_use_id].result
        known = Known(calls, orphans, index.queued, index.repeated, index.is_main)
        return Around(known, index.cwd, self._prefix, self._agent_of)

    def _call(self, use: ToolUse, entry: Entry, entries: dict[int, Entry]) -> ToolCall:
        """Return a call with its result, wherever that stands."""
        called = self._index.calls[use.id]
        if called.use != entry.offset:  # written again: it is told where it was first
            return ToolCall(use, Entry(called.use, b"", entry.record))
        given = entries.get(called.result) or (self._lines.entry(called.result) if called.result >= 0 else None)
        if given is None or not isinstance(given.record, User | Assistant):
            return ToolCall(use, entry)
        found = (block for block in given.record.message.blocks if isinstance(block, ToolResult))
        result = next((block for block in found if block.tool_use_id == use.id), None)
        return ToolCall(use, entry, result, given if result else None)
