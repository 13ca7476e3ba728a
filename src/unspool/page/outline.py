"""The head of a page and the outline beside it: an index in, facts and turns out.

Rules
  1. Turns are numbered in file order from 1, whichever branch they are on; number 0 is what comes before the first.
  2. Costs are those of the session's own file. What its agents cost is said apart (`crew.py`): their files are not read
     to open a page.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unspool.display.units import moment
from unspool.graph.tool_calls import between
from unspool.page.chart import Request
from unspool.page.index import Compacted, Index
from unspool.prices.cost import Usage


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn in the outline."""

    number: int
    prompt: str
    key: str
    time: str | None = None
    took: float | None = None
    """Seconds from the prompt to its last message."""
    queued: bool = False
    tools: tuple[tuple[str, int], ...] = ()
    errors: int = 0
    cost: int = 0
    tokens: int = 0
    added: int = 0
    removed: int = 0
    steps: int = 0
    compacted: tuple[Compacted, ...] = ()
    left: bool = False
    """On a branch that was left."""
    starts_branch: bool = False
    day: str | None = None
    """The day, if it is another than that of the turn before."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is."""

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
    usage: Usage = Usage()
    context: int | None = None
    peak: int | None = None
    """The longest prompt of any request, in tokens."""
    bad: int = 0
    unknown: int = 0
    bytes: int = 0
    path: str = ""


class Outline(msgspec.Struct, frozen=True):
    """A session at a glance."""

    head: Head
    turns: tuple[Turn, ...]


def outline(index: Index, bills: Sequence[Request], head: Head) -> Outline:
    """Return the outline of a file."""
    return Outline(_filled(index, bills, head), turns(index, bills))


def turns(index: Index, bills: Sequence[Request]) -> tuple[Turn, ...]:
    """Return every turn."""
    spent = _spent(index, bills)
    ways = index.branches.ways()
    found: list[Turn] = []
    left, day = False, None
    for number, part in enumerate(index.parts):
        if number == 0:
            if not index.has_opening:
                continue
        elif part.start in ways.known:
            left = part.start not in ways.active
        took = between(part.time, part.last)
        today = _day(part.time)
        cost, tokens = spent.get(number, (0, 0))
        found.append(
            Turn(
                number=number,
                prompt=part.prompt,
                key=f"{part.start}.0",
                time=part.time,
                took=took.total_seconds() if took is not None else None,
                queued=part.queued,
                tools=tuple(sorted(part.tools.items(), key=lambda pair: -pair[1])),
                errors=part.errors,
                cost=cost,
                tokens=tokens,
                added=part.added,
                removed=part.removed,
                steps=sum(chunk.steps for chunk in part.chunks),
                compacted=tuple(part.compacted),
                left=left and number > 0,
                starts_branch=part.start in ways.forks,
                day=today if day is not None and today is not None and today != day else None,
            )
        )
        day = today or day
    return tuple(found)


def _day(time: str | None) -> str | None:
    when = moment(time)
    return f"{when:%Y-%m-%d}" if when else None


def _spent(index: Index, bills: Sequence[Request]) -> dict[int, tuple[int, int]]:
    """Return cost and tokens of output by turn."""
    found: dict[int, tuple[int, int]] = {}
    for bill in bills:
        number = index.part_at(bill.offset)
        cost, tokens = found.get(number, (0, 0))
        found[number] = (cost + bill.cost, tokens + bill.response.output)
    return found


def _filled(index: Index, bills: Sequence[Request], head: Head) -> Head:
    facts = index.facts
    own = [bill.response for bill in bills if not bill.response.sidechain or not index.is_main]
    return msgspec.structs.replace(
        head,
        title=facts.title,
        cwd=facts.cwd,
        branch=facts.branch,
        models=facts.models,
        versions=facts.versions,
        started=facts.started,
        last=facts.last,
        wall=facts.wall,
        active=facts.active,
        turns=facts.turns,
        calls=sum(call.use >= 0 for call in index.calls.values()),
        errors=sum(part.errors for part in index.parts),
        images=facts.images,
        compactions=facts.compactions,
        added=sum(part.added for part in index.parts),
        removed=sum(part.removed for part in index.parts),
        files=len({call.path for call in index.calls.values() if call.path and not call.failed and call.result >= 0}),
        pull_requests=facts.pull_requests,
        usage=_usage(bills),
        context=facts.context_tokens,
        peak=max((response.prompt for response in own), default=None),
        bad=index.bad,
        unknown=index.unknown,
        bytes=index.end,
    )


def _usage(bills: Sequence[Request]) -> Usage:
    answers = [bill.response for bill in bills]
    return Usage(
        responses=len(answers),
        input=sum(one.input for one in answers),
        output=sum(one.output for one in answers),
        cache_read=sum(one.cache_read for one in answers),
        cache_write_5m=sum(one.cache_write_5m for one in answers),
        cache_write_1h=sum(one.cache_write_1h for one in answers),
        web_searches=sum(one.web_searches for one in answers),
        cost=sum(bill.cost for bill in bills),
        unpriced=sum(not bill.priced for bill in bills),
    )
