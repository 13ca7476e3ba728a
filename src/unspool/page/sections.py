"""Sections of a session page: reads parts of a session file again and turns them into sections with rows.

Rules
  1. A part is read from its offset and shown with what the index knows of the rest: where later results stand, which
     lines were written before, which prompts were queued.
  2. A page loads rows in batches of about equal height. A batch is made of chunks (`index.py`, rule 2) that follow each
     other, of one turn or of several.
  3. What is appended to a file changes the last batch and adds others: no other batch changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from unspool.export import Depth, Story
from unspool.format import Entry, Item, ToolResult, ToolUse
from unspool.graph import ToolCall
from unspool.page.images import ImageInfo
from unspool.page.index import CHUNK_STEPS, SessionIndex
from unspool.page.line_reader import LineReader
from unspool.page.rows import RowBuilder, TranscriptRow, walk_rows

_ROW_PIXELS, _LINE_PIXELS, _TITLE_PIXELS = 28, 22, 44
_LINE_CHARACTERS = 90
_BATCH_TURNS = 60
"""The most turns of a batch."""


class RowBatch(msgspec.Struct, frozen=True):
    """Turns, or parts of long ones, whose rows are loaded together."""

    first: int
    first_chunk: int
    last: int
    last_chunk: int
    start: int = 0
    """Its offset in the file."""
    steps: int = 0
    characters: int = 0

    @property
    def id(self) -> str:
        """Its name on the page, which stays the same while the file grows."""
        return f"{self.first}-{self.first_chunk}"

    def has(self, turns: range | None) -> bool:
        """Tell whether it has any of these turns; without turns, always."""
        return turns is None or (bool(turns) and self.first <= turns[-1] and turns[0] <= self.last)

    @property
    def height(self) -> int:
        """About how many pixels it takes."""
        text = self.characters // _LINE_CHARACTERS * _LINE_PIXELS
        return self.steps * _ROW_PIXELS + text + (self.last - self.first + 1) * _TITLE_PIXELS


def split_into_batches(index: SessionIndex) -> list[RowBatch]:
    """Return the batches of a file, in order."""
    batches: list[RowBatch] = []
    for number, turn in enumerate(index.turns):
        for place, chunk in enumerate(turn.chunks if number or index.has_opening else ()):
            before = batches[-1] if batches else None
            if before is None or before.steps >= CHUNK_STEPS or number - before.first >= _BATCH_TURNS:
                batches.append(RowBatch(number, place, number, place, chunk.start, chunk.steps, chunk.characters))
            else:
                steps, characters = before.steps + chunk.steps, before.characters + chunk.characters
                batches[-1] = replace(before, last=number, last_chunk=place, steps=steps, characters=characters)
    return batches


class TurnSection(msgspec.Struct, frozen=True, kw_only=True):
    """A turn on a page, or a chunk of one."""

    number: int
    chunk: int = 0
    """Which part of a long turn."""
    chunks: int = 1
    left: bool = False
    starts_branch: bool = False
    rows: tuple[TranscriptRow, ...] = ()


class SectionReader:
    """Reads sections of a file from the offsets in its index."""

    def __init__(
        self, lines: LineReader, index: SessionIndex, prefix: str, agent_of: Callable[[str], str | None]
    ) -> None:
        self._lines = lines
        self._index = index
        self._prefix = prefix
        self._agent_of = agent_of
        self.image_offsets: dict[str, int] = {}
        """The offsets of lines with images that were shown, by the digest of the image."""
        self._held: dict[tuple[str, Depth], list[TurnSection]] | None = None

    def hold(self) -> None:
        """Keep batches that are read from now on, and their lines: an exported file needs them twice."""
        self._lines.hold()
        self._held = {}

    def read_turns(self, numbers: range | None = None, depth: Depth = Depth.STEPS) -> list[TurnSection]:
        """Return turns with their rows; all of them if none are named."""
        turns = self._index.turns
        return [
            self._read_section(number, chunk, depth)
            for number in (range(len(turns)) if numbers is None else numbers)
            if 0 <= number < len(turns) and (number or self._index.has_opening)
            for chunk in range(len(turns[number].chunks))
        ]

    def read_batch(self, batch: RowBatch, depth: Depth = Depth.STEPS) -> list[TurnSection]:
        """Return the sections of a batch with their rows."""
        if self._held is not None and (held := self._held.get((batch.id, depth))) is not None:
            return held
        sections = [self._read_section(number, chunk, depth) for number, chunk in self._chunks(batch)]
        if self._held is not None:
            self._held[batch.id, depth] = sections
        return sections

    def batch_range(self, batch: RowBatch) -> tuple[int, int]:
        """Return the offsets between which a batch lies."""
        return batch.start, self._index.chunk_range(batch.last, batch.last_chunk)[1]

    def chunk_ranges(self, batch: RowBatch) -> Iterator[tuple[int, int]]:
        """Yield the offsets between which the chunks of a batch lie."""
        return (self._index.chunk_range(number, chunk) for number, chunk in self._chunks(batch))

    def rows_of(self, item: Item) -> tuple[TranscriptRow, ...]:
        """Return the rows of one line."""
        return tuple(inner for row in self._build_rows([item]) for inner in (row.rows or (row,)))

    def read_call(self, offset: int, number: int) -> ToolCall | None:
        """Return the tool call at an offset and the number of a block."""
        entry = self._lines.read_entry(offset)
        blocks = entry.content_blocks if entry else ()
        use = blocks[number] if number < len(blocks) else None
        if entry is None or not isinstance(use, ToolUse) or use.id not in self._index.calls:
            return None
        return self._pair(use, entry, {offset: entry})

    def remember_images(self, images: Iterable[ImageInfo]) -> None:
        """Note where images stand, so that their bytes are found without a search."""
        self.image_offsets |= {image.digest: image.place for image in images}

    def _read_section(self, number: int, chunk: int, depth: Depth) -> TurnSection:
        turn = self._index.turns[number]
        items = self._lines.read_range(*self._index.chunk_range(number, chunk))
        rows = self._build_rows(items)
        self.remember_images(image for row in walk_rows(rows) for image in row.pictures)
        return TurnSection(
            number=number,
            chunk=chunk,
            chunks=len(turn.chunks),
            left=self._index.is_abandoned(number),
            starts_branch=turn.start in self._index.branches.layout().forks,
            rows=tuple(row for row in rows if row.depth <= depth),
        )

    def _chunks(self, batch: RowBatch) -> Iterator[tuple[int, int]]:
        """Yield the numbers of turns and of their chunks that are in a batch."""
        for number in range(batch.first, batch.last + 1):
            first = batch.first_chunk if number == batch.first else 0
            last = batch.last_chunk if number == batch.last else len(self._index.turns[number].chunks) - 1
            yield from ((number, chunk) for chunk in range(first, last + 1))

    def _build_rows(self, items: Sequence[Item]) -> tuple[TranscriptRow, ...]:
        index = self._index
        entries = {item.offset: item for item in items if isinstance(item, Entry)}
        calls: dict[str, ToolCall] = {}
        orphans: dict[str, int] = {}
        for entry in entries.values():
            for block in entry.content_blocks:
                if isinstance(block, ToolUse):
                    call = index.calls.get(block.id)
                    if block.id not in calls or (call and call.use == entry.offset):
                        calls[block.id] = self._pair(block, entry, entries)
                elif isinstance(block, ToolResult):
                    call = index.calls.get(block.tool_use_id)
                    if call is not None and call.use < 0:
                        orphans[block.tool_use_id] = call.result
        story = Story(
            calls, orphans, index.queued, index.repeated, index.is_main, index.commands, index.repeated_blocks
        )
        return RowBuilder(index.fact_collector.cwd, self._prefix, self._agent_of).build(items, story)

    def _pair(self, use: ToolUse, entry: Entry, entries: dict[int, Entry]) -> ToolCall:
        """Return a call with its result, wherever that stands."""
        call = self._index.calls.get(use.id)
        if call is None:  # the file was replaced since it was indexed; the next growth reads it anew
            return ToolCall(use, entry)
        if call.use != entry.offset:  # a copy of an earlier line: the call is shown where it stood first
            return ToolCall(use, Entry(call.use, b"", entry.record))
        answer = entries.get(call.result) or (self._lines.read_entry(call.result) if call.result >= 0 else None)
        if answer is None:
            return ToolCall(use, entry)
        results = (block for block in answer.content_blocks if isinstance(block, ToolResult))
        result = next((block for block in results if block.tool_use_id == use.id), None)
        return ToolCall(use, entry, result, answer if result else None)
