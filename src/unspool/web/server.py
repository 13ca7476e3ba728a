"""A socket and a process that answers on it.

Rules
  1. The socket listens before the link is told: whoever follows it at once is answered.
  2. Only this machine can reach it unless a person says otherwise, and says it twice (`--host` and `--token`).
"""

from __future__ import annotations

import socket
from typing import Final

import uvicorn
from starlette.applications import Starlette

from unspool.errors import Refused, Usage
from unspool.web.auth import is_loopback

PORT: Final = 8737
"""Where it listens unless told otherwise, or where another one does already."""


def listening(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens. A port that nobody asked for may be another if it is taken."""
    try:
        return _bound(host, PORT if port is None else port)
    except OSError as error:
        if port is None:
            return _bound(host, 0)
        raise Refused(
            f"cannot listen on {host}:{port}: {(error.strerror or str(error)).lower()}", hint="name another `--port`"
        ) from None


def checked(host: str, *, token: bool) -> None:
    """Refuse an address that others can reach, unless a person knows what that means."""
    if not host:
        raise Usage("say an address to listen on", hint="`--host 127.0.0.1` is this machine alone")
    if not token and not is_loopback(host):
        raise Refused(
            f"`{host}` can be reached from other machines: whoever has the link reads everything, unencrypted",
            hint="`--token` says that this is meant; a tunnel (`ssh -L`) to 127.0.0.1 is safer",
        )


def run(app: Starlette, listener: socket.socket) -> None:
    """Answer until interrupted."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=30,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host.strip("[]"), port))
        made.listen(128)
    except OSError:
        made.close()
        raise
    made.set_inheritable(False)
    return made
