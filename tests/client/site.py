"""A site on this machine, with pages as a test wants them, and what was asked of it."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """What a page says."""

    body: bytes = b""
    kind: str | None = "text/html; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    repeat: int = 1
    """How often the body is said."""
    pause: float = 0.0
    """Seconds between two of them."""


class Site:
    """Where it is, and what was asked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.host = f"127.0.0.1:{port}"
        self.url = f"http://{self.host}"
        self.asked: list[tuple[str, dict[str, str]]] = []


@contextmanager
def serving(pages: Mapping[str, Reply], tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            reply = pages.get(self.path, Reply(b"not here", status=404))
            self.send_response(reply.status)
            if reply.kind is not None:
                self.send_header("content-type", reply.kind)
            for name, value in reply.headers:
                self.send_header(name, value.replace("PORT", str(site.port)))
            self.end_headers()
            with suppress(OSError):
                for _ in range(reply.repeat):
                    self.wfile.write(reply.body)
                    if reply.pause:
                        self.wfile.flush()
                        time.sleep(reply.pause)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    site = Site(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
