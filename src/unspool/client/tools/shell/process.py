"""Run a shell command as a process: keep its output within bounds, end it with all it started, know where it ended.

Rules
  1. A command has a session and a process group of its own, no terminal, and nothing to read.
  2. A command that is ended is ended with all it started: the group gets SIGTERM, and a little later SIGKILL.
     Processes that left the group are found by a mark in their environment.
  3. What a command put in the background itself (`&`) may go on after it, and is ended with the session. What made a
     session of its own (`setsid`, a daemon) outlives it.
  4. A command does not see our keys, and finds no program by way of the folder it is in.
  5. Memory holds the beginning and the end of the output, however long it is. The rest is in a file, up to a limit;
     what comes after that is counted and dropped.
  6. The output file is created when it is needed, for its owner alone, and never in place of another.
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
from typing import TYPE_CHECKING

from unspool import sandbox  # its door is lazy
from unspool.processes import Descendant, find_descendants

if TYPE_CHECKING:
    from unspool.client.command_sandbox import SandboxedStart
    from unspool.sandbox import RestrictedChild

MAX_FILE_BYTES = 64 << 20
_MAX_HEAD_BYTES = 1 << 20
_MAX_TAIL_BYTES = 64 << 10
_MAX_SAME_NAMES = 100
_OUR_SECRETS = re.compile(r"(ANTHROPIC|CLAUDE|UNSPOOL)_\w*(KEY|TOKEN|SECRET|PASSWORD|HEADERS|CREDENTIAL)\w*")
_MARK = "UNSPOOL_COMMAND"
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_GRACE_SECONDS = 2.0
_QUIET_SECONDS = 0.05
_MAX_QUIET_CHECKS = 20


class OutputCapture(asyncio.Protocol):
    """The output of one command, read from a pipe."""

    def __init__(self, path: Path, *, at_once: bool = False, limit: int = MAX_FILE_BYTES) -> None:
        self.path = path
        """Where all of it goes if it is long."""
        self.size = 0
        """How many bytes there were."""
        self.problem: str | None = None
        """Why the file is not complete, if it could not be written."""
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
        """Keep what came from the pipe."""
        if self._closed:
            return
        self.size += len(data)
        room = _MAX_HEAD_BYTES - len(self._head)
        if self._file is None and len(data) > room and self.problem is None:
            self._open()
        if room > 0:
            self._head += data[:room]
        if len(data) > room:
            self._tail += data[max(room, 0) :]
            del self._tail[:-_MAX_TAIL_BYTES]
        self._append(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Note that no process holds the pipe open any more."""
        self._ended.set()

    async def wait_ended(self, seconds: float) -> bool:
        """Wait for the end of the output, for some seconds at most; return whether it has come."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), seconds)
        return self._ended.is_set()

    def save(self) -> bool:
        """Write all of it to the file; return whether there is one."""
        if self._file is None and self.problem is None and not self._closed:
            self._open()
        return self._written > 0

    def close(self) -> None:
        """Ignore what comes from now on."""
        self._closed = True
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def whole_text(self) -> str | None:
        """Return all of it, if it is in memory."""
        return None if self.size > len(self._head) else self._head.decode("utf-8", "replace")

    def first_text(self, characters: int) -> str:
        """Return how it begins."""
        return self._head[: characters * 4].decode("utf-8", "replace")[:characters]

    def last_text(self, characters: int) -> str:
        """Return how it ends."""
        is_contiguous = self.size <= len(self._head) + len(self._tail)
        data = self._head[-_MAX_TAIL_BYTES:] + self._tail if is_contiguous else self._tail
        return data[-characters * 4 :].decode("utf-8", "replace")[-characters:]

    @property
    def is_saved_whole(self) -> bool:
        """Whether the file has all of it."""
        return self._written == self.size

    def _open(self) -> None:
        """Create the file, with what has come so far."""
        try:
            for folder in (self.path.parent.parent, self.path.parent):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path, self._file = _create_file(self.path)
        except OSError as error:
            self.problem = _describe(error)
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
            # A full disk does not end the command: its output goes on in memory.
            self.problem = _describe(error)
            os.close(self._file)
            self._file = None


def _create_file(path: Path) -> tuple[Path, int]:
    """Create a file that was not there, under another name if that one is taken."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    for number in range(1, _MAX_SAME_NAMES):
        free = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        try:
            return free, os.open(free, flags, 0o600)
        except FileExistsError:
            continue
    raise FileExistsError(errno.EEXIST, "there are too many of that name")


def _describe(error: OSError) -> str:
    return (error.strerror or "it cannot be written").lower()


def make_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command: ours, without our keys and without relative entries of `PATH`."""
    # A `CDPATH` would lead a `cd` to another folder than the permission check assumes.
    kept = {name: value for name, value in given.items() if not _OUR_SECRETS.fullmatch(name) and name != "CDPATH"}
    entries = [entry for entry in given.get("PATH", _DEFAULT_PATH).split(os.pathsep) if Path(entry).is_absolute()]
    # Claude Code sets the last two as well: a `git commit` without a message must not wait for an editor.
    return {**kept, "PATH": os.pathsep.join(entries) or _DEFAULT_PATH, "CLAUDECODE": "1", "GIT_EDITOR": "true"}


class CommandProcess:
    """A shell command that runs."""

    def __init__(
        self,
        child: asyncio.subprocess.Process | RestrictedChild,
        capture: OutputCapture,
        pipe: asyncio.ReadTransport,
        *,
        mark: str,
        folder_note: Path,
        temporary: Path | None = None,
    ) -> None:
        self.capture = capture
        self._child = child
        self._pipe = pipe
        self._mark = mark
        self._folder_note = folder_note
        """The file to which the shell writes the folder it ends in."""
        self._temporary = temporary
        """The temporary folder of a sandboxed command; removed with it."""

    @classmethod
    async def start(
        cls,
        command: str,
        capture: OutputCapture,
        *,
        cwd: Path,
        environment: Mapping[str, str],
        sandboxed: SandboxedStart | None = None,
    ) -> CommandProcess:
        """Start a command. An `OSError` if there is no shell, no such folder, or the command is too long."""
        import tempfile  # loads `random` and `shutil`, which a chat without commands does not need

        mark = os.urandom(16).hex()
        with contextlib.ExitStack() as stack, contextlib.ExitStack() as undo:
            if sandboxed is not None:
                # What was prepared is not needed any more once the child has started, or has not.
                stack.callback(sandboxed.prepared.close)
                undo.callback(_remove_folder, sandboxed.temporary)
            # In its own folder a sandboxed shell can write the note.
            handle, note = tempfile.mkstemp(prefix="unspool-", dir=sandboxed.temporary if sandboxed else None)
            os.close(handle)
            undo.callback(Path(note).unlink, missing_ok=True)
            reading, writing = os.pipe()
            with os.fdopen(writing, "wb", 0) as end:
                loop = asyncio.get_running_loop()
                pipe, _ = await loop.connect_read_pipe(lambda: capture, os.fdopen(reading, "rb", 0))
                undo.callback(pipe.close)
                script = f"eval {shlex.quote(command)} && pwd -P >| {shlex.quote(note)}"
                given = sandboxed.environment if sandboxed is not None else environment
                child = await _start_shell(script, cwd, {**given, _MARK: mark}, end.fileno(), sandboxed)
            undo.pop_all()
        temporary = sandboxed.temporary if sandboxed is not None else None
        return cls(child, capture, pipe, mark=mark, folder_note=Path(note), temporary=temporary)

    async def wait(self) -> int:
        """Wait for the shell to end and return its exit code; 128 and the signal, if one ended it."""
        code = await self._child.wait()
        # What it put in the background holds the pipe open, and may never be quiet: wait for a pause, not for the end.
        for _ in range(_MAX_QUIET_CHECKS):
            size = self.capture.size
            if await self.capture.wait_ended(_QUIET_SECONDS) or self.capture.size == size:
                break
        return 128 - code if code < 0 else code

    def final_folder(self) -> Path | None:
        """Return the folder it ended in; None if it failed: then Claude Code does not ask for it either."""
        try:
            name = os.fsdecode(self._folder_note.read_bytes()).removesuffix("\n")
            self._folder_note.unlink()
        except OSError:
            return None
        return Path(name) if name and Path(name).is_dir() else None

    async def end(self) -> None:
        """End it with all it started; returns when nothing of it is left, or what is left cannot be ended."""
        ending = asyncio.ensure_future(self._end())
        cancelled = False
        while not ending.done():
            try:
                await asyncio.shield(ending)
            except asyncio.CancelledError:  # to stop here would leave processes behind
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    def lingers(self) -> bool:
        """Return whether something that it put in the background goes on."""
        return self._child.returncode is None or any(process.in_group for process in self._alive() if process.is_marked)

    def end_now(self) -> None:
        """Kill what lingers in its group."""
        if self.lingers():  # so the number of the group is still its own
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Release its pipe and its files."""
        self.capture.close()
        self._pipe.close()
        self._folder_note.unlink(missing_ok=True)
        if self._temporary is not None:
            _remove_folder(self._temporary)

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGKILL):
            until = loop.time() + _GRACE_SECONDS
            pause = 0.005
            is_sent = False
            while alive := self._alive():
                if loop.time() > until:
                    break
                if not is_sent or number == signal.SIGKILL:  # killed again and again: it may be starting others
                    self._send(number, alive)
                    is_sent = True
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.1)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._child.wait(), _GRACE_SECONDS)

    def _send(self, number: signal.Signals, processes: list[Descendant]) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)
        if self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, number)

    def _alive(self) -> list[Descendant]:
        """Return the processes of the command: those of its group, and those that carry its mark."""
        return find_descendants(self._child.pid, _MARK, self._mark)


async def _start_shell(
    script: str, cwd: Path, environment: Mapping[str, str], output: int, sandboxed: SandboxedStart | None
) -> asyncio.subprocess.Process | RestrictedChild:
    """Start a shell that runs a script, in a session of its own and without input."""
    shell = _find_shell()
    prefix: tuple[str, ...] = ()
    descriptors: tuple[int, ...] = ()
    if sandboxed is not None:
        script = sandbox.make_limits(shell) + script
        prefix, restrict, descriptors, _ = sandboxed.prepared
        if restrict is not None:
            words = (*prefix, shell, "-c", script)
            return sandbox.start_restricted(words, restrict, cwd=cwd, environment=environment, output=output)
    return await asyncio.create_subprocess_exec(
        *(*prefix, shell, "-c", script),
        cwd=cwd,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        pass_fds=descriptors,
    )


def _remove_folder(folder: Path) -> None:
    """Remove the temporary folder of a command, with all that is in it."""
    try:
        folder.rmdir()  # most are empty, and then this takes a tenth of the time
    except OSError:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _find_shell() -> str:
    """Return bash, which commands are parsed for, whatever the user's own shell is; else `/bin/sh`."""
    return next((path for path in _SHELLS if os.access(path, os.X_OK)), "/bin/sh")
