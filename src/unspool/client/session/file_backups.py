"""Keeps backups of files as they were before the client changed them, in `file-history/`, as Claude Code does.

Rules
  1. A backup is named `sha256(path)[:16]@v<n>`; a file that did not exist has none, and a snapshot says null.
  2. At each prompt, what has changed since its last backup is backed up again; the snapshot of the prompt names the
     backup of each tracked file.
  3. Before a file is changed for the first time it is backed up. After each change the snapshot is written again.
  4. An existing backup is never written again: a resumed session keeps the backups it had.
  5. A file that is too large for a backup is not changed by a tool. One that became so keeps the backup it has.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from unspool.errors import Unreadable, UnspoolError
from unspool.files import create_atomically, make_folder, raise_unwritable, read_pieces
from unspool.format import FileBackup

# A path may have become a named pipe: without O_NONBLOCK, opening it would wait for a writer for ever.
_READ = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0)

_MAX_BACKUP = 1 << 30
"""Bytes of the largest backup: it is held in memory."""
_TOO_LARGE = b"too large"
"""The digest of all files that are larger than any backup."""


class FileBackups:
    """The tracked files of one session."""

    def __init__(
        self, folder: Path, root: Path, next_timestamp: Callable[[], str], files: Mapping[str, FileBackup] | None = None
    ) -> None:
        self._folder = folder
        """`file-history/<session>`."""
        self._root = root
        self._next_timestamp = next_timestamp
        self.files: dict[str, FileBackup] = {**(files or {})}
        """By the path as snapshots have it: relative, if it is below the root."""
        self._backup_digests: dict[str, bytes | None] = {}
        self.changed = False
        """Whether a file may have changed since the last snapshot."""

    def back_up(self, path: Path) -> None:
        """Back up a file that is about to be changed."""
        name = self._tracked_name(path)
        if name not in self.files:
            backup = self._create(path, 1)
            if backup is None:
                raise Unreadable(
                    f"`{path}` is too large to keep a backup of", hint="change it with a command", reason="too large"
                )
            self.files[name] = backup
        self.changed = True

    def back_up_changes(self) -> dict[str, FileBackup]:
        """Back up the files that have changed since their last backup; return all tracked files."""
        for name, backup in [*self.files.items()]:
            if self.differs(name, backup):
                self.files[name] = self._create(self._root / name, backup.version + 1) or backup
        self.changed = False
        return self.files

    def differs(self, name: str, backup: FileBackup, digests: dict[str, bytes | None] | None = None) -> bool:
        """Tell whether a file is not as it was backed up; `digests` holds those of current files, and is filled."""
        known = {} if digests is None else digests
        if name not in known:
            known[name] = _digest_file(self._root / name)
        return known[name] != self._digest_backup(backup)

    def read_backup(self, name: str) -> tuple[bytes, int] | None:
        """Return the content and mode of a backup; None if it is gone."""
        try:
            descriptor = os.open(self._folder / name, _READ | getattr(os, "O_NOFOLLOW", 0))
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BACKUP:
                    return None
                return file.read(_MAX_BACKUP), stat.S_IMODE(status.st_mode)
        except OSError:
            return None

    def _tracked_name(self, path: Path) -> str:
        return str(path.relative_to(self._root)) if path.is_relative_to(self._root) else str(path)

    def _digest_backup(self, backup: FileBackup) -> bytes | None:
        name = backup.backup_file_name
        if name is None:
            return None
        if name not in self._backup_digests:
            held = self.read_backup(name)
            self._backup_digests[name] = None if held is None else hashlib.sha256(held[0]).digest()
        return self._backup_digests[name]

    def _create(self, path: Path, version: int) -> FileBackup | None:
        """Back up a file; None if it is too large."""
        time = self._next_timestamp()
        try:
            descriptor = os.open(path, _READ)
        except OSError:
            return FileBackup(None, version, time)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return FileBackup(None, version, time)
            data = file.read(_MAX_BACKUP + 1) if status.st_size <= _MAX_BACKUP else None
        if data is None or len(data) > _MAX_BACKUP:  # it may have grown meanwhile
            return None
        name = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:16]
        while True:  # a session that was rewound may have had this version before, with other content
            full = f"{name}@v{version}"
            if self._write(full, data, stat.S_IMODE(status.st_mode)):
                self._backup_digests[full] = hashlib.sha256(data).digest()
                return FileBackup(full, version, time)
            version += 1

    def _write(self, name: str, data: bytes, mode: int) -> bool:
        """Write a backup; tell whether it exists now, with this content."""
        path = self._folder / name
        with raise_unwritable(f"cannot write the backup `{path}`"):
            make_folder(self._folder)
            try:
                # The bits of group and others go: a backup is for its owner alone.
                create_atomically(path, [data], mode & 0o700)
            except FileExistsError:
                held = self.read_backup(name)
                return held is not None and held[0] == data
        return True


def _digest_file(path: Path) -> bytes | None:
    try:
        if path.stat().st_size > _MAX_BACKUP:
            return _TOO_LARGE
        digest = hashlib.sha256()
        for piece in read_pieces(path.resolve()):
            digest.update(piece)
        return digest.digest()
    except (OSError, RuntimeError, UnspoolError):  # RuntimeError: a loop of links, before Python 3.13
        return None
