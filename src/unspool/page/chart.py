"""Context and cost, request by request: an index and its bills in, the data of a chart out. `drawing.py` draws it.

Rules
  1. Only the main conversation's own requests have a column: an agent has a context of its own.
  2. A long session has at most `MOST` columns. Each then stands for several requests and shows the one with the longest
     prompt; costs are added up over all.
  3. A cache miss is a request that reads less than half of what the one before had in its context, though nothing was
     compacted in between. If more time has passed than a cache lives, that is named as the reason.

[merged: billing.py] What each request of a session cost, in order: an index in, requests out. The rules of counting are in `prices/`.

[merged: filling.py] What fills the context of the last request: bytes in, an estimate of tokens out, by category and by file.

Rules
  1. The sum is exact: it is what the API said of the last request. How it is shared out is an estimate, by bytes.
  2. What the file does not hold (the system prompt, the descriptions of tools) is estimated from the first request:
     what it had more than its own prompt would take.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import msgspec

from unspool.display.units import duration
from unspool.graph.context.model_rules import window
from unspool.graph.tool_calls import between
from unspool.page.index import Content, Index
from unspool.prices.cost import cost
from unspool.prices.price_list import Price, price
from unspool.prices.responses import Response


class Request(msgspec.Struct, frozen=True):
    """One answer of the API, where it begins, and what it cost in micro-dollars."""

    offset: int
    response: Response
    cost: int
    priced: bool

    @property
    def key(self) -> str:
        """The row it begins with."""
        return f"{self.offset}.0"


def requests(index: Index) -> list[Request]:
    """Return every request of a file, each once, in file order; those of agents that the file only tells of not."""
    found = []
    for _, response in index.counting.billed():
        if response.retold:
            continue
        known = _price(response.model, (response.timestamp or "")[:10] or None)
        offset = index.firsts.get(response.id, response.offset)
        found.append(Request(offset, response, cost(response, known), known is not None))
    return sorted(found, key=lambda one: one.offset)


@lru_cache(maxsize=1024)
def _price(model: str | None, day: str | None) -> Price | None:
    return price(model, day)


_PER_TOKEN = 3.6
"""Bytes, in transcripts of code and English."""
_FILES = 12
"""How many files are named."""


class Share(msgspec.Struct, frozen=True):
    """A part of the context."""

    name: str
    tokens: int
    bytes: int = 0


class Filling(msgspec.Struct, frozen=True):
    """What the last request had in its context; the shares are estimates, their sum is not."""

    total: int = 0
    kinds: tuple[Share, ...] = ()
    files: tuple[Share, ...] = ()


def filling(index: Index, own: Sequence[Request]) -> Filling:
    """Return what fills the context now."""
    if not own:
        return Filling()
    held = Content()
    ways = index.branches.ways()
    for part in index.parts:
        if part.start not in ways.known or part.start in ways.active:
            held.join(part.content)
    total = own[-1].response.prompt
    base = min(_base(index, own), total)
    spread = total - base
    whole = sum(held.kinds.values())
    if not whole:
        return Filling(total, (Share("system prompt and tools", total),) if total else ())
    names = sorted(held.kinds, key=lambda name: -held.kinds[name])
    tokens = _shared(spread, [held.kinds[name] for name in names])
    kinds = [Share(name, count, held.kinds[name]) for name, count in zip(names, tokens, strict=True)]
    if base:
        kinds.append(Share("system prompt and tools", base))
    files = sorted(held.files.items(), key=lambda pair: -pair[1])[:_FILES]
    named = tuple(Share(path, round(spread * size / whole), size) for path, size in files)
    return Filling(total, tuple(sorted(kinds, key=lambda share: -share.tokens)), named)


def _base(index: Index, own: Sequence[Request]) -> int:
    """Return how many tokens a request has before anything was said (rule 2)."""
    first = index.parts[1] if len(index.parts) > 1 else index.parts[0]
    said = len(first.prompt) / _PER_TOKEN
    return max(0, round(own[0].response.prompt - said))


def _shared(total: int, sizes: Sequence[int]) -> list[int]:
    """Share out a number in proportion, so that the shares add up to it."""
    whole, found, given, reached = sum(sizes), list[int](), 0, 0
    for size in sizes:
        reached += size
        upto = total * reached // whole
        found.append(upto - given)
        given = upto
    return found


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
