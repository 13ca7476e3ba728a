"""Reads the Markdown files with which users and projects define agents and slash commands.

Rules
  1. A project's files are read only if its folder is trusted, and only those that lie inside of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from unspool.client.prompt.text.markdown import FrontMatter, parse_front_matter
from unspool.errors import Unreadable, UnspoolError
from unspool.files import read_whole

_MAX_BYTES = 256 * 1024


class DefinitionFile(NamedTuple):
    """A Markdown file in a folder of definitions."""

    source: str
    """user or project."""
    folder: Path
    path: Path

    def read(self, kind: str) -> FrontMatter:
        """Read and parse the file; `Unreadable` says what is wrong with it."""
        try:
            real = self.path.resolve()
            # A link may lead out: a project could show any file of the user to the model.
            is_outside = self.source == "project" and not real.is_relative_to(self.folder.resolve())
            text = "" if is_outside else read_whole(real, _MAX_BYTES).decode()
        except (UnspoolError, OSError, RuntimeError, UnicodeDecodeError):
            raise Unreadable(f"cannot read the {kind} `{self.path}`") from None
        if is_outside:
            raise Unreadable(f"the {kind} `{self.path}` points outside its folder")
        return parse_front_matter(text)


class Named(Protocol):
    """What a file can define: an agent, or a command."""

    @property
    def name(self) -> str:
        """The name that it is called by."""


Defined = TypeVar("Defined", bound=Named)


class Definitions(NamedTuple, Generic[Defined]):
    """What files define, by name, and the problems of files that define nothing."""

    by_name: dict[str, Defined]
    problems: tuple[str, ...] = ()


def load_definitions(
    config: Path, root: Path, folder: str, read: Callable[[DefinitionFile], Defined], *, trusted: bool
) -> Definitions[Defined]:
    """Read the files in `<config>/<folder>`, then those in the project's `.claude/<folder>`, which go before them."""
    by_name: dict[str, Defined] = {}
    problems: list[str] = []
    folders = [("user", config / folder), *([("project", root / ".claude" / folder)] if trusted else [])]
    for source, place in folders:
        for path in sorted(place.rglob("*.md")):
            try:
                defined = read(DefinitionFile(source, place, path))
            except Unreadable as error:
                problems.append(error.message)
            else:
                by_name[defined.name] = defined
    return Definitions(by_name, tuple(problems))
