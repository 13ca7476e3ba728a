"""Resolve the paths that a model writes, and know which of them are in the workspace and which are protected.

Rules
  1. The permission check and the tools resolve paths here, so that both mean the same file. What comes out has no link
     in it; the file need not exist.
  2. A path that cannot be resolved is None, or an `InvalidToolCall` for a tool; the permission check must not allow it.
  3. Some places make programs run, or hold keys: version control, settings, what a shell reads when it starts. Writing
     there is always asked about, whatever else is allowed.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall
from unspool.permissions import Word

_MAX_GLOB_MATCHES = 500
"""A glob that matches more files is not resolved."""
_MAX_GLOB_PARTS = 2
"""Stars in more parts of a path would have us search the whole tree."""
_WILDCARDS = frozenset("*?[{\\")
_PROTECTED_FOLDERS = frozenset(
    {".git", ".claude", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".vscode", ".idea", ".husky",
     ".devcontainer", ".cargo", ".githooks", ".hg", ".svn", ".jj", "autostart", "launchagents", "launchdaemons"}
)  # fmt: skip
_PROTECTED_FILES = frozenset(
    {".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
     ".zprofile", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".kshrc", ".inputrc", ".envrc", ".gitconfig",
     ".gitmodules", ".ripgreprc", ".mcp.json", ".claude.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".netrc", ".pypirc",
     ".pgpass", ".vimrc", ".exrc", ".emacs", ".tmux.conf", ".screenrc", ".xprofile", ".xinitrc", ".xsession",
     "authorized_keys", "crontab", "pip.conf", "sitecustomize.py", "usercustomize.py"}
)  # fmt: skip


class WorkspacePaths:
    """Paths as one session sees them: relative to its folders, home folder and `PATH`."""

    def __init__(self, context: ToolContext) -> None:
        self.context = context
        self.root = context.workspace.root.resolve()
        self.folders = (self.root, *(folder.resolve() for folder in context.workspace.added))

    @property
    def home(self) -> str:
        """The home folder; empty if it is not known."""
        return self.context.environment.get("HOME", "")

    def resolve(self, path: str, base: Path | None = None) -> Path | None:
        """Return a path without links, relative to the shell's folder or to another; None if it cannot be resolved."""
        absolute = self.make_absolute(path, base)
        try:
            return absolute.resolve() if absolute is not None else None
        except (OSError, RuntimeError, ValueError):
            return None

    def make_absolute(self, path: str, base: Path | None = None) -> Path | None:
        """Return an absolute path with the links in it; `~` is the home folder, that of another user is not known."""
        if not path or "\0" in path:
            return None
        if path == "~" or path.startswith("~/"):
            return Path(self.home + path[1:]) if self.home else None
        if path.startswith("//"):
            path = "/" + path.lstrip("/")  # the same place, but `Path` treats two slashes as another root
        return (base or self.context.cwd) / path

    def resolve_word(self, word: Word, base: Path) -> list[Path] | None:
        """Return the paths that a word of a command names, several if it is a glob; None if they are not known."""
        if word.has_expansion or word.has_braces or (word.has_tilde and not (word.text + "/").startswith("~/")):
            return None
        # A quoted `~` is an ordinary character.
        text = word.text if word.has_tilde or not word.text.startswith("~") else f"./{word.text}"
        paths = [self.resolve(text, base)]
        absolute = self.make_absolute(text, base)
        if word.has_glob and absolute is not None and paths[0] is not None and self.is_inside(paths[0]):
            if "**" in text or sum(1 for part in absolute.parts if glob.has_magic(part)) > _MAX_GLOB_PARTS:
                return None
            every = glob.iglob(str(absolute), include_hidden=True)  # noqa: PTH207 - `Path.glob` takes no absolute pattern
            matches = list(islice(every, _MAX_GLOB_MATCHES + 1))
            if len(matches) > _MAX_GLOB_MATCHES:
                return None
            paths += [self.resolve(match, base) for match in matches]
        known = [path for path in paths if path is not None]
        return known if len(known) == len(paths) else None

    def is_inside(self, path: Path) -> bool:
        """Return whether a resolved path lies in a folder that the session works in."""
        return any(path.is_relative_to(folder) for folder in self.folders)

    def is_session_file(self, path: Path) -> bool:
        """Return whether a resolved path is the session's own: results too large to show, the plan."""
        return path.is_relative_to(self.context.workspace.side_folder.resolve()) or self.is_plan_file(path)

    def is_plan_file(self, path: Path) -> bool:
        """Return whether a resolved path is the file that holds the plan."""
        return self.context.plan_file is not None and path == self.context.plan_file.resolve()

    def protected_part(self, path: Path) -> str | None:
        """Return the part of a resolved path that makes writing to it a question; None if it is not protected."""
        if self.is_plan_file(path):
            return None
        config = self.context.workspace.config.resolve()
        if path.is_relative_to(config):
            return str(config)
        folder = next((folder for folder in self.folders if path.is_relative_to(folder)), Path("/"))
        parts = path.relative_to(folder).parts
        return next((part for part in parts if _is_protected(part)), None)

    def has_ordinary_repository(self, folders: Iterable[Path]) -> bool:
        """Return whether git finds a repository in `.git`, or none.

        A folder that is a bare repository itself may have come with a download, and its settings run programs.
        """
        for folder in folders:
            for place in (folder, *folder.parents):
                if (place / ".git").exists():
                    break
                if (place / "HEAD").exists() and (place / "objects").exists() and (place / "refs").exists():
                    return False
        return True

    def _find_program(self, name: str, base: Path) -> Path | None:
        for entry in self.context.environment.get("PATH", "").split(":"):
            place = base / (entry or ".") / name
            if place.is_file():
                return place
        return None

    def is_shadowed(self, name: str, base: Path) -> bool:
        """Return whether a name would run a file of the workspace, which anybody may have put there."""
        place = self._find_program(name, base)
        return place is not None and (self.is_inside(place.parent.resolve()) or self.is_inside(place.resolve()))

    def is_found_by_relative_entry(self, name: str, base: Path) -> bool:
        """Return whether a program is found through an entry of `PATH` that depends on where the shell is."""
        entries = self.context.environment.get("PATH", "").split(":")
        return any(not Path(entry).is_absolute() and (base / entry / name).is_file() for entry in entries)


def _is_protected(part: str) -> bool:
    name = part.casefold()  # `.GIT` is `.git` on a disk that ignores case
    return name in _PROTECTED_FOLDERS or name in _PROTECTED_FILES or name.endswith(".git")


def resolve_path(path: str, context: ToolContext) -> Path:
    """Return a path without links for a tool: `~` is the home folder, relative paths begin where the shell is."""
    if not path:
        raise InvalidToolCall("The path is empty; give an absolute path.")
    if "\0" in path:
        raise InvalidToolCall("Path contains null bytes")
    home = context.environment.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    try:
        return (context.cwd / path).resolve()
    except (OSError, RuntimeError):
        raise InvalidToolCall(f"Path cannot be resolved: {path}") from None


def resolve_search(path: str | None, pattern: str, context: ToolContext) -> tuple[Path, str]:
    """Return the folder that a glob is searched in, and the glob relative to it."""
    if ".." in pattern.split("/"):
        raise InvalidToolCall("The pattern must not contain `..`; give the folder as `path`.")
    if not pattern.startswith("/"):
        return resolve_path(path or str(context.cwd), context), pattern or "**"
    parts = pattern.split("/")
    wild = next((at for at, part in enumerate(parts) if _WILDCARDS & set(part)), len(parts) - 1)
    return resolve_path("/".join(parts[:wild]) or "/", context), "/" + "/".join(parts[wild:])


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
