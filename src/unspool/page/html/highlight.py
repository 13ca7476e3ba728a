"""Highlights code by its file name or language and returns safe HTML, line by line.

Rules
  1. A class says what kind of token it is, one of eight; the style sheet decides how it looks.
  2. What is long, or has very long lines, is not highlighted: a lexer may be slow, a page may not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from unspool.display import clean

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_MAX_CHARACTERS, _MAX_LINE_CHARACTERS = 65_536, 4_000


def highlight_lines(text: str, path: str = "", language: str = "") -> list[Markup]:
    """Return the lines of some code, highlighted if its language or its file name is known."""
    text = clean(text).removesuffix("\n")
    lexer = None
    if len(text) <= _MAX_CHARACTERS and max(map(len, text.split("\n")), default=0) <= _MAX_LINE_CHARACTERS:
        lexer = _find_lexer("" if language else path.rpartition("/")[2], language)
    if lexer is None:
        return [escape(line) for line in text.split("\n")]
    return _highlight(lexer, text)


def _highlight(lexer: Lexer, text: str) -> list[Markup]:
    lines: list[list[tuple[str, str]]] = [[]]
    for kind, value in lexer.get_tokens(text):
        name = _class_name(kind)
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append((name, part))
    # A lexer may end a text with a line that it does not have.
    while len(lines) > 1 and not lines[-1] and len(lines) > text.count("\n") + 1:
        lines.pop()
    return [Markup("").join(_spans(line)) for line in lines]


def _spans(line: list[tuple[str, str]]) -> Iterator[Markup]:
    for name, parts in groupby(line, key=lambda part: part[0]):
        shown = escape("".join(text for _, text in parts))
        yield Markup('<span class="{}">{}</span>').format(name, shown) if name else shown


@lru_cache(maxsize=512)
def _class_name(kind: Any) -> str:
    from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, String

    names = (
        (Comment, "comment"), (Keyword, "keyword"), (String, "string"), (Number, "number"), (Literal, "string"),
        (Name.Function, "function"), (Name.Class, "function"), (Name.Decorator, "special"), (Name.Builtin, "special"),
        (Name.Tag, "keyword"), (Name.Attribute, "special"), (Generic.Deleted, "removed"), (Generic.Inserted, "added"),
    )  # fmt: skip
    return next((name for token, name in names if kind in token), "")


@lru_cache(maxsize=256)
def _find_lexer(file_name: str, language: str) -> Lexer | None:
    from pygments.lexers import find_lexer_class_by_name, find_lexer_class_for_filename
    from pygments.util import ClassNotFound

    try:
        by_name = find_lexer_class_by_name(language[:40]) if language else None
    except ClassNotFound:
        return None
    found = by_name or (find_lexer_class_for_filename(file_name) if file_name else None)
    return found(ensurenl=False, stripnl=False) if found else None
