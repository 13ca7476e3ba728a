"""The steps that edits are made of: a line goes, a block goes, a value changes, lines come in; then all is joined up.

Rules
  1. A step only notes what is to be done. `finish` does it, to all of them at once.
  2. What points to a line that goes points to the nearest line above it that stays, or goes as well (`pointers.py`).
  3. Lines that nothing was noted for keep every byte.
  4. Where the session itself is edited, an answer of which nothing is left keeps one line without content: what it
     used was used. In a copy an answer keeps such a line if it is the only one that says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from unspool.edit import draft_links
from unspool.edit.ids import Identity, overwritten, readdressed, rewritten
from unspool.edit.plan import Change
from unspool.edit.session_view import Manuscript
from unspool.errors import Refused
from unspool.format.blocks import ToolUse
from unspool.format.codec import decode
from unspool.format.entry import Entry, Item
from unspool.format.json_edit import REMOVE, Path, encode, patch
from unspool.format.records import Assistant, User

_LINE_END = ord("\n")


class Finished(NamedTuple):
    """What came of the steps."""

    data: bytes
    changes: tuple[Change, ...]
    removed: dict[str, int]
    moved: dict[str, str | None]
    leaf: str | None
    lines: int


class Swap(NamedTuple):
    """A value that changes: the way to it, its new value, and what stands there now, with its key."""

    path: Path
    value: object
    key: bytes
    raw: bytes | memoryview


class Draft:
    """An edit in the making."""

    def __init__(self, manuscript: Manuscript, leaf: str | None, *, keeps_usage: bool = False) -> None:
        self.manuscript = manuscript
        self.changes: list[Change] = []
        self.gone: dict[int, Entry] = {}
        """The lines that go, by offset."""
        self.calls_gone: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.end: int | None = None
        """Where the new file ends: what is no line of its own goes after that."""
        self.leaf: str | None = None
        """The line to go on from, if it is another than the one the session has."""
        self.shortened = 0
        """By how many bytes values became shorter."""
        self._tip = leaf
        self._swaps: dict[int, list[Swap]] = {}
        self._keeps_usage = keeps_usage
        self._patches: dict[int, dict[Path, object]] = {}
        self._blocks_gone: dict[int, set[int]] = {}
        self._inserted: dict[int, list[bytes]] = {}
        self._by_offset = {entry.offset: entry for entry in manuscript.entries}

    @property
    def is_empty(self) -> bool:
        """Whether nothing was noted."""
        return not (self.gone or self._patches or self._blocks_gone or self._inserted)

    def remove(self, entry: Entry, kind: str, reason: str, *, counted: bool = True) -> None:
        """A line goes."""
        if entry.offset in self.gone:
            return
        self.gone[entry.offset] = entry
        self._note(entry, None, kind, reason, counted=counted)
        self.calls_gone.update(_calls(entry))

    def remove_block(self, entry: Entry, index: int, kind: str, reason: str) -> None:
        """A block of a line goes; with the last one the line."""
        gone = self._blocks_gone.setdefault(entry.offset, set())
        if index in gone or entry.offset in self.gone:
            return
        gone.add(index)
        self._note(entry, index, kind, reason)
        record = entry.record
        if isinstance(record, User | Assistant) and not isinstance(record.message.content, str):
            block = record.message.content[index]
            if isinstance(block, ToolUse):
                self.calls_gone.add(block.id)

    def change(self, entry: Entry, path: Path, value: object, change: Change | None = None) -> None:
        """A value changes."""
        self._patches.setdefault(entry.offset, {})[path] = value
        if change is not None:
            self.changes.append(change)
            self.counts[change.kind] += 1

    def swap(self, entry: Entry, swap: Swap, change: Change | None = None) -> None:
        """A value changes whose bytes are known: where they stand once, they need not be looked for."""
        self._swaps.setdefault(entry.offset, []).append(swap)
        self.change(entry, swap.path, swap.value, change)
        if change is not None:
            self.shortened += len(swap.raw) - len(encode(swap.value))

    def insert(self, offset: int, lines: Iterable[bytes]) -> None:
        """Lines come in before the line at this offset; `len(data)`: at the end."""
        self._inserted.setdefault(offset, []).extend(lines)

    def keeps(self, entry: Entry, block: int | None) -> bool:
        """Tell whether a line, or a block of it, stays."""
        return entry.offset not in self.gone and block not in self._blocks_gone.get(entry.offset, ())

    def keep(self, entry: Entry) -> None:
        """A line stays after all."""
        self.gone.pop(entry.offset, None)
        self.changes = [change for change in self.changes if change.entry != entry.offset]

    def values(self, entry: Entry) -> Mapping[Path, object]:
        """Return the values of a line that change."""
        return self._patches.get(entry.offset, {})

    def is_untouched(self, entry: Entry) -> bool:
        """Tell whether nothing was noted for a line."""
        place = entry.offset
        return place not in self.gone and place not in self._patches and place not in self._blocks_gone

    def finish(self, new: Identity | None = None) -> Finished:
        """Do what was noted, and join up what is left; under new ids, if there are any."""
        self._drop_empty_lines()
        self._keep_usage()
        joined = draft_links.joined(
            self.manuscript, self.gone, self.calls_gone, self._tip, keeps_branches=self._keeps_usage
        )
        for entry, kind, reason in joined.pruned:
            self.remove(entry, kind, reason, counted=kind != "note")
        for offset, values in joined.patches.items():
            if offset not in self.gone:
                self._patches.setdefault(offset, {}).update(values)
        data, lines = self._rendered(new)
        leaf = self.leaf or joined.leaf
        if new is not None and leaf is not None:
            leaf = new.uuids.get(leaf, leaf)
        return Finished(data, tuple(self.changes), dict(self.counts), joined.moved, leaf, lines)

    def _note(self, entry: Entry, block: int | None, kind: str, reason: str, *, counted: bool = True) -> None:
        self.changes.append(Change(entry.offset, entry.record.uuid, block, kind, reason))
        if counted:
            self.counts[kind] += 1

    def _drop_empty_lines(self) -> None:
        for offset, indexes in self._blocks_gone.items():
            entry = self._by_offset[offset]
            if offset not in self.gone and len(indexes) == _count(entry):
                self.gone[offset] = entry

    def _keep_usage(self) -> None:
        """Keep a line of each answer that would go without what it used (rule 4)."""
        if not self.gone:
            return
        going: dict[str, Entry] = {}
        told: set[str] = set()
        staying: set[str] = set()
        for entry in self.manuscript.entries:
            record = entry.record
            if not isinstance(record, Assistant) or not record.message.id:
                continue
            if entry.offset not in self.gone:
                staying.add(record.message.id)
            if record.message.usage is not None:
                if entry.offset in self.gone:
                    going[record.message.id] = entry
                else:
                    told.add(record.message.id)
        for answer, entry in going.items():
            if answer not in told and (self._keeps_usage or answer in staying):
                del self.gone[entry.offset]
                self._blocks_gone.pop(entry.offset, None)
                self._patches[entry.offset] = {("message", "content"): []}

    def _rendered(self, new: Identity | None) -> tuple[bytes, int]:
        pieces: list[bytes | memoryview] = []
        lines, ended = 0, True
        copy = bytearray(self.manuscript.data) if new is not None else None
        whole = memoryview(self.manuscript.data if copy is None else copy)
        for item in self.manuscript.items:
            for line in self._inserted.get(item.offset, ()):
                pieces.append(_placed(line, new))
                lines += 1
            if item.offset in self.gone or (self.end is not None and item.offset > self.end):
                continue
            if not ended:
                pieces.append(b"\n")
            if isinstance(item, Entry):
                self._add(pieces, item, new, copy, whole)
                lines += 1
            elif item is self.manuscript.torn and new is not None:
                continue  # half a line of a session that may still be written
            else:
                pieces.append(whole[item.offset : item.offset + item.length])
            ended = pieces[-1][-1] == _LINE_END or self._goes_on(item)
        if pieces and pieces[-1][-1] != _LINE_END:
            pieces.append(b"\n")
        for line in self._inserted.get(len(self.manuscript.data), ()):
            pieces.append(_placed(line, new))
            lines += 1
        return b"".join(pieces), lines

    def _add(
        self,
        pieces: list[bytes | memoryview],
        entry: Entry,
        new: Identity | None,
        copy: bytearray | None,
        whole: memoryview,
    ) -> None:
        """Add a line as it becomes: changed, or as it is, under the new ids if there are any."""
        start, end = entry.offset, entry.offset + entry.length
        if start in self._patches or start in self._blocks_gone:
            pieces.append(self._line(entry, new))
        elif new is None or copy is None:
            pieces.append(whole[start:end])
        else:
            more = overwritten(copy, entry, new)
            if more is None:
                pieces.append(rewritten(entry, new))
            elif more:
                pieces += (whole[start : end - 2], more, b"}\n")
            else:
                pieces.append(whole[start:end])

    def _goes_on(self, item: Item) -> bool:
        """Tell whether the next thing on the same line stays: then nothing ends here."""
        end = item.offset + item.length
        return end < len(self.manuscript.data) and end not in self.gone and end not in self._inserted

    def _line(self, entry: Entry, new: Identity | None) -> bytes:
        values = self._patches.get(entry.offset)
        gone = self._blocks_gone.get(entry.offset)
        if values or gone:
            line, values = _swapped(bytes(entry.raw), values or {}, self._swaps.get(entry.offset, ()))
            line = patched(line, values, gone or ())
            if new is None:
                return line
            (item,) = decode(line, entry.offset)
            assert isinstance(item, Entry)
            entry = item
        return rewritten(entry, new) if new is not None else bytes(entry.raw)


def patched(line: bytes, values: Mapping[Path, object], blocks_gone: Iterable[int] = ()) -> bytes:
    """Return a line with values changed, and then without some of its blocks."""
    for path, value in values.items():
        try:
            line = patch(line, {path: value})
        except Refused:
            if value is not REMOVE:
                raise
    for index in sorted(blocks_gone, reverse=True):
        line = patch(line, {("message", "content", index): REMOVE})
    return line


def _swapped(line: bytes, values: Mapping[Path, object], swaps: Iterable[Swap]) -> tuple[bytes, dict[Path, object]]:
    """Change values whose bytes stand on a line once; return the line, and what is left to be changed."""
    left = dict(values)
    for swap in swaps:
        old = b"".join([swap.key, swap.raw])
        at = line.find(old)
        if at >= 0 and line.find(old, at + 1) < 0 and left.get(swap.path) is swap.value:
            line = b"".join([line[:at], swap.key, encode(swap.value), line[at + len(old) :]])
            del left[swap.path]
    return line, left


def _placed(line: bytes, new: Identity | None) -> bytes:
    """Return a line that comes in, under the new ids."""
    if new is None:
        return line
    (item,) = decode(line)
    assert isinstance(item, Entry)
    return readdressed(item, new)


def _count(entry: Entry) -> int:
    record = entry.record
    return len(record.message.blocks) if isinstance(record, User | Assistant) else 0


def _calls(entry: Entry) -> list[str]:
    record = entry.record
    if not isinstance(record, Assistant) or isinstance(record.message.content, str):
        return []
    return [block.id for block in record.message.content if isinstance(block, ToolUse)]
