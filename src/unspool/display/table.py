"""Tables for a terminal: rows of text in, lines that fit the width out.

Rules
  1. What comes from a transcript is made safe first; its width is reckoned after that, wide characters as two.
  2. Columns that may be cut are cut, first the one furthest over its least width; then the expendable ones go.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import click

from unspool.display.safe import clean_line


class Column(NamedTuple):
    """A column: its heading and how it may give way."""

    title: str
    right: bool = False
    least: int | None = None
    """How far it may be cut; None: not at all."""
    expendable: bool = False


def write(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> None:
    """Write a table with a heading."""
    for line in lines(columns, rows, width):
        click.echo(line)


def lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int, more: Iterable[Sequence[str]] = ()
) -> Iterator[str]:
    """Yield the lines of a table with a heading; `more` rows take the widths that the others need."""
    cells = [[clean_line(cell) for cell in row] for row in rows]
    shown, widths = _fitted(columns, cells, width)
    head = [columns[at].title for at in shown]
    yield click.style(_line([columns[at] for at in shown], head, widths), bold=True)
    for row in chain(cells, ([clean_line(cell) for cell in row] for row in more)):
        yield _line([columns[at] for at in shown], [row[at] for at in shown], widths)


def cut(text: str, width: int) -> str:
    """Return the text, or its beginning and `…`, no wider than this."""
    if cells(text) <= width:
        return text
    kept, used = "", 1
    for character in text:
        used += _cells(character)
        if used > width:
            break
        kept += character
    return f"{kept.rstrip()}…"


def cells(text: str) -> int:
    """Return how many columns a text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def _fitted(columns: Sequence[Column], rows: list[list[str]], width: int) -> tuple[list[int], list[int]]:
    """Return which columns are shown, and how wide."""
    shown = list(range(len(columns)))
    natural = [max(map(cells, [column.title, *(row[at] for row in rows)])) for at, column in enumerate(columns)]
    while True:
        widths = [natural[at] for at in shown]
        least = [natural[at] if (low := columns[at].least) is None else min(low, natural[at]) for at in shown]
        room = width - 2 * (len(shown) - 1)
        while sum(widths) > room and widths != least:
            over = [width - low for width, low in zip(widths, least, strict=True)]
            widths[over.index(max(over))] -= 1
        expendable = [at for at in shown if columns[at].expendable]
        if sum(widths) <= room or not expendable:
            return shown, widths
        shown.remove(expendable[-1])


def _line(columns: Sequence[Column], row: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for column, text, width in zip(columns, row, widths, strict=True):
        text = cut(text, width)
        space = " " * (width - cells(text))
        parts.append(space + text if column.right else text + space)
    return "  ".join(parts).rstrip()


def _cells(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
