"""A server that says given bytes, one connection after another: for what no HTTP server would say."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress


class Raw:
    """Where it is, and what was asked."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.requests: list[bytes] = []


@contextmanager
def saying(*replies: Sequence[bytes]) -> Iterator[Raw]:
    """Say each reply, in its pieces, to one connection; then hang up on everybody."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        raw = Raw(listener.getsockname()[1])
        thread = threading.Thread(target=_serve, args=(listener, raw, replies))
        thread.start()
        try:
            yield raw
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listener: socket.socket, raw: Raw, replies: Sequence[Sequence[bytes]]) -> None:
    waiting = [*replies]
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                raw.requests.append(_request(connection))
                for piece in waiting.pop(0) if waiting else ():
                    connection.sendall(piece)


def _request(connection: socket.socket) -> bytes:
    """Read a request with its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536) or b"\r\n\r\n"
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += connection.recv(65536) or bytes(length)
    return head + b"\r\n\r\n" + body
