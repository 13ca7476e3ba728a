"""Resolve the paths that a call names, and know which of them are in the workspace and which are protected. Pure.

Rules
  1. Paths are texts, and what comes out is absolute and without `..`. Nothing is read from disk here: links are not
     followed, and no glob matches a file. A client, which runs the calls, has a subclass that looks at the disk.
  2. A path that cannot be resolved is None: a call with it must not be allowed.
  3. Some places make programs run, or hold keys: version control, settings, what a shell reads when it starts. Writing
     there is always asked about, whatever else is allowed.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping

from unspool.permissions.shell_parser import Word

MAGIC = re.compile(r"[*?[]")
"""Characters that make a path a glob."""
PARENT_IN_PATTERN = "The pattern must not contain `..`; give the folder as `path`."
"""What a model is told of such a glob."""
_WILDCARDS = re.compile(r"[*?[{\\]")
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
    """Paths as one session sees them: relative to its folders and its home folder."""

    def __init__(
        self,
        root: str,
        cwd: str | None = None,
        *,
        added: Iterable[str] = (),
        environment: Mapping[str, str],
        config: str = "",
        results: str = "",
        plan: str = "",
    ) -> None:
        self.root, self.cwd = root, cwd or root
        self.environment = environment
        self.home = environment.get("HOME", "")
        """The home folder; empty if it is not known."""
        self.folders = (root, *(folder for name in added if (folder := self.resolve(name, root)) is not None))
        """The folders that the session works in."""
        self._config, self._results, self._plan = config, results, plan
        """The config folder, that of the session's own results, and the file that holds the plan; empty if unknown."""

    def resolve(self, path: str, base: str | None = None) -> str | None:
        """Return a path without links, relative to the shell's folder or to another; None if it cannot be resolved."""
        absolute = self.make_absolute(path, base)
        return self.follow_links(absolute) if absolute is not None else None

    def make_absolute(self, path: str, base: str | None = None) -> str | None:
        """Return an absolute path with the links in it; `~` is the home folder, that of another user is not known."""
        if not path or "\0" in path:
            return None
        if path == "~" or path.startswith("~/"):
            if not self.home:
                return None
            path = self.home + path[1:]
        parts = posixpath.join(base or self.cwd, path).split("/")
        return "/" + "/".join(part for part in parts if part not in ("", "."))

    def resolve_word(self, word: Word, base: str) -> list[str] | None:
        """Return the paths that a word of a command names, several if it is a glob; None if they are not known."""
        if word.has_expansion or word.has_braces or (word.has_tilde and not (word.text + "/").startswith("~/")):
            return None
        # A quoted `~` is an ordinary character.
        text = word.text if word.has_tilde or not word.text.startswith("~") else f"./{word.text}"
        absolute, path = self.make_absolute(text, base), self.resolve(text, base)
        matches = self.expand_glob(absolute) if word.has_glob and absolute is not None else []
        if matches is None or "**" in (text if word.has_glob else ""):
            return None
        paths = [path, *(self.resolve(match, base) for match in matches)]
        known = [path for path in paths if path is not None]
        return known if len(known) == len(paths) else None

    def is_inside(self, path: str) -> bool:
        """Return whether a resolved path lies in a folder that the session works in."""
        return any(is_below(path, folder) for folder in self.folders)

    def is_session_file(self, path: str) -> bool:
        """Return whether a resolved path is the session's own: results too large to show, the plan."""
        return is_below(path, self._results) or self.is_plan_file(path)

    def is_plan_file(self, path: str) -> bool:
        """Return whether a resolved path is the file that holds the plan."""
        return path == self._plan

    def protected_part(self, path: str) -> str | None:
        """Return the part of a resolved path that makes writing to it a question; None if it is not protected."""
        if self.is_plan_file(path):
            return None
        if is_below(path, self._config):
            return self._config
        folder = next((folder for folder in self.folders if is_below(path, folder)), "/")
        return next((part for part in path[len(folder) :].split("/") if _is_protected(part)), None)

    # What only a look at the disk can tell: here each answer is that of a disk without surprises.

    def follow_links(self, path: str) -> str | None:
        """Return where an absolute path leads; None if it leads nowhere."""
        return posixpath.normpath(path)

    def expand_glob(self, pattern: str, *, hidden: bool = True) -> list[str] | None:
        """Return the paths that match an absolute glob; None if they are too many.

        With `hidden`, `*` matches also names that begin with a dot.
        """
        return []

    def is_file(self, path: str) -> bool:
        """Return whether there is such a file."""
        return False

    def is_folder(self, path: str) -> bool:
        """Return whether there is such a folder."""
        return False

    def has_ordinary_repository(self, folders: Iterable[str]) -> bool:
        """Return whether git finds a repository in `.git`, or none."""
        return True

    def is_shadowed(self, program: str, base: str) -> bool:
        """Return whether a name would run a file of the workspace, which anybody may have put there."""
        return False

    def is_found_by_relative_entry(self, program: str, base: str) -> bool:
        """Return whether a program is found through an entry of `PATH` that depends on where the shell is."""
        return False


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder or lies in it; nothing lies in a folder that is not known."""
    return bool(folder) and (path == folder or path.startswith(f"{folder.rstrip('/')}/"))


def split_absolute_glob(pattern: str) -> tuple[str, str]:
    """Split a glob that begins with `/` into the folder that it is searched in, and the glob relative to it."""
    parts = pattern.split("/")
    wild = next((at for at, part in enumerate(parts) if _WILDCARDS.search(part)), len(parts) - 1)
    return "/".join(parts[:wild]) or "/", "/" + "/".join(parts[wild:])


def _is_protected(part: str) -> bool:
    name = part.casefold()  # `.GIT` is `.git` on a disk that ignores case
    return name in _PROTECTED_FOLDERS or name in _PROTECTED_FILES or name.endswith(".git")
