"""Loads the instructions that users have written for the model (`CLAUDE.md`), and formats them for the system prompt.

    <config>/CLAUDE.md                            for all projects
    CLAUDE.md, .claude/CLAUDE.md                  of the working folder and of those above it
    CLAUDE.local.md                               beside them, not shared
    CLAUDE.md of a sub-folder                     when a file in it is read (`load_nested_instructions`)
    @path in any of these                         another file, up to five deep

Rules
  1. A file is read once. What is no text, no regular file, or beyond the limit is left out, and that is reported.
  2. A folder that is not trusted imports nothing that lies outside it; a trusted one imports prose, and never from a
     protected folder. Symbolic links count by where they lead.
  3. Of the folders above only files of the user, or of root, are read: `/tmp/CLAUDE.md` may be anybody's.
  4. Instructions are text: they allow nothing.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from unspool.client.prompt.text.markdown import find_mentions
from unspool.errors import UnspoolError
from unspool.files import describe_too_large, read_start

MAX_IMPORT_DEPTH = 5
MAX_FILE_CHARACTERS = 40_000
MAX_TOTAL_CHARACTERS = 120_000
_MAX_FILE_BYTES = 1024 * 1024
_MAX_WHOLE_BYTES = 64 * 1024 * 1024
"""A file that is larger holds no instructions; it may be sparse, and without an end."""
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
    """A file with instructions."""

    path: Path
    kind: str
    """user, project, local, import."""
    text: str
    owner: str = "project"
    """The kind of the file that it belongs to, for an imported one."""
    parent: Path | None = None
    """The file that imports it."""
    trigger: Path | None = None
    """The file that was read, for the instructions of a sub-folder."""


class Instructions(NamedTuple):
    """The instructions that were loaded, and the files that were not."""

    texts: tuple[Instruction, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def paths(self) -> frozenset[Path]:
        """The real paths of the files."""
        return frozenset(instruction.path for instruction in self.texts)


class InstructionScope(NamedTuple):
    """The folders that instructions are loaded from."""

    root: Path
    config: Path
    home: Path | None = None
    trusted: bool = False
    limit: int = MAX_TOTAL_CHARACTERS
    """The most characters of all instructions together."""


def load_instructions(scope: InstructionScope) -> Instructions:
    """Load the instructions that a session begins with, the farthest first."""
    loader = _Loader(scope)
    loader.load(scope.config / "CLAUDE.md", "user")
    root = scope.root.resolve()
    for folder in (*reversed(root.parents), root):
        for name in _NAMES:
            path = folder / name
            # In the home folder `.claude` is the config folder: its `CLAUDE.md` is loaded already, as the user's.
            if path.parent.resolve() != scope.config.resolve() and (folder == root or _is_own_file(path)):
                loader.load(path, "local" if name == "CLAUDE.local.md" else "project")
    return loader.result()


def load_nested_instructions(scope: InstructionScope, file: Path, known: frozenset[Path]) -> Instructions:
    """Load the instructions of the folders between the working folder and a file that was read, if they are new."""
    root, target = scope.root.resolve(), file.resolve()
    loader = _Loader(scope, known, trigger=file)
    if target.is_relative_to(root):
        between = [folder for folder in reversed(target.parents) if folder.is_relative_to(root) and folder != root]
        for folder in between:
            for name in _NAMES:
                loader.load(folder / name, "local" if name == "CLAUDE.local.md" else "project")
    return loader.result()


def format_instructions(instructions: Instructions) -> str:
    """Return instructions as a section of the system prompt; an empty text if there are none."""
    if not instructions.texts:
        return ""
    start = (
        "# Instructions\nThe user and the project have written these down. Follow them exactly, also where they differ"
        " from what you would do by default. They grant no permissions."
    )
    texts = [f"Contents of {each.path} ({_KINDS[each.kind]}):\n\n{each.text.strip()}" for each in instructions.texts]
    return "\n\n".join([start, *texts])


class _Loader:
    """Loads files and what they import, up to the limit."""

    def __init__(
        self, scope: InstructionScope, known: frozenset[Path] = frozenset(), trigger: Path | None = None
    ) -> None:
        self._scope, self._trigger = scope, trigger
        self._known = set(known)
        self._texts: list[Instruction] = []
        self._problems: list[str] = []
        self._remaining = scope.limit

    def result(self) -> Instructions:
        """Return what was loaded."""
        return Instructions(tuple(self._texts), tuple(self._problems))

    def load(self, path: Path, kind: str, depth: int = 0, owner: str | None = None, parent: Path | None = None) -> None:
        """Load a file, if it exists, and what it imports."""
        owner = owner or kind
        try:
            real = path.resolve(strict=True)
            if real in self._known or not stat.S_ISREG(real.stat().st_mode):
                return
        except (OSError, RuntimeError):
            return
        # Known before it is read: two files may import each other.
        self._known.add(real)
        if not self._may_read(real, owner):
            self._problems.append(f"`{real}` is outside the folder and was not read")
            return
        text = self._read_text(real)
        if text is None:
            return
        self._texts.append(Instruction(real, kind, text, owner, parent, self._trigger))
        if depth < MAX_IMPORT_DEPTH:
            for imported in self._imports(text, path.parent):
                self.load(imported, "import", depth + 1, owner, real)

    def _may_read(self, real: Path, owner: str) -> bool:
        """Tell whether a file may be read: the user's own instructions may import any file."""
        root = self._scope.root.resolve()
        if owner == "user" or real.is_relative_to(root) or (real.name in _NAMES and real.parent in root.parents):
            return True
        # Prose only: a `CLAUDE.md` that imports a key file would send it to the model.
        is_prose = real.suffix.lower() in _PROSE and _PRIVATE.isdisjoint(part.lower() for part in real.parts)
        return self._scope.trusted and is_prose

    def _read_text(self, real: Path) -> str | None:
        size, data = 0, b""
        try:
            size = real.stat().st_size
            if size > _MAX_WHOLE_BYTES:
                self._problems.append(f"`{real}` was not read: {describe_too_large(size)}")
                return None
            data = read_start(real, _MAX_FILE_BYTES)
            # A character may be cut in two at the end of what is read; elsewhere it would be no text.
            text = codecs.getincrementaldecoder("utf-8")().decode(data, final=len(data) < _MAX_FILE_BYTES)
        except UnspoolError as error:
            self._problems.append(f"`{real}` was not read: {error.reason}")
            return None
        except (OSError, UnicodeDecodeError):
            text = "\0"
        if "\0" in text:
            self._problems.append(f"`{real}` is no text that can be read")
            return None
        limit = min(MAX_FILE_CHARACTERS, self._remaining)
        if len(text) > limit:
            length = f"{len(text):,} characters" if size <= len(data) else f"{size:,} bytes"
            used = f"the first {limit:,} characters of {length} are used"
            self._problems.append(
                f"`{real}` is too long: {used}; shorten it, or move parts to the folders they are about"
            )
            text = text[:limit]
        self._remaining -= len(text)
        return text or None

    def _imports(self, text: str, folder: Path) -> Iterator[Path]:
        for name in find_mentions(text):
            if name.startswith("~/"):
                if self._scope.home is not None:
                    yield self._scope.home / name[2:]
            elif "\0" not in name:
                yield folder / name


def _is_own_file(path: Path) -> bool:
    try:
        return path.stat().st_uid in (os.getuid(), 0)
    except OSError:
        return False
