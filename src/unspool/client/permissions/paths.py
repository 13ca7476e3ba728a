"""How far a session reaches: a path as it was written in, where it really leads and what lies there out.

Rules
  1. What is judged is the real path: links resolved, as the tools resolve them before they open a file.
  2. A path that cannot be resolved is nobody's (None); whoever asks has to say no.
  3. Some places make programs run, or hold keys: version control, settings, what a shell reads when it starts. Nobody
     writes there without being asked, however much else is allowed.

[merged: places.py] Where a path leads: what a model wrote in, the real path out. Rules are judged on it, and tools open it.

Rules
  1. Whoever judges a path and whoever opens it ask here, so that both mean the same file.
  2. No link is left in what comes out; the file need not be there.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from unspool.client.tool_context import Desk
from unspool.client.tools.base import BadCall
from unspool.permissions.shell_parser import Word

_MOST = 500
"""More files than that in the place of one word are not looked at one by one."""
_STARRED = 2
"""In more parts of a path than that, stars would have us look through the whole tree."""
_FOLDERS = frozenset(
    {".git", ".claude", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".vscode", ".idea", ".husky",
     ".devcontainer", ".cargo", ".githooks", ".hg", ".svn", ".jj", "autostart", "launchagents", "launchdaemons"}
)  # fmt: skip
_FILES = frozenset(
    {".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
     ".zprofile", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".kshrc", ".inputrc", ".envrc", ".gitconfig",
     ".gitmodules", ".ripgreprc", ".mcp.json", ".claude.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".netrc", ".pypirc",
     ".pgpass", ".vimrc", ".exrc", ".emacs", ".tmux.conf", ".screenrc", ".xprofile", ".xinitrc", ".xsession",
     "authorized_keys", "crontab", "pip.conf", "sitecustomize.py", "usercustomize.py"}
)  # fmt: skip


class Reach:
    """The places of one session."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.root = desk.place.root.resolve()
        self.folders = (self.root, *(folder.resolve() for folder in desk.place.added))

    @property
    def home(self) -> str:
        """The home folder, nothing if it is not known."""
        return self.desk.environment.get("HOME", "")

    def real(self, path: str, base: Path | None = None) -> Path | None:
        """Return where a path leads, from the folder where the shell is or from another."""
        named = self.named(path, base)
        try:
            return named.resolve() if named is not None else None
        except (OSError, RuntimeError, ValueError):
            return None

    def named(self, path: str, base: Path | None = None) -> Path | None:
        """Return a path with its folder, links and all; `~` is the home folder, another user's is not known."""
        if not path or "\0" in path:
            return None
        if path == "~" or path.startswith("~/"):
            return Path(self.home + path[1:]) if self.home else None
        if path.startswith("//"):
            path = "/" + path.lstrip("/")  # the same place, but Python keeps two slashes apart from one
        return (base or self.desk.cwd) / path

    def of_word(self, word: Word, base: Path) -> list[Path] | None:
        """Return where a word of a command leads: several places if it is a pattern; None if nobody knows."""
        if word.has_variable or word.has_braces or (word.has_tilde and not (word.text + "/").startswith("~/")):
            return None
        text = word.text if word.has_tilde or not word.text.startswith("~") else f"./{word.text}"
        paths = [self.real(text, base)]
        named = self.named(text, base)
        if word.has_glob and named is not None and paths[0] is not None and self.is_inside(paths[0]):
            if "**" in text or sum(1 for part in named.parts if glob.has_magic(part)) > _STARRED:
                return None
            every = glob.iglob(str(named), include_hidden=True)  # noqa: PTH207 - `Path.glob` takes no absolute pattern
            found = list(islice(every, _MOST + 1))
            if len(found) > _MOST:
                return None
            paths += [self.real(one, base) for one in found]
        known = [path for path in paths if path is not None]
        return known if len(known) == len(paths) else None

    def is_inside(self, path: Path) -> bool:
        """Tell whether a real path lies in a folder that the session works in."""
        return any(path.is_relative_to(folder) for folder in self.folders)

    def is_own(self, path: Path) -> bool:
        """Tell whether a real path is the session's own: results too large to show, the plan."""
        return path.is_relative_to(self.desk.place.side.resolve()) or self.is_plan(path)

    def is_plan(self, path: Path) -> bool:
        """Tell whether a real path is the file that holds the plan."""
        return self.desk.plan is not None and path == self.desk.plan.resolve()

    def guarded(self, path: Path) -> str | None:
        """Return the part of a real path that nobody writes to without being asked."""
        if self.is_plan(path):
            return None
        config = self.desk.place.config.resolve()
        if path.is_relative_to(config):
            return str(config)
        folder = next((folder for folder in self.folders if path.is_relative_to(folder)), Path("/"))
        parts = path.relative_to(folder).parts
        return next((part for part in parts if _is_guarded(part)), None)

    def repository_is_plain(self, folders: Iterable[Path]) -> bool:
        """Tell whether git finds an ordinary repository, or none; a folder that is one itself can hold anything."""
        for folder in folders:
            for place in (folder, *folder.parents):
                if (place / ".git").exists():
                    break
                if (place / "HEAD").exists() and (place / "objects").exists() and (place / "refs").exists():
                    return False
        return True

    def program(self, name: str, base: Path) -> Path | None:
        """Return the file that a name would run, if there is one."""
        for entry in self.desk.environment.get("PATH", "").split(":"):
            place = base / (entry or ".") / name
            if place.is_file():
                return place
        return None

    def is_shadowed(self, name: str, base: Path) -> bool:
        """Tell whether a name would run something that lies in the folders worked in, or where the shell just is."""
        place = self.program(name, base)
        if place is None:
            return False
        return self.is_inside(place.parent.resolve()) or self.is_inside(place.resolve())

    def is_relative(self, name: str, base: Path) -> bool:
        """Tell whether a name is found through an entry of `PATH` that depends on where the shell is."""
        entries = self.desk.environment.get("PATH", "").split(":")
        return any(not Path(entry).is_absolute() and (base / entry / name).is_file() for entry in entries)


def _is_guarded(part: str) -> bool:
    name = part.casefold()
    return name in _FOLDERS or name in _FILES or name.endswith(".git")


_WILD = frozenset("*?[{\\")


def resolved(path: str, desk: Desk) -> Path:
    """Return the real path: `~` is the home folder, and what is relative begins where the shell is."""
    if not path:
        raise BadCall("The path is empty; give an absolute path.")
    if "\0" in path:
        raise BadCall("Path contains null bytes")
    home = desk.environment.get("HOME")
    if home and (path == "~" or path.startswith("~/")):
        path = home + path[1:]
    try:
        return (desk.cwd / path).resolve()
    except (OSError, RuntimeError):
        raise BadCall(f"Path cannot be resolved: {path}") from None


def searched(path: str | None, pattern: str, desk: Desk) -> tuple[Path, str]:
    """Return the folder that a pattern of names is looked for in, and the pattern for what is in it."""
    if ".." in pattern.split("/"):
        raise BadCall("The pattern must not contain `..`; give the folder as `path`.")
    if not pattern.startswith("/"):
        return resolved(path or str(desk.cwd), desk), pattern or "**"
    parts = pattern.split("/")
    wild = next((at for at, part in enumerate(parts) if _WILD & set(part)), len(parts) - 1)
    return resolved("/".join(parts[:wild]) or "/", desk), "/" + "/".join(parts[wild:])


def missing(path: Path, desk: Desk) -> BadCall:
    """Return what to say of a file that is not there."""
    text = "File does not exist."
    if desk.cwd != desk.place.root:
        text += f" Current working directory: {desk.cwd}"
    try:
        like = [name for name in sorted(path.parent.iterdir()) if name.stem == path.stem and name != path]
    except OSError:
        like = []
    return BadCall(f"{text} Did you mean {like[0].name}?" if like else text)


def is_inside(path: Path, desk: Desk) -> bool:
    """Tell whether a real path lies in a folder the session works in."""
    folders = (desk.place.root, *desk.place.added)
    return any(path.is_relative_to(folder.resolve()) for folder in folders)
