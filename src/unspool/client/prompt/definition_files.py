"""Reads the Markdown files with which users, projects and plugins define agents, commands, skills and output styles.

Rules
  1. A project's files are read only if its folder is trusted, and only those that lie inside of it.
  2. What a plugin defines is called by the plugin's name and its own: `plugin:name`. It replaces nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from unspool.client.prompt.text.markdown import FrontMatter, parse_front_matter
from unspool.errors import Unreadable, UnspoolError
from unspool.files import read_whole

DEFINED_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
"""What a command, a skill or a plugin may be called."""
_MAX_BYTES = 256 * 1024


class Plugin(NamedTuple):
    """A folder that brings commands, agents, skills, output styles and hooks (`plugins.py` finds them)."""

    name: str
    root: Path


class DefinitionFile(NamedTuple):
    """A Markdown file in a folder of definitions."""

    source: str
    """user, project or plugin."""
    folder: Path
    path: Path
    plugin: Plugin | None = None

    def full_name(self, name: str) -> str:
        """Return the name that a definition is called by."""
        return f"{self.plugin.name}:{name}" if self.plugin else name

    def read(self, kind: str) -> FrontMatter:
        """Read and parse the file; `Unreadable` says what is wrong with it."""
        try:
            real = self.path.resolve()
            # A link may lead out: a project could show any file of the user to the model.
            is_outside = self.source != "user" and not real.is_relative_to(self.folder.resolve())
            text = "" if is_outside else read_whole(real, _MAX_BYTES).decode()
        except (UnspoolError, OSError, RuntimeError, UnicodeDecodeError):
            raise Unreadable(f"cannot read the {kind} `{self.path}`") from None
        if is_outside:
            raise Unreadable(f"the {kind} `{self.path}` points outside its folder")
        return parse_front_matter(text)


class Named(Protocol):
    """What a file can define: an agent, a command, a skill, an output style."""

    @property
    def name(self) -> str:
        """The name that it is called by."""


Defined = TypeVar("Defined", bound=Named)


class Definitions(NamedTuple, Generic[Defined]):
    """What files define, by name, and the problems of files that define nothing."""

    by_name: dict[str, Defined]
    problems: tuple[str, ...] = ()


def load_definitions(
    config: Path,
    root: Path,
    folder: str,
    read: Callable[[DefinitionFile], Defined],
    *,
    trusted: bool,
    plugins: Sequence[Plugin] = (),
    pattern: str = "**/*.md",
) -> Definitions[Defined]:
    """Read the files in `<folder>` of the config folder, of the project's `.claude` and of plugins; later ones win."""
    by_name: dict[str, Defined] = {}
    problems: list[str] = []
    places: list[tuple[str, Path, Plugin | None]] = [("user", config / folder, None)]
    if trusted:
        places.append(("project", root / ".claude" / folder, None))
    places += [("plugin", plugin.root / folder, plugin) for plugin in plugins]
    for source, place, plugin in places:
        for path in sorted(place.glob(pattern)):
            try:
                defined = read(DefinitionFile(source, place, path, plugin))
            except Unreadable as error:
                problems.append(error.message)
            else:
                by_name[defined.name] = defined
    return Definitions(by_name, tuple(problems))
