"""Splits the cost of requests by kind of token, conversation, model and price tier.

Rules
  1. The parts of a request add up to its cost to the micro-dollar, and the parts of many to the sum of their costs:
     each part is the difference of two sums that are rounded down, and the last one takes the rest.
  2. A request without a price has no parts. Its tokens are counted as unpriced; it is never counted as free.
  3. Requests are looked at one by one and only the most expensive are kept, so that a year of them takes little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappush, heappushpop
from typing import Final, NamedTuple

import msgspec

from unspool.prices import FACTOR_ONE, LONG_PROMPT_TOKENS, Price, Response, bill_responses, explain_cost

KINDS: Final = {
    "input": "fresh input",
    "cache_write_5m": "cache write, 5 minutes",
    "cache_write_1h": "cache write, 1 hour",
    "cache_read": "cache read",
    "output": "output",
    "web_searches": "web searches",
}
"""What a request is billed for: the field of a response, and its name for people."""
_ITEMS: Final = {
    "input": "input",
    "cache write, 5 minutes": "cache_write_5m",
    "cache write, 1 hour": "cache_write_1h",
    "cache read": "cache_read",
    "output": "output",
    "web search": "web_searches",
}
"""The field of each item that `explain_cost` names."""
_PICOS_PER_MICRO: Final = 1_000_000
UNPRICED: Final = "unpriced"
NO_MODEL: Final = "no model"


class SplitRequest(NamedTuple):
    """A request, where it stands, and its cost in parts."""

    file: str
    session: str
    project: str | None
    response: Response
    parts: dict[str, int]
    """Micro-dollars by kind; empty without a price."""
    cost: int
    priced: bool
    tier: str


class CostSum(msgspec.Struct):
    """Requests that have something in common, added up."""

    cost_micros: int = 0
    requests: int = 0
    count: int = 0
    """Tokens, or web searches."""
    unpriced_tokens: int = 0

    def add(self, cost: int, count: int, unpriced: int) -> None:
        """Add one request."""
        self.cost_micros += cost
        self.count += count
        self.unpriced_tokens += unpriced
        self.requests += 1


def split_request(
    file: str, session: str, project: str | None, response: Response, price: Price | None
) -> SplitRequest:
    """Return a request with its cost in parts."""
    explained = explain_cost(response, price)
    parts: dict[str, int] = {}
    reached = shared = 0
    for number, item in enumerate(explained.parts, 1):
        reached += item.amount
        upto = explained.cost if number == len(explained.parts) else reached // _PICOS_PER_MICRO
        parts[_ITEMS[item.what]] = upto - shared
        shared = upto
    return SplitRequest(
        file, session, project, response, parts, explained.cost, explained.priced, find_tier(response, price)
    )


def find_tier(response: Response, price: Price | None) -> str:
    """Return the name of the rates that a request is billed at."""
    if price is None:
        return UNPRICED
    names = []
    if price.long is not None and response.prompt > LONG_PROMPT_TOKENS:
        names.append(f"long context (more than {LONG_PROMPT_TOKENS // 1000}k tokens)")
    for name, is_used, factor in (
        ("fast", response.speed == "fast", price.fast),
        ("in the US", response.inference_geo == "us", price.us),
    ):
        if is_used and factor != FACTOR_ONE:
            names.append(f"{name} (× {factor // FACTOR_ONE}.{factor % FACTOR_ONE})")
    return " · ".join(names) or "standard"


class CostSplit:
    """Adds up requests by what they have in common, and keeps the most expensive."""

    def __init__(
        self, kept: int, order: str = "cost", is_listed: Callable[[SplitRequest], bool] = lambda _: True
    ) -> None:
        self.total = CostSum()
        self.listed_requests = 0
        """How many requests could be kept."""
        self.estimated_responses = 0
        self.estimated_micros = 0
        """The cost with the estimated output of responses that are not final."""
        self.kinds = {kind: CostSum() for kind in KINDS}
        self.threads = {"main": CostSum(), "agents": CostSum()}
        self.agents: dict[tuple[str, str], CostSum] = {}
        """By session and agent."""
        self.sessions: dict[str, CostSum] = {}
        self.models: dict[str, CostSum] = {}
        self.tiers: dict[str, CostSum] = {}
        self.folders: dict[str, CostSum] = {}
        """By the folder of the session's file: a session may have files in several."""
        self._kept, self._order, self._is_listed = kept, order, is_listed
        self._heap: list[tuple[int, int, int, SplitRequest]] = []

    def add(self, request: SplitRequest, price: Price | None) -> None:
        """Add a request."""
        response = request.response
        tokens = response.prompt + response.output
        unpriced = 0 if request.priced else tokens
        bill = bill_responses((response,), price)
        self.estimated_responses += bill.estimated_responses
        self.estimated_micros += bill.estimated_cost_micros
        self.total.add(request.cost, tokens, unpriced)
        for kind, own in self.kinds.items():
            if count := getattr(response, kind):
                own.add(request.parts.get(kind, 0), count, unpriced and (count if kind != "web_searches" else 0))
        agent = agent_of_file(request)
        is_agent = thread_of(request) == "agents"
        groups = [self.threads[thread_of(request)]]
        groups.append(self.sessions.setdefault(request.session, CostSum()))
        groups.append(self.models.setdefault(response.model or NO_MODEL, CostSum()))
        groups.append(self.tiers.setdefault(request.tier, CostSum()))
        groups.append(self.folders.setdefault(folder_of(request), CostSum()))
        if is_agent:
            name = agent or response.agent_id or ""
            groups.append(self.agents.setdefault((request.session, name), CostSum()))
        for group in groups:
            group.add(request.cost, tokens, unpriced)
        if self._is_listed(request):
            self.listed_requests += 1
            self._keep(request, tokens)

    def _keep(self, request: SplitRequest, tokens: int) -> None:
        value = request.cost if self._order == "cost" else request.parts.get(self._order, 0)
        # Of two that cost the same the one with more tokens, then the one that came first.
        entry = (value, tokens, -self.total.requests, request)
        if len(self._heap) < self._kept:
            heappush(self._heap, entry)
        elif self._heap:
            heappushpop(self._heap, entry)

    @property
    def expensive(self) -> list[SplitRequest]:
        """The requests that were kept, the most expensive first."""
        return [entry[-1] for entry in sorted(self._heap, key=lambda entry: entry[:3], reverse=True)]


def thread_of(request: SplitRequest) -> str:
    """Return which conversation a request belongs to: `main` or `agents`."""
    return "agents" if agent_of_file(request) is not None or request.response.sidechain else "main"


def folder_of(request: SplitRequest) -> str:
    """Return the folder with the file of the session that pays for a request."""
    inside = request.file.replace("\\", "/").partition("/subagents/")[0]
    return inside.rpartition("/")[0]


def agent_of_file(request: SplitRequest) -> str | None:
    """Return the agent whose file a request stands in; None for the file of a session."""
    name = request.file.replace("\\", "/").rpartition("/")[2].removesuffix(".jsonl")
    return name.removeprefix("agent-") if name.startswith("agent-") else None


def sort_sums(sums: Iterable[tuple[str, CostSum]]) -> Iterator[tuple[str, CostSum]]:
    """Yield sums with their names, the most expensive first; of equal ones the one with more tokens."""
    yield from sorted(sums, key=lambda pair: (-pair[1].cost_micros, -pair[1].count, pair[0]))
