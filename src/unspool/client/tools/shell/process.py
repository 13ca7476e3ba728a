"""Shell commands: text in, a process with its output, its end and the folder it ended in out.

Rules
  1. A command has a session and a process group of its own, no terminal, and nothing to read.
  2. A command that is ended is ended with all it started: the group is asked (TERM), and a little later not asked
     (KILL). On Linux, what left the group is found by a mark in its environment.
  3. What a command put in the background itself (`&`) may go on after it, and is ended with the conversation. What made
     a session of its own (`setsid`, a daemon) outlives it.
  4. A command does not see our keys, and finds no program by way of the folder it is in.

[merged: capture.py] What a command says, kept without filling memory: bytes as they come in, text for the model out.

Rules
  1. Memory holds the beginning and the end, whatever comes. What does not fit is in a file, up to a limit; what comes
     after that is counted and forgotten.
  2. A file is made when it is needed, for its owner alone, and never in place of another.
"""

from __future__ import annotations

import asyncio
import asyncio.subprocess
import contextlib
import errno
import os
import re
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

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


_OURS = re.compile(r"(ANTHROPIC|CLAUDE|UNSPOOL)_\w*(KEY|TOKEN|SECRET|PASSWORD|HEADERS|CREDENTIAL)\w*")
_MARK = "UNSPOOL_COMMAND"
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")
_PATH = "/usr/local/bin:/usr/bin:/bin"
_GRACE = 2.0
_QUIET = 0.05
_HEARD = 20
_PROCESSES = Path("/proc")


class Command(NamedTuple):
    """What to run, and where."""

    text: str
    cwd: Path
    environment: Mapping[str, str]


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return what a command sees: what we see, without our keys and without relative folders to find programs in."""
    kept = {name: value for name, value in given.items() if not _OURS.fullmatch(name) and name != "CDPATH"}
    folders = [folder for folder in given.get("PATH", _PATH).split(os.pathsep) if Path(folder).is_absolute()]
    return {**kept, "PATH": os.pathsep.join(folders) or _PATH, "CLAUDECODE": "1", "GIT_EDITOR": "true"}


class Process:
    """A command that runs."""

    def __init__(
        self, child: asyncio.subprocess.Process, capture: Capture, pipe: asyncio.ReadTransport, mark: str
    ) -> None:
        self.capture = capture
        self._child = child
        self._pipe = pipe
        self._mark = mark
        self._note: Path | None = None

    @classmethod
    async def start(cls, command: Command, capture: Capture) -> Process:
        """Start it. An `OSError` if there is no shell, no such folder, or no room for the command."""
        import tempfile  # much else comes with it

        mark = os.urandom(16).hex()
        with contextlib.ExitStack() as undo:
            handle, note = tempfile.mkstemp(prefix="unspool-")
            os.close(handle)
            undo.callback(os.unlink, note)
            reading, writing = os.pipe()
            with os.fdopen(writing, "wb", 0) as end:
                loop = asyncio.get_running_loop()
                pipe, _ = await loop.connect_read_pipe(lambda: capture, os.fdopen(reading, "rb", 0))
                undo.callback(pipe.close)
                child = await asyncio.create_subprocess_exec(
                    _shell(),
                    "-c",
                    f"eval {shlex.quote(command.text)} && pwd -P >| {shlex.quote(note)}",
                    cwd=command.cwd,
                    env={**environment(command.environment), _MARK: mark},
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=end,
                    stderr=end,
                    start_new_session=True,
                )
            undo.pop_all()
        process = cls(child, capture, pipe, mark)
        process._note = Path(note)
        return process

    async def wait(self) -> int:
        """Wait for the shell to end and return its exit code; 128 and the signal, if one ended it."""
        code = await self._child.wait()
        for _ in range(_HEARD):  # what it put in the background holds the pipe open, and may never be quiet
            size = self.capture.size
            if await self.capture.ended(_QUIET) or self.capture.size == size:
                break
        return 128 - code if code < 0 else code

    def folder(self) -> Path | None:
        """Return the folder it ended in; None if it failed: then the program does not ask either."""
        if self._note is None:
            return None
        try:
            name = os.fsdecode(self._note.read_bytes()).removesuffix("\n")
            self._note.unlink()
        except OSError:
            return None
        return Path(name) if name and Path(name).is_dir() else None

    async def end(self) -> None:
        """End it with all it started. Done when nothing of it is left, or what is left cannot be ended."""
        ending = asyncio.ensure_future(self._end())
        cancelled = False
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:  # asked to hurry: it cannot
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    def lingers(self) -> bool:
        """Tell whether something that it put in the background goes on."""
        return self._child.returncode is None or any(one.in_group for one in self._alive() if one.is_marked)

    def end_now(self) -> None:
        """End what lingers in its group."""
        if self.lingers():  # so the number of the group is still its own
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Listen no more."""
        self.capture.close()
        self._pipe.close()
        if self._note is not None:
            self._note.unlink(missing_ok=True)

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = loop.time() + _GRACE
            pause = 0.005
            asked = False
            while alive := self._alive():
                if loop.time() > until:
                    break
                if not asked or number == signal.SIGKILL:  # killed again and again: it may be starting others
                    self._send(number, alive)
                    asked = True
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.1)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._child.wait(), _GRACE)

    def _send(self, number: signal.Signals, to: list[_Relative]) -> None:
        for one in to:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one.id, number)
        if self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)

    def _alive(self) -> list[_Relative]:
        """Return what runs of it: what is in its group, and on Linux what carries its mark."""
        if _PROCESSES.is_dir():
            found = [_relative(folder, self._child.pid, self._mark) for folder in _PROCESSES.glob("[1-9]*")]
            return [one for one in found if one is not None]
        try:
            os.killpg(self._child.pid, 0)
        except (ProcessLookupError, PermissionError):
            return []
        return [_Relative(-self._child.pid, in_group=True, is_marked=True)]


class _Relative(NamedTuple):
    """A process that a command started."""

    id: int
    in_group: bool
    is_marked: bool


def _relative(folder: Path, group: int, mark: str) -> _Relative | None:
    """Return a process of `/proc` if it belongs to a command and runs."""
    member = False
    try:
        state, _, in_group = (folder / "stat").read_bytes().rpartition(b") ")[2].split()[:3]
        if state in (b"Z", b"X"):
            return None
        member = int(in_group) == group
        marked = f"{_MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
    except PermissionError:  # another user's; what a command of ours became by `sudo` is one of its group
        return _Relative(int(folder.name), in_group=True, is_marked=False) if member else None
    except (OSError, ValueError):
        return None
    return _Relative(int(folder.name), member, marked) if member or marked else None


def _shell() -> str:
    """Return the shell that commands are judged for (`commands.py`): bash, whatever the person's own is; else any."""
    return next((path for path in _SHELLS if os.access(path, os.X_OK)), "/bin/sh")
