"""What a command says, kept without filling memory: bytes as they come in, text for the model out.

Rules
  1. Memory holds the beginning and the end, whatever comes. What does not fit is in a file, up to a limit; what comes
     after that is counted and forgotten.
  2. A file is made when it is needed, for its owner alone, and never in place of another.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from pathlib import Path

IN_MEMORY = 1 << 20
AT_THE_END = 64 << 10
ON_DISK = 64 << 20
_NAMES = 100


class Capture(asyncio.Protocol):
    """The output of one command, read from a pipe or fed by hand."""

    def __init__(self, path: Path, *, at_once: bool = False, limit: int = ON_DISK) -> None:
        self.path = path
        """Where the whole of it goes if it is long."""
        self.size = 0
        """How many bytes there were."""
        self.problem: str | None = None
        """Why the file is not whole, if the disk would not have it."""
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()
        self._file: int | None = None
        self._written = 0
        self._closed = False
        self._ended = asyncio.Event()
        if at_once:
            self._open()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        if self._closed:
            return
        self.size += len(data)
        room = IN_MEMORY - len(self._head)
        if self._file is None and len(data) > room and self.problem is None:
            self._open()
        if room > 0:
            self._head += data[:room]
        if len(data) > room:
            self._tail += data[max(room, 0) :]
            del self._tail[:-AT_THE_END]
        self._append(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Note that nobody is left who could say more."""
        self._ended.set()

    async def ended(self, seconds: float) -> bool:
        """Wait a little for the end; tell whether it has come."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)
        return self._ended.is_set()

    def save(self) -> bool:
        """Have all of it in the file; tell whether it is there."""
        if self._file is None and self.problem is None and not self._closed:
            self._open()
        return self._written > 0

    def close(self) -> None:
        """Take no more."""
        self._closed = True
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def text(self) -> str | None:
        """Return all of it, if memory has all of it."""
        return None if self.size > len(self._head) else _decoded(self._head)

    def start(self, characters: int) -> str:
        """Return how it begins."""
        return _decoded(self._head[: characters * 4])[:characters]

    def end(self, characters: int) -> str:
        """Return how it ends."""
        adjoining = self.size <= len(self._head) + len(self._tail)
        data = self._head[-AT_THE_END:] + self._tail if adjoining else self._tail
        return _decoded(data[-characters * 4 :])[-characters:]

    def _open(self) -> None:
        """Make the file, with what has come so far."""
        try:
            for folder in (self.path.parent.parent, self.path.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path, self._file = _made(self.path)
        except OSError as error:
            self.problem = _words(error)
            return
        self._append(bytes(self._head))

    def _append(self, data: bytes) -> None:
        room = self._limit - self._written
        if self._file is None or room <= 0:
            return
        view = memoryview(data)[:room]
        try:
            while view:
                count = os.write(self._file, view)
                self._written += count
                view = view[count:]
        except OSError as error:
            self.problem = _words(error)
            os.close(self._file)
            self._file = None

    @property
    def is_whole(self) -> bool:
        """Whether the file has all of it."""
        return self._written == self.size


def _made(path: Path) -> tuple[Path, int]:
    """Make a file that was not there, under another name if that one is taken."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    for number in range(1, _NAMES):
        free = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        try:
            return free, os.open(free, flags, 0o600)
        except FileExistsError:
            continue
    raise FileExistsError(errno.EEXIST, "there are too many of that name")


def _words(error: OSError) -> str:
    return (error.strerror or "it cannot be written").lower()


def _decoded(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace")
