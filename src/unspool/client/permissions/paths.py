"""Resolve the paths that a model writes, as they are on disk.

Rules
  1. The permission check and the tools resolve paths here, so that both mean the same file. What comes out has no link
     in it; the file need not exist.
  2. A path that cannot be resolved is None, or an `InvalidToolCall` for a tool.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall
from unspool.permissions import MAGIC, PARENT_IN_PATTERN, WorkspacePaths, split_absolute_glob

_MAX_GLOB_MATCHES = 500
"""A glob that matches more files is not resolved."""
_MAX_LOOKED_AT = 50_000
"""A glob for which more names have to be looked at is not resolved: stars in several parts can mean the whole disk."""


class PathsOnDisk(WorkspacePaths):
    """Paths as one session sees them, with the links, files and programs that there are."""

    def __init__(self, context: ToolContext) -> None:
        workspace, plan = context.workspace, context.plan_file
        super().__init__(
            str(workspace.root.resolve()),
            str(context.cwd),
            added=map(str, workspace.added),
            environment=context.environment,
            config=str(workspace.config.resolve()),
            results=str(workspace.side_folder.resolve()),
            plan=str(plan.resolve()) if plan is not None else "",
        )

    def follow_links(self, path: str) -> str | None:
        """Return where an absolute path leads; None if it leads nowhere."""
        try:
            return str(Path(path).resolve())
        except (OSError, RuntimeError, ValueError):
            return None

    def expand_glob(self, pattern: str, *, hidden: bool = True) -> list[str] | None:
        """Return the paths that match an absolute glob; None if they are too many.

        With `hidden`, `*` matches also names that begin with a dot.
        """
        found, looked_at = ["/"], 0
        for part in filter(None, pattern.split("/")):
            if not MAGIC.search(part):
                found = [posixpath.join(folder, part) for folder in found]
                continue
            # `[…]` differs between shells: any character counts as matched.
            wild = re.sub(r"\[.[^]]*\]", "?", part)
            matched: list[str] = []
            for folder in found:
                names = _list_names(folder)
                looked_at += len(names)
                if looked_at > _MAX_LOOKED_AT or len(matched) > _MAX_GLOB_MATCHES:
                    return None
                shown = names if hidden or part.startswith(".") else [name for name in names if name[0] != "."]
                matched += [posixpath.join(folder, name) for name in shown if fnmatchcase(name, wild)]
            found = matched
        return [path for path in found if os.path.lexists(path)] if len(found) <= _MAX_GLOB_MATCHES else None

    # With `os.path`, which answers False for what cannot be reached: `Path` raises a `PermissionError` then.

    def is_file(self, path: str) -> bool:
        """Return whether there is such a file."""
        return os.path.isfile(path)  # noqa: PTH113

    def is_folder(self, path: str) -> bool:
        """Return whether there is such a folder."""
        return os.path.isdir(path)  # noqa: PTH112

    def has_ordinary_repository(self, folders: Iterable[str]) -> bool:
        """Return whether git finds a repository in `.git`, or none.

        A folder that is a bare repository itself may have come with a download, and its settings run programs.
        """
        for folder in map(Path, folders):
            for place in (folder, *folder.parents):
                if os.path.lexists(place / ".git"):
                    break
                if all(os.path.lexists(place / name) for name in ("HEAD", "objects", "refs")):
                    return False
        return True

    def is_shadowed(self, program: str, base: str) -> bool:
        """Return whether a name would run a file of the workspace, which anybody may have put there.

        The shims of version managers count, too: which program they run is in a file of the workspace.
        """
        places = (Path(base, entry or ".", program) for entry in self._search_path())
        found = next((place for place in places if self.is_file(str(place))), None)
        if found is None:
            return False
        is_shim = found.parent.name == "shims" or found.parent.match(".volta/bin")
        return is_shim or any(self.is_inside(str(path.resolve())) for path in (found.parent, found))

    def is_found_by_relative_entry(self, program: str, base: str) -> bool:
        """Return whether a program is found through an entry of `PATH` that depends on where the shell is."""
        relative = [entry for entry in self._search_path() if not Path(entry).is_absolute()]
        return any(self.is_file(str(Path(base, entry, program))) for entry in relative)

    def _search_path(self) -> list[str]:
        return self.environment.get("PATH", "").split(":")


def _list_names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names are wanted, and `Path.iterdir` makes an object of each
    except (OSError, ValueError):  # a name with half a character in it, or with a null
        return []


def resolve_path(path: str, context: ToolContext) -> Path:
    """Return a path without links for a tool: `~` is the home folder, relative paths begin where the shell is."""
    if not path:
        raise InvalidToolCall("The path is empty; give an absolute path.")
    if "\0" in path:
        raise InvalidToolCall("Path contains null bytes")
    resolved = PathsOnDisk(context).resolve(path)
    if resolved is None:
        raise InvalidToolCall(f"Path cannot be resolved: {path}")
    return Path(resolved)


def resolve_search(path: str | None, pattern: str, context: ToolContext) -> tuple[Path, str]:
    """Return the folder that a glob is searched in, and the glob relative to it."""
    if ".." in pattern.split("/"):
        raise InvalidToolCall(PARENT_IN_PATTERN)
    if not pattern.startswith("/"):
        return resolve_path(path or str(context.cwd), context), pattern or "**"
    folder, rest = split_absolute_glob(pattern)
    return resolve_path(folder, context), rest


def file_not_found(path: Path, context: ToolContext) -> InvalidToolCall:
    """Return the error for a file that does not exist; it names one with another suffix, if there is one."""
    text = "File does not exist."
    if context.cwd != context.workspace.root:
        text += f" Current working directory: {context.cwd}"
    try:
        similar = [name for name in sorted(path.parent.iterdir()) if name.stem == path.stem and name != path]
    except OSError:
        similar = []
    return InvalidToolCall(f"{text} Did you mean {similar[0].name}?" if similar else text)
