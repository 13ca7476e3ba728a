"""The outline of a session page: makes the facts at the top and the list of turns from an index.

Rules
  1. Turns are numbered in file order from 1, whichever branch they are on; number 0 is what comes before the first.
  2. Costs are those of the session's own file. What its agents cost is shown apart (`agents.py`): their files are not
     read to open a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from unspool.format import elapsed_time, parse_local_time
from unspool.page.chart import ChartRequest
from unspool.page.index import IndexedCompaction, SessionIndex
from unspool.prices import UsageTotals

if TYPE_CHECKING:
    from unspool.page.view import PageView

_COPIED_FACTS = (
    "title", "cwd", "branch", "models", "versions", "started", "last", "wall", "active", "turns", "command_turns",
    "images", "compactions", "pull_requests",
)  # fmt: skip
"""Facts about a session that its head has under the same names."""


class OutlineTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn in the outline."""

    number: int
    prompt: str
    key: str
    time: str | None = None
    took: float | None = None
    """Seconds from the prompt to its last message."""
    queued: bool = False
    kind: str = ""
    """What it begins with: `human`, `queued`, `plan` or `command`; nothing for what comes before the first."""
    tools: tuple[tuple[str, int], ...] = ()
    errors: int = 0
    cost: int = 0
    tokens: int = 0
    added: int = 0
    removed: int = 0
    steps: int = 0
    compacted: tuple[IndexedCompaction, ...] = ()
    left: bool = False
    """On a branch that was left."""
    starts_branch: bool = False
    day: str | None = None
    """The day, if it is another than that of the turn before."""


class SessionHead(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a session at the top of its page."""

    id: str
    title: str
    agent: str | None = None
    project: str | None = None
    cwd: str | None = None
    branch: str | None = None
    models: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    started: str | None = None
    last: str | None = None
    wall: float = 0.0
    active: float = 0.0
    turns: int = 0
    """Prompts of a person."""
    command_turns: int = 0
    calls: int = 0
    errors: int = 0
    images: int = 0
    compactions: int = 0
    agents: int = 0
    added: int = 0
    removed: int = 0
    files: int = 0
    """How many files it changed."""
    pull_requests: tuple[str, ...] = ()
    usage: UsageTotals = UsageTotals()
    partial: int = 0
    """Responses with only a partial count of their output."""
    estimated_output: int = 0
    """Output tokens with an estimate in place of partial counts."""
    estimated_cost: int = 0
    long_requests: int = 0
    """Requests billed at the higher rate for prompts of more than 200,000 tokens, and what they cost."""
    long_cost: int = 0
    context: int | None = None
    peak: int | None = None
    """The longest prompt of any request, in tokens."""
    bad: int = 0
    unknown: int = 0
    bytes: int = 0
    path: str = ""


class SessionOutline(msgspec.Struct, frozen=True):
    """The facts and the turns of a session."""

    head: SessionHead
    turns: tuple[OutlineTurn, ...]


def build_outline(view: PageView) -> SessionOutline:
    """Return the outline of a session's or an agent's file."""
    index, bills = view.index, view.bills
    facts = index.facts
    own = [bill.response.prompt for bill in bills if not bill.response.sidechain or not index.is_main]
    head = SessionHead(
        id=view.id,
        agent=view.agent_id,
        project=view.session.source.project,
        calls=sum(call.use >= 0 for call in index.calls.values()),
        errors=sum(turn.errors for turn in index.turns),
        agents=0 if view.agent_id else len(view.session.agent_sources),
        added=sum(turn.added for turn in index.turns),
        removed=sum(turn.removed for turn in index.turns),
        files=len({call.path for call in index.calls.values() if call.path and not call.failed and call.result >= 0}),
        usage=_add_up(bills),
        partial=sum(not bill.response.final for bill in bills),
        estimated_output=sum(bill.estimated_output for bill in bills),
        estimated_cost=sum(bill.estimated_cost for bill in bills),
        long_requests=sum(bill.is_long for bill in bills),
        long_cost=sum(bill.cost for bill in bills if bill.is_long),
        context=facts.context_tokens,
        peak=max(own, default=None),
        bad=index.bad,
        unknown=index.unknown,
        bytes=index.end,
        path=str(view.source.path),
        **{name: getattr(facts, name) for name in _COPIED_FACTS},
    )
    return SessionOutline(head, _build_turns(index, bills))


def _build_turns(index: SessionIndex, bills: Sequence[ChartRequest]) -> tuple[OutlineTurn, ...]:
    costs, outputs = Counter[int](), Counter[int]()
    for bill in bills:
        number = index.turn_at(bill.offset)
        costs[number] += bill.cost
        outputs[number] += bill.response.output
    forks = index.branches.layout().forks
    turns: list[OutlineTurn] = []
    day = None
    for number, turn in enumerate(index.turns):
        if number == 0 and not index.has_opening:
            continue
        took = elapsed_time(turn.time, turn.last)
        began = parse_local_time(turn.time)
        today = f"{began:%Y-%m-%d}" if began else None
        turns.append(
            OutlineTurn(
                number=number,
                prompt=turn.prompt,
                key=f"{turn.start}.0",
                time=turn.time,
                took=took.total_seconds() if took is not None else None,
                queued=turn.queued,
                kind=turn.kind,
                tools=tuple(sorted(turn.tools.items(), key=lambda pair: -pair[1])),
                errors=turn.errors,
                cost=costs[number],
                tokens=outputs[number],
                added=turn.added,
                removed=turn.removed,
                steps=sum(chunk.steps for chunk in turn.chunks),
                compacted=tuple(turn.compacted),
                left=index.is_abandoned(number),
                starts_branch=turn.start in forks,
                day=today if day is not None and today is not None and today != day else None,
            )
        )
        day = today or day
    return tuple(turns)


def _add_up(bills: Sequence[ChartRequest]) -> UsageTotals:
    """Return tokens and cost of all requests."""
    names = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h", "web_searches")
    # Not `prices.cost.total`: it looks up each price again, and this runs whenever a followed session has grown.
    return UsageTotals(
        responses=len(bills),
        cost_micros=sum(bill.cost for bill in bills),
        unpriced=sum(not bill.priced for bill in bills),
        **{name: sum(getattr(bill.response, name) for bill in bills) for name in names},
    )
