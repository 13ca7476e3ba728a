"""The way back: the prompts of a conversation and what its files were like before each; its branches.

Rules
  1. Going back writes nothing over: what was said stays as a branch, and files are kept as they are before they change.
  2. A file that came to be tracked after a prompt was, at that prompt, as its first backup has it.

[merged: backups.py] Files as they were before the client changed them: kept in `file-history/`, told in snapshots. As the program does.

Rules
  1. A backup is named `sha256(path)[:16]@v<n>`; a file that did not exist has none, and a snapshot says null.
  2. At each prompt, what has changed since its last backup is kept again; the snapshot tells how each tracked file was.
  3. Before a file is changed for the first time it is kept. After each change the snapshot of the prompt is told again.
  4. A backup that is there already is never written again: a session that is gone on with keeps what it had.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from unspool.client.session.writer import make_folder
from unspool.errors import NotFound, Unwritable
from unspool.format.entry import Entry
from unspool.format.meta_records import Backup, FileHistoryDelta, FileHistorySnapshot
from unspool.format.records import User
from unspool.graph.context.build import context
from unspool.graph.speakers import Speaker
from unspool.graph.threads import thread_lines, threads
from unspool.graph.turns import speaker, typed_text

Json: TypeAlias = dict[str, Any]
_READ = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)


class Kept(NamedTuple):
    """A file as it was: the name of its backup, None if it did not exist."""

    name: str | None
    version: int
    time: str
    digest: bytes | None = None
    """Of what it held; None if it is not known."""

    def note(self) -> Json:
        """Return it as a snapshot has it."""
        return {"backupFileName": self.name, "version": self.version, "backupTime": self.time}


class Backups:
    """The tracked files of one session."""

    def __init__(self, folder: Path, root: Path, now: Callable[[], str]) -> None:
        self._folder = folder
        """`file-history/<session>`."""
        self._root = root
        self._now = now
        self._files: dict[str, Kept] = {}
        """By the path as snapshots have it: below the root, relative to it."""
        self._digests: dict[str, bytes | None] = {}
        """Of what backups hold."""
        self.changed = False
        """Whether a file may have changed since a snapshot told of it."""

    def go_on(self, files: Mapping[str, Kept]) -> None:
        """Take up what a session tracked."""
        self._files = {**files}

    def keep(self, path: Path) -> None:
        """Keep a file that is about to be changed."""
        name = self._tracked(path)
        if name not in self._files:
            self._files[name] = self._kept(path, 1)
        self.changed = True

    def at_prompt(self) -> Json:
        """Keep what has changed since it was last kept; return what a snapshot tells."""
        for name, kept in [*self._files.items()]:
            if self.differs(name, kept):
                self._files[name] = self._kept(self._root / name, kept.version + 1)
        self.changed = False
        return self.told()

    def told(self) -> Json:
        """Return what a snapshot tells now."""
        return {name: kept.note() for name, kept in self._files.items()}

    def paths(self) -> list[str]:
        """Return what is tracked."""
        return [*self._files]

    def differs(self, name: str, kept: Kept, now: dict[str, bytes | None] | None = None) -> bool:
        """Tell whether a file is not as it was kept. `now`: how files are, as far as it is known; filled here."""
        known = {} if now is None else now
        if name not in known:
            known[name] = _digest(self._root / name)
        return known[name] != self._known(kept)

    def held(self, name: str) -> tuple[bytes, int] | None:
        """Return what a backup holds, and its mode; None if it is gone."""
        try:
            descriptor = os.open(self._folder / name, _READ | getattr(os, "O_NOFOLLOW", 0))
            with os.fdopen(descriptor, "rb") as file:
                return file.read(), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        except OSError:
            return None

    def _tracked(self, path: Path) -> str:
        try:
            return str(path.relative_to(self._root))
        except ValueError:
            return str(path)

    def _known(self, kept: Kept) -> bytes | None:
        if kept.name is None or kept.digest is not None:
            return kept.digest
        if kept.name not in self._digests:
            held = self.held(kept.name)
            self._digests[kept.name] = None if held is None else hashlib.sha256(held[0]).digest()
        return self._digests[kept.name]

    def _kept(self, path: Path, version: int) -> Kept:
        time = self._now()
        try:
            descriptor = os.open(path, _READ)
        except OSError:
            return Kept(None, version, time)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                return Kept(None, version, time)
            data = file.read()
        name = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:16]
        while True:  # a rewound session may have had this version before, of something else
            full = f"{name}@v{version}"
            if self._write(full, data, stat.S_IMODE(about.st_mode)):
                return Kept(full, version, time, hashlib.sha256(data).digest())
            version += 1

    def _write(self, name: str, data: bytes, mode: int) -> bool:
        """Write a backup; tell whether it is there now, with these bytes."""
        path = self._folder / name
        try:
            make_folder(self._folder)
            try:
                descriptor = os.open(path, _MAKE, 0o600)
            except FileExistsError:
                held = self.held(name)
                return held is not None and held[0] == data
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    os.fchmod(file.fileno(), mode & 0o700)
            except OSError:
                with suppress(OSError):
                    path.unlink()
                raise
        except OSError as error:
            words = (error.strerror or type(error).__name__).lower()
            raise Unwritable(f"cannot keep a backup as `{path}`: {words}") from None
        return True


def _digest(path: Path) -> bytes | None:
    try:
        return hashlib.sha256(path.read_bytes()).digest() if path.is_file() else None
    except OSError:
        return None


class Point(NamedTuple):
    """A prompt to go back to."""

    uuid: str
    parent: str | None
    text: str
    files: tuple[str, ...]
    """What has changed since, as far as it is tracked."""


class Branch(NamedTuple):
    """A way a conversation went."""

    leaf: str
    text: str
    """Its last prompt."""
    detail: str
    is_active: bool


def points(entries: Sequence[Entry], backups: Backups) -> list[Point]:
    """Return the prompts of the thread that is gone on with, the oldest first."""
    then = _before(entries)
    now: dict[str, bytes | None] = {}
    found = []
    for line in thread_lines(entries):
        record = line.record
        if is_prompt(line) and isinstance(record, User):
            files = [path for path, kept in then.get(record.uuid, {}).items() if backups.differs(path, kept, now)]
            text = typed_text(record.message.blocks)
            found.append(Point(record.uuid or "", record.parent_uuid, text, tuple(sorted(files))))
    return found


def said(entries: Sequence[Entry], leaf: str, model: str) -> list[dict[str, Any]]:
    """Return what was said up to a line: no more than its lines say, for it is gone on with from there."""
    found = context(entries, leaf, model)
    if found and all(block.entry is None for block in found[-1].blocks):
        found.pop()
    return [message.json for message in found]


def branches(entries: Sequence[Entry]) -> list[Branch]:
    """Return every way the conversation went, the oldest first."""
    active = {line.record.uuid for line in thread_lines(entries)}
    found = []
    for thread in threads(entries):
        prompts = [line for line in thread.entries if is_prompt(line)]
        texts = [typed_text(line.record.message.blocks) for line in prompts if isinstance(line.record, User)]
        leaf = thread.leaf.record.uuid or ""
        count = f"{len(texts)} prompt{'' if len(texts) == 1 else 's'}"
        when = (thread.leaf.record.timestamp or "")[:16].replace("T", " ")
        found.append(Branch(leaf, texts[-1] if texts else "", f"{count}, {when}", leaf in active))
    return found


def is_prompt(line: Entry) -> bool:
    """Tell whether a line is what somebody asked for."""
    record = line.record
    return isinstance(record, User) and speaker(record) in (Speaker.HUMAN, Speaker.COMMAND)


def before(entries: Sequence[Entry], prompt: str) -> dict[str, Kept]:
    """Return how every tracked file was before a prompt."""
    return _before(entries).get(prompt, {})


def restore(backups: Backups, root: Path, wanted: dict[str, Kept]) -> list[str]:
    """Let files be as they were; return those that changed."""
    missing = [path for path, kept in wanted.items() if kept.name is not None and backups.held(kept.name) is None]
    if missing:
        raise NotFound(f"there is no backup of `{missing[0]}` any more", hint="nothing was changed")
    changed = []
    for path, kept in sorted(wanted.items()):
        if _restored(backups, root / path, kept):
            changed.append(path)
    return changed


def _restored(backups: Backups, path: Path, kept: Kept) -> bool:
    try:
        if kept.name is None:
            if not path.is_file():
                return False
            path.unlink()
            return True
        held = backups.held(kept.name)
        assert held is not None
        data, mode = held
        if path.is_file() and path.read_bytes() == data:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, data, mode)
    except OSError as error:
        raise Unwritable(f"cannot restore `{path}`: {(error.strerror or '').lower()}") from None
    return True


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write a file as a whole; it keeps its rights, a new one gets those of its owner's."""
    target = path.resolve()
    rights = target.stat().st_mode & 0o7777 if target.exists() else (mode | mode >> 3 | mode >> 6) & ~_umask()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), rights)
        beside.replace(target)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now


def _before(entries: Sequence[Entry]) -> dict[str | None, dict[str, Kept]]:
    """Return how files were before each prompt: as its snapshot has them, else as the next one has that does."""
    told: dict[str | None, dict[str, Kept]] = {}
    for prompt, path, backup in _tracked(entries):
        told.setdefault(prompt, {})[path] = Kept(backup.backup_file_name, backup.version or 1, backup.backup_time or "")
    later: dict[str, Kept] = {}
    for prompt in reversed([*told]):
        later = told[prompt] = {**later, **told[prompt]}
    return told


def _tracked(entries: Iterable[Entry]) -> Iterable[tuple[str | None, str, Backup]]:
    """Yield what snapshots tell: the prompt, a file, its backup."""
    for entry in entries:
        match entry.record:
            case FileHistorySnapshot(snapshot=snapshot):
                yield from ((snapshot.message_id, *one) for one in snapshot.tracked_file_backups.items())
            case FileHistoryDelta(snapshot_message_id=prompt, tracking_path=str(path), backup=Backup() as backup):
                yield prompt, path, backup
            case _:
                pass
