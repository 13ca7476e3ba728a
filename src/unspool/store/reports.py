"""Usage reports as people ask for them: a period, times in words and a ledger in, a report out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, NamedTuple

from unspool.store.billed import Wanted
from unspool.store.times import moment
from unspool.store.usage import PERIODS, Report, days, report

if TYPE_CHECKING:
    from unspool.store.billed import Ledger

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Asked(NamedTuple):
    """What a person asked for."""

    period: str
    now: datetime
    zone: tzinfo | None
    since: int | None = None
    """Milliseconds since 1970, included."""
    until: int | None = None
    """Not included."""
    project: str | None = None
    order: str | None = None
    """`asc` or `desc`: by time; where rows have none, by cost."""

    @property
    def wanted(self) -> Wanted:
        """What to ask a ledger for; not for blocks."""
        period = PERIODS[self.period]
        told = days(self.zone) if period.by_time else ()
        return Wanted(period.keys, self.since, self.until, self.project, period.exact, told)


def asked(
    period: str, now: datetime, zone: tzinfo | None, *, since: str | None = None, until: str | None = None
) -> Asked:
    """Return what is asked for, with times as a person says them."""
    begin, end = moment(since, now, zone), moment(until, now, zone, end=True)
    return Asked(period, now, zone, _milliseconds(begin), _milliseconds(end, after=1))


def made(ledger: Ledger, asked: Asked) -> Report:
    """Return a report."""
    if asked.period != "blocks":
        return report(asked.period, ledger.sums(asked.wanted), asked.zone, asked.order)
    from unspool.store import blocks

    every = ledger.sums(Wanted(exact=True))
    some = ledger.sums(Wanted(exact=True, project=asked.project)) if asked.project is not None else every
    view = blocks.View(_milliseconds(asked.now) or 0, asked.zone, asked.since, asked.until, asked.order)
    return blocks.report(every, some, ledger.limits(), view)


def _milliseconds(time: datetime | None, after: int = 0) -> int | None:
    return None if time is None else (time - _EPOCH) // timedelta(milliseconds=1) + after
