"""Renders terminal output with escape sequences as safe HTML with classes for colours.

Rules
  1. Only colours and weights (SGR) are understood; every other sequence is removed, every other control character is
     shown as its symbol (`display/safe.py`). No escape character comes out.
  2. 256 and true colours become the nearest of sixteen: a page has one palette, for light and for dark.
  3. Each run of one style is one `<span>`, and none is empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from unspool.display import clean

_SGR = re.compile(r"\x1b\[([0-9;:]{0,120})m")
_PALETTE = (
    (0, 0, 0), (205, 49, 49), (13, 188, 121), (229, 229, 16), (36, 114, 200), (188, 63, 188), (17, 168, 205),
    (229, 229, 229), (102, 102, 102), (241, 76, 76), (35, 209, 139), (245, 245, 67), (59, 142, 234), (214, 112, 214),
    (41, 184, 219), (255, 255, 255),
)  # fmt: skip
_LEVELS = (0, 95, 135, 175, 215, 255)
_CHANGES: dict[int, dict[str, Any]] = {
    **{code: {name: True} for code, name in ((1, "bold"), (2, "dim"), (3, "italic"), (4, "under"), (7, "reverse"))},
    **{code: {name: False} for code, name in ((23, "italic"), (24, "under"), (27, "reverse"))},
    **{first + number: {"front": base + number} for first, base in ((30, 0), (90, 8)) for number in range(8)},
    **{first + number: {"back": base + number} for first, base in ((40, 0), (100, 8)) for number in range(8)},
    22: {"bold": False, "dim": False},
    39: {"front": None},
    49: {"back": None},
}
"""What an SGR code changes in a style."""


class AnsiStyle(NamedTuple):
    """The style of a run of text; colours by their number among sixteen."""

    front: int | None = None
    back: int | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    under: bool = False
    reverse: bool = False

    @property
    def classes(self) -> str:
        """The names of its CSS classes."""
        front, back = (self.back, self.front) if self.reverse else (self.front, self.back)
        classes = [name for name in ("bold", "dim", "italic", "under") if getattr(self, name)]
        classes += ["reverse"] if self.reverse and front is None and back is None else []
        classes += [f"f{front}"] if front is not None else []
        classes += [f"g{back}"] if back is not None else []
        return " ".join(classes)


def render_ansi(text: str) -> Markup:
    """Return text with spans for its colours."""
    if "\x1b" not in text and "\r" not in text:  # most lines: without the expressions it takes a third of the time
        return escape(clean(text))
    # Markup() of pieces that are escaped: 100,000 changes of colour take a third of the time of its own methods.
    return Markup("".join(_spans(text)))


def drop_overwritten(text: str) -> str:
    """Return text without what a carriage return overwrites: of a progress bar, only the last state is shown.

    >>> drop_overwritten("10%\\r50%\\r100%\\r\\ndone")
    '100%\\r\\ndone'
    """
    if "\r" not in text:
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        # Not by a pattern: one that looks for the last `\r` of a line tries every character of the line as its start.
        is_ended = number < len(lines) - 1 and line.endswith("\r")
        lines[number] = line[:-1].rpartition("\r")[2] + "\r" if is_ended else line.rpartition("\r")[2]
    return "\n".join(lines)


def _spans(text: str) -> Iterator[str]:
    style, at = AnsiStyle(), 0
    text = drop_overwritten(text)
    for match in _SGR.finditer(text):
        yield _span(text[at : match.start()], style)
        style, at = _apply_codes(style, match[1]), match.end()
    yield _span(text[at:], style)


def _span(text: str, style: AnsiStyle) -> str:
    shown = str(escape(clean(text)))
    classes = _classes(style)
    return f'<span class="{classes}">{shown}</span>' if classes and shown else shown


@lru_cache(maxsize=1024)
def _classes(style: AnsiStyle) -> str:
    return style.classes


@lru_cache(maxsize=1024)
def _apply_codes(style: AnsiStyle, codes: str) -> AnsiStyle:
    numbers = [int(part) if part else 0 for part in re.split("[;:]", codes)][:40]
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            style = AnsiStyle()
        elif code in (38, 48):
            colour = _take_colour(numbers)
            style = style._replace(front=colour) if code == 38 else style._replace(back=colour)
        else:
            style = style._replace(**_CHANGES.get(code, {}))
    return style


def _take_colour(numbers: list[int]) -> int | None:
    """Take a colour of 256, or of red, green and blue, from the codes."""
    kind = numbers.pop(0) if numbers else None
    if kind == 5 and numbers:
        return _nearest_to_256(numbers.pop(0))
    if kind == 2 and len(numbers) >= 3:
        red, green, blue = numbers[:3]
        del numbers[:3]
        return _nearest(red, green, blue)
    return None


def _nearest_to_256(number: int) -> int | None:
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
