"""What is wrong with the structure of a file: parents that are not there, circles, ids used twice, results of nothing.

Genuine files have all of these but circles; none stops anything here. A finding is for people who wonder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unspool.format.entry import Entry
from unspool.graph.calls import results_without_call


class Flaw(NamedTuple):
    """Something that does not fit, and where."""

    kind: str
    offset: int
    message: str


def flaws(entries: Sequence[Entry]) -> list[Flaw]:
    """Return what does not fit together in a file, in file order."""
    parents: dict[str, str | None] = {}
    found: list[Flaw] = []
    for entry in entries:
        uuid = entry.record.uuid
        if uuid is None:
            continue
        if uuid in parents:
            found.append(Flaw("duplicate uuid", entry.offset, "a line's id is used again; the later line counts"))
        parents[uuid] = entry.record.parent_uuid
    circular = _in_circles(parents)
    for entry in entries:
        uuid, parent = entry.record.uuid, entry.record.parent_uuid
        if parent is not None and uuid is not None and parent not in parents:
            found.append(Flaw("dangling parent", entry.offset, "the line before it is not in this file"))
        if uuid in circular:
            found.append(Flaw("cycle", entry.offset, "its parents lead back to itself"))
    for _, entry in results_without_call(entries):
        found.append(Flaw("orphan result", entry.offset, "a tool result whose call is not in this file"))
    return sorted(found, key=lambda flaw: flaw.offset)


def _in_circles(parents: dict[str, str | None]) -> set[str]:
    """Return the ids that are their own ancestors."""
    done: set[str] = set()
    circular: set[str] = set()
    for start in parents:
        way: dict[str, int] = {}
        at: str | None = start
        while at is not None and at in parents and at not in done:
            if at in way:
                circular.update(list(way)[way[at] :])
                break
            way[at] = len(way)
            at = parents[at]
        done.update(way)
    return circular
