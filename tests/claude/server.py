"""A scripted Messages API on 127.0.0.1: a request in, the reply its script has for it streamed out, the request kept.

A script is cues and what to say to each. The last message that holds a cue decides, and the answers given since then
say which of its replies comes next; so nothing is remembered between requests, and agents and resumed sessions get
theirs. Where no cue is, the answer is `OK.`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

Json: TypeAlias = dict[str, Any]

GATE = 120.0
"""Seconds: a gate that nobody opens does not keep the server for ever."""


class Reply(NamedTuple):
    """What the API says: blocks, or an error if the status is one."""

    blocks: tuple[Json, ...] = ()
    status: int = 200
    input_tokens: int = 100
    gate: threading.Event | None = None
    """Nothing is said before this is set."""


Script: TypeAlias = Mapping[str, Sequence[Reply]]


def says(text: str) -> Json:
    return {"type": "text", "text": text}


def thinks(text: str) -> Json:
    return {"type": "thinking", "thinking": text, "signature": "c2lnbmVk"}


def calls(tool: str, **given: Any) -> Json:
    return {"type": "tool_use", "name": tool, "input": given}


class Server:
    """The API while the `with` lasts."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Json] = []
        requests = self.requests

        class Answering(_Answering):
            def reply_to(self, body: Json) -> Reply:
                requests.append(body)
                return choose(script, body.get("messages", []))

        self._http = _Http(("127.0.0.1", 0), Answering)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Server:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def choose(script: Script, messages: Sequence[Json]) -> Reply:
    """Return the reply to a conversation."""
    answers = 0
    for message in reversed(messages):
        if message["role"] == "assistant":
            answers += 1
            continue
        text = "\n".join(block["text"] for block in blocks_of(message) if block["type"] == "text")
        found = max(((text.rfind(cue), cue) for cue in script), default=(-1, ""))
        if found[0] >= 0:
            replies = script[found[1]]
            return replies[min(answers, len(replies) - 1)]
    return Reply((says("OK."),))


def blocks_of(message: Json) -> list[Json]:
    """Return a message's content as blocks; a string is one text."""
    content = message["content"]
    return [says(content)] if isinstance(content, str) else content


class _Http(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A program that hangs up is no news."""


class _Answering(BaseHTTPRequestHandler):
    def reply_to(self, body: Json) -> Reply:
        raise NotImplementedError

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._send(404, {})

    def do_GET(self) -> None:
        self._send(404, {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        match self.path.partition("?")[0]:
            case "/v1/messages":
                self._answer(self.reply_to(body), body)
            case "/v1/messages/count_tokens":
                self._send(200, {"input_tokens": 100})
            case path:
                self._send(404, {"type": "error", "error": {"type": "not_found_error", "message": path}})

    def _answer(self, reply: Reply, body: Json) -> None:
        if reply.gate is not None:
            reply.gate.wait(GATE)
        if reply.status != 200:
            error = {"type": "invalid_request_error", "message": "as the script has it"}
            self._send(reply.status, {"type": "error", "error": error})
        elif body.get("stream"):
            self._begin(200, "text/event-stream")
            for event in _events(_message(reply, body["model"])):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        else:
            self._send(200, _message(reply, body["model"]))

    def _send(self, status: int, value: Json) -> None:
        self._begin(status, "application/json")
        if self.command != "HEAD":
            self.wfile.write(json.dumps(value).encode())

    def _begin(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.end_headers()


def _message(reply: Reply, model: str) -> Json:
    content = [
        {**block, "id": f"toolu_{uuid4().hex[:24]}"} if block["type"] == "tool_use" else block for block in reply.blocks
    ]
    waits = any(block["type"] == "tool_use" for block in content)
    return {
        "id": f"msg_{uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if waits else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": reply.input_tokens, "output_tokens": 20},
    }


def _events(message: Json) -> Iterator[Json]:
    """Yield a message piece by piece, as it is streamed."""
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        start, deltas = _pieces(block)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    """Return a block as it begins and what is added to it."""
    match block:
        case {"type": "text", "text": text}:
            return {**block, "text": ""}, [{"type": "text_delta", "text": text}]
        case {"type": "thinking", "thinking": text, "signature": signature}:
            deltas = [
                {"type": "thinking_delta", "thinking": text},
                {"type": "signature_delta", "signature": signature},
            ]
            return {**block, "thinking": "", "signature": ""}, deltas
        case {"type": "tool_use", "input": given}:
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": json.dumps(given)}]
        case _:
            return block, []
