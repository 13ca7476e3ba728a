"""Usage reports: responses that were added up go in, rows and totals come out. Nothing is read here.

Rules
  1. Every sum is in exactly one row, so rows add up to the totals whatever the period.
  2. Money is whole micro-dollars and is not rounded here. An estimate stands beside what was counted, never in it.
  3. A day, a week or a month is that of the zone; a week is named by its Monday. A zone of None is the machine's own.
  4. What is not known is None, and comes last in a report by time.
  5. Nothing heavy is imported at the top: a warm report takes little longer than Python itself to start.

[merged: reports.py] Usage reports as people ask for them: a period, times in words and a ledger in, a report out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from unspool.display.time_words import moment
from unspool.errors import Usage
from unspool.store.usage.ledger import DAYS_FROM, DAYS_TO, Wanted

if TYPE_CHECKING:
    from unspool.prices.responses import Response
    from unspool.store.usage.ledger import Explained, Ledger, Line, Sum

Key: TypeAlias = tuple[str | None, ...]

MAIN = "main"
"""What the row of the main chain is called in a report by agent."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)


class Period(NamedTuple):
    """A way to put responses into rows."""

    labels: tuple[str, ...]
    """What a row has before its numbers; the first is what it is known by."""
    keys: frozenset[str] = frozenset()
    """What must be told apart (`Wanted.keys`)."""
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
            ),
            by_time=True,
            exact=True,
        ),
    }
)
"""By the names they have on the command line. `blocks` are made in `blocks.py`."""


class Figures(NamedTuple):
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


class Row(NamedTuple):
    """What is known of a row, and its numbers."""

    labels: dict[str, Any]
    figures: Figures

    def data(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return self.labels | self.figures._asdict()


class Report(NamedTuple):
    """A table of usage."""

    period: str
    rows: list[Row]
    totals: Figures
    unpriced: tuple[str, ...] = ()
    """The models without a price that were used."""

    def data(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {"rows": [row.data() for row in self.rows], "totals": self.totals._asdict()}


def report(period: str, sums: Sequence[Sum], zone: tzinfo | None, order: str | None = None) -> Report:
    """Return responses by `period`, any but blocks; `order` is `asc` or `desc`, by time or else by cost."""
    groups: dict[Key, list[Sum]] = {}
    if period in _CALENDAR:
        calendar = _Calendar(zone, _CALENDAR[period])
        for one in sorted(sums, key=lambda one: one.time or 0):  # so that a day is looked up once
            groups.setdefault((calendar.name(one.time),), []).append(one)
    else:
        key_of = _KEYS[period]
        for one in sums:
            groups.setdefault(key_of(one), []).append(one)
    label = _session if period == "session" else _plain
    rows = [Row(label(PERIODS[period].labels, key, group, zone), added(group)) for key, group in groups.items()]
    return Report(period, in_order(rows, period, order), together(rows), unpriced(sums))


def added(sums: Iterable[Sum]) -> Figures:
    """Return sums added up."""
    sums = list(sums)
    number = {name: sum(map(attrgetter(name), sums)) for name in _SUMMED}
    writes = number["cache_write_5m_tokens"] + number["cache_write_1h_tokens"]
    return Figures(
        **number,
        cache_write_tokens=writes,
        models=tuple(sorted({one.model for one in sums if one.model})),
        total_tokens=number["input_tokens"] + number["output_tokens"] + number["cache_read_tokens"] + writes,
    )


def together(rows: Iterable[Row]) -> Figures:
    """Return what rows come to, all in all."""
    figures = [row.figures for row in rows]
    number = {name: sum(map(attrgetter(name), figures)) for name in Figures._fields if name != "models"}
    return Figures(**number, models=tuple(sorted({model for one in figures for model in one.models})))


def unpriced(sums: Iterable[Sum]) -> tuple[str, ...]:
    """Return the models that have no price."""
    return tuple(sorted({one.model or "" for one in sums if one.unpriced_tokens}))


def in_order(rows: Iterable[Row], period: str, order: str | None) -> list[Row]:
    """Return rows by time, the oldest first, or by cost, the largest first; `asc` and `desc` say otherwise."""
    first, by_time = PERIODS[period].labels[0], PERIODS[period].by_time
    rows = sorted(rows, key=lambda row: tuple(str(label or "") for label in row.labels.values()))
    if not by_time:
        return sorted(rows, key=lambda row: row.figures.cost_micros * (1 if order == "asc" else -1))
    known = [row for row in rows if row.labels[first] is not None]
    return [*(reversed(known) if order == "desc" else known), *(row for row in rows if row.labels[first] is None)]


def local(time: int | None, zone: tzinfo | None) -> datetime | None:
    """Return milliseconds since 1970 as a time in the zone; nothing if there is none, or the calendar has no such day.

    >>> str(local(0, UTC))
    '1970-01-01 00:00:00+00:00'
    """
    try:
        return None if time is None else (_EPOCH + timedelta(milliseconds=time)).astimezone(zone)
    except (ValueError, OverflowError):
        return None


def written(time: int | None, zone: tzinfo | None, timespec: str = "milliseconds") -> str | None:
    """Return a time as ISO 8601 with its offset."""
    at = local(time, zone)
    return at.isoformat(timespec=timespec) if at else None


def zone_of(text: str) -> tzinfo | None:
    """Return the zone that a person means: `Europe/Berlin`, `UTC`, `+05:30`; nothing for `local`, the machine's own.

    >>> zone_of("+05:30")
    datetime.timezone(datetime.timedelta(seconds=19800))
    """
    if text.lower() == "local":
        return None
    if text.upper() in {"UTC", "Z"}:
        return UTC
    match = _OFFSET.fullmatch(text)
    hours, minutes = (int(match[2]), int(match[3] or 0)) if match else (0, 0)
    if match and hours <= 14 and minutes in {0, 15, 30, 45}:
        offset = timedelta(hours=hours, minutes=minutes)
        return timezone(-offset if match[1] == "-" else offset)
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        hint = "a name as Europe/Berlin, `UTC`, an offset as +05:30, or `local`"
        raise Usage(f"no such time zone: `{text}`", hint=hint) from None


def days(zone: tzinfo | None) -> tuple[tuple[int, int], ...]:
    """Return until when a zone is how far ahead of UTC, in milliseconds: where its days begin.

    >>> days(UTC)
    ((2208988800000, 0),)
    """
    moments = [datetime(year, month, 1, tzinfo=UTC) for year in range(DAYS_FROM, DAYS_TO) for month in range(1, 13)]
    moments.append(datetime(DAYS_TO, 1, 1, tzinfo=UTC))
    found: list[tuple[int, int]] = []
    for earlier, later in pairwise(moments):
        before, after = _ahead(earlier, zone), _ahead(later, zone)
        while before != after:  # the clocks are set at least once in that month
            low, high = earlier, later
            while high - low > _STEP:
                middle = low + (high - low) // 2 // _STEP * _STEP
                low, high = (middle, high) if _ahead(middle, zone) == before else (low, middle)
            found.append(((high - _EPOCH) // _MILLISECOND, before))
            earlier, before = high, _ahead(high, zone)
    return (*found, ((moments[-1] - _EPOCH) // _MILLISECOND, _ahead(moments[-1], zone)))


def _ahead(moment: datetime, zone: tzinfo | None) -> int:
    return (moment.astimezone(zone).utcoffset() or timedelta(0)) // _MILLISECOND


_STEP, _MILLISECOND = timedelta(minutes=15), timedelta(milliseconds=1)


def explained(lines: Explained) -> dict[str, list[dict[str, Any]]]:
    """Return which lines were counted, merged and dropped, and why, as JSON has it."""
    places = {line.id: {"file": line.file, "offset": line.offset} for line in lines.counted}
    return {
        "counted": [_counted(line) for line in lines.counted],
        "merged": [
            {
                "file": line.file,
                "offset": line.offset,
                "id": line.id,
                "counted": places.get(line.id),
                "why": line.why,
            }
            for line in lines.merged
        ],
        "dropped": [{"file": line.file, "offset": line.offset, "why": line.why} for line in lines.dropped],
    }


_SUMMED = (
    "input_tokens",
    "output_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_read_tokens",
    "responses",
    "estimated_responses",
    "web_searches",
    "cost_micros",
    "unpriced_tokens",
    "estimated_output_tokens",
    "estimated_cost_micros",
)


_CALENDAR: Mapping[str, Callable[[date], str]] = MappingProxyType(
    {
        "daily": date.isoformat,
        # The first day of the calendar was a Monday: no week begins before it.
        "weekly": lambda day: (day - timedelta(days=day.weekday())).isoformat(),
        "monthly": lambda day: day.isoformat()[:7],
    }
)
_KEYS: Mapping[str, Callable[[Sum], Key]] = MappingProxyType(
    {
        "session": lambda one: (one.session or None,),
        "model": lambda one: (one.model or None,),
        "project": lambda one: (one.project or None,),
        "branch": lambda one: (one.branch or None,),
        "agent": lambda one: (one.agent, one.session or None) if one.agent else (MAIN, None),
    }
)


class _Calendar:
    """Gives times the name of their day, week or month, and remembers the day it was asked for last."""

    def __init__(self, zone: tzinfo | None, named: Callable[[date], str]) -> None:
        self._zone, self._named = zone, named
        self._begin = self._end = 0
        self._name = ""

    def name(self, time: int | None) -> str | None:
        if time is not None and self._begin <= time < self._end:
            return self._name
        at = local(time, self._zone)
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


def _plain(labels: Sequence[str], key: Key, _: Sequence[Sum], __: tzinfo | None) -> dict[str, Any]:
    return dict(zip(labels, key, strict=True))


def _session(labels: Sequence[str], key: Key, sums: Sequence[Sum], zone: tzinfo | None) -> dict[str, Any]:
    """Of a session that worked in several projects, the one it began in."""
    timed = [one.time for one in sums if one.time is not None]
    first, last = (min(timed), max(timed)) if timed else (None, None)
    begun = sorted((one.time is None, one.time or 0, one.project) for one in sums if one.project)
    project = begun[0][2] if begun else None
    return dict(zip(labels, (*key, project, written(first, zone), written(last, zone)), strict=True))


def _counted(line: Line) -> dict[str, Any]:
    place = {"file": line.file, "offset": line.offset, "id": line.id}
    numbers = _numbers(line.response) if line.response else {}
    return {**place, **numbers, "cost_micros": line.cost_micros, "why": line.why}


def _numbers(response: Response) -> dict[str, Any]:
    return {
        "model": response.model,
        "session": response.session_id,
        "agent": response.agent_id,
        "timestamp": response.timestamp,
        "input_tokens": response.input,
        "output_tokens": response.output,
        "cache_write_tokens": response.cache_write_5m + response.cache_write_1h,
        "cache_write_5m_tokens": response.cache_write_5m,
        "cache_write_1h_tokens": response.cache_write_1h,
        "cache_read_tokens": response.cache_read,
        "web_searches": response.web_searches,
        "estimated": not response.final,
    }


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
    from unspool.store.usage import session_blocks as blocks

    every = ledger.sums(Wanted(exact=True))
    some = ledger.sums(Wanted(exact=True, project=asked.project)) if asked.project is not None else every
    view = blocks.View(_milliseconds(asked.now) or 0, asked.zone, asked.since, asked.until, asked.order)
    return blocks.report(every, some, ledger.limits(), view)


def _milliseconds(time: datetime | None, after: int = 0) -> int | None:
    return None if time is None else (time - _EPOCH) // timedelta(milliseconds=1) + after
