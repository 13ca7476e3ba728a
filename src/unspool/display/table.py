"""Formats tables that fit the width of a terminal.

Rules
  1. Text from a transcript is made safe first; its width is computed after that, wide characters as two cells.
  2. Columns that may be cut are cut, first the one furthest over its least width; then the expendable ones go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import click

from unspool.display.safe import clean_line

_NARROW = (
    r"[ -~\xa0-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e\u20a0-\u20c0\u2100-\u218b\u2190-\u2319"
    r"\u2500-\u25fc]*"
)
"""Text of European languages, punctuation, arrows, signs and bars: each character takes one cell."""


class TextColumn(NamedTuple):
    """A column: its heading, and how it may shrink."""

    title: str
    right: bool = False
    least: int | None = None
    """The least width it may be cut to; None: it is not cut."""
    expendable: bool = False


def format_table(
    columns: Sequence[TextColumn], rows: Sequence[Sequence[str]], width: int, more: Iterable[Sequence[str]] = ()
) -> Iterator[str]:
    """Yield the lines of a table with a heading; `more` rows are formatted with the widths of the others."""
    cells = [[clean_line(cell) for cell in row] for row in rows]
    shown, widths = _fit_columns(columns, cells, width)
    head = [columns[at].title for at in shown]
    yield click.style(_format_row([columns[at] for at in shown], head, widths), bold=True)
    for row in chain(cells, ([clean_line(cell) for cell in row] for row in more)):
        yield _format_row([columns[at] for at in shown], [row[at] for at in shown], widths)


def truncate(text: str, width: int) -> str:
    """Return the text, or its beginning and `…`, at most this wide."""
    if cell_width(text) <= width:
        return text
    columns = max(0, width - 1)
    if _is_narrow(text):
        return f"{text[:columns].rstrip()}…"
    from wcwidth import clip

    return f"{clip(text, 0, columns, control_codes='ignore').rstrip()}…"


def cell_width(text: str) -> int:
    """Return the number of terminal cells that a text takes."""
    if _is_narrow(text):
        return len(text)
    # Start-up: loading wcwidth takes as long as reading a hundred sessions from the store (15 ms).
    from wcwidth import width

    return width(text, control_codes="ignore")


def natural_widths(columns: Sequence[TextColumn], rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width of each column if no cell is cut."""
    lines = [[column.title for column in columns], *rows]
    return [max(map(cell_width, cells)) for cells in zip(*lines, strict=True)]


def _is_narrow(text: str) -> bool:
    return text.isascii() or re.fullmatch(_NARROW, text) is not None


def _fit_columns(columns: Sequence[TextColumn], rows: list[list[str]], width: int) -> tuple[list[int], list[int]]:
    """Return which columns are shown, and their widths."""
    shown = list(range(len(columns)))
    natural = natural_widths(columns, rows)
    while True:
        widths = [natural[at] for at in shown]
        least = [natural[at] if (low := columns[at].least) is None else min(low, natural[at]) for at in shown]
        available = width - 2 * (len(shown) - 1)
        while sum(widths) > available and widths != least:
            over = [width - low for width, low in zip(widths, least, strict=True)]
            widths[over.index(max(over))] -= 1
        expendable = [at for at in shown if columns[at].expendable]
        if sum(widths) <= available or not expendable:
            return shown, widths
        shown.remove(expendable[-1])


def _format_row(columns: Sequence[TextColumn], row: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for column, text, width in zip(columns, row, widths, strict=True):
        text = truncate(text, width)
        space = " " * (width - cell_width(text))
        parts.append(space + text if column.right else text + space)
    return "  ".join(parts).rstrip()
