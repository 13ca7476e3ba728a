"""The chart drawn: its data in, SVG out. No script, no inline style: how it looks is the style sheet's business.

Rules
  1. The three parts of a context are one path each; a column that can be pointed at is one link over all of them. So a
     chart of 600 columns stays under 2,500 nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from unspool.export.figures import dollars, tokens
from unspool.export.page.chart import Chart, Column, Marker

WIDTH, HEIGHT, COST, LANES = 1000, 120, 28, 4
"""Units of the drawing: it is stretched to the page. Lanes of agents, eight units each."""
_LANE = 8


def drawn(chart: Chart, href: Callable[[str], str]) -> Markup:
    """Return a chart as SVG; `href` makes the address of a step."""
    if not chart.columns:
        return Markup("")
    top = _top(chart)
    lanes = _lanes(chart.markers)
    depth = (max(lanes.values(), default=-1) + 1) * _LANE
    height = HEIGHT + depth + COST + 6
    parts = [
        Markup(
            '<svg class="chart" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}" '
            'data-columns="{}">'
        ).format(WIDTH, height, _summary(chart), len(chart.columns)),
        *_stack(chart.columns, top),
        *_limits(chart.columns, top),
        *_marks(chart, href),
        *_agents(chart, lanes, href),
        _cost(chart, HEIGHT + depth + 3),
        *_columns(chart, height, href),
        Markup("</svg>"),
    ]
    return Markup("").join(parts)


def top_of(chart: Chart) -> int:
    """Return how many tokens the upper edge of a chart stands for."""
    return _top(chart)


def _top(chart: Chart) -> int:
    """Return the upper end: the limit, unless the context never came near it."""
    limit = max((column.limit or 0 for column in chart.columns), default=0)
    return max(1, limit if chart.peak * 3 > limit else 0, round(chart.peak * 1.1))


def _summary(chart: Chart) -> str:
    return f"context over {chart.requests:,} requests, {tokens(chart.peak)} tokens at most, {dollars(chart.spent)}"


def _x(column: float, count: int) -> str:
    return f"{column * WIDTH / count:.2f}".rstrip("0").rstrip(".")


def _stack(columns: Sequence[Column], top: int) -> list[Markup]:
    """Return the three parts of the context, each from zero up to where the next begins: the lowest is drawn last."""
    heights: list[tuple[str, list[int]]] = [
        ("fresh", [column.total for column in columns]),
        ("write", [column.read + column.write for column in columns]),
        ("read", [column.read for column in columns]),
    ]
    return [Markup('<path class="{}" d="{}"/>').format(name, _steps(values, top)) for name, values in heights]


def _steps(values: Sequence[int], top: int) -> str:
    parts, before = [f"M0 {HEIGHT}"], None
    for place, value in enumerate(values):
        y = round(HEIGHT - value * HEIGHT / top, 1)
        if y != before:
            parts.append(f"H{_x(place, len(values))}V{y:g}")
        before = y
    return "".join([*parts, f"H{WIDTH}V{HEIGHT}Z"])


def _limits(columns: Sequence[Column], top: int) -> list[Markup]:
    runs: list[tuple[int, int, int]] = []
    for place, column in enumerate(columns):
        if column.limit is None or column.limit > top:
            continue
        if runs and runs[-1][2] == column.limit and runs[-1][1] == place:
            runs[-1] = (runs[-1][0], place + 1, column.limit)
        else:
            runs.append((place, place + 1, column.limit))
    count = len(columns)
    return [
        Markup('<path class="limit" d="M{} {:g}H{}"/>').format(
            _x(first, count), round(HEIGHT - limit * HEIGHT / top, 1) + 0.5, _x(last, count)
        )
        for first, last, limit in runs
    ]


def _marks(chart: Chart, href: Callable[[str], str]) -> list[Markup]:
    count = len(chart.columns)
    prompts = dict.fromkeys(marker.column for marker in chart.markers if marker.kind == "prompt")
    ticks = "".join(f"M{_x(column, count)} {HEIGHT}v-5" for column in prompts)
    found = [Markup('<path class="prompt" d="{}"/>').format(ticks)] if ticks else []
    compactions = dict.fromkeys(marker.column for marker in chart.markers if marker.kind == "compaction")
    found += [Markup('<path class="compaction" d="M{} 0V{}"/>').format(_x(one, count), HEIGHT) for one in compactions]
    errors: dict[int, Marker] = {}
    for marker in chart.markers:
        if marker.kind == "error":
            errors.setdefault(marker.column, marker)
    width = max(1.5, min(4.0, WIDTH / count))
    found += [
        Markup(
            '<a class="error" href="{}" data-key="{}"><rect x="{}" y="0" width="{:g}" height="5"/><title>{}</title></a>'
        ).format(href(one.key), one.key, _x(column, count), width, one.words)
        for column, one in errors.items()
    ]
    return found


def _lanes(markers: Sequence[Marker]) -> dict[str, int]:
    """Return the lane of each agent: the first that is free when it starts; the last takes all the others."""
    free: list[int] = []
    lanes: dict[str, int] = {}
    for marker in markers:
        if marker.kind != "agent":
            continue
        until = marker.until if marker.until is not None else marker.column + 1
        lane = next((number for number, end in enumerate(free) if end <= marker.column), len(free))
        if lane >= LANES:
            lane = LANES - 1
        elif lane == len(free):
            free.append(0)
        free[lane] = max(free[lane], until, marker.column + 1)
        lanes[marker.key] = lane
    return lanes


def _agents(chart: Chart, lanes: dict[str, int], href: Callable[[str], str]) -> list[Markup]:
    count = len(chart.columns)
    found: list[Markup] = []
    for marker in chart.markers[:4000]:
        if marker.kind == "agent" and len(found) < 200:
            until = max(marker.until or 0, marker.column + 0.6)
            width = (until - marker.column) * WIDTH / count
            x, y = _x(marker.column, count), HEIGHT + 3 + lanes[marker.key] * _LANE
            rect = '<a class="agent" href="{}" data-key="{}"><rect x="{}" y="{}" width="{:.2f}" height="5"/></a>'
            found.append(Markup(rect).format(href(marker.key), marker.key, x, y, width))
    return found


def _cost(chart: Chart, y: int) -> Markup:
    count, most = len(chart.columns), max(1, chart.spent)
    points = [
        f"{_x(place + 0.5, count)} {y + COST - column.spent * COST / most:.1f}"
        for place, column in enumerate(chart.columns)
    ]
    return Markup('<path class="cost" d="M0 {}L{}"/>').format(y + COST, "L".join(points))


def _columns(chart: Chart, height: int, href: Callable[[str], str]) -> list[Markup]:
    count = len(chart.columns)
    width = WIDTH / count
    found = []
    for place, column in enumerate(chart.columns):
        kind = "column missed" if column.missed else "column"
        found.append(
            Markup(
                '<a class="{}" href="{}" data-key="{}"><rect x="{}" y="0" width="{:.2f}" height="{}"/>'
                "<title>{}</title></a>"
            ).format(kind, href(column.key), column.key, _x(place, count), width, height, words_of(column))
        )
    return found


def words_of(column: Column) -> str:
    """Say what a column stands for."""
    parts = [
        f"request {column.requests:,}, turn {column.turn}",
        f"{tokens(column.total)} tokens: {tokens(column.read)} read from cache, {tokens(column.write)} written, "
        f"{tokens(column.fresh)} fresh",
        f"{tokens(column.output)} out, {dollars(column.spent)} so far",
    ]
    if column.missed:
        parts.append(f"cache missed: {column.missed}")
    return "\n".join(parts)
