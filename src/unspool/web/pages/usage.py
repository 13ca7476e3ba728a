"""Usage: what was billed, by day, model, project, branch, agent or session. A report in, a chart and a table out.

Rules
  1. Rows and totals are those of `unspool usage --json`, made by the same code.
  2. A chart by time has a column for every day, week or month, stacked by model; other reports have bars in their rows.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any, Final

from markupsafe import Markup
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from unspool.display import units
from unspool.errors import Usage
from unspool.page.html import charts
from unspool.page.html.charts import Chart
from unspool.store.usage import report as reports
from unspool.store.usage.ledger import Sum
from unspool.store.usage.report import PERIODS, Asked, Figures, Report, Row, report, together
from unspool.web.responses import Json, link, page, place_of, session_link, twins
from unspool.web.site import Place

_PERIODS: Final = {
    "daily": "Day",
    "weekly": "Week",
    "monthly": "Month",
    "model": "Model",
    "project": "Project",
    "branch": "Branch",
    "agent": "Agent",
    "session": "Session",
}
_METRICS: Final[dict[str, tuple[str, Callable[[int], str]]]] = {
    "cost": ("cost_micros", units.dollars),
    "tokens": ("total_tokens", units.tokens),
}
_SHOWN: Final = 200
"""Rows of a table; what comes after them is added up in one."""
_DAYS: Final = 400
"""Days that a chart may have columns for; more, and those without use are left out."""


def usage(request: Request) -> Response:
    """Return what was used."""
    place, query = place_of(request), request.query_params
    asked = asked_of(query, place)
    metric = query.get("metric") or "cost"
    if metric not in _METRICS:
        raise Usage(f"no such number: `{metric}`", hint=f"one of {', '.join(_METRICS)}")
    with place.opened() as opened:
        sums = opened.ledger.sums(asked.wanted)
    found = report(asked.period, sums, asked.zone, asked.order)
    chart = chart_of(asked, sums, metric)
    data = {
        "period": asked.period,
        "metric": metric,
        **found.data(),
        "unpriced": found.unpriced,
        "chart": chart.data() if chart else None,
    }
    return page(request, "usage.html", data, view=_view(found, chart, metric, query))


def asked_of(query: QueryParams, place: Place) -> Asked:
    """Return what an address asks for."""
    given = {name: value for name, value in query.items() if value}
    period = given.get("period", "daily")
    if period not in _PERIODS:
        raise Usage(f"no such period: `{period}`", hint=f"one of {', '.join(_PERIODS)}")
    order = given.get("order")
    if order not in (None, "asc", "desc"):
        raise Usage(f"no such order: `{order}`", hint="`asc` or `desc`")
    times = {name: given.get(name) for name in ("since", "until")}
    asked = reports.asked(period, place.now(), place.zone, **times)
    return asked._replace(project=given.get("project"), order=order)


def chart_of(asked: Asked, sums: list[Sum], metric: str) -> Chart | None:
    """Return what was used over time, by model; nothing for a report that is not by time."""
    if not PERIODS[asked.period].by_time:
        return None
    column = _METRICS[metric][0]
    by_model: dict[str, list[Sum]] = {}
    for one in sums:
        by_model.setdefault(one.model or "no model", []).append(one)
    columns: dict[str, dict[str, int]] = {}
    for model, those in by_model.items():
        for row in report(asked.period, those, asked.zone).rows:
            label = row.labels[PERIODS[asked.period].labels[0]] or "no time"
            columns.setdefault(label, {})[model] = getattr(row.figures, column)
    labels = sorted(columns)
    if asked.period == "daily":
        labels = _every_day(labels)
    return charts.stacked([(label, columns.get(label, {})) for label in labels])


def _every_day(labels: list[str]) -> list[str]:
    """Return days without gaps, if they are not too many."""
    days = [date.fromisoformat(label) for label in labels if label != "no time"]
    rest = [label for label in labels if label == "no time"]
    if not days or (days[-1] - days[0]).days > _DAYS:
        return labels
    return [(days[0] + timedelta(days=number)).isoformat() for number in range((days[-1] - days[0]).days + 1)] + rest


def _view(found: Report, chart: Chart | None, metric: str, query: QueryParams) -> Json:
    column, worded = _METRICS[metric]
    kept = {name: value for name, value in query.items() if value}
    most = max((getattr(row.figures, column) for row in found.rows), default=0)
    label = PERIODS[found.period].labels[0]
    by_time = PERIODS[found.period].by_time
    ordered = list(reversed(found.rows)) if by_time and not query.get("order") else found.rows
    shown, rest = ordered[:_SHOWN], ordered[_SHOWN:]
    return {
        "tabs": [(words, link("/usage", kept, period=name), name == found.period) for name, words in _PERIODS.items()],
        "metrics": [(name, link("/usage", kept, metric=name), name == metric) for name in _METRICS],
        "chart": charts.columns(chart, worded) if chart else "",
        "series": list(enumerate(chart.series, 1)) if chart else [],
        "label": _PERIODS[found.period],
        "rows": [_row(row, label, charts.bar(getattr(row.figures, column), most)) for row in shown],
        "rest": _cells(together(rest)) if rest else None,
        "rest_count": len(rest),
        "totals": _cells(found.totals),
        "kept": {name: kept[name] for name in ("period", "metric", "order") if name in kept},
    }


def _row(row: Row, label: str, bar: Markup) -> Json:
    name, labels = row.labels[label], row.labels
    href = None
    if label == "session" and name:
        href = session_link(name)
    elif label == "agent" and labels.get("session"):
        href = session_link(labels["session"], agent=name)
    elif label in ("project", "model", "branch") and name:
        href = link("/sessions", {label: name})
    return {
        "name": name or "not known",
        "about": labels.get("project"),
        "href": href,
        "bar": bar,
        **_cells(row.figures),
    }


def _cells(one: Figures) -> dict[str, Any]:
    return {
        "input": f"{one.input_tokens:,}",
        "output": f"{one.output_tokens:,}",
        "write": f"{one.cache_write_tokens:,}",
        "read": f"{one.cache_read_tokens:,}",
        "responses": f"{one.responses:,}",
        "cost": units.dollars(one.cost_micros),
    }


routes = twins("/usage", usage)
