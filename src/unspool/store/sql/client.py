"""Runs SQL queries in an engine process that cannot do any harm.

Rules
  1. The engine is a child process (`engine.py`) that gets nothing of this process's environment. If it is killed,
     crashes or runs out of memory, this process is not affected.
  2. A query has a deadline; an engine that takes longer is killed. The time that the reader of the result takes does
     not count.
  3. DuckDB's own messages say what is wrong with a query.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import IO, TYPE_CHECKING, NamedTuple

from unspool.errors import Refused, Unreadable, UsageError
from unspool.store.sql import protocol

if TYPE_CHECKING:
    from unspool.store.sql.views import EngineSetup

MEMORY = 2 << 30
"""Bytes of address space; DuckDB may use half of it for data."""
DEADLINE = 60.0
"""Seconds."""
_START_DEADLINE = 60.0
"""Seconds that an engine may take to start."""
_TOO_MUCH = "select fewer rows or columns; a query may use one gigabyte of memory"
_READ_BYTES = 1 << 16
# `-I` ignores PYTHON* variables and the working folder; the module path is handed over in the arguments instead.
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from unspool.store.sql.engine import main; main()"


class QueryLimits(NamedTuple):
    """What a query may cost."""

    memory: int = MEMORY
    threads: int = min(os.cpu_count() or 1, 4)
    deadline: float | None = DEADLINE
    tables_only: bool = False
    """Whether a query may name tables alone. Their files also hold rows of other folders, which tables leave out."""


class EngineStopped(Unreadable):
    """The engine process ended by itself before it had answered."""


class SqlEngine:
    """The engine process: started by the first query, and again after it had to be killed."""

    def __init__(self, setup: EngineSetup, folder: str, limits: QueryLimits | None = None) -> None:
        self._setup, self._folder = setup, folder
        self._limits = limits or QueryLimits()
        self._process: subprocess.Popen[bytes] | None = None
        self._life = -1

    def __enter__(self) -> SqlEngine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    def execute(self, query: str, form: str) -> Iterator[protocol.ResultHeader | bytes]:
        """Yield the columns of a result, then its rows in one of the forms of `protocol.py`."""
        process = self._process or self._start()
        is_complete = False
        try:
            self._send(protocol.QueryRequest(query.encode(errors="replace").decode(), form))
            for output in self._receive(process, self._limits.deadline):
                match output:
                    case protocol.ResultEnd():
                        is_complete = True
                        return
                    case protocol.QueryFailed(kind=kind, message=message):
                        is_complete = True
                        hint = _TOO_MUCH if message.startswith("Out of Memory") else None
                        if kind == "refused":
                            hint = "a query reads: SELECT, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN"
                        raise UsageError(message, hint=hint)
                    case protocol.ResultHeader() | bytes():
                        yield output
                    case protocol.EngineReady():
                        pass
            message = "the SQL engine exited during the query"
            raise EngineStopped(message, hint="the query may need too much memory; select fewer rows or columns")
        finally:
            # The rest of a result that nobody reads stays in the pipe: the next query needs another process.
            if not is_complete:
                self.close()

    def kill(self) -> None:
        """Kill the process while another thread waits for its result, which then raises `EngineStopped`."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            for pipe in (process.stdin, process.stdout):
                assert pipe
                pipe.close()
            process.wait()
            os.close(self._life)

    def _start(self) -> subprocess.Popen[bytes]:
        theirs, self._life = os.pipe()
        process = self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _PROGRAM, *filter(None, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={},
            cwd="/",
            pass_fds=[theirs],
            start_new_session=True,  # Ctrl-C is for this process to handle
        )
        os.close(theirs)
        limits = self._limits
        start = (*self._setup, self._folder, limits.memory, limits.threads, theirs, limits.tables_only)
        self._send(protocol.StartEngine(*start))
        output = next(self._receive(process, _START_DEADLINE), None)
        if isinstance(output, protocol.EngineReady):
            return process
        self.close()
        if isinstance(output, protocol.QueryFailed):
            raise EngineStopped(f"the SQL engine cannot read the column files: {output.message}")
        raise EngineStopped("the SQL engine did not start")

    def _send(self, message: protocol.StartEngine | protocol.QueryRequest) -> None:
        assert self._process
        assert self._process.stdin
        try:
            protocol.send(self._process.stdin, message)
        except BrokenPipeError:
            self.close()
            raise EngineStopped("the SQL engine has exited") from None

    def _receive(self, process: subprocess.Popen[bytes], deadline: float | None) -> Iterator[protocol.EngineOutput]:
        """Yield what the engine sends until it ends; kill it after the deadline."""
        assert process.stdout
        reader = _DeadlineReader(process.stdout, deadline)
        try:
            while header := reader.read(protocol.FRAME_HEADER):
                data = reader.read(int.from_bytes(header[1:], "little"))
                if data is None:
                    return
                yield data if header[:1] == b"d" else protocol.decode_message(data)
        except TimeoutError:
            self.close()
            hint = "allow more time with `--timeout SECONDS`, or any time with `--timeout 0`"
            raise Refused(f"the query was stopped after {deadline:g} seconds", hint=hint) from None


class _DeadlineReader:
    """Reads from a pipe, and counts only the time it waits for data."""

    def __init__(self, pipe: IO[bytes], deadline: float | None) -> None:
        self._descriptor, self._left = pipe.fileno(), deadline
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def read(self, length: int) -> bytes | None:
        """Return exactly this many bytes; null if the pipe was closed before."""
        data = bytearray()
        while len(data) < length:
            began = time.monotonic()
            if not self._poll.poll(None if self._left is None else max(self._left, 0) * 1000):
                raise TimeoutError
            if self._left is not None:
                self._left -= time.monotonic() - began
            piece = os.read(self._descriptor, min(length - len(data), _READ_BYTES))
            if not piece:
                return None
            data += piece
        return bytes(data)
