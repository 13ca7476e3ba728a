"""Builds usage reports: a request and a ledger in, rows and totals out.

Rules
  1. Every sum is in exactly one row, so rows add up to the totals whatever the period.
  2. Money is whole micro-dollars and is not rounded here. An estimate stands beside what was counted, never in it.
  3. A day, a week or a month is that of the zone; a week is named by its Monday. A zone of None is the machine's own.
  4. What is not known is None, and comes last in a report by time.
  5. Nothing heavy is imported at the top: a report of a store that is up to date takes little longer than Python itself
     to start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from unspool.format import format_time, local_time, parse_time_range, zone_offsets
from unspool.prices import Bill, known_cost
from unspool.store.usage.ledger import UsageQuery, UsageSum

if TYPE_CHECKING:
    from unspool.store.usage.ledger import Ledger

Key: TypeAlias = tuple[str | None, ...]

MAIN = "main"
"""The label of the main thread in a report by agent."""


class Period(NamedTuple):
    """How the rows of a report are made."""

    labels: tuple[str, ...]
    """What a row has before its numbers; the first is what it is known by."""
    keys: frozenset[str] = frozenset()
    """What sums must be grouped by (`UsageQuery.keys`)."""
    by_time: bool = False
    exact: bool = False
    """Whether it needs the time of each response."""


PERIODS: Final[Mapping[str, Period]] = MappingProxyType(
    {
        "daily": Period(("date",), by_time=True),
        "weekly": Period(("week",), by_time=True),
        "monthly": Period(("month",), by_time=True),
        "session": Period(("session", "project", "first", "last"), frozenset({"session", "project"}), exact=True),
        "model": Period(("model",)),
        "project": Period(("project",), frozenset({"project"})),
        "branch": Period(("branch",), frozenset({"branch"})),
        "agent": Period(("agent", "session"), frozenset({"agent", "session"})),
        "blocks": Period(
            (
                "block_start",
                "block_end",
                "is_gap",
                "is_active",
                "last",
                "burn_rate",
                "cost_per_hour_micros",
                "projected_cost_micros",
                "resets_at",
                "limit_unit",
                "limit_amount",
                "limit_is_learned",
                "limit_used_percent",
            ),
            by_time=True,
            exact=True,
        ),
    }
)
"""By the names they have on the command line. The rows of `blocks` are made in `five_hour_windows.py`."""


class UsageFigures(NamedTuple):
    """Responses added up, under the names that people and programs see."""

    input_tokens: int
    output_tokens: int
    cache_write_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    cache_read_tokens: int
    responses: int
    estimated_responses: int
    """Those whose output may be a count from the beginning of the stream."""
    web_searches: int
    cost_micros: int
    unpriced_tokens: int
    models: tuple[str, ...]
    total_tokens: int
    estimated_output_tokens: int
    """The output as it probably was."""
    estimated_cost_micros: int
    """The cost with that output."""

    def data(self) -> dict[str, Any]:
        """Return the figures as JSON has them: costs are None if there is no price for any of what was used."""
        costs = {name: known_cost(getattr(self, name), self.unpriced_tokens) for name in _COSTS}
        return self._asdict() | costs


_COSTS = ("cost_micros", "estimated_cost_micros")
_NOTHING = Bill(*[0] * len(Bill._fields))


class UsageRow(NamedTuple):
    """A row of a report: its labels and its figures."""

    labels: dict[str, Any]
    figures: UsageFigures
    by_model: tuple[UsageRow, ...] = ()
    """The same by model, if that was asked for."""

    def data(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        row = self.labels | self.figures.data()
        return row | {"breakdown": [part.data() for part in self.by_model]} if self.by_model else row


class UsageReport(NamedTuple):
    """A table of usage."""

    period: str
    rows: list[UsageRow]
    totals: UsageFigures
    unpriced: tuple[str, ...] = ()
    """The models without a price that were used."""

    def data(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {"rows": [row.data() for row in self.rows], "totals": self.totals.data()}


class UsageRequest(NamedTuple):
    """What a report is about."""

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
    breakdown: bool = False
    """Whether each row comes with its figures by model."""
    limits: tuple[int | None, int | None] = (None, None)
    """Of a 5-hour window, as the user set them: micro-dollars and tokens."""

    @property
    def query(self) -> UsageQuery:
        """What to ask a ledger for; not for blocks."""
        period = PERIODS[self.period]
        days = zone_offsets(self.zone) if period.by_time else ()
        return UsageQuery(period.keys, self.since, self.until, self.project, period.exact, days)


def parse_request(
    period: str, now: datetime, zone: tzinfo | None, *, since: str | None = None, until: str | None = None
) -> UsageRequest:
    """Return a request from times as people write them: `7d` or a date."""
    begin, end = parse_time_range(since, until, now, zone)
    return UsageRequest(period, now, zone, since=begin, until=end)


def report_usage(ledger: Ledger, request: UsageRequest) -> UsageReport:
    """Return the report of a request."""
    if request.period != "blocks":
        sums = ledger.sums(request.query)
        return build_report(request.period, sums, request.zone, request.order, breakdown=request.breakdown)
    from unspool.store.usage.five_hour_windows import build_window_report

    every = ledger.sums(UsageQuery(exact=True))
    chosen = ledger.sums(UsageQuery(exact=True, project=request.project)) if request.project is not None else every
    return build_window_report(every, chosen, ledger.limits(), request)


def build_report(
    period: str, sums: Sequence[UsageSum], zone: tzinfo | None, order: str | None = None, *, breakdown: bool = False
) -> UsageReport:
    """Return a report by any period but blocks; `order` is `asc` or `desc`, by time or else by cost."""
    groups: dict[Key, list[UsageSum]] = {}
    if period in _CALENDAR:
        calendar = _Calendar(zone, _CALENDAR[period])
        for usage in sorted(sums, key=lambda usage: usage.time or 0):  # so that a day is looked up once
            groups.setdefault((calendar.name(usage.time),), []).append(usage)
    else:
        for usage in sums:
            groups.setdefault(_key(period, usage), []).append(usage)
    rows = [
        UsageRow(_labels(period, key, group, zone), total_of_sums(group), split_by_model(group) if breakdown else ())
        for key, group in groups.items()
    ]
    return UsageReport(period, sort_rows(rows, period, order), total_of_rows(rows), unpriced_models(sums))


def total_of_sums(sums: Iterable[UsageSum]) -> UsageFigures:
    """Return the figures of some sums."""
    sums = list(sums)
    bill = Bill(*map(sum, zip(_NOTHING, *(usage.bill for usage in sums), strict=True)))
    writes = bill.cache_write_5m_tokens + bill.cache_write_1h_tokens
    return UsageFigures(
        **bill._asdict(),
        cache_write_tokens=writes,
        models=tuple(sorted({usage.model for usage in sums if usage.model})),
        total_tokens=bill.input_tokens + bill.output_tokens + bill.cache_read_tokens + writes,
    )


def split_by_model(sums: Iterable[UsageSum]) -> tuple[UsageRow, ...]:
    """Return the figures of each model in some sums, the most expensive first."""
    models: dict[str | None, list[UsageSum]] = {}
    for usage in sums:
        models.setdefault(usage.model or None, []).append(usage)
    rows = [UsageRow({"model": model}, total_of_sums(group)) for model, group in models.items()]
    return tuple(sort_rows(rows, "model", None))


def keep_newest(report: UsageReport, count: int | None, *, all_totals: bool) -> UsageReport:
    """Return a report with its newest rows only; rows without a time by cost, the largest first.

    With `all_totals` the totals stay those of all rows.
    """
    if count is None:
        return report
    first, rows = PERIODS[report.period].labels[0], report.rows
    if report.period == "session":
        newest = sorted(rows, key=lambda row: row.labels["last"] or "", reverse=True)[:count]
    elif PERIODS[report.period].by_time:
        timed = [row for row in rows if row.labels[first] is not None and not row.labels.get("is_gap")]
        newest = sorted(timed, key=lambda row: str(row.labels[first]), reverse=True)[:count]
    else:
        newest = rows[:count]
    kept = set(map(id, newest))
    shown = [row for row in rows if id(row) in kept]
    return report._replace(rows=shown, totals=report.totals if all_totals else total_of_rows(shown))


def total_of_rows(rows: Iterable[UsageRow]) -> UsageFigures:
    """Return the figures of some rows together."""
    figures = [row.figures for row in rows]
    number = {name: sum(map(attrgetter(name), figures)) for name in UsageFigures._fields if name != "models"}
    return UsageFigures(**number, models=tuple(sorted({model for usage in figures for model in usage.models})))


def unpriced_models(sums: Iterable[UsageSum]) -> tuple[str, ...]:
    """Return the models in some sums that have no price."""
    return tuple(sorted({usage.model or "" for usage in sums if usage.bill.unpriced_tokens}))


def sort_rows(rows: Iterable[UsageRow], period: str, order: str | None) -> list[UsageRow]:
    """Return rows by time, the oldest first, or by cost, the largest first; `asc` and `desc` say otherwise."""
    first, by_time = PERIODS[period].labels[0], PERIODS[period].by_time
    rows = sorted(rows, key=lambda row: tuple(str(label or "") for label in row.labels.values()))
    if not by_time:
        return sorted(rows, key=lambda row: row.figures.cost_micros * (1 if order == "asc" else -1))
    known = [row for row in rows if row.labels[first] is not None]
    return [*(reversed(known) if order == "desc" else known), *(row for row in rows if row.labels[first] is None)]


_CALENDAR: Mapping[str, Callable[[date], str]] = MappingProxyType(
    {
        "daily": date.isoformat,
        # The first day of the calendar was a Monday: no week begins before it.
        "weekly": lambda day: (day - timedelta(days=day.weekday())).isoformat(),
        "monthly": lambda day: day.isoformat()[:7],
    }
)


class _Calendar:
    """Names the day, week or month of a time. It remembers the last day: most times come in order."""

    def __init__(self, zone: tzinfo | None, named: Callable[[date], str]) -> None:
        self._zone, self._named = zone, named
        self._begin = self._end = 0
        self._name = ""

    def name(self, time: int | None) -> str | None:
        if time is not None and self._begin <= time < self._end:
            return self._name
        at = local_time(time, self._zone)
        if time is None or at is None:
            return None
        day = at.date()
        name = self._named(day)
        try:
            begin, end = self._midnight(day), self._midnight(day + timedelta(days=1))
        except (ValueError, OverflowError):  # the first or the last day there is
            return name
        if begin <= time < end:
            self._begin, self._end, self._name = begin, end, name
        return name

    def _midnight(self, day: date) -> int:
        return int(datetime.combine(day, datetime.min.time(), self._zone).timestamp()) * 1000


def _key(period: str, usage: UsageSum) -> Key:
    if period == "agent":
        return (usage.agent, usage.session or None) if usage.agent else (MAIN, None)
    return (getattr(usage, period) or None,)


def _labels(period: str, key: Key, sums: Sequence[UsageSum], zone: tzinfo | None) -> dict[str, Any]:
    if period == "session":
        timed = [usage.time for usage in sums if usage.time is not None]
        first, last = (min(timed), max(timed)) if timed else (None, None)
        # Of a session that worked in several projects, the one it began in.
        projects = sorted((usage.time is None, usage.time or 0, usage.project) for usage in sums if usage.project)
        project = projects[0][2] if projects else None
        key = (*key, project, format_time(first, zone), format_time(last, zone))
    return dict(zip(PERIODS[period].labels, key, strict=True))
