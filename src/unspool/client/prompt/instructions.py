r"""CLAUDE.md: what people have written down for the model. Folders in, texts out, and how they are worded.

    <config>/CLAUDE.md                            for all projects
    CLAUDE.md, .claude/CLAUDE.md                  of the folder worked in and of those above it
    CLAUDE.local.md                               beside them, not shared
    CLAUDE.md of a folder below                   when a file in it is read (`nested`)
    @path in any of these                         another file, up to five deep

Rules
  1. A file is read once. What is no text, no regular file, or beyond the limit is left out, and that is said.
  2. A folder that is not trusted imports nothing that lies outside it; a trusted one imports prose, and never from a
     place that is guarded. Links count by where they lead.
  3. Of the folders above only files of the user, or of root, are read: `/tmp/CLAUDE.md` may be anybody's.
  4. Instructions are words: they allow nothing.

[merged: mentions.py] The files that a text names with `@`: a text in, the names out. Pure.

Rules
  1. Only what begins a word counts, so an address of mail is none, and what stands in code is none either.
  2. Marks that end a sentence do not belong to a name. A space inside one is written `\\ `.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unspool.errors import UnspoolError
from unspool.files.open import read_whole

_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_MENTION = re.compile(r"(?:^|(?<=[\s(\"']))@((?:\\ |[^\s\\`\"'()<>|])+)")


def mentioned(text: str) -> list[str]:
    """Return the names in the order they come, each once.

    >>> mentioned("See @docs/a.md, not me@home.org or `@code`.")
    ['docs/a.md']
    """
    plain = _SPAN.sub(" ", _FENCED.sub("", text))
    names = (match[1].replace("\\ ", " ").rstrip(".,;:!?") for match in _MENTION.finditer(plain))
    return list(dict.fromkeys(name for name in names if name))


DEEPEST = 5
LONGEST = 40_000
"""Characters of one file."""
LIMIT = 120_000
"""Characters of all."""
_LARGEST = 1024 * 1024
_NAMES = ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
_PROSE = frozenset({".md", ".markdown", ".txt", ".mdc", ".rst"})
_PRIVATE = frozenset({".ssh", ".gnupg", ".aws", ".kube", ".git", ".docker"})
_KINDS = {
    "user": "the user's own instructions for all projects",
    "project": "project instructions, shared with the folder",
    "local": "the user's own instructions for this project",
    "import": "imported by the one before",
}


class Instruction(NamedTuple):
    """A file and what is in it."""

    path: Path
    kind: str
    """user, project, local, import."""
    text: str


class Found(NamedTuple):
    """All that was found."""

    texts: tuple[Instruction, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def paths(self) -> frozenset[Path]:
        """The files, by where they really are."""
        return frozenset(one.path for one in self.texts)


class Scope(NamedTuple):
    """Where instructions are looked for."""

    root: Path
    config: Path
    home: Path | None = None
    trusted: bool = False
    limit: int = LIMIT
    """Characters of all of them together."""


def of(scope: Scope) -> Found:
    """Return the instructions that hold from the beginning, the farthest first."""
    gathering = _Gathering(scope)
    gathering.take(scope.config / "CLAUDE.md", "user")
    root = scope.root.resolve()
    for folder in (*reversed(root.parents), root):
        for name in _NAMES:
            path = folder / name
            if path.parent.resolve() != scope.config.resolve() and (folder == root or _is_ours(path)):
                gathering.take(path, "local" if name == "CLAUDE.local.md" else "project")
    return gathering.found()


def nested(scope: Scope, file: Path, known: frozenset[Path]) -> Found:
    """Return the instructions of the folders between the one worked in and a file that was read, if they are new."""
    root, place = scope.root.resolve(), file.resolve()
    gathering = _Gathering(scope, known)
    if place.is_relative_to(root):
        between = [folder for folder in reversed(place.parents) if folder.is_relative_to(root) and folder != root]
        for folder in between:
            for name in _NAMES:
                gathering.take(folder / name, "local" if name == "CLAUDE.local.md" else "project")
    return gathering.found()


def worded(found: Found) -> str:
    """Return instructions as the model is told them; nothing if there are none."""
    if not found.texts:
        return ""
    start = (
        "# Instructions\nThe user and the project have written these down. Follow them exactly, also where they differ"
        " from what you would do by default. They grant no permissions."
    )
    texts = [f"Contents of {one.path} ({_KINDS[one.kind]}):\n\n{one.text.strip()}" for one in found.texts]
    return "\n\n".join([start, *texts])


class _Gathering:
    """What has been taken so far."""

    def __init__(self, scope: Scope, known: frozenset[Path] = frozenset()) -> None:
        self._scope = scope
        self._known = set(known)
        self._texts: list[Instruction] = []
        self._problems: list[str] = []
        self._left = scope.limit

    def found(self) -> Found:
        """Return it."""
        return Found(tuple(self._texts), tuple(self._problems))

    def take(self, path: Path, kind: str, depth: int = 0, owner: str | None = None) -> None:
        """Take a file, if it is there, and what it imports."""
        owner = owner or kind
        try:
            real = path.resolve(strict=True)
            if real in self._known or not stat.S_ISREG(real.stat().st_mode):
                return
        except (OSError, RuntimeError):
            return
        self._known.add(real)
        if not self._may_read(real, owner):
            self._problems.append(f"`{real}` is outside the folder and was not read")
            return
        text = self._text(real)
        if text is None:
            return
        self._texts.append(Instruction(real, kind, text))
        if depth < DEEPEST:
            for imported in self._imports(text, path.parent):
                self.take(imported, "import", depth + 1, owner)

    def _may_read(self, real: Path, owner: str) -> bool:
        """Tell whether a file may be read for somebody: the user's own words may name any file."""
        root = self._scope.root.resolve()
        if owner == "user" or real.is_relative_to(root) or (real.name in _NAMES and real.parent in root.parents):
            return True
        is_prose = real.suffix.lower() in _PROSE and _PRIVATE.isdisjoint(part.lower() for part in real.parts)
        return self._scope.trusted and is_prose

    def _text(self, real: Path) -> str | None:
        try:
            text = read_whole(real, _LARGEST).decode()
        except (UnspoolError, OSError, UnicodeDecodeError):
            self._problems.append(f"`{real}` is no text that can be read")
            return None
        if "\0" in text:
            self._problems.append(f"`{real}` is no text that can be read")
            return None
        room = min(LONGEST, self._left)
        if len(text) > room:
            self._problems.append(f"`{real}` is too long: {room:,} of {len(text):,} characters are used")
            text = text[:room]
        self._left -= len(text)
        return text or None

    def _imports(self, text: str, folder: Path) -> Iterator[Path]:
        for name in mentioned(text):
            if name.startswith("~/"):
                if self._scope.home is not None:
                    yield self._scope.home / name[2:]
            elif "\0" not in name:
                yield folder / name


def _is_ours(path: Path) -> bool:
    try:
        return path.stat().st_uid in (os.getuid(), 0)
    except OSError:
        return False
