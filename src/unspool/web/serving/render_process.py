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
    """The process that renders: started by the first long step, and again after it had to be ended."""

    def __init__(self, seconds: float = RENDER_SECONDS) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._timer: threading.Timer | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process, if there is one."""
        return self._process.pid if self._process is not None else None

    def render(self, session: str, detail: StepDetail, tab: str) -> bytes | None:
        """Return the HTML of a step; None if it is short, or holds what cannot be sent."""
        try:
            message = msgspec.msgpack.encode(RenderRequest(session, detail, tab))
        except (ValueError, OverflowError, TypeError, RecursionError):  # half a surrogate, a very large number
            return None
        if len(message) < MIN_BYTES:
            return None
        with self._lock:
            self._stop_timer()
            connection = self._connection or self._start()
            try:
                connection.send_bytes(message)
                del message
                if connection.poll(self._seconds):
                    html = connection.recv_bytes()
                    self._timer = threading.Timer(_IDLE_SECONDS, self._close_idle)
                    self._timer.daemon = True
                    self._timer.start()
                    return html
            except (OSError, EOFError):  # it was ended by its limit of memory, or from outside
                pass
            self._end()
        raise TooLarge("this step takes too long to show", hint=f"show it in a terminal with `unspool show {session}`")

    def close(self) -> None:
        """End the process, if it runs."""
        with self._lock:
            self._stop_timer()
            self._end()

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
    decoder = msgspec.msgpack.Decoder(RenderRequest)
    with suppress(EOFError, OSError):  # the server has ended
        while True:
            request = decoder.decode(connection.recv_bytes())
            html = Renderer(session_links(request.session)).detail(request.detail, request.tab)
            connection.send_bytes(html.encode("utf-8", "replace"))


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    with suppress(ValueError, OSError):  # macOS takes no limit of address space
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, most))
