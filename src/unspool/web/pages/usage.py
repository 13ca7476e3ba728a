"""The usage page: what was billed by day, model, project, branch, agent or session, as a chart and a table.

Rules
  1. Rows and totals are those of `unspool usage --json`, made by the same code.
  2. A chart by time has a column for every day, week or month, stacked by model; other reports have bars in their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, timedelta
from typing import Final

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
from unspool.web.serving.responses import Json, check_choice, link, page_routes, respond, session_link
from unspool.web.serving.services import services_of
from unspool.web.serving.site import Site

_PERIODS: Final = {
    "daily": "Day",
    "weekly": "Week",
    "monthly": "Month",
    **{name: name.title() for name in ("model", "project", "branch", "agent", "session")},
}
_METRICS: Final[dict[str, tuple[str, Callable[[int], str]]]] = {
    "cost": ("cost_micros", units.dollars),
    "tokens": ("total_tokens", units.tokens),
}
_MAX_ROWS: Final = 200
"""Of the table; the rest is added up in one row."""
_MAX_DAYS: Final = 400
"""Of a chart with a column for every day; a longer one has columns only for days with use."""


def show_usage(request: Request) -> Response:
    """Show what was billed."""
    site, query = services_of(request).site, request.query_params
    usage = parse_request(query, site)
    metric = check_choice(query.get("metric") or "cost", _METRICS, "number")
    with site.open() as access:
        sums = access.ledger.sums(usage.query)
        window = _active_window(access, site)
    report = build_report(usage.period, sums, usage.zone, usage.order)
    chart = _build_chart(usage, sums, metric) if PERIODS[usage.period].by_time else None
    data = {
        "period": usage.period,
        "metric": metric,
        **report.data(),
        "unpriced": report.unpriced,
        "chart": chart.data() if chart else None,
        "active_window": window,
    }
    view = {**_page_view(report, chart, metric, query), "window": _describe_window(window, site)}
    return respond(request, "usage.html", data, view=view)


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


def parse_request(query: QueryParams, site: Site) -> UsageRequest:
    """Return the request that an address makes."""
    values = {name: value for name, value in query.items() if value}
    period = check_choice(values.get("period", "daily"), _PERIODS, "period")
    order = values.get("order")
    if order not in (None, "asc", "desc"):
        raise UsageError(f"unknown order `{order}`", hint="use `asc` or `desc`")
    times = {name: values.get(name) for name in ("since", "until")}
    usage = reports.parse_request(period, site.now(), site.zone, **times)
    return usage._replace(project=values.get("project"), order=order)


def _build_chart(usage: UsageRequest, sums: list[UsageSum], metric: str) -> StackedChart:
    """Return usage over time, by model."""
    by_model: dict[str, list[UsageSum]] = {}
    for own in sums:
        by_model.setdefault(own.model or "no model", []).append(own)
    columns: dict[str, dict[str, int]] = {}
    for model, those in by_model.items():
        for row in build_report(usage.period, those, usage.zone).rows:
            label = row.labels[PERIODS[usage.period].labels[0]] or "no time"
            columns.setdefault(label, {})[model] = getattr(row.figures, _METRICS[metric][0])
    labels = _fill_days(sorted(columns)) if usage.period == "daily" else sorted(columns)
    return charts.stack_series([(label, columns.get(label, {})) for label in labels])


def _fill_days(labels: list[str]) -> list[str]:
    """Return days without gaps, if they are not too many."""
    days = [date.fromisoformat(label) for label in labels if label != "no time"]
    rest = [label for label in labels if label == "no time"]
    if not days or (days[-1] - days[0]).days > _MAX_DAYS:
        return labels
    return [(days[0] + timedelta(days=number)).isoformat() for number in range((days[-1] - days[0]).days + 1)] + rest


def _page_view(report: UsageReport, chart: StackedChart | None, metric: str, query: QueryParams) -> Json:
    """Return how the data looks."""
    (column, format_value), period = _METRICS[metric], PERIODS[report.period]
    kept = {name: value for name, value in query.items() if value}
    most = max((getattr(row.figures, column) for row in report.rows), default=0)
    rows = list(reversed(report.rows)) if period.by_time and not query.get("order") else report.rows
    shown, rest = rows[:_MAX_ROWS], rows[_MAX_ROWS:]
    bars = [charts.render_bar(getattr(row.figures, column), most) for row in shown]
    return {
        "tabs": [(words, link("/usage", kept, period=name), name == report.period) for name, words in _PERIODS.items()],
        "metrics": [(name, link("/usage", kept, metric=name), name == metric) for name in _METRICS],
        "chart": charts.render_columns(chart, format_value) if chart else "",
        "series": list(enumerate(chart.series, 1)) if chart else [],
        "label": _PERIODS[report.period],
        "rows": [{**_row_look(row, period.labels[0]), "bar": bar} for row, bar in zip(shown, bars, strict=True)],
        "rest": total_of_rows(rest) if rest else None,
        "rest_count": len(rest),
        "totals": report.totals,
        "kept": {name: kept[name] for name in ("period", "metric", "order") if name in kept},
    }


def _row_look(row: UsageRow, label: str) -> Json:
    name, labels = row.labels[label], row.labels
    href = None
    if label == "session" and name:
        href = session_link(name)
    elif label == "agent" and labels.get("session"):
        href = session_link(labels["session"], agent=name)
    elif label in ("project", "model", "branch") and name:
        href = link("/sessions", {label: name})
    return {"name": name or "not known", "about": labels.get("project"), "href": href, "figures": row.figures}


routes = page_routes("/usage", show_usage)
