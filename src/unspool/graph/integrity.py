"""Finds structural flaws of a file: missing parents, cycles, uuids used twice, tool results without a call.

Genuine files have all of these but cycles, and no reader of the project fails on one: they are reported, not repaired.

Each line is read once and not kept: only the hashes of its ids are, so that a file of a gigabyte fits into memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from unspool.format import Entry, ToolResult, ToolUse


class StructureFlaw(NamedTuple):
    """A structural flaw and the offset of its line."""

    kind: str
    offset: int
    message: str


def find_flaws(entries: Iterable[Entry]) -> list[StructureFlaw]:
    """Return the structural flaws of a file, in file order."""
    index = _IdIndex()
    for entry in entries:
        index.add(entry)
    return sorted(index.find_flaws(), key=lambda flaw: flaw.offset)


class _IdIndex:
    """The hashes of the ids of the lines so far."""

    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {}
        self.unseen_parents: list[tuple[int, int]] = []
        """Parents that come after their child or never, and the offset of the child."""
        self.calls: set[int] = set()
        self.results: dict[int, int] = {}
        self.duplicates: list[int] = []

    def add(self, entry: Entry) -> None:
        record = entry.record
        for block in entry.content_blocks:
            if isinstance(block, ToolUse):
                self.calls.add(hash(block.id))
            elif isinstance(block, ToolResult):
                self.results.setdefault(hash(block.tool_use_id), entry.offset)
        if record.uuid is None:
            return
        uuid = hash(record.uuid)
        if uuid in self.parents:
            self.duplicates.append(entry.offset)
        parent = None if record.parent_uuid is None else hash(record.parent_uuid)
        self.parents[uuid] = parent
        if parent is not None and (parent == uuid or parent not in self.parents):
            self.unseen_parents.append((parent, entry.offset))

    def find_flaws(self) -> list[StructureFlaw]:
        """Return the flaws, now that all lines were added."""
        unseen = self.unseen_parents
        offsets = {
            ("duplicate uuid", "duplicate line id; the later line counts"): self.duplicates,
            ("dangling parent", "its parent is not in this file"): [
                offset for parent, offset in unseen if parent not in self.parents
            ],
            ("cycle", "its parents form a cycle"): [
                offset for parent, offset in unseen if parent in self.parents and self._leads_back(parent)
            ],
            ("orphan result", "a tool result whose call is not in this file"): [
                offset for call, offset in self.results.items() if call not in self.calls
            ],
        }
        return [StructureFlaw(kind, offset, text) for (kind, text), among in offsets.items() for offset in among]

    def _leads_back(self, start: int) -> bool:
        """Tell whether the parents of a line lead back to it."""
        # Called for unseen parents only: every cycle has a line that is written before its parent.
        path: set[int] = set()
        current: int | None = start
        while current is not None and current not in path:
            path.add(current)
            current = self.parents.get(current)
        return current is not None
