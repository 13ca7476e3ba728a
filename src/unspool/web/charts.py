"""Charts as SVG, made here: numbers in, markup out. No script draws anything.

Rules
  1. Colours are classes (`c1` … `c8`), sizes are attributes: no `style`.
  2. Every text in a chart is escaped. What a shape stands for is said in its `title`.
  3. What has no room is put together as the last series, `others`; nothing is left out of a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from unspool.store.tallies import Curve

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
