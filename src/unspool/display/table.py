"""Formats tables that fit the width of a terminal.

Rules
  1. Text from a transcript is made safe first; its width is computed after that, wide characters as two cells.
  2. Columns that may be cut are cut, first the one furthest over its least width, never below their headings; then the
     expendable ones go. If the rest is still too wide, each row is written as lines of heading and value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, takewhile
from typing import NamedTuple

import click

from unspool.display.safe import clean_line

_NARROW = (
    r" -~\xa0-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e\u20a0-\u20c0\u2100-\u218b\u2190-\u2319"
    r"\u2500-\u25fc"
)
"""Text of European languages, punctuation, arrows, signs and bars: each character takes one cell."""

_WIDE = (
    r"\u26a1\u2705\u2728\u274c\u3000-\u3029\u3041-\u3096\u309b-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff01-\uff60"
    r"\U0001f300-\U0001f320\U0001f400-\U0001f43e\U0001f442-\U0001f4fc\U0001f4ff-\U0001f53d\U0001f5fb-\U0001f64f"
    r"\U0001f680-\U0001f6c5\U0001f90c-\U0001f93a\U0001f947-\U0001f9ff"
)
"""Chinese, Japanese, Korean, and the common emoji: each character takes two cells, unless a mark or a modifier follows,
which is in neither list."""


class TextColumn(NamedTuple):
    """A column: its heading, and how it may shrink."""

    title: str
    right: bool = False
    least: int | None = None
    """The least width it may be cut to; None: it is not cut."""
    expendable: bool = False


def format_table(
    columns: Sequence[TextColumn],
    rows: Sequence[Sequence[str]],
    width: int,
    more: Iterable[Sequence[str]] = (),
    *,
    may_be_vertical: bool = True,
) -> Iterator[str]:
    """Yield the lines of a table with a heading; `more` rows are formatted with the widths of the others."""
    cells = [[clean_line(cell) for cell in row] for row in rows]
    shown, widths = _fit_columns(columns, cells, width)
    if may_be_vertical and sum(widths) + 2 * (len(shown) - 1) > width:
        yield from _format_vertically(
            columns, chain(cells, ([clean_line(cell) for cell in row] for row in more)), width
        )
        return
    head = [columns[at].title for at in shown]
    yield click.style(_format_row([columns[at] for at in shown], head, widths), bold=True)
    for row in chain(cells, ([clean_line(cell) for cell in row] for row in more)):
        yield _format_row([columns[at] for at in shown], [row[at] for at in shown], widths)


def _format_vertically(columns: Sequence[TextColumn], rows: Iterable[Sequence[str]], width: int) -> Iterator[str]:
    """Yield each row as lines of heading and value, with a blank line between rows."""
    label_width = max(cell_width(column.title) for column in columns)
    for number, row in enumerate(rows):
        if number:
            yield ""
        for column, text in zip(columns, row, strict=True):
            if not text and not column.title:
                continue
            label = column.title + " " * (label_width - cell_width(column.title))
            # Text may be cut; dates and numbers may not.
            value = text if column.least is None else truncate(text, max(column.least, width - label_width - 2))
            yield f"{click.style(label, bold=True)}  {value}".rstrip()


def truncate(text: str, width: int) -> str:
    """Return the text, or its beginning and `…`, at most this wide."""
    if cell_width(text) <= width:
        return text
    columns = max(0, width - 1)
    if text.isascii() or _is_plain(text):
        cells = accumulate(2 if _is_wide(character) else 1 for character in text)
        fitting = sum(1 for _ in takewhile(lambda reached: reached <= columns, cells))
        return f"{text[:fitting].rstrip()}…"
    from wcwidth import clip

    return f"{clip(text, 0, columns, control_codes='ignore').rstrip()}…"


def cell_width(text: str) -> int:
    """Return the number of terminal cells that a text takes."""
    if text.isascii():
        return len(text)
    if _is_plain(text):
        return len(text) + sum(map(_is_wide, text))
    # Start-up: loading wcwidth takes as long as reading a hundred sessions from the store (15 ms).
    from wcwidth import width

    return width(text, control_codes="ignore")


def natural_widths(columns: Sequence[TextColumn], rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width of each column if no cell is cut."""
    lines = [[column.title for column in columns], *rows]
    return [max(map(cell_width, cells)) for cells in zip(*lines, strict=True)]


def _is_plain(text: str) -> bool:
    """Tell whether the width of a text is the sum of its characters' widths, which the two lists above tell."""
    return re.fullmatch(f"[{_NARROW}{_WIDE}]*", text) is not None


def _is_wide(character: str) -> bool:
    return character > "\u25fc" and re.match(f"[{_WIDE}]", character) is not None


def _fit_columns(columns: Sequence[TextColumn], rows: list[list[str]], width: int) -> tuple[list[int], list[int]]:
    """Return which columns are shown, and their widths."""
    shown = list(range(len(columns)))
    natural = natural_widths(columns, rows)
    while True:
        widths = [natural[at] for at in shown]
        least = [_least_width(columns[at], natural[at]) for at in shown]
        available = width - 2 * (len(shown) - 1)
        while sum(widths) > available and widths != least:
            over = [width - low for width, low in zip(widths, least, strict=True)]
            widths[over.index(max(over))] -= 1
        expendable = [at for at in shown if columns[at].expendable]
        if sum(widths) <= available or not expendable:
            return shown, widths
        shown.remove(expendable[-1])


def _least_width(column: TextColumn, natural: int) -> int:
    """Return how far a column may be cut: never below its heading."""
    return natural if column.least is None else min(max(column.least, cell_width(column.title)), natural)


def _format_row(columns: Sequence[TextColumn], row: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for column, text, width in zip(columns, row, widths, strict=True):
        text = truncate(text, width)
        space = " " * (width - cell_width(text))
        parts.append(space + text if column.right else text + space)
    return "  ".join(parts).rstrip()
