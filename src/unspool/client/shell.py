"""Shell commands: text in, a process with its output, its end and the folder it ended in out.

Rules
  1. A command has a session and a process group of its own, no terminal, and nothing to read.
  2. A command that is ended is ended with all it started: the group is asked (TERM), and a little later not asked
     (KILL). On Linux, what left the group is found by a mark in its environment.
  3. What a command put in the background itself (`&`) may go on after it, and is ended with the conversation. What made
     a session of its own (`setsid`, a daemon) outlives it.
  4. A command does not see our keys, and finds no program by way of the folder it is in.
"""

from __future__ import annotations

import asyncio
import asyncio.subprocess
import contextlib
import os
import re
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from unspool.client.capture import Capture

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
