"""Code with its words in classes: text and a file's name in, safe HTML out, line by line.

Rules
  1. A class says what kind of word it is, one of eight; how it looks is the style sheet's business.
  2. What is long, or has very long lines, is not looked at: a lexer may take its time, a page may not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from unspool.display.safe import clean

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_MOST = 65_536
_LONGEST = 4_000
"""Characters of the text, and of a line."""


def lines_of(text: str, path: str = "", language: str = "") -> list[Markup]:
    """Return the lines of some code, coloured as far as its file's name or its language tells how."""
    text = clean(text).removesuffix("\n")
    lexer = None
    if len(text) <= _MOST and max(map(len, text.split("\n")), default=0) <= _LONGEST:
        lexer = _by_name(language) if language else _by_file(path.rpartition("/")[2])
    if lexer is None:
        return [escape(line) for line in text.split("\n")]
    return _split(lexer, text)


def _split(lexer: Lexer, text: str) -> list[Markup]:
    lines: list[list[tuple[str, str]]] = [[]]
    for kind, value in lexer.get_tokens(text):
        name = _class(kind)
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append((name, part))
    while len(lines) > 1 and not lines[-1] and len(lines) > text.count("\n") + 1:
        lines.pop()
    return [Markup("").join(_spans(line)) for line in lines]


def _spans(line: list[tuple[str, str]]) -> Iterator[Markup]:
    for name, parts in groupby(line, key=lambda part: part[0]):
        shown = escape("".join(text for _, text in parts))
        yield Markup('<span class="{}">{}</span>').format(name, shown) if name else shown


@lru_cache(maxsize=512)
def _class(kind: Any) -> str:
    from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, String

    names = (
        (Comment, "comment"), (Keyword, "keyword"), (String, "string"), (Number, "number"), (Literal, "string"),
        (Name.Function, "function"), (Name.Class, "function"), (Name.Decorator, "special"), (Name.Builtin, "special"),
        (Name.Tag, "keyword"), (Name.Attribute, "special"), (Generic.Deleted, "removed"), (Generic.Inserted, "added"),
    )  # fmt: skip
    return next((name for token, name in names if kind in token), "")


@lru_cache(maxsize=128)
def _by_file(name: str) -> Lexer | None:
    from pygments.lexers import find_lexer_class_for_filename

    found = find_lexer_class_for_filename(name) if name else None
    return found(ensurenl=False, stripnl=False) if found else None


@lru_cache(maxsize=128)
def _by_name(language: str) -> Lexer | None:
    from pygments.lexers import find_lexer_class_by_name
    from pygments.util import ClassNotFound

    try:
        found = find_lexer_class_by_name(language[:40])
    except ClassNotFound:
        return None
    lexer: Lexer = found(ensurenl=False, stripnl=False)
    return lexer
