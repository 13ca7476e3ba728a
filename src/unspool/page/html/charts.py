"""Charts as SVG: stacked columns, bars and sparklines of lists, and the context chart of a session page.

Rules
  1. No script draws anything. Colours are classes (`c1` … `c8`), sizes are attributes: no `style`.
  2. Every text in a chart is escaped. What a shape stands for is in its `title`.
  3. Series that are too many are put together as the last one, `others`; nothing is left out of a sum.
  4. The three parts of the context chart are one path each; a column that can be pointed at is one link over all of
     them. So a chart of 600 columns stays under 2,500 nodes. It is one stop for Tab: the page's script goes from column
     to column with arrow keys.
  5. The context chart is stretched to the page in width only, so that its axis can stand beside it unstretched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from markupsafe import Markup

from unspool.display import amount, dollars, tokens
from unspool.page.chart import ChartMarker, ContextChart, RequestColumn

MAX_SERIES: Final = 8
"""As many as there are colours."""
OTHERS: Final = "others"
_WIDTH, _HEIGHT, _LEFT, _FOOT = 960, 170, 56, 18
"""Of a chart of columns, in its own units: it is as wide as the page lets it be."""
_MAX_LABELS: Final = 12
"""Below the columns."""
_CONTEXT_WIDTH, _CONTEXT_HEIGHT, _COST_HEIGHT = 1000, 120, 28
"""Of the context chart, in its own units: it is stretched to the width of the page."""
_AXIS_WIDTH = 64
_MAX_LANES, _LANE_HEIGHT = 4, 8
"""Lanes of agents below the context."""


class StackedColumn(NamedTuple):
    """A column: its label, and a value for each series."""

    label: str
    values: tuple[int, ...]


class StackedChart(NamedTuple):
    """Columns of stacked values."""

    series: tuple[str, ...]
    columns: tuple[StackedColumn, ...]

    def data(self) -> dict[str, object]:
        """Return it as plain data for JSON."""
        return {"series": self.series, "columns": [column._asdict() for column in self.columns]}


def stack_series(values: Sequence[tuple[str, dict[str, int]]]) -> StackedChart:
    """Return a chart of labels and the values of each by name: the largest series first, those too many as one.

    >>> chart = stack_series([("mon", {"a": 1, "b": 5}), ("tue", {"a": 1})])
    >>> chart.series, [column.values for column in chart.columns]
    (('b', 'a'), [(5, 1), (0, 1)])
    """
    totals: Counter[str] = Counter()
    for _, parts in values:
        totals.update(parts)
    names = sorted(totals, key=lambda name: (-totals[name], name))
    shown, rest = (names, []) if len(names) <= MAX_SERIES else (names[: MAX_SERIES - 1], names[MAX_SERIES - 1 :])
    columns = []
    for label, parts in values:
        others = (sum(parts.get(name, 0) for name in rest),) if rest else ()
        columns.append(StackedColumn(label, (*(parts.get(name, 0) for name in shown), *others)))
    return StackedChart((*shown, *([OTHERS] if rest else [])), tuple(columns))


def render_columns(
    chart: StackedChart, format_value: Callable[[int], str], href: Callable[[str], str | None] | None = None
) -> Markup:
    """Return a chart of columns; `format_value` writes a value with its unit, `href` is where a column leads.

    With `href` each column has an area over its full height that can be pointed at, with its numbers (`data-tip`); the
    chart is one tab stop, as heat maps are.
    """
    most = max((sum(column.values) for column in chart.columns), default=0)
    if not most:
        return Markup("")
    step = (_WIDTH - _LEFT) / len(chart.columns)
    every = -(-len(chart.columns) // _MAX_LABELS)
    line = Markup('<line x1="{}" x2="{}" y1="{}" y2="{}" class="grid"/><text x="{}" y="{}" class="scale">{}</text>')
    # On a narrow screen the chart is scrolled to its end, where the scale at its beginning cannot be seen.
    again = Markup('<text x="{}" y="{}" class="scale again" aria-hidden="true">{}</text>')
    label = Markup('<text x="{}" y="{}" class="label">{}</text>')
    shape = Markup('<rect x="{}" y="{}" width="{}" height="{}" class="c{}"><title>{}</title></rect>')

    def stack(column: StackedColumn, left: float) -> Iterator[Markup]:
        total, bottom = sum(column.values), float(_HEIGHT - _FOOT)
        for number, value in enumerate(column.values):
            if value:
                height = value * ((_HEIGHT - _FOOT) / most)
                bottom -= height
                title = f"{column.label}: {chart.series[number]} {format_value(value)} of {format_value(total)}"
                sizes = (left, bottom, max(step - min(2, step / 4), 0.5), max(height, 0.5))
                yield shape.format(*(round(size, 2) for size in sizes), number + 1, title)

    parts, scales = list[Markup](), list[Markup]()
    for share in (1, 2):  # a line at the top and one half way up
        y = round((_HEIGHT - _FOOT) * (1 - 1 / share), 1)
        parts.append(line.format(_LEFT, _WIDTH, y, y, _LEFT - 6, y + 10, format_value(most // share)))
        scales.append(again.format(_WIDTH - 2, y + 10, format_value(most // share)))
    for number, column in enumerate(chart.columns):
        left = _LEFT + number * step
        drawn = Markup("").join(stack(column, left))
        parts.append(
            drawn
            if href is None
            else _wrap_column(chart, number, (left, step), drawn, format_value=format_value, href=href)
        )
        if number % every == 0:
            parts.append(label.format(round(left, 1), _HEIGHT - 4, column.label))
    box = Markup('<svg class="columns" viewBox="0 0 {} {}" role="{}" aria-label="{}"{}>{}</svg>')
    summary = f"{len(chart.columns)} columns, maximum {format_value(most)}"
    role, roving = ("img", Markup("")) if href is None else ("group", Markup(" data-roving"))
    return box.format(_WIDTH, _HEIGHT, role, summary, roving, Markup("").join([*parts, *scales]))


def _wrap_column(
    chart: StackedChart,
    number: int,
    place: tuple[float, float],
    drawn: Markup,
    *,
    format_value: Callable[[int], str],
    href: Callable[[str], str | None],
) -> Markup:
    """Return a column as a link with its numbers, or as a shape with them if it leads nowhere."""
    column, (left, width) = chart.columns[number], place
    values = [f"{name} {format_value(value)}" for name, value in zip(chart.series, column.values, strict=True) if value]
    words = "\n".join([f"{column.label}: {format_value(sum(column.values))}", *(values if len(values) > 1 else [])])
    address = href(column.label)
    focus = 0 if number == len(chart.columns) - 1 else -1
    area = Markup('<rect x="{:.2f}" y="0" width="{:.2f}" height="{}" class="area"/>').format(
        left, width, _HEIGHT - _FOOT
    )
    if address is None:
        whole = Markup('<g role="img" aria-label="{}" data-tip="{}" data-x="{}" data-y="0" tabindex="{}">{}{}</g>')
        return whole.format(words, words, number, focus, area, drawn)
    whole = Markup('<a href="{}" aria-label="{}" data-tip="{}" data-x="{}" data-y="0" tabindex="{}">{}{}</a>')
    return whole.format(address, words, words, number, focus, area, drawn)


def render_bar(value: int, most: int, width: int = 120) -> Markup:
    """Return a bar for a row of a table."""
    length = round(width * value / most, 1) if most else 0
    shape = Markup('<svg class="bar" width="{}" height="8" aria-hidden="true"><rect width="{}" height="8"/></svg>')
    return shape.format(width, length)


def render_sparkline(
    points: Sequence[int],
    compactions: Sequence[int],
    requests: int,
    *,
    limit: int,
    width: int = 84,
    height: int = 18,
) -> Markup:
    """Return how full a context was, request by request, with a tick before each point where it was compacted.

    The upper edge is the limit, so that the lines of several sessions can be compared.
    """
    if not points:
        return Markup("")
    most, step = max(*points, limit, 1), width / max(len(points) - 1, 1)

    def x(number: float) -> float:
        return round(min(max(number * step, 0.5), width - 0.5), 1)

    line = " ".join(
        f"{x(number)},{round(height - 1 - (height - 2) * value / most, 1)}" for number, value in enumerate(points)
    )
    if len(points) == 1:  # a line of one point cannot be seen
        y = line.partition(",")[2]
        line = f"0,{y} {width},{y}"
    tick = Markup('<line x1="{}" x2="{}" y1="0" y2="{}" class="tick"/>')
    ticks = [tick.format(x(place - 0.5), x(place - 0.5), height) for place in compactions]
    box = Markup(
        '<svg class="spark" width="{}" height="{}" role="img" aria-label="{}"><title>{}</title>'
        '<line x1="0" x2="{}" y1="0.5" y2="0.5" class="limit"/><polyline points="{}"/>{}</svg>'
    )
    full = f"{max(points):,} of {limit:,} tokens ({max(points) * 100 // max(limit, 1)}%)"
    summary = f"{amount(requests, 'request')}, up to {full}, {amount(len(compactions), 'compaction')}"
    return box.format(width, height, summary, summary, width, line, Markup("").join(ticks))


# the context chart of a session


def render_context_chart(chart: ContextChart, href: Callable[[str], str]) -> Markup:
    """Return the context chart; `href` makes the address of a step."""
    if not chart.columns:
        return Markup("")
    top, lanes = chart_top(chart), _assign_lanes(chart.markers)
    depth = _lanes_depth(lanes)
    height = _CONTEXT_HEIGHT + depth + _COST_HEIGHT + 6
    summary = f"context over {chart.requests:,} requests, up to {tokens(chart.peak)} tokens, {dollars(chart.spent)}"
    parts = [
        Markup(
            '<svg class="chart" viewBox="0 0 {} {}" height="{}" preserveAspectRatio="none" role="group" '
            'aria-label="{}" data-columns="{}">'
        ).format(_CONTEXT_WIDTH, height, height, summary, len(chart.columns)),
        Markup('<path class="grid" d="M0 {}H{}M0 {}H{}"/>').format(
            _CONTEXT_HEIGHT // 2, _CONTEXT_WIDTH, _CONTEXT_HEIGHT, _CONTEXT_WIDTH
        ),
        # Each part reaches from zero up to where the next begins, so that the lowest is drawn last.
        _area("fresh", [column.total for column in chart.columns], top),
        _area("write", [column.read + column.write for column in chart.columns], top),
        _area("read", [column.read for column in chart.columns], top),
        *_limit_lines(chart.columns, top),
        *_marks(chart, href),
        *_agent_bars(chart, lanes, href),
        _cost_line(chart, _CONTEXT_HEIGHT + depth + 3),
        *_column_links(chart, height, href),
        Markup("</svg>"),
    ]
    return Markup("").join(parts)


def render_context_axis(chart: ContextChart) -> Markup:
    """Return the axis beside the context chart: tokens above, what was spent below."""
    if not chart.columns:
        return Markup("")
    top, depth = chart_top(chart), _lanes_depth(_assign_lanes(chart.markers))
    limits = {column.limit for column in chart.columns}
    height = _CONTEXT_HEIGHT + depth + _COST_HEIGHT + 6
    cost_top = _CONTEXT_HEIGHT + depth + 3
    labels = (
        (10, f"{tokens(top)} limit" if top in limits else tokens(top)),
        (_CONTEXT_HEIGHT // 2 + 4, tokens(top // 2)),
        (_CONTEXT_HEIGHT, "0 tokens"),
        (cost_top + 13, dollars(chart.spent)),
        (cost_top + _COST_HEIGHT, "$0"),
    )
    line = Markup('<text x="{}" y="{}">{}</text>')
    box = Markup('<svg class="axis" width="{}" height="{}" aria-hidden="true">{}</svg>')
    texts = Markup("").join(line.format(_AXIS_WIDTH - 4, y, words) for y, words in labels)
    return box.format(_AXIS_WIDTH, height, texts)


def _lanes_depth(lanes: dict[str, int]) -> int:
    return (max(lanes.values(), default=-1) + 1) * _LANE_HEIGHT


def chart_top(chart: ContextChart) -> int:
    """Return the tokens at the upper edge: the limit, unless the context never came near it."""
    limit = max((column.limit or 0 for column in chart.columns), default=0)
    return max(1, limit if chart.peak * 3 > limit else 0, round(chart.peak * 1.1))


def _x(column: float, count: int) -> str:
    return f"{column * _CONTEXT_WIDTH / count:.2f}".rstrip("0").rstrip(".")


def _area(name: str, values: Sequence[int], top: int) -> Markup:
    parts, before = [f"M0 {_CONTEXT_HEIGHT}"], None
    for place, value in enumerate(values):
        y = round(_CONTEXT_HEIGHT - value * _CONTEXT_HEIGHT / top, 1)
        if y != before:
            parts.append(f"H{_x(place, len(values))}V{y:g}")
        before = y
    path = "".join([*parts, f"H{_CONTEXT_WIDTH}V{_CONTEXT_HEIGHT}Z"])
    return Markup('<path class="{}" d="{}"/>').format(name, path)


def _limit_lines(columns: Sequence[RequestColumn], top: int) -> Iterator[Markup]:
    shape = Markup('<path class="limit" d="M{} {:g}H{}"/>')
    last = 0
    for limit, run in groupby(columns, key=lambda column: column.limit):
        first, last = last, last + len(list(run))
        if limit is not None and limit <= top:
            y = round(_CONTEXT_HEIGHT - limit * _CONTEXT_HEIGHT / top, 1) + 0.5
            yield shape.format(_x(first, len(columns)), y, _x(last, len(columns)))


def _marks(chart: ContextChart, href: Callable[[str], str]) -> Iterator[Markup]:
    """Yield ticks of prompts, lines of compactions, and a link for the first error of each column."""
    count = len(chart.columns)
    prompts = dict.fromkeys(marker.column for marker in chart.markers if marker.kind == "prompt")
    if prompts:
        ticks = "".join(f"M{_x(column, count)} {_CONTEXT_HEIGHT}v-5" for column in prompts)
        yield Markup('<path class="prompt" d="{}"/>').format(ticks)
    for column in dict.fromkeys(marker.column for marker in chart.markers if marker.kind == "compaction"):
        yield Markup('<path class="compaction" d="M{} 0V{}"/>').format(_x(column, count), _CONTEXT_HEIGHT)
    errors = {marker.column: marker for marker in reversed(chart.markers) if marker.kind == "error"}
    width = max(1.5, min(4.0, _CONTEXT_WIDTH / count))
    shape = Markup(
        '<a class="error" href="{}" data-key="{}" tabindex="-1"><rect x="{}" y="0" width="{:g}" height="5"/>'
        "<title>{}</title></a>"
    )
    for column, error in sorted(errors.items(), key=lambda pair: pair[0]):
        yield shape.format(href(error.key), error.key, _x(column, count), width, error.words)


def _assign_lanes(markers: Sequence[ChartMarker]) -> dict[str, int]:
    """Return the lane of each agent: the first that is free when it starts; the last takes all the others."""
    free: list[int] = []
    lanes: dict[str, int] = {}
    for marker in markers:
        if marker.kind != "agent":
            continue
        until = marker.until if marker.until is not None else marker.column + 1
        lane = next((number for number, end in enumerate(free) if end <= marker.column), len(free))
        if lane >= _MAX_LANES:
            lane = _MAX_LANES - 1
        elif lane == len(free):
            free.append(0)
        free[lane] = max(free[lane], until, marker.column + 1)
        lanes[marker.key] = lane
    return lanes


def _agent_bars(chart: ContextChart, lanes: dict[str, int], href: Callable[[str], str]) -> list[Markup]:
    count = len(chart.columns)
    shape = Markup(
        '<a class="agent" href="{}" data-key="{}" tabindex="-1"><rect x="{}" y="{}" width="{:.2f}" height="5"/>'
        "<title>{}</title></a>"
    )
    bars: list[Markup] = []
    for marker in chart.markers[:4000]:
        if marker.kind == "agent" and len(bars) < 200:
            until = max(marker.until or 0, marker.column + 0.6)
            width = (until - marker.column) * _CONTEXT_WIDTH / count
            x, y = _x(marker.column, count), _CONTEXT_HEIGHT + 3 + lanes[marker.key] * _LANE_HEIGHT
            bars.append(shape.format(href(marker.key), marker.key, x, y, width, f"agent: {marker.words}"))
    return bars


def _cost_line(chart: ContextChart, y: int) -> Markup:
    count, most = len(chart.columns), max(1, chart.spent)
    points = [
        f"{_x(place + 0.5, count)} {y + _COST_HEIGHT - column.spent * _COST_HEIGHT / most:.1f}"
        for place, column in enumerate(chart.columns)
    ]
    return Markup('<path class="cost" d="M0 {}L{}"/>').format(y + _COST_HEIGHT, "L".join(points))


def _column_links(chart: ContextChart, height: int, href: Callable[[str], str]) -> Iterator[Markup]:
    count = len(chart.columns)
    shape = Markup(
        '<a class="{}" href="{}" data-key="{}" tabindex="{}" data-request="{}" data-turn="{}" data-output="{}" '
        'data-spent="{}"><rect x="{}" y="0" width="{:.2f}" height="{}"/><title>{}</title></a>'
    )
    for place, column in enumerate(chart.columns):
        kind, title = "column missed" if column.missed else "column", _describe_column(column)
        x, width = _x(place, count), _CONTEXT_WIDTH / count
        facts = (column.requests, column.turn, column.output, column.spent)
        stop = 0 if place == 0 else -1  # rule 4
        yield shape.format(kind, href(column.key), column.key, stop, *facts, x, width, height, title)


def _describe_column(column: RequestColumn) -> str:
    parts = [
        f"request {column.requests:,}, turn {column.turn}",
        f"{tokens(column.total)} tokens: {tokens(column.read)} read from cache, {tokens(column.write)} written, "
        f"{tokens(column.fresh)} fresh",
        f"{tokens(column.output)} output, {dollars(column.spent)} so far",
    ]
    if column.long:
        parts.append("prompt of more than 200,000 tokens: higher price")
    if column.missed:
        parts.append(column.missed)
    return "\n".join(parts)
