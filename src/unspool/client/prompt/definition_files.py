"""Reads the Markdown files with which users and projects define agents and slash commands.

Rules
  1. A project's files are read only if its folder is trusted, and only those that lie inside of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
            raise Unreadable(f"the {kind} `{self.path}` leads out of its folder")
        return parse_front_matter(text)


def find_definition_files(config: Path, root: Path, name: str, *, trusted: bool) -> Iterator[DefinitionFile]:
    """Yield the files in `<config>/<name>`, then those in the project's `.claude/<name>`."""
    folders = [("user", config / name), *([("project", root / ".claude" / name)] if trusted else [])]
    for source, folder in folders:
        for path in sorted(folder.rglob("*.md")):
            yield DefinitionFile(source, folder, path)
