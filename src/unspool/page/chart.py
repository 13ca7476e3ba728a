"""Context and cost of a session, request by request: makes the data of a chart. `page/html/charts.py` draws it.

Rules
  1. Only requests of the main conversation have a column: an agent has a context of its own.
  2. A long session has at most `MAX_COLUMNS` columns. Each then stands for several requests and shows the one with the
     longest prompt; costs are added up over all.
  3. A cache miss is a request that lost the cache (`analysis/lost_cache.py`), though nothing was compacted before it.
  4. What fills the context is an estimate by bytes, but its sum is exact: it is what the API reported for the last
     request. What the file does not hold (the system prompt, the descriptions of tools, what a resumed session had
     before) is the remainder: what the first request had beyond its own prompt.

How responses are counted and priced is decided in `prices/`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from unspool.format.tools import AGENT_TOOLS
from unspool.graph.context import context_window
from unspool.page.analysis import BYTES_PER_TOKEN, find_lost_cache
from unspool.page.index import ContextBytes, SessionIndex
from unspool.prices import LONG_PROMPT_TOKENS, Price, Response, bill_responses
from unspool.store import PriceLookup

MAX_COLUMNS = 600
REMAINDER = "not in the file (remainder: system prompt, tools, earlier context)"
_MAX_FILES = 12


class ChartRequest(msgspec.Struct, frozen=True):
    """One response of the API, where it begins, and what it cost in micro-dollars."""

    offset: int
    response: Response
    cost: int
    priced: bool
    estimated_output: int = 0
    """Output tokens, estimated from the text where the count is partial."""
    estimated_cost: int = 0
    is_long: bool = False
    """Whether it was billed at the higher rate for prompts of more than 200,000 tokens."""


class ContextShare(msgspec.Struct, frozen=True):
    """A part of the context."""

    name: str
    tokens: int
    bytes: int = 0


class ContextShares(msgspec.Struct, frozen=True):
    """What the last request had in its context; the shares are estimates, their sum is not."""

    total: int = 0
    kinds: tuple[ContextShare, ...] = ()
    files: tuple[ContextShare, ...] = ()


class RequestColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of the chart: one request, or several."""

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
    """Why the cache was missed, as far as it is known."""
    long: int = 0
    """How many of its requests were billed at the higher rate for long prompts."""

    @property
    def total(self) -> int:
        """Tokens of the prompt."""
        return self.read + self.write + self.fresh


class ChartMarker(msgspec.Struct, frozen=True):
    """Something that happened before a column, or while several passed."""

    column: int
    kind: str
    """`prompt`, `error`, `compaction` or `agent`."""
    key: str
    words: str = ""
    until: int | None = None


class ContextChart(msgspec.Struct, frozen=True):
    """All data of the chart."""

    columns: tuple[RequestColumn, ...] = ()
    markers: tuple[ChartMarker, ...] = ()
    requests: int = 0
    filling: ContextShares = ContextShares()

    @property
    def peak(self) -> int:
        """Tokens of the longest prompt."""
        return max((column.total for column in self.columns), default=0)

    @property
    def spent(self) -> int:
        """Micro-dollars in all."""
        return self.columns[-1].spent if self.columns else 0


def bill_requests(index: SessionIndex, own_prices: Sequence[Price] = ()) -> list[ChartRequest]:
    """Return every request of a file once, in file order, without those that are only reported by agents' progress."""
    prices = PriceLookup(own_prices)
    bills = []
    for _, response in index.responses.responses():
        if response.from_progress:
            continue
        listed = prices.price(response)
        offset = index.first_lines.get(response.id, response.offset)
        bill = bill_responses((response,), listed)
        is_long = listed is not None and listed.long is not None and response.prompt > LONG_PROMPT_TOKENS
        estimates = (bill.estimated_output_tokens, bill.estimated_cost_micros)
        bills.append(ChartRequest(offset, response, bill.cost_micros, listed is not None, *estimates, is_long))
    return sorted(bills, key=lambda bill: bill.offset)


def build_chart(index: SessionIndex, bills: Sequence[ChartRequest]) -> ContextChart:
    """Return the chart of a session."""
    own = [bill for bill in bills if not (index.is_main and bill.response.sidechain)]
    compacted = [compaction.offset for turn in index.turns for compaction in turn.compacted]
    limits = _context_limits(index, own)
    missed = _explain_misses(own, compacted)
    columns: list[RequestColumn] = []
    starts: list[int] = []
    spent, step = 0, max(1, -(-len(own) // MAX_COLUMNS))
    for at in range(0, len(own), step):
        among = own[at : at + step]
        spent += sum(bill.cost for bill in among)
        longest = max(among, key=lambda bill: bill.response.prompt)
        response = longest.response
        columns.append(
            RequestColumn(
                key=f"{longest.offset}.0",
                turn=index.turn_at(longest.offset),
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
                long=sum(bill.is_long for bill in among),
            )
        )
        starts.append(among[0].offset)
    markers = _find_markers(index, starts, compacted) if starts else []
    return ContextChart(tuple(columns), tuple(markers), len(own), estimate_context_shares(index, own))


def _context_limits(index: SessionIndex, own: Sequence[ChartRequest]) -> dict[str, int]:
    """Return the context windows of models: as Claude Code recorded them, else as `graph` knows them."""
    limits: dict[str, int] = {}
    for model in {bill.response.model or "" for bill in own}:
        longest = max(bill.response.prompt for bill in own if (bill.response.model or "") == model)
        limit = index.context_windows.get(model) or context_window(model)
        if limit is not None:
            # A prompt beyond the usual window shows that the session had the window of a million tokens.
            limits[model] = limit if longest <= limit else 1_000_000
    return limits


def _explain_misses(own: Sequence[ChartRequest], compacted: Sequence[int]) -> dict[int, str]:
    """Return why requests missed the cache, by their offsets (rule 3)."""
    reasons: dict[int, str] = {}
    for before, bill in pairwise(own):
        was_compacted = bisect_left(compacted, before.offset) != bisect_left(compacted, bill.offset)
        if not was_compacted and (lost := find_lost_cache(before.response, bill.response)):
            reasons[bill.offset] = lost.words
    return reasons


def _find_markers(index: SessionIndex, starts: Sequence[int], compacted: Sequence[int]) -> list[ChartMarker]:
    def column_at(offset: int) -> int:
        return min(bisect_left(starts, offset), len(starts) - 1)

    def mark(offset: int, kind: str, words: str) -> ChartMarker:
        return ChartMarker(column_at(offset), kind, f"{offset}.0", words)

    markers = [mark(turn.start, "prompt", turn.prompt[:120]) for turn in index.turns[1:]]
    markers += [mark(offset, "error", "API error") for offset in index.api_errors]
    markers += [mark(offset, "compaction", "compacted") for offset in compacted]
    for call in index.calls.values():
        if call.failed and call.use >= 0:
            markers.append(ChartMarker(column_at(call.use), "error", call.key, f"{call.name} failed"))
        if call.name in AGENT_TOOLS and call.use >= 0:
            until = column_at(call.result) if call.result >= 0 else len(starts)
            markers.append(ChartMarker(column_at(call.use), "agent", call.key, call.name, until))
    return sorted(markers, key=lambda marker: (marker.column, marker.kind))


def estimate_context_shares(index: SessionIndex, own: Sequence[ChartRequest]) -> ContextShares:
    """Estimate what fills the context now, by category and by file (rule 4)."""
    if not own:
        return ContextShares()
    held = ContextBytes()
    for number, turn in enumerate(index.turns):
        if not index.is_abandoned(number):
            held.add_all(turn.content)
    total = own[-1].response.prompt
    first = index.turns[1] if len(index.turns) > 1 else index.turns[0]
    base = min(max(0, round(own[0].response.prompt - len(first.prompt) / BYTES_PER_TOKEN)), total)
    spread = total - base
    whole = sum(held.kinds.values())
    if not whole:
        return ContextShares(total, (ContextShare(REMAINDER, total),) if total else ())
    kinds = []
    shared = reached = 0
    # Each share is the difference of two rounded sums, so that the shares add up exactly.
    for name, size in sorted(held.kinds.items(), key=lambda pair: -pair[1]):
        reached += size
        upto = spread * reached // whole
        kinds.append(ContextShare(name, upto - shared, size))
        shared = upto
    if base:
        kinds.append(ContextShare(REMAINDER, base))
    largest = sorted(held.files.items(), key=lambda pair: -pair[1])[:_MAX_FILES]
    files = tuple(ContextShare(path, round(spread * size / whole), size) for path, size in largest)
    return ContextShares(total, tuple(sorted(kinds, key=lambda share: -share.tokens)), files)
