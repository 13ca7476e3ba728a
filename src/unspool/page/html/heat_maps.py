"""Heat maps as SVG: days of a year as a calendar, and hours of the week.

Rules
  1. No script draws anything. How much a cell stands for is a class (`h0` … `h4`); sizes are attributes: no `style`.
  2. A map is one tab stop: its first cell. A script moves the focus inside it with the arrow keys (`tips.js`).
  3. What a cell stands for is its name and its `data-tip`, which a script shows on hover, focus and touch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Final

from markupsafe import Markup

LEVELS: Final = 4
_CELL, _GAP, _LEFT, _TOP = 13, 2, 30, 16
_STEP: Final = _CELL + _GAP
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MIN_WEEKS_PER_MONTH: Final = 3
"""Weeks between two names of months, so that they do not touch."""


def heat_level(value: int, most: int) -> int:
    """Return how strong the colour of a cell is: 0 for nothing, 4 for the most.

    >>> [heat_level(value, 100) for value in (0, 1, 6, 25, 57, 100)]
    [0, 1, 1, 3, 4, 4]
    """
    if value <= 0 or most <= 0:
        return 0
    # The root: one expensive day would make all others look like none.
    return min(LEVELS, 1 + int(LEVELS * (value / most) ** 0.5))


def render_calendar(
    values: Mapping[date, int],
    first: date,
    last: date,
    describe: Callable[[date, int], str],
    href: Callable[[date], str],
) -> Markup:
    """Return a cell for every day, a column for each week; each is a link."""
    monday = first - timedelta(days=first.weekday())
    weeks = (last - monday).days // 7 + 1
    most = max((value for day, value in values.items() if first <= day <= last), default=0)
    cells: list[Markup] = []
    months: list[Markup] = []
    named = -_MIN_WEEKS_PER_MONTH
    shape = Markup(
        '<a href="{}" aria-label="{}" data-tip="{}" data-x="{}" data-y="{}" tabindex="{}">'
        '<rect x="{}" y="{}" width="{}" height="{}" rx="2" class="h{}"/></a>'
    )
    for number in range((last - monday).days + 1):
        day = monday + timedelta(days=number)
        week, weekday = divmod(number, 7)
        if day < first:
            continue
        if (day.day == 1 or not months) and week - named >= _MIN_WEEKS_PER_MONTH:
            named = week
            months.append(_label(_LEFT + week * _STEP, _TOP - 5, f"{day:%b}" if day.month > 1 else f"{day:%Y}"))
        words = describe(day, values.get(day, 0))
        x, y = _LEFT + week * _STEP, _TOP + weekday * _STEP
        level = heat_level(values.get(day, 0), most)
        focus = 0 if day == last else -1
        cells.append(shape.format(href(day), words, words, week, weekday, focus, x, y, _CELL, _CELL, level))
    names = [_label(0, _TOP + row * _STEP + 10, _WEEKDAYS[row]) for row in (0, 2, 4)]
    width, height = _LEFT + weeks * _STEP, _TOP + 7 * _STEP
    return _box("calendar", "days", width, height, Markup("").join([*months, *names, *cells]))


def render_week_hours(
    values: Mapping[tuple[int, int], int], describe: Callable[[int, int, int], str], *, most: int | None = None
) -> Markup:
    """Return a cell for every hour of the week: values by weekday (0 is Monday) and hour."""
    most = max(values.values(), default=0) if most is None else most
    shape = Markup(
        '<g role="img" aria-label="{}" data-tip="{}" data-x="{}" data-y="{}" tabindex="{}">'
        '<rect x="{}" y="{}" width="{}" height="{}" rx="2" class="h{}"/></g>'
    )
    cells = []
    for weekday in range(7):
        for hour in range(24):
            value = values.get((weekday, hour), 0)
            words, focus = describe(weekday, hour, value), 0 if weekday == hour == 0 else -1
            x, y, level = _LEFT + hour * _STEP, _TOP + weekday * _STEP, heat_level(value, most)
            cells.append(shape.format(words, words, hour, weekday, focus, x, y, _CELL, _CELL, level))
    names = [_label(0, _TOP + row * _STEP + 10, _WEEKDAYS[row]) for row in range(7)]
    hours = [_label(_LEFT + hour * _STEP, _TOP - 5, f"{hour:02}") for hour in range(0, 24, 3)]
    return _box(
        "hours", "hours of the week", _LEFT + 24 * _STEP, _TOP + 7 * _STEP, Markup("").join([*names, *hours, *cells])
    )


def weekday_name(weekday: int) -> str:
    """Return the name of a day of the week; 0 is Monday."""
    return _WEEKDAYS[weekday]


def _label(x: int, y: int, words: str) -> Markup:
    return Markup('<text x="{}" y="{}">{}</text>').format(x, y, words)


def _box(kind: str, words: str, width: int, height: int, inside: Markup) -> Markup:
    box = Markup(
        '<svg class="heat {}" width="{}" height="{}" viewBox="0 0 {} {}" role="group" aria-label="{}" data-roving>'
        "{}</svg>"
    )
    return box.format(kind, width, height, width, height, words, inside)
