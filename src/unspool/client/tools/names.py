r"""Patterns of file names: `**/*.{py,js}` in, whether a path fits it out. Pure.

As ripgrep and git have them: `*` and `?` stay within a name, `**` does not, `[a-z]` and `[!a-z]` are one character,
`{a,b}` is either, `\` takes the next character as it is. A pattern without a slash fits a name in any folder, one with
a slash a path from the top.

Rules
  1. Whatever a pattern is, the time it takes grows with the paths, and no faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Fits: TypeAlias = Callable[[str], bool]


class BadPattern(ValueError):
    """A pattern that is not one; the text says why."""


def fits(pattern: str) -> Fits:
    """Return what tells whether a path, relative and with `/`, fits a pattern."""
    return any_of([pattern])


def any_of(patterns: Sequence[str]) -> Fits:
    """Return what tells whether a path fits one of some patterns."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True  # a name may have a line end in it
    try:
        compiled = re2.compile("|".join(f"(?:{regex(pattern)})" for pattern in patterns), options)
    except re2.error as problem:
        words = problem.args[0].decode(errors="replace") if problem.args else "it cannot be read"
        raise BadPattern(words) from None
    return lambda path: compiled.fullmatch(_sound(path)) is not None


def regex(pattern: str) -> str:
    """Return a pattern as a regular expression for whole paths."""
    anchored = "/" in pattern.rstrip("/")
    return ("" if anchored else "(?:.*/)?") + _Reader(pattern.strip("/")).read()


def _sound(path: str) -> str:
    return path if path.isascii() else path.encode("utf-8", "replace").decode()


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def read(self) -> str:
        pieces = []
        while self._at < len(self._pattern):
            pieces.append(self._next())
        if self._depth:
            raise BadPattern("a `{` is not closed")
        return "".join(pieces)

    def _next(self) -> str:
        rest = self._pattern[self._at :]
        at_start = self._at == 0 or self._pattern[self._at - 1] == "/"
        if at_start and rest.startswith("**/"):
            return self._take(3, "(?:.*/)?")
        if at_start and rest == "**":
            return self._take(2, ".+")
        if rest.startswith("**"):
            return self._take(2, ".*" if at_start else "[^/]*")
        match rest[0]:
            case "*":
                return self._take(1, "[^/]*")
            case "?":
                return self._take(1, "[^/]")
            case "[":
                return self._class(rest)
            case "{":
                self._depth += 1
                return self._take(1, "(?:")
            case "}" if self._depth:
                self._depth -= 1
                return self._take(1, ")")
            case "," if self._depth:
                return self._take(1, "|")
            case "\\" if len(rest) > 1:
                return self._take(2, _quoted(rest[1]))
            case character:
                return self._take(1, _quoted(character))

    def _class(self, rest: str) -> str:
        start = 2 if rest[1:2] in {"!", "^"} else 1
        end = rest.find("]", start + 1)  # one that comes first is a character like any other
        if end < 0:
            raise BadPattern("a `[` is not closed")
        members = "".join(character if character == "-" else _quoted(character) for character in rest[start:end])
        return self._take(end + 1, f"[{'^/' if start == 2 else ''}{members}]")

    def _take(self, length: int, regex: str) -> str:
        self._at += length
        return regex


def _quoted(character: str) -> str:
    return (
        character if character.isalnum() or character in "_/" or ord(character) > 127 else f"\\x{{{ord(character):x}}}"
    )
