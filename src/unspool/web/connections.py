"""Limits what one connection, and all of them together, may take of the server.

Rules
  1. A request must be complete within seconds: its headers, then its body. A byte now and then does not extend that.
  2. A connection without a request, and one whose client does not read the answer, is closed after a while; so is, at
     once, one on which requests come before the last was answered.
  3. There are at most so many connections. A new one takes the place of the oldest that is not being answered: half a
     request never keeps a whole one out. Only where all are being answered is the new one refused.
  4. The limits leave descriptors for the files and databases that pages are made of.
"""

from __future__ import annotations

import asyncio
import enum
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEADER_SECONDS: Final = 10.0
"""In which the headers of a request must be complete."""
BODY_SECONDS: Final = 20.0
"""In which the body of a request must be complete."""
IDLE_SECONDS: Final = 30
"""That a connection may wait for its next request."""
STALLED_SECONDS: Final = 120.0
"""That a client may leave an answer unread. Long: a browser may suspend a tab."""
MAX_HEADER_BYTES: Final = 64 * 1024
MAX_CONNECTIONS: Final = 128
MIN_CONNECTIONS: Final = 24
_DESCRIPTORS_PER_CONNECTION: Final = 4
"""A quarter of the descriptors is for connections; a page needs about eight while it is made: files and databases."""
_DESCRIPTORS_PER_THREAD: Final = 16
_MAX_THREADS: Final = 40
"""What anyio has by default."""
_BUSY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\nretry-after: 5\r\n"
    b"connection: close\r\n\r\n503: too many requests are being answered; try again\n"
)


class ConnectionPhase(enum.IntEnum):
    """What a connection waits for. A new connection takes the place of one in the first of these phases."""

    HEADERS = 0
    IDLE = 1
    BODY = 2
    STALLED = 3
    ANSWER = 4
    """The server's turn: it is never closed for another."""


_DEADLINES: Final = {
    ConnectionPhase.HEADERS: HEADER_SECONDS,
    ConnectionPhase.IDLE: float(IDLE_SECONDS),
    ConnectionPhase.BODY: BODY_SECONDS,
    ConnectionPhase.STALLED: STALLED_SECONDS,
}


def descriptor_limit() -> int:
    """Return how many descriptors this process may have open."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return 1 << 16
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft != resource.RLIM_INFINITY else 1 << 16


def connection_limit() -> int:
    """Return how many connections there may be at once."""
    return max(MIN_CONNECTIONS, min(MAX_CONNECTIONS, descriptor_limit() // _DESCRIPTORS_PER_CONNECTION))


def thread_limit() -> int:
    """Return how many threads may make pages at once."""
    return max(4, min(_MAX_THREADS, descriptor_limit() // _DESCRIPTORS_PER_THREAD))


class LimitedProtocol(H11Protocol):
    """HTTP on one connection, with deadlines and a limit to the number of connections."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.phase = ConnectionPhase.HEADERS
        self.since = self.loop.time()
        """When the phase began."""
        self.is_aborted = False
        self._is_stalled = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, in place of another if there are too many."""
        super().connection_made(transport)
        self._start_phase(ConnectionPhase.HEADERS)
        others = [one for one in self.connections if isinstance(one, LimitedProtocol) and one is not self]
        others = [one for one in others if not one.is_aborted]
        if len(others) < connection_limit():
            return
        # One that closes may still wait for its client to read: it goes first.
        oldest = min(others, key=lambda one: (not one.transport.is_closing(), one.phase, one.since))
        if oldest.phase is ConnectionPhase.ANSWER and not oldest.transport.is_closing():
            transport.write(_BUSY)
            transport.close()
        else:
            oldest.abort()

    def abort(self) -> None:
        """Close the connection at once, whatever is still to be sent."""
        self.is_aborted = True
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        super().data_received(data)
        self._update_phase()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        # No browser sends a request before it has the answer to the last one. Who does could keep the server busy with
        # answers that nobody reads.
        if self.conn.trailing_data[0]:
            self.transport.close()
        super().on_response_complete()
        self._update_phase()

    def pause_writing(self) -> None:
        """Note that the client does not read what it is sent."""
        super().pause_writing()
        self._is_stalled = True
        self._update_phase()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        super().resume_writing()
        self._is_stalled = False
        self._update_phase()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._cancel_timer()
        super().connection_lost(exc)

    def _update_phase(self) -> None:
        phase = self._find_phase()
        # Not on every byte: a client that sends one now and then would extend its time for ever.
        if phase is not self.phase and not self.transport.is_closing():
            self._start_phase(phase)

    def _find_phase(self) -> ConnectionPhase:
        if self._is_stalled:
            return ConnectionPhase.STALLED
        if self.conn.their_state is h11.SEND_BODY:
            return ConnectionPhase.BODY
        cycle: RequestResponseCycle | None = self.cycle  # None before the first request, whatever uvicorn's types say
        if cycle is not None and not cycle.response_complete:
            return ConnectionPhase.ANSWER
        return ConnectionPhase.HEADERS if cycle is None or self.conn.trailing_data[0] else ConnectionPhase.IDLE

    def _start_phase(self, phase: ConnectionPhase) -> None:
        self._cancel_timer()
        self.phase, self.since = phase, self.loop.time()
        if phase in _DEADLINES:
            self._timer = self.loop.call_later(_DEADLINES[phase], self.abort)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
