"""Colours of a terminal as classes: text with escape sequences in, safe HTML out.

Rules
  1. Only colours and weights (SGR) are understood; every other sequence goes, every other control character is shown
     as a picture of itself (`display.clean`). No escape character comes out.
  2. 256 and true colours become the nearest of sixteen: a page has one palette, for light and for dark.
  3. What is opened is closed: each run of one style is one `<span>`, and none is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from markupsafe import Markup, escape

from unspool.display.safe import clean

_SGR = re.compile(r"\x1b\[([0-9;:]{0,120})m")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")
_PALETTE = (
    (0, 0, 0), (205, 49, 49), (13, 188, 121), (229, 229, 16), (36, 114, 200), (188, 63, 188), (17, 168, 205),
    (229, 229, 229), (102, 102, 102), (241, 76, 76), (35, 209, 139), (245, 245, 67), (59, 142, 234), (214, 112, 214),
    (41, 184, 219), (255, 255, 255),
)  # fmt: skip
_LEVELS = (0, 95, 135, 175, 215, 255)


class Style(NamedTuple):
    """How text looks; colours by their number among sixteen."""

    front: int | None = None
    back: int | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    under: bool = False
    reverse: bool = False

    @property
    def classes(self) -> str:
        """The names of its classes."""
        front, back = (self.back, self.front) if self.reverse else (self.front, self.back)
        named = {
            "bold": self.bold,
            "dim": self.dim,
            "italic": self.italic,
            "under": self.under,
            "reverse": self.reverse and front is None and back is None,
        }
        found = [name for name, on in named.items() if on]
        found += [f"f{front}"] if front is not None else []
        found += [f"g{back}"] if back is not None else []
        return " ".join(found)


def colours(text: str) -> Markup:
    """Return text with its colours as classes."""
    return Markup("").join(_spans(text))


def _spans(text: str) -> Iterator[Markup]:
    style, at = Style(), 0
    text = _OVERWRITTEN.sub("", text)
    for match in _SGR.finditer(text):
        yield _span(text[at : match.start()], style)
        style, at = _changed(style, match[1]), match.end()
    yield _span(text[at:], style)


def _span(text: str, style: Style) -> Markup:
    shown = escape(clean(text))
    classes = style.classes
    return Markup('<span class="{}">{}</span>').format(classes, shown) if classes and shown else shown


def _changed(style: Style, codes: str) -> Style:
    numbers = [int(part) if part else 0 for part in re.split("[;:]", codes)][:40]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            style = Style()
        elif code in _FLAGS:
            style = _flagged(style, code)
        elif code in (38, 39):
            style = style._replace(front=_extended(numbers) if code == 38 else None)
        elif code in (48, 49):
            style = style._replace(back=_extended(numbers) if code == 48 else None)
        else:
            style = _coloured(style, code)
    return style


_FLAGS = frozenset({1, 2, 3, 4, 7, 22, 23, 24, 27})


def _flagged(style: Style, code: int) -> Style:
    on = code < 20
    match code % 20:
        case 1:
            return style._replace(bold=True)
        case 2:
            return style._replace(dim=True) if on else style._replace(bold=False, dim=False)
        case 3:
            return style._replace(italic=on)
        case 4:
            return style._replace(under=on)
        case _:
            return style._replace(reverse=on)


def _coloured(style: Style, code: int) -> Style:
    for front, back, base in ((30, 40, 0), (90, 100, 8)):
        if front <= code < front + 8:
            return style._replace(front=base + code - front)
        if back <= code < back + 8:
            return style._replace(back=base + code - back)
    return style


def _extended(numbers: list[int]) -> int | None:
    """Take a colour of 256, or of red, green and blue, from the codes."""
    kind = numbers.pop(0) if numbers else None
    if kind == 5 and numbers:
        return _of_256(numbers.pop(0))
    if kind == 2 and len(numbers) >= 3:
        red, green, blue = numbers[:3]
        del numbers[:3]
        return _nearest(red, green, blue)
    return None


def _of_256(number: int) -> int | None:
    if number < 16:
        return number
    if number < 232:
        cube = number - 16
        return _nearest(_LEVELS[cube // 36], _LEVELS[cube // 6 % 6], _LEVELS[cube % 6])
    grey = 8 + 10 * (number - 232)
    return _nearest(grey, grey, grey) if number < 256 else None


def _nearest(red: int, green: int, blue: int) -> int:
    def distance(number: int) -> int:
        near = _PALETTE[number]
        return (near[0] - red) ** 2 + (near[1] - green) ** 2 + (near[2] - blue) ** 2

    return min(range(16), key=distance)
