"""SQL asked of an engine that can do no harm: a setup and questions in, answers out.

Rules
  1. The engine is a process of its own (`engine.py`), with nothing of this one's environment. Killed, crashed or out of
     memory, it costs this process nothing.
  2. A question has a deadline: what the engine takes longer for is ended with it. The time that whoever reads the
     answer takes is not counted.
  3. DuckDB's own words say what is wrong with a query.
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

from unspool.errors import Refused, Unreadable, Usage
from unspool.store.sql.protocol import Answer, Ask, Begin, Done, Failed, Header, Ready, send, told

if TYPE_CHECKING:
    from unspool.store.sql.views import Setup

MEMORY = 2 << 30
"""Bytes of address space; DuckDB may use half of it for data."""
DEADLINE = 60.0
"""Seconds."""
_START = 60.0
"""Seconds that an engine may take to start."""
_TOO_MUCH = "a query may use one gigabyte; ask for fewer rows or columns at once"
_PIECE = 1 << 16
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from unspool.store.sql.engine import main; main()"


class Limits(NamedTuple):
    """What a question may cost."""

    memory: int = MEMORY
    threads: int = min(os.cpu_count() or 1, 4)
    deadline: float | None = DEADLINE


class Ended(Unreadable):
    """The engine ended before it had answered, and nobody had told it to."""


class Engine:
    """A process that answers. It is started when it is first asked, and again after it had to be ended."""

    def __init__(self, setup: Setup, folder: str, limits: Limits | None = None) -> None:
        self._setup, self._folder = setup, folder
        self.limits = limits or Limits()
        self._process: subprocess.Popen[bytes] | None = None
        self._life = -1

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    def ask(self, query: str, form: str) -> Iterator[Header | bytes]:
        """Yield the columns of an answer, then its rows, as `wire.py` has them."""
        process = self._started()
        assert process.stdin
        is_whole = False
        try:
            self._say(Ask(query.encode(errors="replace").decode(), form))
            for answer in self._answers(process, self.limits.deadline):
                match answer:
                    case Done():
                        is_whole = True
                        return
                    case Failed(kind="refused", message=message):
                        is_whole = True
                        raise Usage(message, hint="a query reads: SELECT, DESCRIBE, SHOW, SUMMARIZE, EXPLAIN")
                    case Failed(message=message):
                        is_whole = True
                        raise Usage(message, hint=_TOO_MUCH if message.startswith("Out of Memory") else None)
                    case Header() | bytes():
                        yield answer
                    case Ready():
                        pass
            message = "the engine ended while it was answering"
            raise Ended(message, hint="the query may need more memory than it may have")
        finally:
            if not is_whole:  # nobody wants the rest, or it came too late
                self.end()

    def stop(self) -> None:
        """End the process while another thread waits for its answer, which is then told that it has ended."""
        process = self._process
        if process is not None:
            process.kill()

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            for pipe in (process.stdin, process.stdout):
                assert pipe
                pipe.close()
            process.wait()
            os.close(self._life)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None:
            return self._process
        theirs, self._life = os.pipe()
        command = [sys.executable, "-I", "-c", _PROGRAM, *filter(None, sys.path)]
        process = self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={},
            cwd="/",
            pass_fds=[theirs],
            start_new_session=True,  # Ctrl-C is for this process to answer
        )
        os.close(theirs)
        limits = self.limits
        self._say(Begin(*self._setup, self._folder, limits.memory, limits.threads, theirs))
        for answer in self._answers(process, _START):
            match answer:
                case Ready():
                    return process
                case Failed(message=message):
                    self.end()
                    raise Ended(f"the engine cannot read the column files: {message}")
                case _:
                    pass
        self.end()
        raise Ended("the engine did not start")

    def _say(self, words: Begin | Ask) -> None:
        assert self._process
        assert self._process.stdin
        try:
            send(self._process.stdin, words)
        except BrokenPipeError:
            self.end()
            raise Ended("the engine has ended") from None

    def _answers(self, process: subprocess.Popen[bytes], deadline: float | None) -> Iterator[Answer]:
        """Yield messages until the engine ends; too late, it is ended."""
        assert process.stdout
        reader = _Reader(process.stdout, deadline)
        try:
            while head := reader.read(9):
                data = reader.read(int.from_bytes(head[1:], "little"))
                if data is None:
                    return
                yield data if head[:1] == b"d" else told(data)
        except TimeoutError:
            self.end()
            hint = "`--timeout SECONDS` gives it longer; `0` any time it takes"
            raise Refused(f"the query took longer than {deadline:g} seconds and was ended", hint=hint) from None


class _Reader:
    """Reads from a pipe, and counts the time it waits."""

    def __init__(self, pipe: IO[bytes], deadline: float | None) -> None:
        self._descriptor, self._left = pipe.fileno(), deadline
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLIN)

    def read(self, length: int) -> bytes | None:
        """Return so many bytes; nothing if there are no more."""
        data = bytearray()
        while len(data) < length:
            began = time.monotonic()
            if not self._poll.poll(None if self._left is None else max(self._left, 0) * 1000):
                raise TimeoutError
            if self._left is not None:
                self._left -= time.monotonic() - began
            piece = os.read(self._descriptor, min(length - len(data), _PIECE))
            if not piece:
                return None
            data += piece
        return bytes(data)
