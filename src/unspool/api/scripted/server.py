"""Serves a scripted, strict Messages API on a socket of this machine, for tests; records what was requested of it.

    with serve_script(["Hello.", {"content": "Bye.", "expect": {"text": "So long"}}]) as api:
        ...                     # a program talks to api.url
    assert not api.failures

Every request is checked by the rules of `api/rules` and refused as the API does. `unspool testing serve` is the same as
a command; `docs/testing.md` tells more.

Rules
  1. It listens on 127.0.0.1 only.
  2. One request per connection; the end of a response is the end of its chunks. So a cut is never taken for an end.
  3. Closing ends every wait, every connection and every thread.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from unspool.api.rules.turns import ThinkingMemory
from unspool.api.scripted.responder import (
    MAX_REQUEST_BYTES,
    MESSAGES_PATH,
    Exchange,
    ScriptedReply,
    build_message,
    decide_reply,
    encode_event,
    error_body,
    hide_secret_headers,
    message_events,
)
from unspool.api.scripted.script import Break, Json, PlayedStep, Script, ScriptPlayer, convert_script, load_script
from unspool.errors import Refused
from unspool.files import raise_unwritable

_REQUEST_SECONDS = 30.0
"""How long a client may take to send its request."""


class ScriptedApi(ThreadingHTTPServer):
    """A scripted API that runs, and afterwards what was requested of it."""

    daemon_threads = False  # closing joins them
    allow_reuse_address = True

    def __init__(self, script: Script, *, port: int = 0, log: Path | None = None, strict: bool = True) -> None:
        self.requests: list[Exchange] = []
        """All of them, in order, also those that were refused."""
        self.player = ScriptPlayer(script)
        self.memory = ThinkingMemory()
        self.strict = strict
        self.stopping = threading.Event()
        self._log = log
        if log is not None:
            with raise_unwritable(f"cannot write `{log}`"):
                log.write_bytes(b"")
        self._count = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        try:
            super().__init__(("127.0.0.1", port), _RequestHandler)
        except OSError as error:
            raise Refused(
                f"cannot listen on port {port}: {(error.strerror or '').lower()}",
                hint="use `--port 0` to pick a free port",
            ) from None

    @property
    def url(self) -> str:
        """The base URL, as in `ANTHROPIC_BASE_URL`."""
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def failures(self) -> list[str]:
        """Why the run has failed, request by request; empty if it has not."""
        return [f"request {exchange.number}: {exchange.failure}" for exchange in [*self.requests] if exchange.failure]

    @property
    def unused(self) -> list[str]:
        """The names of steps that no request has reached."""
        return self.player.unused

    @property
    def bodies(self) -> list[Any]:
        """The bodies of requests to `/v1/messages`."""
        return [exchange.body for exchange in [*self.requests] if exchange.path.partition("?")[0] == MESSAGES_PATH]

    def serve(self) -> None:
        """Answer until `close` is called by another thread."""
        self.serve_forever(poll_interval=0.05)

    def close(self) -> None:
        """End it, with all responses under way; `serve` must be running."""
        self.stopping.set()
        self.shutdown()
        with self._lock:
            connections = [*self._open]
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def next_number(self) -> int:
        """Return the number of the next request."""
        with self._lock:
            self._count += 1
            return self._count

    def record(self, exchange: Exchange) -> None:
        """Record a request before it is answered."""
        with self._lock:
            self.requests.append(exchange)
            if self._log is not None:  # at once: the run may end before the server does
                with self._log.open("ab") as file:
                    file.write(msgspec.json.encode(exchange) + b"\n")

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
        """Print nothing about a client that hung up."""


class _RequestHandler(BaseHTTPRequestHandler):
    """Answers the request of one connection."""

    protocol_version = "HTTP/1.1"
    timeout = _REQUEST_SECONDS
    server: ScriptedApi

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the exchanges are the log."""

    def do_POST(self) -> None:
        """Answer a request of any method."""
        self.close_connection = True
        headers = {name.lower(): value for name, value in self.headers.items()}
        data, path = self._read_body(headers), self.path.partition("?")[0]
        number = self.server.next_number()
        request_id = f"req_{number:024}"
        memory = self.server.memory if self.server.strict else None
        reply = decide_reply(self.server.player, memory, data=data, headers=headers, method=self.command, path=path)
        self.server.record(
            Exchange(
                number=number,
                method=self.command,
                path=self.path,
                headers=hide_secret_headers(headers),
                body=reply.body,
                status=reply.status,
                request_id=request_id,
                step=reply.step.name if reply.step else None,
                problems=[*reply.problems],
                failure=reply.failure,
            )
        )
        with contextlib.suppress(ConnectionError, TimeoutError):  # who hangs up wants no more
            self._answer(reply, request_id)

    do_GET = do_HEAD = do_POST  # noqa: N815 - the names that `http.server` calls

    def _read_body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._read_chunks()
        length = headers.get("content-length", "0")
        size = int(length) if length.isdecimal() else 0
        data = self.rfile.read(min(size, MAX_REQUEST_BYTES + 1))
        for at in range(len(data), size, 1 << 20):  # to the end, else the client never hears that it is too much
            self.rfile.read(min(1 << 20, size - at))
        return data

    def _read_chunks(self) -> bytes:
        found = bytearray()
        while size := int(self.rfile.readline(64).split(b";")[0] or b"0", 16):
            found += self.rfile.read(size)
            self.rfile.readline(4)
            del found[MAX_REQUEST_BYTES + 1 :]
        return bytes(found)

    def _answer(self, reply: ScriptedReply, request_id: str) -> None:
        if reply.step is not None and not reply.error and not self._wait(reply.step):
            return
        if error := reply.error_response(request_id):
            self._send_json(*error[:2], request_id, error[2])
        elif reply.tokens is not None:
            self._send_json(200, {"input_tokens": reply.tokens}, request_id)
        elif reply.step is not None and isinstance(reply.body, dict):
            self._play(reply.step, reply.body, request_id)

    def _wait(self, played: PlayedStep) -> bool:
        """Wait as long as a step says; return whether the server still runs."""
        step = played.step
        if step.delay and self.server.stopping.wait(step.delay):
            return False
        while step.until is not None and not Path(step.until).exists():
            if self.server.stopping.wait(0.01):
                return False
        return True

    def _play(self, played: PlayedStep, body: Json, request_id: str) -> None:
        message = build_message(played.step, body, self.server.player.script.window)
        breaks = played.step.breaks if played.fails else None
        if breaks is None:
            self.server.memory.keep(message)  # before the client has it: its next request may be here at once
        if body.get("stream") is True:
            self._stream(played, breaks, message, request_id)
        elif breaks is not None:
            self._send_broken(breaks, message, request_id)
        else:
            self._send_json(200, message, request_id)

    def _stream(self, played: PlayedStep, breaks: Break | None, message: Json, request_id: str) -> None:
        """Send a message event by event, up to where it breaks."""
        headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
        self._begin(200, headers, request_id)
        for number, event in enumerate(message_events(message, played.step.chunk)):
            if played.step.pause and number and self.server.stopping.wait(played.step.pause):
                return
            data = encode_event(event)
            if breaks is not None and number == breaks.after:
                match breaks.how:
                    case "cut":
                        self._send_chunk(data[: len(data) // 2])
                    case "stall":
                        self.server.stopping.wait(breaks.seconds)
                    case "malformed":
                        self._send_chunk(b"event: %s\ndata: {not json\n\n" % str(event["type"]).encode())
                        self._send_chunk(b"")
                    case "error":
                        self._send_chunk(encode_event(error_body(500, breaks.message, request_id, breaks.type)))
                        self._send_chunk(b"")
                return
            self._send_chunk(data)
        self._send_chunk(b"")

    def _send_broken(self, breaks: Break, message: Json, request_id: str) -> None:
        """Send half of a response that is not streamed."""
        if breaks.how == "error":
            self._send_json(500, error_body(500, breaks.message, request_id, breaks.type), request_id)
            return
        data = msgspec.json.encode(message)
        self._begin(200, {"content-type": "application/json"}, request_id)
        self._send_chunk(data[: len(data) // 2])
        if breaks.how == "malformed":
            self._send_chunk(b"")
        elif breaks.how == "stall":
            self.server.stopping.wait(breaks.seconds)

    def _send_json(self, status: int, value: Json, request_id: str, more: Mapping[str, str] | None = None) -> None:
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

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


@contextlib.contextmanager
def serve_script(
    script: Script | Path | list[Any] | Mapping[str, Any],
    *,
    variables: Mapping[str, str] | None = None,
    strict: bool = True,
    log: Path | None = None,
    port: int = 0,
) -> Iterator[ScriptedApi]:
    """Serve a script while the `with` lasts: plain data, a file, or what `load_script` returned.

    `${name}` in it stands for a variable. Without `strict` nothing is checked but what the script expects.
    """
    if isinstance(script, Path):
        script = load_script(script, variables)
    elif not isinstance(script, Script):
        script = convert_script(script if isinstance(script, list) else {**script}, variables)
    api = ScriptedApi(script, port=port, log=log, strict=strict)
    thread = threading.Thread(target=api.serve, name="scripted API")
    thread.start()
    try:
        yield api
    finally:
        api.close()
        thread.join()
