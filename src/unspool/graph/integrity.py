"""What is wrong with the structure of a file: parents that are not there, circles, ids used twice, results of nothing.

Genuine files have all of these but circles; none stops anything here. A finding is for people who wonder.

Lines are looked at once and let go: of each only the hashes of its ids are kept, so that a file of a gigabyte will do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from unspool.format.blocks import ToolResult, ToolUse
from unspool.format.entry import Entry
from unspool.format.records import Assistant, User


class Flaw(NamedTuple):
    """Something that does not fit, and where."""

    kind: str
    offset: int
    message: str


def flaws(entries: Iterable[Entry]) -> list[Flaw]:
    """Return what does not fit together in a file, in file order."""
    seen = _Seen()
    for entry in entries:
        seen.take(entry)
    return sorted(seen.flaws(), key=lambda flaw: flaw.offset)


class _Seen:
    """The ids seen so far, by their hashes."""

    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {}
        self.awaited: list[tuple[int, int]] = []
        """Parents that had not been seen when their child was, and where that is."""
        self.calls: set[int] = set()
        self.results: dict[int, int] = {}
        self.found: list[Flaw] = []

    def take(self, entry: Entry) -> None:
        """Look at a line."""
        record = entry.record
        if isinstance(record, User | Assistant) and not isinstance(record.message.content, str):
            for block in record.message.content:
                if isinstance(block, ToolUse):
                    self.calls.add(hash(block.id))
                elif isinstance(block, ToolResult):
                    self.results.setdefault(hash(block.tool_use_id), entry.offset)
        if record.uuid is None:
            return
        uuid = hash(record.uuid)
        if uuid in self.parents:
            self.found.append(Flaw("duplicate uuid", entry.offset, "a line's id is used again; the later line counts"))
        parent = None if record.parent_uuid is None else hash(record.parent_uuid)
        self.parents[uuid] = parent
        if parent is not None and (parent == uuid or parent not in self.parents):
            self.awaited.append((parent, entry.offset))

    def flaws(self) -> list[Flaw]:
        """Return what was found, now that all lines were seen."""
        dangling = [offset for parent, offset in self.awaited if parent not in self.parents]
        orphans = [offset for call, offset in self.results.items() if call not in self.calls]
        circles = [offset for parent, offset in self.awaited if parent in self.parents and self._leads_back(parent)]
        return [
            *self.found,
            *(Flaw("dangling parent", offset, "the line before it is not in this file") for offset in dangling),
            *(Flaw("cycle", offset, "its parents lead back to it") for offset in circles),
            *(Flaw("orphan result", offset, "a tool result whose call is not in this file") for offset in orphans),
        ]

    def _leads_back(self, start: int) -> bool:
        """Tell whether a way up from a line comes back to it: every circle has a line that came before its parent."""
        way: set[int] = set()
        at: int | None = start
        while at is not None and at not in way:
            way.add(at)
            at = self.parents.get(at)
        return at is not None
