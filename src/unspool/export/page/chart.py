"""Context and cost, request by request: an index and its bills in, the data of a chart out. `drawing.py` draws it.

Rules
  1. Only the main conversation's own requests have a column: an agent has a context of its own.
  2. A long session has at most `MOST` columns. Each then stands for several requests and shows the one with the longest
     prompt; costs are added up over all.
  3. A cache miss is a request that reads less than half of what the one before had in its context, though nothing was
     compacted in between. If more time has passed than a cache lives, that is named as the reason.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from unspool.export.figures import duration
from unspool.export.page.billing import Request
from unspool.export.page.filling import Filling, filling
from unspool.export.page.index import Index
from unspool.graph.calls import between
from unspool.graph.models import window

MOST = 600
_AGENTS = frozenset({"Task", "Agent"})
_SHORT, _LONG = 300, 3600
"""Seconds that a cache lives."""
_WORTH = 5_000
"""A miss of fewer tokens is none."""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A request, or several."""

    key: str
    turn: int
    requests: int
    """How many requests there were up to here."""
    time: str | None
    model: str | None
    read: int
    write: int
    fresh: int
    output: int
    spent: int
    """Micro-dollars up to here."""
    limit: int | None = None
    missed: str | None = None
    """Why the cache was of no use, as far as one can tell."""

    @property
    def total(self) -> int:
        """Tokens of the prompt."""
        return self.read + self.write + self.fresh


class Marker(msgspec.Struct, frozen=True):
    """Something that happened before a column, or while several passed."""

    column: int
    kind: str
    """`prompt`, `error`, `compaction` or `agent`."""
    key: str
    words: str = ""
    until: int | None = None


class Chart(msgspec.Struct, frozen=True):
    """Everything that is drawn."""

    columns: tuple[Column, ...] = ()
    markers: tuple[Marker, ...] = ()
    requests: int = 0
    filling: Filling = Filling()

    @property
    def peak(self) -> int:
        """The longest prompt."""
        return max((column.total for column in self.columns), default=0)

    @property
    def spent(self) -> int:
        """Micro-dollars in all."""
        return self.columns[-1].spent if self.columns else 0


def chart(index: Index, bills: Sequence[Request]) -> Chart:
    """Return context and cost of a session."""
    own = [bill for bill in bills if not (index.is_main and bill.response.sidechain)]
    compacted = [one.offset for part in index.parts for one in part.compacted]
    limits = _limits(index, own)
    missed = _missed(own, compacted)
    columns: list[Column] = []
    starts: list[int] = []
    spent, step = 0, max(1, -(-len(own) // MOST))
    for at in range(0, len(own), step):
        among = own[at : at + step]
        spent += sum(bill.cost for bill in among)
        best = max(among, key=lambda bill: bill.response.prompt)
        response = best.response
        columns.append(
            Column(
                key=best.key,
                turn=index.part_at(best.offset),
                requests=at + len(among),
                time=response.timestamp,
                model=response.model,
                read=response.cache_read,
                write=response.cache_write_5m + response.cache_write_1h,
                fresh=response.input,
                output=sum(bill.response.output for bill in among),
                spent=spent,
                limit=limits.get(response.model or ""),
                missed=next((missed[bill.offset] for bill in among if bill.offset in missed), None),
            )
        )
        starts.append(among[0].offset)
    return Chart(tuple(columns), tuple(_markers(index, starts, compacted)), len(own), filling(index, own))


def _limits(index: Index, own: Sequence[Request]) -> dict[str, int]:
    """Return how many tokens the models take: as the program said, else as is known; a longer prompt shows another."""
    found: dict[str, int] = {}
    for model in {bill.response.model or "" for bill in own}:
        most = max(bill.response.prompt for bill in own if (bill.response.model or "") == model)
        limit = index.windows.get(model) or window(model)
        if limit is not None:
            found[model] = limit if most <= limit else 1_000_000
    return found


def _missed(own: Sequence[Request], compacted: Sequence[int]) -> dict[int, str]:
    """Return the requests that the cache was of no use to, and why (rule 3)."""
    found: dict[int, str] = {}
    for before, bill in pairwise(own):
        had, read = before.response.prompt, bill.response.cache_read
        was_compacted = bisect_left(compacted, before.offset) != bisect_left(compacted, bill.offset)
        if was_compacted or had - read < _WORTH or read * 2 >= had or bill.response.prompt * 2 < had:
            continue
        passed = between(before.response.timestamp, bill.response.timestamp)
        seconds = passed.total_seconds() if passed else 0
        lives = _LONG if before.response.cache_write_1h else _SHORT
        if bill.response.model != before.response.model:
            found[bill.offset] = "another model"
        elif passed is not None and seconds > lives:
            found[bill.offset] = f"{duration(passed)} had passed, and the cache lives {lives // 60} min"
        else:
            found[bill.offset] = "the beginning of the prompt had changed"
    return found


def _markers(index: Index, starts: Sequence[int], compacted: Sequence[int]) -> list[Marker]:
    if not starts:
        return []
    found = [
        Marker(_column(starts, part.start), "prompt", f"{part.start}.0", part.prompt[:120]) for part in index.parts[1:]
    ]
    found += [Marker(_column(starts, offset), "error", f"{offset}.0", "API error") for offset in index.errors]
    found += [Marker(_column(starts, offset), "compaction", f"{offset}.0", "compacted") for offset in compacted]
    for call in index.calls.values():
        if call.failed and call.use >= 0:
            found.append(Marker(_column(starts, call.use), "error", call.key, f"{call.name} failed"))
        if call.name in _AGENTS and call.use >= 0:
            until = _column(starts, call.result) if call.result >= 0 else len(starts)
            found.append(Marker(_column(starts, call.use), "agent", call.key, call.name, until))
    return sorted(found, key=lambda marker: (marker.column, marker.kind))


def _column(starts: Sequence[int], offset: int) -> int:
    """Return the first column at or after a place."""
    return min(bisect_left(starts, offset), len(starts) - 1)
