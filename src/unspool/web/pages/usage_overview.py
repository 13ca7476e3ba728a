"""The overview above the usage table: cards, heat maps of days and hours, and what was used most.

Rules
  1. All numbers are sums of the same ledger as the table, of the same time and project; only the calendar of days
     covers a year, so that a day can be chosen in it.
  2. Tools and files are those of the sessions that were active in the range: a session is not divided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

from unspool.display import units
from unspool.format import local_time, milliseconds_of
from unspool.page.html import charts, heat_maps
from unspool.store.catalog import CatalogCache, SessionFilters
from unspool.store.usage import Ledger, UsageFigures, UsageQuery, UsageRequest, UsageSum, total_of_sums
from unspool.web.serving.responses import Json, link, session_link
from unspool.web.serving.site import Site

_CALENDAR_DAYS: Final = 7 * 53
_MOST: Final = 6
"""Entries of each list of what was used most."""


class TopEntry(NamedTuple):
    """Something that was used much."""

    name: str
    value: int


class UsageOverview(NamedTuple):
    """What the overview shows."""

    first_day: str | None
    """Of the range; the first day with use if the range has no beginning."""
    last_day: str | None
    days: int
    """How many days the range has until today."""
    totals: UsageFigures
    per_day: int
    peak_day: str | None
    peak: int
    cache_share_percent: int | None
    """How much of the input was read from the cache."""
    calendar: dict[str, int]
    """By day, of a year."""
    hours: dict[str, int]
    """By weekday and hour: `0 13` is Monday at one."""
    projects: list[TopEntry]
    sessions: list[TopEntry]
    tools: list[TopEntry]
    """By the number of calls."""
    files: list[TopEntry]
    """By the number of sessions that changed them."""

    def data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        lists = ("projects", "sessions", "tools", "files")
        named = {name: [entry._asdict() for entry in getattr(self, name)] for name in lists}
        return {**self._asdict(), "totals": self.totals.data(), **named}


def build_overview(
    ledger: Ledger, catalog: CatalogCache, usage: UsageRequest, figure: str, site: Site
) -> UsageOverview:
    """Return the overview of a request; `figure` is what is compared, `cost_micros` or `total_tokens`."""
    own = UsageQuery(since=usage.since, until=usage.until, project=usage.project)
    quarters = ledger.sums(own)
    by_day = _by_day(quarters, figure, site)
    totals = total_of_sums(quarters)
    first, last = _range_days(usage, by_day, site)
    days = (last - first).days + 1 if first and last else 0
    peak_day = max(by_day, key=lambda day: (by_day[day], day), default=None)
    year = (last or site.now().date()) - timedelta(days=_CALENDAR_DAYS)
    calendar = ledger.sums(own._replace(since=_midnight(year, site), until=usage.until))
    entered = totals.input_tokens + totals.cache_write_tokens + totals.cache_read_tokens
    filters = SessionFilters(
        project=(usage.project,) if usage.project else (),
        since=local_time(usage.since, site.zone),
        until=local_time(usage.until, site.zone),
    )
    tools: Counter[str] = Counter()
    for row in catalog.select(filters, site.zone):
        tools.update(row.tools or {})
    keyed = ledger.sums(own._replace(keys=frozenset({"session", "project"}), days=()))
    return UsageOverview(
        first_day=first.isoformat() if first else None,
        last_day=last.isoformat() if last else None,
        days=days,
        totals=totals,
        per_day=sum(by_day.values()) // days if days else 0,
        peak_day=peak_day.isoformat() if peak_day else None,
        peak=by_day[peak_day] if peak_day else 0,
        cache_share_percent=totals.cache_read_tokens * 100 // entered if entered else None,
        calendar={day.isoformat(): value for day, value in sorted(_by_day(calendar, figure, site).items()) if value},
        hours=_by_hour(quarters, figure, site),
        projects=_top(keyed, "project", figure),
        sessions=_top(keyed, "session", figure),
        tools=[TopEntry(*item) for item in tools.most_common(_MOST)],
        files=[TopEntry(*item) for item in catalog.values("file", filters, site.zone)[:_MOST]],
    )


def _by_day(sums: Iterable[UsageSum], figure: str, site: Site) -> dict[date, int]:
    days: Counter[date] = Counter()
    for usage in sums:
        if (moment := local_time(usage.time, site.zone)) is not None:
            days[moment.date()] += _figure(usage, figure)
    return days


def _by_hour(sums: Iterable[UsageSum], figure: str, site: Site) -> dict[str, int]:
    hours: Counter[str] = Counter()
    for usage in sums:
        if (moment := local_time(usage.time, site.zone)) is not None:
            hours[f"{moment.weekday()} {moment.hour}"] += _figure(usage, figure)
    return dict(hours)


def _figure(usage: UsageSum, figure: str) -> int:
    bill = usage.bill
    if figure == "cost_micros":
        return bill.cost_micros
    writes = bill.cache_write_5m_tokens + bill.cache_write_1h_tokens
    return bill.input_tokens + bill.output_tokens + bill.cache_read_tokens + writes


def _top(sums: Iterable[UsageSum], key: str, figure: str) -> list[TopEntry]:
    values: Counter[str] = Counter()
    for usage in sums:
        if name := getattr(usage, key):
            values[name] += _figure(usage, figure)
    return [TopEntry(*item) for item in values.most_common(_MOST) if item[1]]


def _range_days(usage: UsageRequest, by_day: dict[date, int], site: Site) -> tuple[date | None, date | None]:
    """Return the first and the last day of the range; today is the last one of a range without an end."""
    today = site.now().date()
    begin, end = local_time(usage.since, site.zone), None
    if usage.until is not None:
        end = local_time(usage.until - 1, site.zone)
    first = begin.date() if begin else min(by_day, default=None)
    last = min(end.date(), today) if end else today
    return first, max(last, first) if first else last


def _midnight(day: date, site: Site) -> int:
    now = site.now()
    return milliseconds_of(now.replace(year=day.year, month=day.month, day=day.day, hour=0, minute=0, second=0))


def overview_view(
    overview: UsageOverview, metric: tuple[str, Callable[[int], str]], titles: dict[str, str], kept: Json
) -> Json:
    """Return how the overview looks: cards, maps and lists, all with links."""
    figure, format_value = metric
    others = {name: value for name, value in kept.items() if name in ("metric", "project")}
    same_range = {name: value for name, value in kept.items() if name in ("metric", "range", "since", "until")}
    times = {"since": overview.first_day, "until": overview.last_day}

    def day_link(day: date | str) -> str:
        return link("/usage", others, period="session", since=str(day), until=str(day))

    last = date.fromisoformat(overview.last_day) if overview.last_day else None
    values = {date.fromisoformat(day): value for day, value in overview.calendar.items()}
    first = min([last - timedelta(days=_CALENDAR_DAYS - 7), *values]) if last else None
    hours = {tuple(map(int, key.split())): value for key, value in overview.hours.items()}
    return {
        "cards": _cards(overview, figure, format_value, day_link),
        "calendar": heat_maps.render_calendar(
            values, first, last, lambda day, value: f"{day:%a} {day}: {format_value(value)}", day_link
        )
        if first and last
        else "",
        "hours": heat_maps.render_week_hours(
            {(key[0], key[1]): value for key, value in hours.items()},
            lambda day, hour, value: (
                f"{heat_maps.weekday_name(day)} {hour:02}:00 to {hour + 1:02}:00: {format_value(value)}"
            ),
        )
        if hours
        else "",
        "tops": [
            _top_view(
                "Projects", overview.projects, format_value, lambda name: link("/usage", same_range, project=name)
            ),
            _top_view("Sessions", overview.sessions, format_value, session_link, lambda id: titles.get(id) or id),
            _top_view(
                "Tools", overview.tools, _amount("call"), lambda name: link("/sessions", {"tool": name, **times})
            ),
            _top_view(
                "Changed files",
                overview.files,
                _amount("session"),
                lambda name: link("/sessions", {"file": name, **times}),
                _short_path,
            ),
        ],
    }


def _cards(
    overview: UsageOverview, figure: str, format_value: Callable[[int], str], day_link: Callable[[str], str]
) -> list[Json]:
    totals = overview.totals
    cards = [
        {"label": "Total", "value": format_value(getattr(totals, figure)), "note": f"{totals.responses:,} responses"},
        {
            "label": "Per day",
            "value": format_value(overview.per_day),
            "note": f"of {units.amount(overview.days, 'day')}",
        },
    ]
    if overview.peak_day:
        peak = {"label": "Peak", "value": format_value(overview.peak), "note": overview.peak_day}
        cards.append(peak | {"href": day_link(overview.peak_day)})
    if overview.cache_share_percent is not None:
        note = f"{units.tokens(totals.cache_read_tokens)} tokens of input"
        cards.append({"label": "From cache", "value": f"{overview.cache_share_percent}%", "note": note})
    if totals.estimated_responses:
        value = (
            units.dollars(totals.estimated_cost_micros)
            if figure == "cost_micros"
            else units.tokens(totals.total_tokens - totals.output_tokens + totals.estimated_output_tokens)
        )
        note = f"with all output: {units.amount(totals.estimated_responses, 'response')} has only a partial count"
        if totals.estimated_responses != 1:
            note = note.replace(" has ", " have ")
        cards.append({"label": "Estimate", "value": value, "note": note})
    return [{"href": None, **card} for card in cards]


def _amount(noun: str) -> Callable[[int], str]:
    return lambda count: units.amount(count, noun)


def _short_path(path: str) -> str:
    """Return the end of a path, by which people know a file.

    >>> _short_path("/home/me/shop/src/cart.py")
    'src/cart.py'
    """
    return "/".join(path.rsplit("/", 2)[-2:]).lstrip("/")


def _top_view(
    words: str,
    entries: list[TopEntry],
    format_value: Callable[[int], str],
    href: Callable[[str], str],
    name_of: Callable[[str], str] = str,
) -> Json:
    most = max((entry.value for entry in entries), default=0)
    return {
        "words": words,
        "entries": [
            {
                "name": name_of(entry.name),
                "title": entry.name,
                "href": href(entry.name),
                "value": format_value(entry.value),
                "bar": charts.render_bar(entry.value, most, 60),
            }
            for entry in entries
        ],
    }
