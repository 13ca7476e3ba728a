r"""The files of a folder and all folders in it: paths out, a folder at a time.

Rules
  1. No link is followed, and only regular files come out.
  2. A folder that cannot be read is passed over.
  3. It ends when it is told to, and when its time is up (`Late`).

[merged: names.py] Patterns of file names: `**/*.{py,js}` in, whether a path fits it out. Pure.

As ripgrep and git have them: `*` and `?` stay within a name, `**` does not, `[a-z]` and `[!a-z]` are one character,
`{a,b}` is either, `\` takes the next character as it is. A pattern without a slash fits a name in any folder, one with
a slash a path from the top.

Rules
  1. Whatever a pattern is, the time it takes grows with the paths, and no faster.

[merged: ignored.py] What git is told to ignore: the lines of a `.gitignore` in, whether a path is ignored out. Pure.

Rules
  1. The last line that fits a path decides; a line in a deeper folder is later. `!` takes back.
  2. A line that is no pattern says nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

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


class Line(NamedTuple):
    """A line that says something."""

    fits: Fits
    takes_back: bool
    only_folders: bool


class Listing(NamedTuple):
    """What one file says of what is in its folder."""

    folder: str
    """As the paths that are asked about begin, with a slash at its end."""
    lines: tuple[Line, ...]
    fits: Fits
    """Whether any line fits: most paths fit none."""


class Ignores(NamedTuple):
    """What the files of some folders say, the deepest last."""

    listings: tuple[Listing, ...] = ()

    def and_in(self, folder: str, text: str) -> Ignores:
        """Return the same with what one more file says."""
        patterns, lines = _parsed(text)
        return Ignores((*self.listings, Listing(folder, lines, any_of(patterns)))) if lines else self

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether a path is ignored; the folders it is in are not asked about."""
        for listing in reversed(self.listings):
            inner = path.removeprefix(listing.folder)
            if inner is path or not listing.fits(inner):
                continue
            for line in reversed(listing.lines):
                if (is_folder or not line.only_folders) and line.fits(inner):
                    return not line.takes_back
        return False


def _parsed(text: str) -> tuple[list[str], tuple[Line, ...]]:
    """Return the patterns and the lines that say something."""
    patterns: list[str] = []
    lines: list[Line] = []
    for line in text.splitlines():
        pattern = line.rstrip() if not line.endswith("\\ ") else line
        if not pattern or pattern.startswith("#"):
            continue
        takes_back = pattern.startswith("!")
        pattern = pattern[1:] if takes_back else pattern
        try:
            lines.append(Line(fits(pattern), takes_back, pattern.endswith("/")))
        except BadPattern:
            continue
        patterns.append(pattern)
    return patterns, tuple(lines)


OWN_FOLDERS = frozenset({".git", ".svn", ".hg", ".bzr", ".jj"})
"""What is in them is for the programs whose they are."""
_LARGEST_LIST = 1 << 20


class Late(Exception):
    """The time is up."""


class Stop:
    """Tells a walk in another thread when to end."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._told = threading.Event()

    def tell(self) -> None:
        """End it."""
        self._told.set()

    def check(self) -> None:
        """Raise `Late` if it should end."""
        if self._told.is_set() or time.monotonic() > self._deadline:
            raise Late


class Listed(NamedTuple):
    """A file."""

    path: str
    """Relative to the folder that was asked for, with `/`."""
    entry: os.DirEntry[str]
    is_ignored: bool


def walk(root: Path, stop: Stop, ignores: Ignores | None, passes: Callable[[str], bool]) -> Iterator[Listed]:
    """Yield the files of a folder by name. Without ignores, what `.gitignore` says does not matter.

    A folder that is ignored, or for which `passes` is true, is passed over.
    """
    base = f"{root.as_posix().rstrip('/')}/"
    waiting = [_inside(root, "", ignores)]
    while waiting:
        inside = next(waiting[-1], None)
        if inside is None:
            waiting.pop()
            stop.check()
            continue
        path, entry, known = inside
        if entry.is_dir(follow_symlinks=False):
            if not passes(path) and not (known and known.ignores(base + path, is_folder=True)):
                waiting.append(_inside(root, f"{path}/", known))
        elif entry.is_file(follow_symlinks=False):
            yield Listed(path, entry, bool(known and known.ignores(base + path, is_folder=False)))


def _inside(root: Path, folder: str, ignores: Ignores | None) -> Iterator[tuple[str, os.DirEntry[str], Ignores | None]]:
    entries: list[os.DirEntry[str]] = []
    with suppress(OSError), os.scandir(root / folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    if ignores is not None and any(entry.name == ".gitignore" for entry in entries):
        ignores = ignores.and_in(f"{(root / folder).as_posix().rstrip('/')}/", _text(root / folder / ".gitignore"))
    for entry in entries:
        yield folder + entry.name, entry, ignores


def ignores_above(root: Path) -> Ignores | None:
    """Return what the folders above say, up to where the repository begins; None if there is none."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), None)
    if top is None:
        return None
    ignores = Ignores()
    for folder in reversed(root.parents):
        if folder.is_relative_to(top):
            ignores = ignores.and_in(f"{folder.as_posix().rstrip('/')}/", _text(folder / ".gitignore"))
    return ignores


def _text(path: Path) -> str:
    try:
        if path.stat().st_size <= _LARGEST_LIST and path.is_file():
            return path.read_text("utf-8", "replace")
    except OSError:
        pass
    return ""
