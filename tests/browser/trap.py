"""A server on this machine that hands out what it was given and remembers everything it was asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Document(NamedTuple):
    """What is answered to a path."""

    body: bytes
    type: str = "text/html; charset=utf-8"
    headers: Mapping[str, str] = {}


class Trap:
    """What was asked for, and how it is reached."""

    def __init__(self, address: str, port: int) -> None:
        self.origin = f"http://{address}:{port}"
        self.hits: list[str] = []
        self.received: list[str] = []
        """The headers of each request, as one text."""
        self.documents: dict[str, Document] = {"/favicon.ico": Document(b"", "image/x-icon")}
        """What is answered; every browser asks for an icon."""

    def find(self, path: str) -> Document | None:
        """Return what is answered to a path; one that ends with a slash stands for all below it."""
        folder = "/".join(path.split("/")[:2]) + "/"
        return self.documents.get(path) or (self.documents.get(folder) if folder != "//" else None)

    def put(self, path: str, body: str, **headers: str) -> str:
        """Answer a path with a page; return its address."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.documents[path] = Document(body.encode(), headers=named)
        return self.origin + path


@contextmanager
def listening(address: str = "127.0.0.1") -> Iterator[Trap]:
    """Listen on any free port."""

    class Answer(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            trap.hits.append(self.path)
            trap.received.append(str(self.headers))
            found = trap.find(self.path.partition("?")[0])
            self.send_response(200 if found else 404)
            document = found or Document(b"")
            for name, value in {"Content-Type": document.type, **document.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(document.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(document.body)

        do_GET = do_POST = do_HEAD = do_OPTIONS = do_PUT = _answer  # noqa: N815 - names of the library

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing of a connection that ended early."""

    server = Server((address, 0), Answer)
    trap = Trap(address, server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield trap
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
