"""Finds the files of Claude Code in a folder, says what each one is, and which have changed.

Any folder will do: a config folder, one project of it, a loose file, or a tree with any of these somewhere in it.

Rules
  1. Files are found by walking. Claude Code's own index misses a third of the sessions.
  2. Links are never followed: what they lead to inside the tree is found anyway, what lies outside is listed as
     skipped. Nothing but regular files is opened.
  3. A folder or file that cannot be read is listed as skipped and costs nothing else.
  4. Whatever ends in `.jsonl` is read, unless it lies where no session can: overflow of tool results, backups of
     the user's files, and Claude Code's own folders.
  5. A sparse file is read up to its first hole (`files/open.py`). It is found, and listed as skipped from there on.
"""

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, TypeAlias

from unspool.errors import Unreadable, UnspoolError
from unspool.files import (
    MAX_SIDE_FILE,
    describe_too_large,
    error_reason,
    file_identity,
    modified_time,
    open_with_status,
    unread_reason,
)
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

    @classmethod
    def _missing_(cls, value: object) -> "Kind":
        # A store or an archive may be damaged: what it says is no reason for a traceback.
        raise Unreadable(f"unknown kind of file: `{str(value)[:40]}`", hint="rebuild the store with `sync --rebuild`")


LINE_KINDS = frozenset({Kind.SESSION, Kind.AGENT, Kind.JOURNAL, Kind.HISTORY})
"""Files that are read line by line; the others are side files, read whole."""


class Source(NamedTuple):
    """A file, and what its path says about it."""

    place: str
    """Its path, as text: most callers need no more, and making a `Path` of each would take half of a scan."""
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
    """A file or folder of the tree that was not read, and why."""

    path: Path
    reason: str


class Tree(NamedTuple):
    """The files of a tree, ordered by path."""

    root: Path
    sources: tuple[Source, ...]
    skipped: tuple[Skipped, ...] = ()
    others: tuple[Path, ...] = ()
    """The roots of other trees that were joined to this one."""

    @property
    def roots(self) -> tuple[Path, ...]:
        """All its roots."""
        return (self.root, *self.others)

    def of(self, *kinds: Kind) -> Iterator[Source]:
        """Yield the files of these kinds."""
        return (source for source in self.sources if source.kind in kinds)


class Stamp(NamedTuple):
    """Size, time and inode of a file; while they stay the same, so does the file."""

    size: int
    modified: int
    device: int
    inode: int


LARGE_FILE = 1024**3
"""Bytes up to which every file is read to its end: neither its holes nor its lines can be longer."""

# By folder and not by whole path: 20,000 stamps are compared in a fifth of the time.
KnownFiles: TypeAlias = dict[str, dict[str, tuple[int, ...]]]
"""The stamps of known files, by folder (with a separator at the end) and name."""


class ScanChanges(NamedTuple):
    """The differences between a tree and the files that were known of it."""

    changed: list[Source]
    """New files, and those with another stamp."""
    skipped: list[Skipped]
    missing: Collection[str]
    """Paths of known files that were not found."""
    unchanged: int = 0
    """The number of files with the same stamp."""
    large: tuple[str, ...] = ()
    """Paths of files with the same stamp that are so large that a line in them may have no end."""


class _Folder(NamedTuple):
    """A folder's role in the layout of a config folder."""

    role: str = "tree"
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
_ROLES_OF_NAMED_FILES = frozenset({"tree", "projects", "project", "subagents"})
"""Roles of folders in which a file's name alone says what it is. Most files lie there."""


_NAMED_FILES = {
    "sessions-index.json": Kind.INDEX,
    "stats-cache.json": Kind.STATS,
    "history.jsonl": Kind.HISTORY,
    "journal.jsonl": Kind.JOURNAL,
}


def scan(root: Path) -> Tree:
    """Find the files of a folder. The root is taken as it is: resolve it first."""
    changes = scan_changes(root, {})
    return Tree(root, tuple(sorted(changes.changed, key=attrgetter("place"))), tuple(sorted(changes.skipped)))


def scan_all(roots: Sequence[Path]) -> Tree:
    """Find the files of several folders. One that has gone is empty, and one that cannot be reached is skipped."""
    trees = [_scan_if_there(root) for root in roots]
    return trees[0] if len(trees) == 1 else _join_trees(trees)


def _scan_if_there(root: Path) -> Tree:
    try:
        root.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return Tree(root, ())
    except OSError as error:
        return Tree(root, (), (Skipped(root, error_reason(error)),))
    return scan(root)


def _join_trees(trees: Sequence[Tree]) -> Tree:
    """Return the files of several trees as one, ordered by path. No tree lies in another."""
    sources = sorted((source for tree in trees for source in tree.sources), key=attrgetter("place"))
    skipped = sorted(skipped for tree in trees for skipped in tree.skipped)
    root, *others = [tree.root for tree in trees]
    return Tree(root, tuple(sources), tuple(skipped), tuple(others))


def find_unreadable(tree: Tree) -> Iterator[Skipped]:
    """Yield the files of a tree that cannot be opened, or are too large to be read whole, without reading them."""
    for source in tree.sources:
        try:
            descriptor, status = open_with_status(source.place)
        except UnspoolError as error:
            yield Skipped(source.path, error.reason)
            continue
        os.close(descriptor)
        # Copies of the user's own files are never read whole.
        if source.kind not in LINE_KINDS and source.kind is not Kind.FILE_BACKUP and status.st_size > MAX_SIDE_FILE:
            yield Skipped(source.path, describe_too_large(status.st_size))


def scan_changes(root: Path, known: KnownFiles) -> ScanChanges:
    """Find what has changed in a tree. A file that has not changed costs one `stat`.

    Files that are found are taken out of `known`: what is left in the end is missing.
    """
    if not root.is_dir():
        return _file_changes(root, known)
    walker = _Walker(root, known)
    pending = [(str(root), _root_folder(root))]
    while pending:
        pending += walker.visit_folder(*pending.pop())
    return ScanChanges(
        walker.changed, walker.skipped, known_paths(known), walker.unchanged, tuple(walker.unchanged_large)
    )


def known_paths(known: KnownFiles) -> list[str]:
    """Return the paths of known files."""
    return [folder + name for folder, names in known.items() for name in names]


class _Walker:
    """Visits folders one by one and collects what has changed."""

    def __init__(self, root: Path, known: KnownFiles) -> None:
        self._root, self._known = root, known
        self.changed: list[Source] = []
        self.skipped: list[Skipped] = []
        self.unchanged = 0
        self.unchanged_large: list[str] = []

    def visit_folder(self, path: str, folder: _Folder) -> list[tuple[str, _Folder]]:
        """Visit the files of a folder; return the folders in it."""
        descriptor: int | None = None
        try:
            if _SCANDIR_TAKES_DESCRIPTOR:
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            with os.scandir(path if descriptor is None else descriptor) as listing:
                children = list(listing)
        except OSError as error:
            self.skipped.append(Skipped(Path(path), error_reason(error)))
            children = []
        try:
            return self._visit_children(path, folder, children)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _visit_children(
        self, path: str, folder: _Folder, children: list[os.DirEntry[str]]
    ) -> list[tuple[str, _Folder]]:
        folder = _recognise(folder, path.rpartition(os.sep)[2], children)
        inside = path.rstrip(os.sep) + os.sep
        known, inner = self._known.get(inside, {}), list[tuple[str, _Folder]]()
        # Local names and no call for an unchanged file: a warm report visits every file and reads none.
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
                    # `stamp_of` is for what is out of the ordinary: a time after 2262, an inode of 64 bits.
                    if (now.st_size, now.st_mtime_ns, now.st_dev, now.st_ino) == before or stamp_of(now) == before:
                        unchanged += 1
                        if now.st_size > LARGE_FILE:
                            self.unchanged_large.append(inside + name)
                            self._note_unread(inside + name, now)
                        continue
            place = inside + name
            match self._visit_child(child, place, folder):
                case _Folder() as child_folder:
                    inner.append((place, child_folder))
                case Source() as source:
                    self.changed.append(source)
                    continue
            if before is not None:  # something is there, but not the file
                known[name] = before
        self.unchanged += unchanged
        return inner

    def _visit_child(self, child: os.DirEntry[str], place: str, folder: _Folder) -> _Folder | Source | None:
        """Return a folder to enter, or a file to read."""
        try:
            if child.is_dir(follow_symlinks=False):
                return _inner_folder(folder, child.name)
            if child.is_symlink():
                if _may_matter(child.name, folder):
                    self._skip_link(Path(place))
                return None
            kind = _kind(child.name, folder)
            if kind is None:  # decided by the name, before the file costs a `stat`
                return None
            status = child.stat(follow_symlinks=False)
        except OSError as error:
            self.skipped.append(Skipped(Path(place), error_reason(error)))
            return None
        if not stat.S_ISREG(status.st_mode):
            self.skipped.append(Skipped(Path(place), "not a regular file"))
            return None
        if status.st_size > LARGE_FILE:
            self._note_unread(place, status)
        return _source(place, child.name, kind, status, folder)

    def _note_unread(self, place: str, status: os.stat_result) -> None:
        """List a file that is not read to its end."""
        if reason := unread_reason(place, status):
            self.skipped.append(Skipped(Path(place), reason))

    def _skip_link(self, path: Path) -> None:
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError):  # a loop of links is a RuntimeError before Python 3.13
            self.skipped.append(Skipped(path, "broken symbolic link"))
            return
        if not target.is_relative_to(self._root) and (target.is_dir() or path.suffix == ".jsonl"):
            self.skipped.append(Skipped(path, "symbolic link out of the folder"))


_SCANDIR_TAKES_DESCRIPTOR = os.scandir in os.supports_fd
"""Whether an open folder can be listed: `stat` then takes names relative to it, which the system finds faster."""


def find_config_folder(root: Path) -> Path | None:
    """Return the config folder that contains a path: its `projects`, a project, or something in one."""
    for above in (root, *list(root.parents)[:4]):
        if above.name == "projects":
            config = above.parent
            is_config = config.name.startswith(".claude") or any((config / mark).exists() for mark in _CONFIG_MARKS)
            return config if is_config else None
    return None


def _file_changes(path: Path, known: KnownFiles) -> ScanChanges:
    status, folder = path.lstat(), _Folder()
    names = known.get(str(path.parent).rstrip(os.sep) + os.sep, {})
    is_same = stamp_of(status) == names.pop(path.name, None)
    source = _source(str(path), path.name, _kind(path.name, folder) or Kind.SESSION, status, folder)
    reason = unread_reason(path, status)
    skipped, large = [Skipped(path, reason)] if reason else [], (str(path),) if is_same else ()
    return ScanChanges([] if is_same else [source], skipped, known_paths(known), int(is_same), large)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file."""
    return Stamp(status.st_size, modified_time(status), *file_identity(status))


def _root_folder(root: Path) -> _Folder:
    """Return the role of the root, which may itself lie inside a config folder."""
    if root.parent.name == "projects":
        return _Folder("project", project=root.name)
    if root.parent.parent.name == "projects" and SESSION_ID.fullmatch(root.name):
        return _Folder("session", project=root.parent.name, session_id=root.name)
    return _Folder()


def _recognise(folder: _Folder, name: str, children: list[os.DirEntry[str]]) -> _Folder:
    """Return the role of a folder, which may show in what it contains."""
    if folder.role != "tree":
        return folder
    names = {child.name for child in children}
    # A folder `projects` alone proves nothing: many people have one.
    if "projects" in names and (names & _CONFIG_MARKS or name.startswith(".claude")):
        return _Folder("config")
    if "subagents" in names or (SESSION_ID.fullmatch(name) and names & _SESSION_FOLDERS):
        return _Folder("session", folder.project, name)
    if "sessions-index.json" in names:
        return _Folder("project", name)
    return folder


def _inner_folder(folder: _Folder, name: str) -> _Folder | None:
    """Return the role of a folder inside another; None if it is not to be entered."""
    match folder.role:
        case "config" if name in _NOT_SESSIONS:
            return None
        case _ if name == ".codex":  # another program's config folder, with files of the same names
            return None
        case "config" if name in _CONFIG_FOLDERS:
            return _Folder(name)
        case "tasks" | "file-history":
            return _Folder(folder.role, session_id=name)
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


def _may_matter(name: str, folder: _Folder) -> bool:
    """Tell whether a link stands where a session, a side file or a folder with such would be read."""
    # Many people link `CLAUDE.md`, `skills` and the like to a folder of their own: nothing is missed there.
    if folder.role == "tree" or _kind(name, folder) is not None:
        return True
    if folder.role == "config":
        return name == "projects" or name in _CONFIG_FOLDERS
    return "." not in name and _inner_folder(folder, name) is not None


def _source(place: str, name: str, kind: Kind, status: os.stat_result, folder: _Folder) -> Source:
    # An agent is known by session and agent id together: agents of several sessions may have the same id.
    session_id, agent_id = folder.session_id, None
    if kind is Kind.SESSION:
        session_id = name.rpartition(".")[0] or name
    elif kind is Kind.AGENT or kind is Kind.AGENT_META:
        stem = name.removeprefix("agent-").removesuffix(".meta.json").removesuffix(".jsonl")
        agent_id = stem if AGENT_ID.fullmatch(stem) else None
    size, modified = status.st_size, modified_time(status)
    return Source(place, kind, size, modified, folder.project, session_id, agent_id, *file_identity(status))


def _kind(name: str, folder: _Folder) -> Kind | None:
    if folder.role in _ROLES_OF_NAMED_FILES:
        return _kind_by_name(name)
    stem, _, ending = name.rpartition(".")
    suffix = f".{ending}" if stem else ""
    match folder.role:
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
    if kind := _NAMED_FILES.get(name):
        return kind
    if not name.endswith(".jsonl"):
        return None
    return Kind.AGENT if name.startswith("agent-") else Kind.SESSION
