"""Files as they were before the client changed them: kept in `file-history/`, told in snapshots. As the program does.

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
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from unspool.client.writer import make_folder
from unspool.errors import Unwritable

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
