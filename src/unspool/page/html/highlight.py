"""Highlights code by its file name or language and returns safe HTML, line by line.

Rules
  1. A class says what kind of token it is, one of eight; the style sheet decides how it looks.
  2. What is long, or has very long lines, is not highlighted: a lexer may be slow, a page may not.
  3. All texts of a request together have `HIGHLIGHT_SECONDS` of processor time; what a lexer has not reached by then is
     plain. Many lexers of Pygments look at all that follows from each character: 20,000 empty lines of Java took 16 s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from time import thread_time
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from unspool.display import clean
from unspool.page.detail_parts import PatchLine
from unspool.page.html.ansi import render_ansi

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_MAX_CHARACTERS, _MAX_LINE_CHARACTERS = 65_536, 4_000
HIGHLIGHT_SECONDS = 0.25
"""Several times what 64 kB of usual code take."""
_seconds_left: ContextVar[list[float] | None] = ContextVar("_seconds_left", default=None)
"""What is left of the time, in a list of one, while something is rendered."""
_PLAIN_PATTERN = re.compile(r"\*\.[^.*?\[]+|[^*?\[]+")
_SIGN_CLASSES = {"+": "plus", "-": "minus", "@": "gap"}
_END = "\x08"
_MARKS = {"comment": "\x01", "keyword": "\x02", "string": "\x03", "number": "\x04", "function": "\x05",
          "special": "\x06", "removed": "\x07", "added": "\x0e"}  # fmt: skip
"""Control characters that stand for the beginning of a class."""


def highlight_lines(
    text: str, path: str = "", language: str = "", clock: Callable[[], float] = thread_time
) -> list[Markup]:
    """Return the lines of some code, highlighted if its language or its file name is known."""
    text = clean(text).removesuffix("\n")
    lexer = None
    if len(text) <= _MAX_CHARACTERS and max(map(len, text.split("\n")), default=0) <= _MAX_LINE_CHARACTERS:
        lexer = _find_lexer("" if language else path.rpartition("/")[2], language)
    if lexer is None:
        return [escape(line) for line in text.split("\n")]
    return _highlight(lexer, text, clock)


@contextmanager
def limit_highlighting() -> Iterator[None]:
    """Give all texts that are highlighted inside one budget (rule 3); the outermost call counts."""
    if _seconds_left.get() is not None:
        yield
        return
    token = _seconds_left.set([HIGHLIGHT_SECONDS])
    try:
        yield
    finally:
        _seconds_left.reset(token)


def code_rows(text: str, path: str, first: int | None) -> Markup:
    """Return the lines of a file as rows with their numbers, if the number of the first is known."""
    lines = highlight_lines(text, path)
    numbers = map(str, range(first, first + len(lines))) if first is not None else [""] * len(lines)
    # Markup() of what is escaped: a template that loops over lines takes ten times as long.
    return Markup("".join(f"<div><i>{number}</i>{line}\n</div>" for number, line in zip(numbers, lines, strict=True)))


def patch_rows(lines: Iterable[PatchLine]) -> Markup:
    """Return the lines of a patch as rows with their numbers and signs."""
    return Markup("".join(map(_patch_row, lines)))


def _patch_row(line: PatchLine) -> str:
    old, new = (number if number is not None else "" for number in (line.old, line.new))
    sign = escape(clean(line.sign)) if line.sign != "@" else "⋯"
    name = _SIGN_CLASSES.get(line.sign, "same")
    return f'<div class="{name}"><i>{old}</i><i>{new}</i><b>{sign}</b>{render_ansi(line.text)}\n</div>'


def _highlight(lexer: Lexer, text: str, clock: Callable[[], float]) -> list[Markup]:
    """Return the lines with a span for each run of one class.

    Classes are first marked with control characters, of which cleaned text has none, so that the whole text is escaped
    at once and not token by token: that is a third of the time.
    """
    written: list[str] = []
    before = ""
    marks = _token_marks()
    left = _seconds_left.get() or [HIGHLIGHT_SECONDS]
    end, began = 0, clock()
    # Without `get_tokens`, which would only make line ends uniform: cleaned text has one kind.
    for start, kind, value in lexer.get_tokens_unprocessed(text):
        if clock() - began > left[0]:  # rule 3
            break
        end = start + len(value)
        if value:
            mark = marks[kind]
            if mark != before:
                written.append(f"{_END}{mark}" if before and mark else mark or _END)
                before = mark
            written.append(value.replace("\n", f"{_END}\n{mark}") if mark and "\n" in value else value)
    if before:
        written.append(_END)
    written.append(text[end:])
    left[0] -= clock() - began
    lines = _write_spans("".join(written)).split("\n")
    # A lexer may end a text with a line that it does not have.
    while len(lines) > 1 and not lines[-1] and len(lines) > text.count("\n") + 1:
        lines.pop()
    return list(map(Markup, lines))


def _write_spans(marked: str) -> str:
    """Return text escaped, with elements where the marks are."""
    html = str(escape(marked))
    for name, mark in _MARKS.items():
        html = html.replace(f"{mark}{_END}", "").replace(mark, f'<span class="{name}">')
    return html.replace(_END, "</span>")


class _TokenMarks(dict[Any, str]):
    """Marks by type of token, found when they are first looked up."""

    def __missing__(self, kind: Any) -> str:
        """Return the mark of a type of token; nothing if it looks like plain text."""
        self[kind] = _find_mark(kind)
        return self[kind]


@cache
def _token_marks() -> _TokenMarks:
    return _TokenMarks()


def _find_mark(kind: Any) -> str:
    from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, String

    names = (
        (Comment, "comment"), (Keyword, "keyword"), (String, "string"), (Number, "number"), (Literal, "string"),
        (Name.Function, "function"), (Name.Class, "function"), (Name.Decorator, "special"), (Name.Builtin, "special"),
        (Name.Tag, "keyword"), (Name.Attribute, "special"), (Generic.Deleted, "removed"), (Generic.Inserted, "added"),
    )  # fmt: skip
    return next((_MARKS[name] for token, name in names if kind in token), "")


@lru_cache(maxsize=256)
def _find_lexer(file_name: str, language: str) -> Lexer | None:
    from pygments.lexers import find_lexer_class_by_name
    from pygments.util import ClassNotFound

    from unspool.page.html.regex_lexer import faster_lexer  # imports Pygments

    try:
        by_name = find_lexer_class_by_name(language[:40]) if language else None
    except ClassNotFound:
        return None
    found = by_name or (_find_class(file_name) if file_name else None)
    return faster_lexer(found)(ensurenl=False, stripnl=False) if found else None


def _find_class(file_name: str) -> type[Lexer] | None:
    """Return the lexer for a file name: that of `find_lexer_class_for_filename`, but never one of a plugin.

    That function compares a thousand patterns for each name and looks for plugins, 30 ms the first time and 3 ms
    after that.
    """
    from pygments.lexers import find_lexer_class

    by_name, by_pattern = _file_patterns()
    ending = file_name.rpartition(".")[2] if "." in file_name else ""
    named = [(lexer, 0.5) for lexer in by_name.get(file_name, ())]
    alike = [*by_name.get(f"*.{ending}", ()), *(lexer for glob, lexer in by_pattern if fnmatchcase(file_name, glob))]
    classes = [(find_lexer_class(name), bonus) for name, bonus in (*named, *((name, 0.0) for name in alike))]
    rated = [(cls.priority + bonus, cls.__name__, cls) for cls, bonus in classes if cls is not None]
    return max(rated, key=lambda rating: rating[:2])[2] if rated else None


@cache
def _file_patterns() -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """Return the names of lexers by file name or `*.ending`, and those with other patterns."""
    from pygments.lexers import get_all_lexers

    by_name: dict[str, list[str]] = {}
    by_pattern = []
    for lexer, _, patterns, _ in get_all_lexers(plugins=False):
        for pattern in patterns:
            if _PLAIN_PATTERN.fullmatch(pattern):
                by_name.setdefault(pattern, []).append(lexer)
            else:
                by_pattern.append((pattern, lexer))
    return by_name, by_pattern
