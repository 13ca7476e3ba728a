r"""Compile glob patterns and `.gitignore` files into functions that say whether a path matches. Pure.

Globs are those of ripgrep and git: `*` and `?` stay within a name, `**` does not, `[a-z]` and `[!a-z]` are one
character, `{a,b}` is either, `\` takes the next character as it is. A pattern without a slash matches a name in any
folder, one with a slash a path from the top.

Rules
  1. Whatever a pattern is, matching takes time that is linear in the length of the paths: that is why re2 matches them.
     The patterns are the model's, or those of a foreign `.gitignore`.
  2. Of a `.gitignore`, the last line that matches a path decides; a line of a deeper folder is later. `!` re-includes.
  3. A line of a `.gitignore` that is no pattern matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

# Not `pathspec`, although it can use re2, too: its patterns have no `{a,b}`, and match all that is below a folder they
# match. `Glob("src")` would find every file in `src`, and a search in a folder that git ignores would find none.
PathMatcher: TypeAlias = Callable[[str], bool]
# A `]` that comes first in a class is a character like any other; `[!]` alone is not a class.
_GLOB_TOKEN = re.compile(r"(?<![^/])\*\*/|\*\*|\[[!^]?+.[^\]]*\]|\\.|.", re.DOTALL)


class InvalidPattern(ValueError):
    """A glob with a mistake in it; the text says which."""


def compile_globs(patterns: Sequence[str]) -> PathMatcher:
    """Return a function that says whether a path, relative and with `/`, matches one of the patterns."""
    import re2  # not needed by a chat that searches nothing

    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True  # a name may have a line end in it
    try:
        compiled = re2.compile("|".join(f"(?:{_translate_glob(pattern)})" for pattern in patterns), options)
    except re2.error as problem:
        words = problem.args[0].decode(errors="replace") if problem.args else "it cannot be read"
        raise InvalidPattern(words) from None
    return lambda path: compiled.fullmatch(_replace_surrogates(path)) is not None


def _translate_glob(pattern: str) -> str:
    """Translate a pattern to a regular expression for whole paths."""
    is_anchored, text = "/" in pattern.rstrip("/"), pattern.strip("/")
    pieces, depth = ["" if is_anchored else "(?:.*/)?"], 0
    for token in _GLOB_TOKEN.finditer(text):
        at_start = text[: token.start()].endswith("/") or token.start() == 0
        match token[0]:
            case "**/":
                pieces.append("(?:.*/)?")
            case "**" if at_start:
                pieces.append(".+" if token.end() == len(text) else ".*")
            case "*" | "**":
                pieces.append("[^/]*")
            case "?":
                pieces.append("[^/]")
            case "[":
                raise InvalidPattern("a `[` is not closed")
            case "{":
                depth += 1
                pieces.append("(?:")
            case "}" if depth:
                depth -= 1
                pieces.append(")")
            case "," if depth:
                pieces.append("|")
            case part if part.startswith("["):
                pieces.append(_translate_class(part))
            case part:
                pieces.append(_escape(part[-1]))
    if depth:
        raise InvalidPattern("a `{` is not closed")
    return "".join(pieces)


def _translate_class(part: str) -> str:
    is_negated = part[1] in "!^"
    members = "".join(character if character == "-" else _escape(character) for character in part[1 + is_negated : -1])
    return f"[{'^/' if is_negated else ''}{members}]"


def _replace_surrogates(path: str) -> str:
    # re2 takes UTF-8 only; names of files may hold other bytes.
    return path if path.isascii() else path.encode("utf-8", "replace").decode()


def _escape(character: str) -> str:
    is_plain = character.isalnum() or character in "_/" or ord(character) > 127
    return character if is_plain else f"\\x{{{ord(character):x}}}"


class _IgnoreLine(NamedTuple):
    """A pattern of a `.gitignore`."""

    matches: PathMatcher
    reincludes: bool
    only_folders: bool


class _IgnoreFile(NamedTuple):
    """The patterns of one `.gitignore`."""

    folder: str
    """The folder it is in, with a slash at its end."""
    lines: tuple[_IgnoreLine, ...]
    matches_any: PathMatcher
    """Whether any line matches, in one expression: most paths match none, and are done with it."""


class IgnoreRules(NamedTuple):
    """The `.gitignore` files of some folders, the deepest last."""

    files: tuple[_IgnoreFile, ...] = ()

    def add_file(self, folder: str, text: str) -> IgnoreRules:
        """Return the same rules with those of one more file."""
        patterns, lines = _parse_ignore_file(text)
        return IgnoreRules((*self.files, _IgnoreFile(folder, lines, compile_globs(patterns)))) if lines else self

    def is_ignored(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path is ignored; the folders above it are not looked at."""
        for file in reversed(self.files):
            inner = path.removeprefix(file.folder)
            if inner is path or not file.matches_any(inner):
                continue
            for line in reversed(file.lines):
                if (is_folder or not line.only_folders) and line.matches(inner):
                    return not line.reincludes
        return False


def _parse_ignore_file(text: str) -> tuple[list[str], tuple[_IgnoreLine, ...]]:
    """Return the patterns of a `.gitignore`, and its lines."""
    patterns: list[str] = []
    lines: list[_IgnoreLine] = []
    for line in text.splitlines():
        pattern = line.rstrip() if not line.endswith("\\ ") else line
        if not pattern or pattern.startswith("#"):
            continue
        reincludes = pattern.startswith("!")
        pattern = pattern[1:] if reincludes else pattern
        try:
            lines.append(_IgnoreLine(compile_globs([pattern]), reincludes, pattern.endswith("/")))
        except InvalidPattern:
            continue
        patterns.append(pattern)
    return patterns, tuple(lines)
