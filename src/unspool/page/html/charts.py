"""Charts as SVG, made here: numbers in, markup out. No script draws anything.

Rules
  1. Colours are classes (`c1` … `c8`), sizes are attributes: no `style`.
  2. Every text in a chart is escaped. What a shape stands for is said in its `title`.
  3. What has no room is put together as the last series, `others`; nothing is left out of a sum.

[merged: drawing.py] The chart drawn: its data in, SVG out. No script, no inline style: how it looks is the style sheet's business.

Rules
  1. The three parts of a context are one path each; a column that can be pointed at is one link over all of them. So a
     chart of 600 columns stays under 2,500 nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from unspool.display.units import dollars, tokens
from unspool.page.chart import Chart as chart_Chart
from unspool.page.chart import Column as chart_Column
from unspool.page.chart import Marker
from unspool.store.catalog.session_stats import Curve

COLOURS: Final = 8
OTHERS: Final = "others"
_WIDTH, _HEIGHT, _LEFT, _FOOT = 960, 170, 56, 18
"""Of a chart of columns, in its own units: it is as wide as the page lets it be."""
_LABELS: Final = 12
"""Labels below the columns, at most."""


class Column(NamedTuple):
    """What stands in one place: a label, and a value for each series."""

    label: str
    values: tuple[int, ...]


class Chart(NamedTuple):
    """Columns of stacked values."""

    series: tuple[str, ...]
    columns: tuple[Column, ...]

    def data(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {"series": self.series, "columns": [column._asdict() for column in self.columns]}


def stacked(values: Sequence[tuple[str, dict[str, int]]]) -> Chart:
    """Return a chart of labels and what each has by name: the largest series first, those too many as one.

    >>> stacked([("mon", {"a": 1, "b": 5}), ("tue", {"a": 1})])
    Chart(series=('b', 'a'), columns=(Column(label='mon', values=(5, 1)), Column(label='tue', values=(0, 1))))
    """
    totals: dict[str, int] = {}
    for _, parts in values:
        for name, value in parts.items():
            totals[name] = totals.get(name, 0) + value
    names = sorted(totals, key=lambda name: (-totals[name], name))
    shown, rest = (names, []) if len(names) <= COLOURS else (names[: COLOURS - 1], names[COLOURS - 1 :])
    columns = []
    for label, parts in values:
        others = (sum(parts.get(name, 0) for name in rest),) if rest else ()
        columns.append(Column(label, (*(parts.get(name, 0) for name in shown), *others)))
    return Chart((*shown, *([OTHERS] if rest else [])), tuple(columns))


def columns(chart: Chart, worded: Callable[[int], str]) -> Markup:
    """Return a chart of columns; `worded` says a value in words."""
    most = max((sum(column.values) for column in chart.columns), default=0)
    if not most:
        return Markup("")
    room, height = _WIDTH - _LEFT, _HEIGHT - _FOOT
    step = room / len(chart.columns)
    every = -(-len(chart.columns) // _LABELS)
    parts = [_line(most, share, worded) for share in (1, 2)]
    for number, column in enumerate(chart.columns):
        left = _LEFT + number * step
        parts.append(_column(column, chart.series, _Place(left, step, height / most), worded))
        if number % every == 0:
            text = Markup('<text x="{}" y="{}" class="label">{}</text>')
            parts.append(text.format(round(left, 1), _HEIGHT - 4, column.label))
    box = Markup('<svg class="columns" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    told = f"{len(chart.columns)} columns, the highest {worded(most)}"
    return box.format(_WIDTH, _HEIGHT, told, Markup("").join(parts))


def _line(most: int, share: int, worded: Callable[[int], str]) -> Markup:
    """Return a line at the top or half way up, and what it stands for."""
    y = round((_HEIGHT - _FOOT) * (1 - 1 / share), 1)
    line = Markup('<line x1="{}" x2="{}" y1="{}" y2="{}" class="grid"/><text x="{}" y="{}" class="scale">{}</text>')
    return line.format(_LEFT, _WIDTH, y, y, _LEFT - 6, y + 10, worded(most // share))


class _Place(NamedTuple):
    left: float
    width: float
    scale: float
    """Units for each of a value."""


def _column(column: Column, series: Sequence[str], place: _Place, worded: Callable[[int], str]) -> Markup:
    total, bottom, shapes = sum(column.values), float(_HEIGHT - _FOOT), []
    for number, value in enumerate(column.values):
        if value:
            height = value * place.scale
            bottom -= height
            shape = Markup('<rect x="{}" y="{}" width="{}" height="{}" class="c{}"><title>{}</title></rect>')
            told = f"{column.label}: {series[number]} {worded(value)} of {worded(total)}"
            sizes = (place.left, bottom, max(place.width - min(2, place.width / 4), 0.5), max(height, 0.5))
            shapes.append(shape.format(*(round(size, 2) for size in sizes), number + 1, told))
    return Markup("").join(shapes)


def bar(value: int, most: int, width: int = 120) -> Markup:
    """Return a bar for a row of a table."""
    length = round(width * value / most, 1) if most else 0
    shape = Markup('<svg class="bar" width="{}" height="8" aria-hidden="true"><rect width="{}" height="8"/></svg>')
    return shape.format(width, length)


def sparkline(curve: Curve, width: int = 84, height: int = 18) -> Markup:
    """Return how full a context was, request by request, with a tick where it was compacted."""
    points = curve.points
    if not points:
        return Markup("")
    most, step = max(*points, 1), width / max(len(points) - 1, 1)

    def x(number: float) -> float:
        return round(min(max(number * step, 0.5), width - 0.5), 1)

    line = " ".join(
        f"{x(number)},{round(height - 1 - (height - 2) * one / most, 1)}" for number, one in enumerate(points)
    )
    if len(points) == 1:
        line = f"0,1 {width},1"
    tick = Markup('<line x1="{}" x2="{}" y1="0" y2="{}" class="tick"/>')
    ticks = [tick.format(x(place - 0.5), x(place - 0.5), height) for place in curve.compactions]
    box = Markup('<svg class="spark" width="{}" height="{}" role="img" aria-label="{}"><polyline points="{}"/>{}</svg>')
    told = f"{curve.requests} requests, at most {max(points):,} tokens, compacted {len(curve.compactions)} times"
    return box.format(width, height, told, line, Markup("").join(ticks))


WIDTH, HEIGHT, COST, LANES = 1000, 120, 28, 4
"""Units of the drawing: it is stretched to the page. Lanes of agents, eight units each."""
_LANE = 8


def drawn(chart: chart_Chart, href: Callable[[str], str]) -> Markup:
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


def top_of(chart: chart_Chart) -> int:
    """Return how many tokens the upper edge of a chart stands for."""
    return _top(chart)


def _top(chart: chart_Chart) -> int:
    """Return the upper end: the limit, unless the context never came near it."""
    limit = max((column.limit or 0 for column in chart.columns), default=0)
    return max(1, limit if chart.peak * 3 > limit else 0, round(chart.peak * 1.1))


def _summary(chart: chart_Chart) -> str:
    return f"context over {chart.requests:,} requests, {tokens(chart.peak)} tokens at most, {dollars(chart.spent)}"


def _x(column: float, count: int) -> str:
    return f"{column * WIDTH / count:.2f}".rstrip("0").rstrip(".")


def _stack(columns: Sequence[chart_Column], top: int) -> list[Markup]:
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


def _limits(columns: Sequence[chart_Column], top: int) -> list[Markup]:
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


def _marks(chart: chart_Chart, href: Callable[[str], str]) -> list[Markup]:
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


def _agents(chart: chart_Chart, lanes: dict[str, int], href: Callable[[str], str]) -> list[Markup]:
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


def _cost(chart: chart_Chart, y: int) -> Markup:
    count, most = len(chart.columns), max(1, chart.spent)
    points = [
        f"{_x(place + 0.5, count)} {y + COST - column.spent * COST / most:.1f}"
        for place, column in enumerate(chart.columns)
    ]
    return Markup('<path class="cost" d="M0 {}L{}"/>').format(y + COST, "L".join(points))


def _columns(chart: chart_Chart, height: int, href: Callable[[str], str]) -> list[Markup]:
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


def words_of(column: chart_Column) -> str:
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
