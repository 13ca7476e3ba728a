"""The scripted API on a socket of this machine: HTTP in, what `judge.py` decides out.

Rules
  1. It listens on 127.0.0.1 only.
  2. One request per connection; the end of an answer is the end of its chunks. So a cut is never taken for an end.
  3. Closing ends every wait, every connection and every thread.

[merged: api.py] A scripted, strict Messages API for tests: a script in, an address to talk to out, and what was asked of it.

    with scripted(["Hello.", {"content": "Bye.", "expect": {"text": "So long"}}]) as api:
        ...                     # a program talks to api.url
    assert not api.failures

Every request is checked by the rules of `strict.py` and refused as the API does. `unspool testing serve` is the same as
a command; `docs/testing.md` tells more.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from unspool.api.rules.validate import Memory
from unspool.api.scripted.responder import LARGEST, Asked, Exchange, Verdict, error, hidden, judge, worded
from unspool.api.scripted.script import Cast, Failure, Json, Play, Script, convert, load
from unspool.api.scripted.sse_events import events, framed, message
from unspool.errors import Refused, Unwritable

_PATIENCE = 30.0
"""Seconds that a client may take to say its request."""


class Server(ThreadingHTTPServer):
    """The socket, its threads and what is shared by them."""

    daemon_threads = False  # closing joins them
    allow_reuse_address = True

    def __init__(self, script: Script, port: int, keep: Callable[[Exchange], None], *, strict: bool) -> None:
        self.script = script
        self.play = Play(script)
        self.memory = Memory()
        self.strict = strict
        self.stopping = threading.Event()
        self._keep = keep
        self._count = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Conversation)

    def number(self) -> int:
        """Return the number of the next request."""
        with self._lock:
            self._count += 1
            return self._count

    def keep(self, exchange: Exchange) -> None:
        """Note a request before it is answered."""
        with self._lock:
            self._keep(exchange)

    def get_request(self) -> tuple[Any, Any]:
        """Remember a connection, so that closing can end it."""
        connection, address = super().get_request()
        with self._lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that hung up."""

    def stop(self) -> None:
        """End everything; `serve_forever` must be running."""
        self.stopping.set()
        self.shutdown()
        with self._lock:
            connections = [*self._open]
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()


class _Conversation(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the exchanges are the log."""

    def do_GET(self) -> None:
        """Reply: what is not there is not found."""
        self._reply()

    def do_HEAD(self) -> None:
        """Reply without a body."""
        self._reply()

    def do_POST(self) -> None:
        """Reply."""
        self._reply()

    def _reply(self) -> None:
        self.close_connection = True
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.partition("?")[0]
        asked = Asked(self.command, path, headers, self._read(headers))
        number = self.server.number()
        request_id = f"req_{number:024}"
        verdict = judge(asked, self.server.play, self.server.memory, strict=self.server.strict)
        self.server.keep(
            Exchange(
                number=number,
                method=self.command,
                path=self.path,
                headers=hidden(headers),
                body=verdict.body,
                status=self._status(verdict),
                request_id=request_id,
                step=verdict.cast.name if verdict.cast else None,
                problems=[*verdict.problems],
                failure=verdict.failure,
            )
        )
        with contextlib.suppress(ConnectionError, TimeoutError):  # who hangs up wants no more
            self._say(verdict, request_id)

    def _status(self, verdict: Verdict) -> int:
        failure = verdict.cast.step.error if verdict.cast and verdict.cast.fails else None
        if verdict.tokens is not None and isinstance(self.server.script.count_tokens, Failure):
            failure = self.server.script.count_tokens
        return verdict.status if verdict.error or failure is None else failure.status

    def _read(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks()
        length = headers.get("content-length", "0")
        size = int(length) if length.isdecimal() else 0
        data = self.rfile.read(min(size, LARGEST + 1))
        for at in range(len(data), size, 1 << 20):  # to the end, else the client never hears that it is too much
            self.rfile.read(min(1 << 20, size - at))
        return data

    def _chunks(self) -> bytes:
        found = bytearray()
        while size := int(self.rfile.readline(64).split(b";")[0] or b"0", 16):
            found += self.rfile.read(size)
            self.rfile.readline(4)
            del found[LARGEST + 1 :]
        return bytes(found)

    def _say(self, verdict: Verdict, request_id: str) -> None:
        if verdict.error:
            self._whole(verdict.status, error(verdict.status, verdict.error, request_id), request_id)
        elif verdict.tokens is not None:
            self._count(verdict.tokens, request_id)
        elif verdict.cast is not None and isinstance(verdict.body, dict):
            self._perform(verdict.cast, verdict.body, request_id)

    def _count(self, estimated: int, request_id: str) -> None:
        match self.server.script.count_tokens:
            case Failure() as failure:
                self._fail(failure, request_id)
            case given:
                self._whole(200, {"input_tokens": estimated if given is None else given}, request_id)

    def _fail(self, failure: Failure, request_id: str) -> None:
        words, more = worded(failure)
        self._whole(failure.status, error(failure.status, words, request_id, failure.type), request_id, more)

    def _perform(self, cast: Cast, body: Json, request_id: str) -> None:
        """Play a step."""
        step = cast.step
        if (step.delay and self.server.stopping.wait(step.delay)) or not self._is_time(step.until):
            return
        if step.error is not None and cast.fails:
            self._fail(step.error, request_id)
            return
        whole = message(step, body, self.server.script.window)
        if body.get("stream") is True:
            self._stream(cast, whole, request_id)
        elif step.breaks is not None and cast.fails:
            self._broken(cast, whole, request_id)
        else:
            self.server.memory.keep(whole)  # before the client has it: its next request may be here at once
            self._whole(200, whole, request_id)

    def _is_time(self, until: str | None) -> bool:
        """Wait for the file that a step waits for; tell whether it came before the end of the run."""
        while until is not None and not Path(until).exists():
            if self.server.stopping.wait(0.01):
                return False
        return True

    def _stream(self, cast: Cast, whole: Json, request_id: str) -> None:
        """Send an answer event by event, up to where it breaks."""
        breaks = cast.step.breaks if cast.fails else None
        if breaks is None:
            self.server.memory.keep(whole)
        self._begin(200, {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}, request_id)
        for number, event in enumerate(events(whole, cast.step.chunk)):
            if cast.step.pause and number and self.server.stopping.wait(cast.step.pause):
                return
            if breaks is not None and number == breaks.after:
                match breaks.how:
                    case "cut":
                        self._chunk(framed(event)[: len(framed(event)) // 2])
                    case "stall":
                        self.server.stopping.wait(breaks.seconds)
                    case "malformed":
                        self._chunk(b"event: %s\ndata: {not json\n\n" % str(event["type"]).encode())
                        self._chunk(b"")
                    case "error":
                        self._chunk(framed(error(500, breaks.message, request_id, breaks.type)))
                        self._chunk(b"")
                return
            self._chunk(framed(event))
        self._chunk(b"")

    def _broken(self, cast: Cast, whole: Json, request_id: str) -> None:
        """Break an answer that is not streamed."""
        breaks = cast.step.breaks
        assert breaks is not None
        data = msgspec.json.encode(whole)
        match breaks.how:
            case "error":
                self._whole(500, error(500, breaks.message, request_id, breaks.type), request_id)
            case "malformed":
                self._begin(200, {"content-type": "application/json"}, request_id)
                self._chunk(data[: len(data) // 2])
                self._chunk(b"")
            case "cut" | "stall":
                self._begin(200, {"content-type": "application/json"}, request_id)
                self._chunk(data[: len(data) // 2])
                if breaks.how == "stall":
                    self.server.stopping.wait(breaks.seconds)

    def _whole(self, status: int, value: Json, request_id: str, more: dict[str, str] | None = None) -> None:
        data = msgspec.json.encode(value)
        headers = {"content-type": "application/json", "content-length": str(len(data)), **(more or {})}
        self._begin(status, headers, request_id, chunked=False)
        if self.command != "HEAD":
            self.wfile.write(data)

    def _begin(self, status: int, headers: dict[str, str], request_id: str, *, chunked: bool = True) -> None:
        self.send_response(status)
        framing = {"transfer-encoding": "chunked"} if chunked else {}
        for name, value in {**headers, **framing, "request-id": request_id, "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


__all__ = ["Api", "Exchange", "scripted"]


class Api:
    """A scripted API at work, and afterwards what was asked of it."""

    def __init__(self, script: Script, *, port: int = 0, log: Path | None = None, strict: bool = True) -> None:
        self.requests: list[Exchange] = []
        """All of them, in order, also those that were refused."""
        self._writes = _log(log)
        try:
            self._server = Server(script, port, self._keep, strict=strict)
        except OSError as error:
            raise Refused(
                f"cannot listen on port {port}: {(error.strerror or '').lower()}",
                hint="`--port 0` takes one that is free",
            ) from None

    @property
    def url(self) -> str:
        """Where it is: the base URL, as in `ANTHROPIC_BASE_URL`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def failures(self) -> list[str]:
        """Why the run has failed, request by request; empty if it has not."""
        return [f"request {asked.number}: {asked.failure}" for asked in [*self.requests] if asked.failure]

    @property
    def unused(self) -> list[str]:
        """The names of steps that nobody has asked for."""
        return self._server.play.unused

    @property
    def bodies(self) -> list[Any]:
        """What was asked of `/v1/messages`, without headers."""
        return [asked.body for asked in [*self.requests] if asked.path.partition("?")[0] == "/v1/messages"]

    def serve(self) -> None:
        """Answer until `close` is called by another thread."""
        self._server.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        """End it, with all that is still being said."""
        self._server.stop()

    def _keep(self, exchange: Exchange) -> None:
        self.requests.append(exchange)
        self._writes(exchange)


@contextmanager
def scripted(
    script: Script | Path | list[Any] | Mapping[str, Any],
    *,
    variables: Mapping[str, str] | None = None,
    strict: bool = True,
    log: Path | None = None,
    port: int = 0,
) -> Iterator[Api]:
    """Serve a script while the `with` lasts: plain data, a file, or what `script.load` gave.

    `${name}` in it stands for a variable. Without `strict` nothing is checked but what the script demands.
    """
    if isinstance(script, Path):
        script = load(script, variables)
    elif not isinstance(script, Script):
        script = convert(script if isinstance(script, list) else {**script}, variables)
    api = Api(script, port=port, log=log, strict=strict)
    thread = threading.Thread(target=api.serve, name="scripted API")
    thread.start()
    try:
        yield api
    finally:
        api.close()
        thread.join()


def _log(path: Path | None) -> Callable[[Exchange], None]:
    """Return what writes exchanges to a file, one line each, as soon as they are known."""
    if path is None:
        return lambda exchange: None
    try:
        path.write_bytes(b"")
    except OSError as error:
        raise Unwritable(f"cannot write `{path}`: {(error.strerror or '').lower()}") from None

    def write(exchange: Exchange) -> None:
        with path.open("ab") as file:
            file.write(msgspec.json.encode(exchange) + b"\n")

    return write
