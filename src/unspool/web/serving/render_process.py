"""Renders very long steps in a process of its own, so that no request of another page waits for one.

Rules
  1. Rendering holds Python's lock: in a thread of the server, a diff of 100,000 lines takes every second turn from all
     other pages. What is short is rendered in the server: to send it would take longer.
  2. The process gets the data of a step and returns its HTML. It has a deadline and a limit of memory. One that exceeds
     either is ended, and the request is answered with an error.
  3. One step at a time. The process ends after a while without work, and with the server.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from unspool.errors import TooLarge
from unspool.page import StepDetail

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

MIN_BYTES: Final = 100_000
"""Of the data of a step that is rendered elsewhere: a tenth of that takes a few milliseconds."""
RENDER_SECONDS: Final = 60.0
"""That the process may take for a step, its start included."""
_IDLE_SECONDS: Final = 120.0
_MAX_MEMORY_BYTES: Final = 2 << 30
"""Of address space: the HTML of a step is a few times as large as its line."""
_NICE: Final = 5
"""By how much the process gives way to the server."""


class RenderRequest(msgspec.Struct, frozen=True):
    """A step to be rendered."""

    session: str
    detail: StepDetail
    tab: str


class RenderProcess:
    """The process that renders: started by the first long step, and again after it has ended."""

    def __init__(self, seconds: float = RENDER_SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._timer: threading.Timer | None = None
        self._is_closed = False

    @property
    def pid(self) -> int | None:
        """The id of the process, if there is one."""
        return self._process.pid if self._process is not None else None

    def render(self, session: str, detail: StepDetail, tab: str) -> bytes | None:
        """Return the HTML of a step; None if it is short, or cannot be sent."""
        try:
            # Not as MessagePack, which has no integers above 64 bits: a line may have one beside a very long text.
            message = msgspec.json.encode(RenderRequest(session, detail, tab))
        except (ValueError, TypeError, RecursionError):  # half a surrogate
            return None
        if len(message) < MIN_BYTES:
            return None
        with self._lock:
            self._stop_timer()
            began, is_started = time.monotonic(), self._process is not None
            html = self._exchange(message)
            if html is None and is_started and not self._is_late(began):
                self._end()  # it may have been ended while it had no work
                html = self._exchange(message)
            if html is not None:
                self._timer = threading.Timer(_IDLE_SECONDS, self._close_idle)
                self._timer.daemon = True
                self._timer.start()
                return html
            self._end()
            is_late = self._is_late(began)
        what = "this step takes too long to show" if is_late else "the process that renders this step has ended"
        raise TooLarge(what, hint=f"show it in a terminal with `unspool show {session}`")

    def close(self) -> None:
        """End the process, if it runs, whatever it is doing; it is not started again."""
        self._is_closed = True
        process = self._process
        if process is not None:
            # Before the lock, which a thread may hold until the deadline of its step.
            with suppress(ValueError):  # that thread has closed it
                process.kill()
        with self._lock:
            self._stop_timer()
            self._end()

    def _is_late(self, began: float) -> bool:
        return time.monotonic() - began >= self._seconds

    def _exchange(self, message: bytes) -> bytes | None:
        """Send a request, and return the answer; None if the process has ended: by a limit, or from outside."""
        if self._is_closed:
            return None
        connection = self._connection or self._start()
        assert self._process is not None
        # By a timer and not by `poll`: a process that hangs does not read the request either.
        deadline = threading.Timer(self._seconds, self._process.kill)
        deadline.daemon = True
        deadline.start()
        try:
            connection.send_bytes(message)
            return connection.recv_bytes()
        except (OSError, EOFError):
            return None
        finally:
            deadline.cancel()
            deadline.join()

    def _start(self) -> Connection:
        import multiprocessing

        # Not a fork: other threads of the server may hold locks, which nobody would release in a copy.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=answer_requests, args=(theirs,), name="render", daemon=True)
        self._process.start()
        theirs.close()
        return self._connection

    def _end(self) -> None:
        if self._process is not None and self._connection is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()
            self._process.close()
        self._process = self._connection = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_idle(self) -> None:
        with self._lock:
            if self._timer is not None:  # none: a step has come meanwhile
                self._timer = None
                self._end()


def answer_requests(connection: Connection) -> None:
    """Render steps until the server closes the connection."""
    from unspool.page.html import Renderer, session_links

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    with suppress(OSError, AttributeError):
        os.nice(_NICE)
    _limit_memory()
    decoder = msgspec.json.Decoder(RenderRequest)
    with suppress(EOFError, OSError):  # the server has ended
        while True:
            request = decoder.decode(connection.recv_bytes())
            _limit_time()
            html = Renderer(session_links(request.session)).detail(request.detail, request.tab)
            connection.send_bytes(html.encode("utf-8", "replace"))


def _limit_time() -> None:
    """End this process some time after the deadline of a step: a server that was killed does not do it."""
    with suppress(AttributeError):  # Windows
        signal.alarm(round(2 * RENDER_SECONDS))


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    with suppress(ValueError, OSError):  # macOS takes no limit of address space
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, most))
