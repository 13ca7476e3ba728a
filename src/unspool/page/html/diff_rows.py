"""Renders the hunks of a file's review as rows: unified or side by side, with colours of code and marks of words.

Rules
  1. Every text is escaped by `highlight`; what is added here are elements of our own around it.
  2. A line that is too long for the page is cut, and says so. Marks are made for pairs of lines that are short enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from markupsafe import Markup, escape

from unspool.page.analysis import OUTSIDE, UNENDED, FileReview, NetHunk, NetLine, mark_words
from unspool.page.html.highlight import highlight_lines

_MAX_LINE_CHARACTERS: Final = 4_000
_SIGN_CLASSES: Final = {"+": "plus", "-": "minus", " ": "same"}
_SIGN_WORDS: Final = {"+": "added", "-": "removed", " ": ""}
_PIECE = re.compile(r"<[^<>]*>|&[^;&<>]{1,10};|[^<&]|[<&]", re.DOTALL)
_UNENDED = Markup('<span class="unended" title="no newline at end of file">⏎̸</span>')


class DiffRows:
    """Renders the hunks of one file."""

    def __init__(self, review: FileReview) -> None:
        self._review = review
        self._old = _highlight_text(review.before, review.path)
        self._new = _highlight_text(review.after, review.path)

    def unified(self, hunk: NetHunk) -> Markup:
        """Return the lines of a hunk, one below the other."""
        rows = []
        for line, html in self._marked_lines(hunk):
            numbers = f'<td class="at">{_number(line.old)}</td><td class="at">{_number(line.new)}</td>'
            sign = f'<td class="sign" aria-label="{_SIGN_WORDS[line.sign]}">{line.sign}</td>'
            rows.append(f'<tr class="{_row_class(line)}">{numbers}{sign}<td class="code">{html}</td></tr>')
        return Markup("".join(rows))

    def side_by_side(self, hunk: NetHunk) -> Markup:
        """Return the lines of a hunk with the old ones on the left and the new ones on the right."""
        rows = []
        for left, right in _pair_lines(self._marked_lines(hunk)):
            rows.append(f"<tr>{_half(left, 'old')}{_half(right, 'new')}</tr>")
        return Markup("".join(rows))

    def _marked_lines(self, hunk: NetHunk) -> list[tuple[NetLine, str]]:
        """Return the lines with their HTML; of lines that replace each other the words that differ are marked."""
        html = [self._html(line) for line in hunk.lines]
        for at, marks in find_word_marks(hunk.lines).items():
            html[at] = mark_html(html[at], marks)
        return list(zip(hunk.lines, html, strict=True))

    def _html(self, line: NetLine) -> str:
        known, number = (self._old, line.old) if line.sign == "-" else (self._new, line.new)
        text = line.text.removesuffix(UNENDED)
        if known and number is not None and number <= len(known):
            html = str(known[number - 1])
        elif len(text) > _MAX_LINE_CHARACTERS:
            html = str(escape(text[:_MAX_LINE_CHARACTERS])) + Markup(
                '<span class="cut-line">… {} more characters</span>'
            ).format(f"{len(text) - _MAX_LINE_CHARACTERS:,}")
        else:
            html = str(highlight_lines(text, self._review.path)[0])
        return html + _UNENDED if line.text.endswith(UNENDED) else html


def find_word_marks(lines: Sequence[NetLine]) -> dict[int, list[tuple[int, int]]]:
    """Return which characters differ in lines that replace each other, by the place of the line."""
    marks: dict[int, list[tuple[int, int]]] = {}
    for removed, added in _runs(lines):
        for pair in zip(removed, added, strict=False):
            texts = [lines[at].text.removesuffix(UNENDED) for at in pair]
            marks |= {at: found for at, found in zip(pair, mark_words(*texts), strict=True) if found}
    return marks


def mark_html(html: str, marks: Sequence[tuple[int, int]]) -> str:
    """Return a line of escaped HTML in which ranges of its text are marked; elements stay closed where they were."""
    if not marks:
        return html
    done: list[str] = []
    at, inside, ranges = 0, False, iter(marks)
    start, end = next(ranges)
    for piece in _PIECE.findall(html):
        if piece.startswith("<") and len(piece) > 1:
            done.append(f"</mark>{piece}<mark>" if inside else piece)
            continue
        if inside and at >= end:
            done.append("</mark>")
            inside = False
            start, end = next(ranges, (-1, -1))
        if not inside and at == start:
            done.append("<mark>")
            inside = True
        done.append(piece)
        at += 1
    if inside:
        done.append("</mark>")
    return "".join(done).replace("<mark></mark>", "")


def _highlight_text(text: str | None, path: str) -> list[Markup]:
    """Return the lines of a whole file, so that strings over several lines are coloured; nothing if it is long."""
    if not text or len(text) > 65_536 or max(map(len, text.split("\n"))) > _MAX_LINE_CHARACTERS:
        return []
    lines = highlight_lines(text, path)
    # Cleaning may change how many lines there are: then nothing stands where its number says.
    return lines if len(lines) == text.removesuffix("\n").count("\n") + 1 else []


def _runs(lines: Sequence[NetLine]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the places of removed lines and of the added ones that follow them."""
    removed, added = list[int](), list[int]()
    for at, line in enumerate(lines):
        if line.sign == "-":
            if added:
                yield removed, added
                removed, added = [], []
            removed.append(at)
        elif line.sign == "+":
            added.append(at)
        else:
            yield removed, added
            removed, added = [], []
    yield removed, added


def _pair_lines(
    lines: Sequence[tuple[NetLine, str]],
) -> Iterator[tuple[tuple[NetLine, str] | None, tuple[NetLine, str] | None]]:
    removed, added = list[tuple[NetLine, str]](), list[tuple[NetLine, str]]()
    for line in lines:
        if line[0].sign == "-":
            if added:
                yield from zip_longest(removed, added)
                removed, added = [], []
            removed.append(line)
        elif line[0].sign == "+":
            added.append(line)
        else:
            yield from zip_longest(removed, added)
            removed, added = [], []
            yield line, line
    yield from zip_longest(removed, added)


def _half(line: tuple[NetLine, str] | None, side: str) -> str:
    if line is None:
        return '<td class="at none"></td><td class="code none"></td>'
    own, html = line
    number = own.old if side == "old" else own.new
    return f'<td class="at {_row_class(own)}">{_number(number)}</td><td class="code {_row_class(own)}">{html}</td>'


def _row_class(line: NetLine) -> str:
    outside = " outside" if line.change == OUTSIDE else ""
    return _SIGN_CLASSES.get(line.sign, "same") + outside


def _number(number: int | None) -> str:
    return "" if number is None else str(number)
