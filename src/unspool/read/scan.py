"""A tree: which files of Claude Code's there are in it.

Any folder will do: a config folder, one project of it, a loose file, or a tree with any of these somewhere in it.

Rules
  1. Discovery is by walking. The program's own index misses a third of the sessions.
  2. Links are never followed: what they lead to inside the tree is found anyway, what lies outside is named as
     skipped. Nothing but regular files is opened.
  3. A folder or file that cannot be read is named as skipped and costs nothing else.
  4. Whatever ends in `.jsonl` is read, unless it lies where no session can: overflow of tool results, backups of
     the user's files, and the program's own folders.
"""

import os
import stat
from collections.abc import Collection, Iterator
from enum import Enum
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, TypeAlias

from unspool.files.open import reason
from unspool.paths import AGENT_ID, SESSION_ID


class Kind(Enum):
    """What a file is."""

    SESSION = "session"
    AGENT = "agent"
    JOURNAL = "journal"
    HISTORY = "history"
    INDEX = "index"
    STATS = "stats"
    SETTINGS = "settings"
    TODOS = "todos"
    TASK = "task"
    PLAN = "plan"
    MEMORY = "memory"
    REGISTRY = "registry"
    AGENT_META = "agent-meta"
    TITLE = "title"
    WORKFLOW = "workflow"
    TOOL_RESULT = "tool-result"
    FILE_BACKUP = "file-backup"


LINE_KINDS = frozenset({Kind.SESSION, Kind.AGENT, Kind.JOURNAL, Kind.HISTORY})
"""Files of lines; the others are side files, read whole."""


class Source(NamedTuple):
    """A file, and what its place says about it."""

    place: str
    """Its path. Of most files no more is asked than that, and a `Path` of each would take half of a scan."""
    kind: Kind
    size: int
    modified: int
    """In nanoseconds since 1970."""
    project: str | None = None
    """The project's key: the name of its folder. The project's path is in the records."""
    session_id: str | None = None
    agent_id: str | None = None
    device: int = 0
    inode: int = 0

    @property
    def path(self) -> Path:
        """Its path."""
        return Path(self.place)


class Skipped(NamedTuple):
    """Something in the tree that was not read, and why."""

    path: Path
    reason: str


class Tree(NamedTuple):
    """All that was found, by path."""

    root: Path
    sources: tuple[Source, ...]
    skipped: tuple[Skipped, ...] = ()

    def of(self, *kinds: Kind) -> Iterator[Source]:
        """Yield the files of these kinds."""
        return (source for source in self.sources if source.kind in kinds)


class Stamp(NamedTuple):
    """What the system says of a file; while that stays the same, so does the file."""

    size: int
    modified: int
    device: int
    inode: int


Known: TypeAlias = dict[str, dict[str, tuple[int, ...]]]
"""The stamps of files, by their folder, with a separator at the end, and their name."""


class Look(NamedTuple):
    """What a tree holds, compared with what was known of it."""

    changed: list[Source]
    """New files, and those that have another stamp."""
    skipped: list[Skipped]
    missing: Collection[str]
    """The paths of those that were known and were not found."""
    unchanged: int = 0
    """How many files are as they were."""


class _Folder(NamedTuple):
    """Where in the layout a folder is."""

    place: str = "tree"
    project: str | None = None
    session_id: str | None = None


_CONFIG_MARKS = frozenset(
    {"history.jsonl", "stats-cache.json", "settings.json", ".claude.json", "todos", "statsig", "file-history",
     "shell-snapshots", "plans", "tasks", "sessions"}
)  # fmt: skip
_CONFIG_FOLDERS = {"todos", "tasks", "plans", "sessions", "file-history"}
_NOT_SESSIONS = frozenset(
    {"agents", "backups", "cache", "commands", "debug", "downloads", "hooks", "ide", "image-cache", "local",
     "node_modules", "output-styles", "paste-cache", "plugins", "rules", "session-env", "shell-snapshots",
     "skills", "statsig", "telemetry", "uploads"}
)  # fmt: skip
_SESSION_FOLDERS = {"subagents", "tool-results", "workflows"}
_BY_NAME = frozenset({"tree", "projects", "project", "subagents"})
"""Where a file's name says what it is. Most files are there."""


def scan(root: Path) -> Tree:
    """Return what a folder or file holds. The root is taken as it is: resolve it first."""
    found = look(root, {})
    return Tree(root, tuple(sorted(found.changed, key=attrgetter("place"))), tuple(sorted(found.skipped)))


def look(root: Path, known: Known) -> Look:
    """Return what has changed in a tree. A file that has not costs one question to the system.

    What is found is taken out of `known`: what is left in the end is missing.
    """
    if not root.is_dir():
        return _look_at_file(root, known)
    looking = _Looking(root, known)
    pending = [(str(root), _root_folder(root))]
    while pending:
        pending += looking.folder(*pending.pop())
    return Look(looking.changed, looking.skipped, paths_of(known), looking.unchanged)


def paths_of(known: Known) -> list[str]:
    """Return the paths of files that are known."""
    return [folder + name for folder, names in known.items() for name in names]


class _Looking:
    """Looks at folders, one after the other."""

    def __init__(self, root: Path, known: Known) -> None:
        self._root, self._known = root, known
        self.changed: list[Source] = []
        self.skipped: list[Skipped] = []
        self.unchanged = 0

    def folder(self, path: str, folder: _Folder) -> list[tuple[str, _Folder]]:
        """Look at the files of a folder; return the folders in it."""
        descriptor: int | None = None
        try:
            if _BY_DESCRIPTOR:
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with os.scandir(path if descriptor is None else descriptor) as listing:
                children = list(listing)
        except OSError as error:
            self.skipped.append(Skipped(Path(path), reason(error)))
            children = []
        try:
            return self._children(path, folder, children)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _children(self, path: str, folder: _Folder, children: list[os.DirEntry[str]]) -> list[tuple[str, _Folder]]:
        folder = _recognised(folder, path.rpartition(os.sep)[2], children)
        inside = path.rstrip(os.sep) + os.sep
        known, inner = self._known.get(inside, {}), list[tuple[str, _Folder]]()
        unchanged, take = 0, known.pop
        for child in children:
            name = child.name
            before = take(name, None)
            if before is not None:
                try:
                    now = child.stat(follow_symlinks=False)
                except OSError:
                    pass
                else:
                    if (now.st_size, now.st_mtime_ns, now.st_dev, now.st_ino) == before:
                        unchanged += 1
                        continue
            place = inside + name
            match self._visit(child, place, folder):
                case _Folder() as found:
                    inner.append((place, found))
                case Source() as source:
                    self.changed.append(source)
                    continue
            if before is not None:  # something is there, but not the file
                known[name] = before
        self.unchanged += unchanged
        return inner

    def _visit(self, child: os.DirEntry[str], place: str, folder: _Folder) -> _Folder | Source | None:
        """Return a folder that is to be entered, or a file that is to be read."""
        try:
            if child.is_dir(follow_symlinks=False):
                return _inner(folder, child.name)
            if child.is_symlink():
                self._link(Path(place))
                return None
            kind = _kind(child.name, folder)
            if kind is None:
                return None
            status = child.stat(follow_symlinks=False)
        except OSError as error:
            self.skipped.append(Skipped(Path(place), reason(error)))
            return None
        if not stat.S_ISREG(status.st_mode):
            self.skipped.append(Skipped(Path(place), "not a regular file"))
            return None
        return _source(place, child.name, kind, status, folder)

    def _link(self, path: Path) -> None:
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):
            self.skipped.append(Skipped(path, "a link that leads nowhere"))
            return
        if not target.is_relative_to(self._root) and (target.is_dir() or path.suffix == ".jsonl"):
            self.skipped.append(Skipped(path, "a link out of the tree"))


_BY_DESCRIPTOR = os.scandir in os.supports_fd
"""Whether the files of an open folder can be asked for by their names alone, which the system finds faster."""


def config_around(root: Path) -> Path | None:
    """Return the config folder that a folder or file is a part of: its `projects`, a project, or something in one."""
    for above in (root, *list(root.parents)[:4]):
        if above.name == "projects":
            config = above.parent
            is_config = config.name.startswith(".claude") or any((config / mark).exists() for mark in _CONFIG_MARKS)
            return config if is_config else None
    return None


def _look_at_file(path: Path, known: Known) -> Look:
    status, folder = path.lstat(), _Folder()
    names = known.get(str(path.parent).rstrip(os.sep) + os.sep, {})
    is_same = stamp_of(status) == names.pop(path.name, None)
    source = _source(str(path), path.name, _kind(path.name, folder) or Kind.SESSION, status, folder)
    return Look([] if is_same else [source], [], paths_of(known), int(is_same))


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what the system says of a file."""
    return Stamp(status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino)


def _root_folder(root: Path) -> _Folder:
    """A root may itself lie inside a config folder."""
    if root.parent.name == "projects":
        return _Folder("project", project=root.name)
    if root.parent.parent.name == "projects" and SESSION_ID.fullmatch(root.name):
        return _Folder("session", project=root.parent.name, session_id=root.name)
    return _Folder()


def _recognised(folder: _Folder, name: str, children: list[os.DirEntry[str]]) -> _Folder:
    """A folder may show what it is by what it holds."""
    if folder.place != "tree":
        return folder
    names = {child.name for child in children}
    if "projects" in names and (names & _CONFIG_MARKS or name.startswith(".claude")):
        return _Folder("config")
    if "subagents" in names or (SESSION_ID.fullmatch(name) and names & _SESSION_FOLDERS):
        return _Folder("session", folder.project, name)
    if "sessions-index.json" in names:
        return _Folder("project", name)
    return folder


def _inner(folder: _Folder, name: str) -> _Folder | None:
    """Return where a folder inside another is; None if it is not to be entered."""
    match folder.place:
        case "config" if name in _NOT_SESSIONS:
            return None
        case "config" if name in _CONFIG_FOLDERS:
            return _Folder(name)
        case "tasks" | "file-history":
            return _Folder(folder.place, session_id=name)
        case "projects":
            return _Folder("project", name)
        case "project" if name == "memory":
            return _Folder("memory", folder.project)
        case "project" if SESSION_ID.fullmatch(name):
            return _Folder("session", folder.project, name)
        case "project":
            return _Folder("tree", folder.project)
        case "session" if name in _SESSION_FOLDERS:
            return _Folder(name, folder.project, folder.session_id)
        case "session" | "subagents" | "workflows" | "tool-results" | "memory":
            return folder
        case _ if name == "projects":
            return _Folder("projects")
        case _:
            return _Folder("tree", folder.project)


def _source(place: str, name: str, kind: Kind, status: os.stat_result, folder: _Folder) -> Source:
    session_id, agent_id = folder.session_id, None
    if kind is Kind.SESSION:
        session_id = name.rpartition(".")[0] or name
    elif kind is Kind.AGENT or kind is Kind.AGENT_META:
        stem = name.removeprefix("agent-").removesuffix(".meta.json").removesuffix(".jsonl")
        agent_id = stem if AGENT_ID.fullmatch(stem) else None
    size, modified = status.st_size, status.st_mtime_ns
    return Source(place, kind, size, modified, folder.project, session_id, agent_id, status.st_dev, status.st_ino)


def _kind(name: str, folder: _Folder) -> Kind | None:
    if folder.place in _BY_NAME:
        return _kind_by_name(name)
    stem, _, ending = name.rpartition(".")
    suffix = f".{ending}" if stem else ""
    match folder.place:
        case "tool-results":
            return Kind.TOOL_RESULT
        case "file-history":
            return Kind.FILE_BACKUP if folder.session_id else None
        case "todos":
            return Kind.TODOS if suffix == ".json" else None
        case "tasks":
            return Kind.TASK if suffix == ".json" and folder.session_id else None
        case "plans":
            return Kind.PLAN if suffix == ".md" else None
        case "memory":
            return Kind.MEMORY if suffix == ".md" else None
        case "sessions":
            return Kind.REGISTRY if suffix == ".json" and stem.isdigit() else None
        case "workflows" if suffix == ".json" and name.startswith("wf_"):
            return Kind.WORKFLOW
        case "session" if name == "custom-title.json":
            return Kind.TITLE
        case "config" if name in {"settings.json", "settings.local.json"}:
            return Kind.SETTINGS
        case _:
            return _kind_by_name(name)


def _kind_by_name(name: str) -> Kind | None:
    if name.startswith("agent-") and name.endswith(".meta.json"):
        return Kind.AGENT_META
    if name == "sessions-index.json":
        return Kind.INDEX
    if name == "stats-cache.json":
        return Kind.STATS
    if not name.endswith(".jsonl"):
        return None
    if name == "history.jsonl":
        return Kind.HISTORY
    if name == "journal.jsonl":
        return Kind.JOURNAL
    return Kind.AGENT if name.startswith("agent-") else Kind.SESSION
