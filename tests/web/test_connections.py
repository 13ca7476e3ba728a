"""Nobody can lock others out: by half requests, slow bodies, answers left unread, or too many streams."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.serving import Served, serving
from unspool.testing.build import session, user
from unspool.web.connections import MAX_CONNECTIONS, MIN_CONNECTIONS, connection_limit
from unspool.web.serving.sse import MAX_STREAMS

DESCRIPTORS = 256
"""The limit of a process on macOS, unless the user raised it."""
CROWD = 300


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    session(user("hello"), id="10000000-0000-4000-8000-000000000001").save(tmp_path / "claude")
    limited = ["sh", "-c", 'ulimit -n "$0"; exec "$@"', str(DESCRIPTORS)]
    with serving(tmp_path / "claude", home=tmp_path / "unspool", prefix=limited) as one:
        one.enter()
        yield one


def crowd(served: Served, sent: bytes, open_sockets: ExitStack) -> list[socket.socket]:
    """Open many connections, send the same on each, and leave them open."""
    made = []
    for _ in range(CROWD):
        one = open_sockets.enter_context(socket.create_connection((served.host, served.port), timeout=30))
        one.setblocking(False)
        with suppress(OSError):  # the server may have closed it already
            one.send(sent)
        made.append(one)
    return made


def is_open(one: socket.socket) -> bool:
    """Tell whether the server has kept a connection."""
    try:
        while one.recv(65536):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


HOST = b"Host: 127.0.0.1\r\n"
CROWDS = {
    "nothing": b"",
    "half a request line": b"GET / HT",
    "half of the headers": b"GET / HTTP/1.1\r\n" + HOST + b"X-Slow: ",
    "half of a body": b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 100000\r\n\r\nhalf",
    "a body in pieces": b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
    "requests whose answers are left unread": (b"GET / HTTP/1.1\r\n" + HOST + b"\r\n") * 500,
    "one request, and then nothing": b"GET / HTTP/1.1\r\n" + HOST + b"\r\n",
}


@pytest.mark.parametrize("what", CROWDS)
def test_three_hundred_connections_with_256_descriptors_lock_nobody_out(served: Served, what: str) -> None:
    with ExitStack() as open_sockets:
        made = crowd(served, CROWDS[what], open_sockets)
        for path in ("/sessions", "/palette.json", "/session/10000000-0000-4000-8000-000000000001"):
            assert served.get(path).status == 200
        kept = sum(map(is_open, made))
        assert kept < DESCRIPTORS // 2
    assert served.get("/sessions").status == 200


def test_a_stream_goes_on_while_others_crowd_in(served: Served) -> None:
    headers = "".join(f"{name}: {value}\r\n" for name, value in served.own_headers.items())
    request = f"GET /events HTTP/1.1\r\nHost: {served.host}:{served.port}\r\n{headers}\r\n".encode()
    with ExitStack() as open_sockets:
        stream = open_sockets.enter_context(socket.create_connection((served.host, served.port), timeout=30))
        stream.sendall(request)
        assert stream.recv(65536).startswith(b"HTTP/1.1 200")
        crowd(served, CROWDS["half of the headers"], open_sockets)
        assert served.get("/sessions").status == 200
        stream.setblocking(False)
        assert is_open(stream)


def test_there_are_at_most_so_many_streams_and_one_that_ends_makes_room(served: Served) -> None:
    headers = "".join(f"{name}: {value}\r\n" for name, value in served.own_headers.items())
    request = f"GET /events HTTP/1.1\r\nHost: {served.host}:{served.port}\r\n{headers}\r\n".encode()

    def status(stream: socket.socket) -> bytes:
        stream.sendall(request)
        return stream.recv(65536).split()[1]

    with ExitStack() as open_sockets:
        streams = [
            open_sockets.enter_context(socket.create_connection((served.host, served.port), timeout=30))
            for _ in range(MAX_STREAMS + 1)
        ]
        assert [status(stream) for stream in streams] == [b"200"] * MAX_STREAMS + [b"503"]
        assert served.get("/sessions").status == 200
        streams[0].close()
        # The server notices that soon, not at once.
        while True:
            with socket.create_connection((served.host, served.port), timeout=30) as again:
                if status(again) == b"200":
                    break


@pytest.mark.slow
@pytest.mark.parametrize("what", ["half of the headers", "half of a body"])
def test_a_request_that_does_not_end_is_ended(served: Served, what: str) -> None:
    with socket.create_connection((served.host, served.port), timeout=60) as one:
        one.sendall(CROWDS[what])
        with suppress(ConnectionResetError):
            while one.recv(65536):  # an answer may come first: 403 needs no body
                pass


@pytest.mark.slow
def test_a_byte_now_and_then_does_not_extend_a_request(served: Served) -> None:
    with socket.create_connection((served.host, served.port), timeout=0.5) as one:
        one.sendall(b"GET / HTTP/1.1\r\n")
        for _ in range(120):
            try:
                one.sendall(b"x")
                assert one.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                pass
            return
    raise AssertionError("the connection is open after a minute")


def test_limits_leave_descriptors_for_files() -> None:
    assert MIN_CONNECTIONS <= connection_limit() <= MAX_CONNECTIONS
