"""The server's socket and its event loop.

Rules
  1. The socket listens before the link is printed: a browser that follows it at once is answered.
  2. Only this machine can reach it unless the user says otherwise, twice (`--host` and a token).
  3. Clients cannot take all of its connections or descriptors (`connections.py`).
  4. A long rendering in one thread gives the others their turn within a millisecond.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.applications import Starlette

from unspool.errors import Refused, UsageError
from unspool.web.auth import is_loopback
from unspool.web.connections import IDLE_SECONDS, MAX_HEADER_BYTES, LimitedProtocol

DEFAULT_PORT: Final = 8737
"""Used unless another is named; if it is taken, any that is free is used."""
_BACKLOG: Final = 256
"""Connections that the kernel keeps until they are accepted."""
_MAX_ACCEPTED_AT_ONCE: Final = 16
"""Connections that are accepted before any of them is looked at, and others closed to make room."""
SWITCH_SECONDS: Final = 0.0005
"""That a thread may compute while others wait. Python's own 5 ms add up: a page gives up its turn at each of its dozens
of reads from files and databases, and waits that long for the next while another thread renders."""


def open_listener(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens; without a port, on the default one or any that is free."""
    try:
        return _bind(host, DEFAULT_PORT if port is None else port)
    except OSError as error:
        if port is None:
            return _bind(host, 0)
        raise Refused(
            f"cannot listen on {host}:{port}: {(error.strerror or str(error)).lower()}",
            hint="choose another port with `--port N`",
        ) from None


def check_host(host: str, *, token: bool) -> None:
    """Refuse an address that other machines can reach, unless a token was named."""
    if not host:
        raise UsageError("--host needs an address", hint="omit `--host` to listen on this machine only")
    if not token and not is_loopback(host):
        raise Refused(
            f"other machines can reach `{host}`, and anyone with the link could read everything unencrypted",
            hint="confirm with `--token-file FILE`, or use a tunnel (`ssh -L`), which is safer",
        )


def run_server(app: Starlette, listener: socket.socket, on_end: Callable[[], None] = lambda: None) -> None:
    """Serve requests until interrupted or terminated; `on_end` is called then."""
    sys.setswitchinterval(SWITCH_SECONDS)
    # It would print a line for every request that is no HTTP.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        log_config=None,
        access_log=False,
        ws="none",  # there are no web sockets, so that none is exposed
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=1,  # event streams never end by themselves
        timeout_keep_alive=IDLE_SECONDS,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        backlog=_MAX_ACCEPTED_AT_ONCE,
    )
    _Server(config, on_end).run(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that accepts few connections at a time, of many that the kernel keeps waiting."""

    def __init__(self, config: uvicorn.Config, on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_end = on_end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. asyncio has one number for both: how many wait, and how many are accepted in one go."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End. After this, uvicorn raises the signal that ended it once more, and the process may be gone."""
        self._on_end()
        await super().shutdown(sockets)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    listener.set_inheritable(False)
    return listener
