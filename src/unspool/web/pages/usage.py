"""The usage page: what was billed by day, model, project, session and more, as an overview, a chart and a table.

Rules
  1. Rows and totals are those of `unspool usage --json` for the same time and project, made by the same code.
  2. A chart by time has a column for every day, week or month of the range, stacked by model, also for those without
     use; other reports have bars in their rows.
  3. The range is the last 30 days unless the address says otherwise: `range`, or `since` and `until`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, timedelta
from typing import Final, NamedTuple

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from unspool.display import units
from unspool.errors import UsageError
from unspool.format import format_time, milliseconds_of, parse_local_time
from unspool.page.html import StackedChart, charts
from unspool.prices import choose_limit
from unspool.statusline import KnownHome, StoreFigures
from unspool.store import StoreAccess
from unspool.store.sync import read_homes
from unspool.store.usage import PERIODS, UsageReport, UsageRequest, UsageRow, UsageSum, build_report, total_of_rows
from unspool.store.usage import report as reports
from unspool.web.pages import usage_overview
from unspool.web.serving.responses import Json, check_choice, link, page_routes, respond, session_link
from unspool.web.serving.services import services_of
from unspool.web.serving.site import Site

_PERIODS: Final = {
    "daily": "Day",
    "weekly": "Week",
    "monthly": "Month",
    **{name: name.title() for name in ("model", "project", "branch", "agent", "session")},
    "blocks": "5-hour window",
}
METRICS: Final[dict[str, tuple[str, Callable[[int], str]]]] = {
    "cost": ("cost_micros", units.dollars),
    "tokens": ("total_tokens", units.tokens),
}
"""What is charted: the figure, and how it is written."""
_RANGES: Final = {"7d": "7 days", "30d": "30 days", "month": "This month", "last-month": "Last month", "all": "All"}
_DEFAULT_RANGE: Final = "30d"
_MAX_ROWS: Final = 200
"""Of the table; the rest is added up in one row."""
_MAX_COLUMNS: Final = 1100
"""Of a chart with a column for every day; a longer one has columns only for days with use, and the page says so."""
_SORTS: Final = {
    "cost": ("Cost", "cost_micros"), "input": ("Input", "input_tokens"), "output": ("Output", "output_tokens"),
    "cache_write": ("Cache write", "cache_write_tokens"), "cache_read": ("Cache read", "cache_read_tokens"),
    "responses": ("Responses", "responses"),
}  # fmt: skip
"""Columns of numbers: the heading and the figure."""
_NARROW: Final = ("cost", "output")
"""Columns that a phone shows too."""


class UsageRange(NamedTuple):
    """The days that a page is about."""

    name: str
    """A name of `_RANGES`, or `custom`."""
    since: str | None
    """As it is asked of a report; a date for ranges with a name."""
    until: str | None


def show_usage(request: Request) -> Response:
    """Show what was billed."""
    services, query = services_of(request), request.query_params
    site = services.site
    chosen = parse_range(query, site)
    usage = parse_request(query, site)
    metric = check_choice(query.get("metric") or "cost", METRICS, "number")
    sort = check_choice(query["sort"], ("label", *_SORTS), "column") if query.get("sort") else None
    is_overview = usage.period in ("daily", "weekly", "monthly")
    with site.open() as access:
        report = reports.report_usage(access.ledger, usage._replace(limits=access.preferences.limits))
        sums = access.ledger.sums(usage.query) if is_overview else []
        window = _active_window(access, site)
        titles = _read_titles(access) if is_overview or usage.period in ("session", "agent") else {}
        overview = None
        if is_overview:
            overview = usage_overview.build_overview(access.ledger, services.catalog, usage, METRICS[metric][0], site)
    chart = _build_chart(usage, sums, metric, overview) if is_overview else None
    data = {
        "period": usage.period,
        "metric": metric,
        "range": chosen.name,
        "since": chosen.since,
        "until": chosen.until,
        **report.data(),
        "unpriced": report.unpriced,
        "chart": chart.data() if chart else None,
        "active_window": window,
        "overview": overview.data() if overview else None,
    }
    kept = {name: value for name, value in query.items() if value}
    view = _page_view(report, chart, metric, kept)
    view |= _table_view(report, metric, sort, kept, titles)
    view |= {
        "window": _describe_window(window, site),
        "window_percent": min(window["limit_used_percent"] or 0, 100) if window and window["limit_amount"] else None,
        "ranges": [_range_view(name, chosen, kept) for name in _RANGES],
        "range_words": _describe_range(chosen),
        "has_gaps": bool(chart and overview and usage.period == "daily" and overview.days > _MAX_COLUMNS),
        "overview": usage_overview.overview_view(overview, METRICS[metric], titles, kept) if overview else None,
    }
    return respond(request, "usage.html", data, view=view)


def parse_range(query: QueryParams, site: Site) -> UsageRange:
    """Return the range that an address asks for."""
    since, until, today = query.get("since") or None, query.get("until") or None, site.now().date()
    if since or until:
        return UsageRange("custom", since, until)
    name = check_choice(query.get("range") or _DEFAULT_RANGE, _RANGES, "range")
    first = today.replace(day=1)
    match name:
        case "all":
            return UsageRange(name, None, None)
        case "month":
            return UsageRange(name, first.isoformat(), None)
        case "last-month":
            last = first - timedelta(days=1)
            return UsageRange(name, last.replace(day=1).isoformat(), last.isoformat())
        case _:
            # Today is one of the days.
            return UsageRange(name, (today - timedelta(days=int(name.rstrip("d")) - 1)).isoformat(), None)


def parse_request(query: QueryParams, site: Site) -> UsageRequest:
    """Return the request that an address makes."""
    values = {name: value for name, value in query.items() if value}
    period = check_choice(values.get("period", "daily"), _PERIODS, "period")
    order = values.get("order")
    if order not in (None, "asc", "desc"):
        raise UsageError(f"unknown order `{order}`", hint="use `asc` or `desc`")
    chosen = parse_range(query, site)
    usage = reports.parse_request(period, site.now(), site.zone, since=chosen.since, until=chosen.until)
    return usage._replace(project=values.get("project"), order=order)


def _range_view(name: str, chosen: UsageRange, kept: Json) -> Json:
    href = link("/usage", kept, range=None if name == _DEFAULT_RANGE else name, since=None, until=None)
    return {"words": _RANGES[name], "href": href, "on": name == chosen.name}


def _describe_range(chosen: UsageRange) -> str:
    if chosen.since is None and chosen.until is None:
        return "all time"
    if chosen.since == chosen.until:
        return str(chosen.since)
    return " ".join(f"{word} {time}" for word, time in (("from", chosen.since), ("to", chosen.until)) if time)


def _read_titles(access: StoreAccess) -> dict[str, str]:
    """Return the title of each session that has one."""
    if access.database is None:
        return {}
    query = "SELECT session_id, title FROM sessions WHERE title IS NOT NULL AND title <> '' ORDER BY source_id"
    return dict(access.database.execute(query).fetchall())


def _active_window(access: StoreAccess, site: Site) -> Json | None:
    """Return the running 5-hour window with its limit; None if none runs, or the page shows several folders."""
    homes = read_homes(access.database) if access.database is not None and len(access.roots) == 1 else []
    home = next((home for home in homes if home.path == str(access.roots[0])), None)
    if access.database is None or home is None:
        return None
    use = StoreFigures(access.database, KnownHome(*home)).active_window(milliseconds_of(site.now()), ())
    if use is None:
        return None
    used = (use.amount.cost_micros, use.amount.tokens)
    limit = choose_limit(used, access.preferences.limits, (use.largest_cost_micros, use.largest_tokens))
    return {
        "started_at": format_time(use.window.start, UTC, "seconds"),
        "ended_at": format_time(use.window.end, UTC, "seconds"),
        "cost_micros": use.amount.cost_micros,
        "total_tokens": use.amount.tokens,
        "cost_per_hour_micros": use.cost_per_hour_micros,
        "projected_cost_micros": use.projected_cost_micros,
        "limit_unit": limit and limit.unit,
        "limit_amount": limit and limit.amount,
        "limit_is_learned": limit and limit.is_learned,
        "limit_used_percent": limit and limit.used_percent,
    }


def _describe_window(window: Json | None, site: Site) -> str:
    """Return the running 5-hour window in one line."""
    if window is None:
        return ""
    end = parse_local_time(window["ended_at"], site.zone)
    parts = [f"5-hour window until {end:%H:%M}: {units.dollars(window['cost_micros'])}"]
    parts.append(f"{units.tokens(window['total_tokens'])} tokens")
    if window["cost_per_hour_micros"] is not None:
        parts.append(f"{units.dollars(window['cost_per_hour_micros'])} an hour")
        parts.append(f"projected {units.dollars(window['projected_cost_micros'])}")
    if (amount := window["limit_amount"]) is not None:
        limit = units.dollars(amount) if window["limit_unit"] == "cost" else f"{units.tokens(amount)} tokens"
        source = "largest earlier window" if window["limit_is_learned"] else "limit in the settings"
        parts.append(f"{window['limit_used_percent']}% of {limit} used ({source})")
    return ", ".join(parts)


def _build_chart(
    usage: UsageRequest, sums: list[UsageSum], metric: str, overview: usage_overview.UsageOverview | None
) -> StackedChart:
    """Return usage over time, by model."""
    by_model: dict[str, list[UsageSum]] = {}
    for own in sums:
        by_model.setdefault(own.model or "no model", []).append(own)
    columns: dict[str, dict[str, int]] = {}
    for model, those in by_model.items():
        for row in build_report(usage.period, those, usage.zone).rows:
            label = row.labels[PERIODS[usage.period].labels[0]] or "no time"
            columns.setdefault(label, {})[model] = getattr(row.figures, METRICS[metric][0])
    labels = _fill_gaps(sorted(columns), usage.period, overview)
    return charts.stack_series([(label, columns.get(label, {})) for label in labels])


def _fill_gaps(labels: list[str], period: str, overview: usage_overview.UsageOverview | None) -> list[str]:
    """Return all days, weeks or months of the range, if they are not too many."""
    rest = [label for label in labels if label == "no time"]
    if overview is None or not overview.first_day or not overview.last_day or len(labels) == len(rest):
        return labels
    first, last = date.fromisoformat(overview.first_day), date.fromisoformat(overview.last_day)
    if (last - first).days > _MAX_COLUMNS * {"daily": 1, "weekly": 7, "monthly": 30}[period]:
        return labels
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    match period:
        case "daily":
            names = [day.isoformat() for day in days]
        case "weekly":
            names = [(day - timedelta(days=day.weekday())).isoformat() for day in days]
        case _:
            names = [day.isoformat()[:7] for day in days]
    # A response may have a time after today: nothing that was billed is left out.
    return [*sorted({*names, *(label for label in labels if label != "no time")}), *rest]


def _page_view(report: UsageReport, chart: StackedChart | None, metric: str, kept: Json) -> Json:
    """Return how the data looks, but for the table."""
    _, format_value = METRICS[metric]
    tabs = [(words, link("/usage", kept, period=name, sort=None), name) for name, words in _PERIODS.items()]
    return {
        "tabs": [(words, href, name == report.period) for words, href, name in tabs],
        "metrics": [(name, link("/usage", kept, metric=name), name == metric) for name in METRICS],
        "chart": charts.render_columns(chart, format_value, lambda label: period_link(report.period, label, kept))
        if chart
        else "",
        "series": list(enumerate(chart.series, 1)) if chart else [],
        "label": _PERIODS[report.period],
        "kept": {name: kept[name] for name in ("period", "metric", "order") if name in kept},
    }


def _table_view(report: UsageReport, metric: str, sort: str | None, kept: Json, titles: dict[str, str]) -> Json:
    """Return the rows of the table as the address sorts them, and links that sort them."""
    (column, _), period = METRICS[metric], PERIODS[report.period]
    rows = [row for row in report.rows if not row.labels.get("is_gap")]
    is_reversed = bool(kept.get("reverse"))
    if sort in _SORTS:
        figure = _SORTS[sort][1]
        rows = sorted(rows, key=lambda row: getattr(row.figures, figure), reverse=not is_reversed)
    elif sort == "label":
        rows = sorted(rows, key=lambda row: str(row.labels[period.labels[0]] or ""), reverse=is_reversed)
    elif period.by_time and not kept.get("order"):
        rows = list(reversed(rows))
    most = max((getattr(row.figures, column) for row in rows), default=0)
    shown, rest = rows[:_MAX_ROWS], rows[_MAX_ROWS:]
    heads = [("label", _PERIODS[report.period], ""), *((name, words, "number") for name, (words, _) in _SORTS.items())]
    return {
        "heads": [
            {
                "words": words,
                "look": look if name in ("label", *_NARROW) else f"{look} wide",
                "href": link("/usage", kept, sort=name, reverse=1 if name == sort and not is_reversed else None),
                "sorted": ("ascending" if is_reversed != (name == "label") else "descending") if name == sort else None,
            }
            for name, words, look in heads
        ],
        "rows": [
            {
                **_row_view(row, report.period, kept, titles),
                "bar": charts.render_bar(getattr(row.figures, column), most),
            }
            for row in shown
        ],
        "rest": total_of_rows(rest) if rest else None,
        "rest_count": len(rest),
        "totals": report.totals,
    }


def period_link(period: str, label: str | None, kept: Json) -> str | None:
    """Return the usage of a day, week or month: a day by session, a longer one by day."""
    if not label or label == "no time":
        return None
    others = {name: value for name, value in kept.items() if name in ("project", "metric")}
    if period == "daily":
        return link("/usage", others, period="session", since=label, until=label)
    if period == "weekly":
        last = (date.fromisoformat(label) + timedelta(days=6)).isoformat()
        return link("/usage", others, since=label, until=last)
    return link("/usage", others, since=label, until=label)


def _row_view(row: UsageRow, period: str, kept: Json, titles: dict[str, str]) -> Json:
    label = PERIODS[period].labels[0]
    name, labels = row.labels[label], row.labels
    times: Json = {key: kept[key] for key in ("since", "until") if key in kept}
    look: Json = {"name": name or "not known", "about": labels.get("project"), "href": None, "title": None}
    look["figures"] = row.figures
    match period:
        case "session" if name:
            look |= {"name": titles.get(name) or name, "title": name, "href": session_link(name)}
        case "agent" if labels.get("session"):
            session = labels["session"]
            look |= {"href": session_link(session, agent=name), "about": titles.get(session) or session}
        case "project" | "model" | "branch" if name:
            look |= {"href": link("/sessions", {period: name, **times})}
        case "daily" | "weekly" | "monthly":
            look |= {"href": period_link(period, name, kept)}
        case "blocks" if name:
            look |= _window_row_view(labels)
    return look


def _window_row_view(labels: Json) -> Json:
    """Return how a 5-hour window looks: when it was, what it will cost, how much of the limit is used."""
    start, end = labels["block_start"], labels["block_end"]
    words = []
    if labels["is_active"]:
        words.append("running")
        if labels["projected_cost_micros"] is not None:
            words.append(f"projected {units.dollars(labels['projected_cost_micros'])}")
    if labels["cost_per_hour_micros"] is not None:
        words.append(f"{units.dollars(labels['cost_per_hour_micros'])} an hour")
    if labels["limit_used_percent"] is not None:
        source = "largest earlier window" if labels["limit_is_learned"] else "limit in the settings"
        words.append(f"{labels['limit_used_percent']}% of the {source}")
    if labels["resets_at"]:
        words.append(f"limit reached, resets {labels['resets_at'][:16].replace('T', ' ')}")
    return {
        "name": f"{start[:16].replace('T', ' ')} to {end[11:16]}",
        "about": ", ".join(words),
        "href": link("/usage", period="session", since=start, until=end),
    }


routes = page_routes("/usage", show_usage)
