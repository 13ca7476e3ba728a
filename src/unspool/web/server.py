"""The server's socket and its event loop.

Rules
  1. The socket listens before the link is printed: a browser that follows it at once is answered.
  2. Only this machine can reach it unless the user says otherwise, twice (`--host` and `--token`).
"""

from __future__ import annotations

import socket
from typing import Final

import uvicorn
from starlette.applications import Starlette

from unspool.errors import Refused, UsageError
from unspool.web.auth import is_loopback

DEFAULT_PORT: Final = 8737
"""Used unless another is named; if it is taken, any that is free is used."""


def open_listener(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens; without a port, on the default one or any that is free."""
    try:
        return _bind(host, DEFAULT_PORT if port is None else port)
    except OSError as error:
        if port is None:
            return _bind(host, 0)
        raise Refused(
            f"cannot listen on {host}:{port}: {(error.strerror or str(error)).lower()}", hint="name another `--port`"
        ) from None


def check_host(host: str, *, token: bool) -> None:
    """Refuse an address that other machines can reach, unless a token was named."""
    if not host:
        raise UsageError("say an address to listen on", hint="`--host 127.0.0.1` is this machine alone")
    if not token and not is_loopback(host):
        raise Refused(
            f"`{host}` can be reached from other machines: whoever has the link reads everything, unencrypted",
            hint="`--token` says that this is meant; a tunnel (`ssh -L`) to 127.0.0.1 is safer",
        )


def run_server(app: Starlette, listener: socket.socket) -> None:
    """Serve requests until interrupted."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",  # there are no web sockets, so that none is exposed
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=1,  # event streams never end by themselves
        timeout_keep_alive=30,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    listener.set_inheritable(False)
    return listener
