"""A scripted server of OpenAI's chat completions on this machine, strict about the shape of what it is asked.

It has no `/v1/messages`, unless it is told to. Answers are given as blocks of a message, and sent as that server would.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Json = dict[str, Any]
_FIELDS = {
    "model", "messages", "max_tokens", "max_completion_tokens", "stop", "tools", "tool_choice", "parallel_tool_calls",
    "temperature", "top_p", "stream", "stream_options", "reasoning_effort",
}  # fmt: skip
USAGE = {"prompt_tokens": 120, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 100}}


class Manners(NamedTuple):
    """How a server differs from OpenAI's."""

    streams: bool = True
    usage: bool = True
    """Whether answers have usage."""
    ids: bool = True
    """Whether calls have ids."""
    says_stop: bool = False
    """Whether an answer with calls ends with `stop`."""
    alternates: bool = True
    """Whether the pieces of parallel calls come in turns."""
    done: bool = True
    """Whether `[DONE]` is sent."""
    refuses: tuple[str, ...] = ()
    """Fields that are refused by name."""
    key: str | None = None
    models: tuple[Json, ...] = ({"id": "tiny", "max_model_len": 40_000},)


class CompletionServer(ThreadingHTTPServer):
    """A server that runs, and what was asked of it."""

    def __init__(self, steps: Sequence[Any], manners: Manners) -> None:
        self.steps = [*steps]
        self.manners = manners
        self.bodies: list[Json] = []
        self.problems: list[str] = []
        self.headers: list[dict[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@contextmanager
def completing(steps: Sequence[Any], manners: Manners | None = None) -> Iterator[CompletionServer]:
    """Answer each request with the next step: a text, a list of blocks, or a status and a body."""
    server = CompletionServer(steps, manners or Manners())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: CompletionServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._send(200, {"object": "list", "data": [*self.server.manners.models]})
        else:
            self._send(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        manners = self.server.manners
        if self.path != "/v1/chat/completions":
            self._send(404, {"detail": "Not Found"})
            return
        if manners.key and self.headers.get("authorization") != f"Bearer {manners.key}":
            self._send(401, {"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}})
            return
        for field in manners.refuses:
            if field in body:
                instead = " Use 'max_completion_tokens' instead." if field == "max_tokens" else ""
                self._send(
                    400, {"error": {"message": f"Unsupported parameter: '{field}'.{instead}", "type": "invalid"}}
                )
                return
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        self.server.bodies.append(body)
        if problems := find_problems(body):
            self.server.problems += problems
            self._send(400, {"error": {"message": problems[0], "type": "invalid_request_error"}})
            return
        step = self.server.steps.pop(0) if self.server.steps else "Nothing more."
        if isinstance(step, tuple):
            self._send(*step)
            return
        completion = to_completion(step, body["model"], len(self.server.bodies), manners)
        if not body.get("stream") or not manners.streams:
            self._send(200, completion)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        usage = manners.usage and bool(body.get("stream_options", {}).get("include_usage"))
        with suppress(OSError):
            for chunk in to_chunks(completion, 3, usage=usage, alternates=manners.alternates):
                self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            if manners.done:
                self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, status: int, value: object) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "text/html" if isinstance(value, bytes) else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def to_completion(content: Any, model: str = "tiny", number: int = 1, manners: Manners | None = None) -> Json:
    """Return the completion that says the blocks of a message."""
    manners = manners or Manners()
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    calls = [
        {
            **({"id": block.get("id", f"call_{number}_{at}")} if manners.ids else {}),
            "type": "function",
            "function": {
                "name": block["name"],
                "arguments": block["input"] if isinstance(block["input"], str) else json.dumps(block["input"]),
            },
        }
        for at, block in enumerate(block for block in blocks if block["type"] == "tool_use")
    ]
    thoughts = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    message: Json = {"role": "assistant", "content": "".join(texts) if texts else None}
    if thoughts:
        message["reasoning_content"] = thoughts
    if calls:
        message["tool_calls"] = calls
    reason = "tool_calls" if calls and not manners.says_stop else "stop"
    completion = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
    }
    return {**completion, "usage": USAGE} if manners.usage else completion


def to_chunks(completion: Json, size: int, *, usage: bool = True, alternates: bool = True) -> Iterator[Json]:
    """Yield a completion as the chunks of a stream; the arguments of parallel calls one by one, or in turns."""
    (choice,) = completion["choices"]
    message = choice["message"]
    head = {key: completion[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: Json, reason: str | None = None) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": None}

    yield chunk({"role": "assistant", "content": ""})
    for field in ("reasoning_content", "content"):
        text = message.get(field) or ""
        for at in range(0, len(text), size):
            yield chunk({field: text[at : at + size]})
    calls = message.get("tool_calls", [])
    for group in [[*enumerate(calls)]] if alternates else [[pair] for pair in enumerate(calls)]:
        for index, call in group:
            begun = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
            yield chunk({"tool_calls": [begun]})
        longest = max((len(call["function"]["arguments"]) for _, call in group), default=0)
        for at in range(0, longest, size):
            for index, call in group:
                if piece := call["function"]["arguments"][at : at + size]:
                    yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    if usage:
        yield {**head, "choices": [], "usage": completion.get("usage", USAGE)}


def find_problems(body: Json) -> list[str]:
    """Return what OpenAI's server would refuse in a request."""
    problems = [f"Unrecognized request argument supplied: {key}" for key in body if key not in _FIELDS]
    if not isinstance(body.get("model"), str) or not body.get("messages"):
        problems.append("you must provide a model and messages")
    if "stream_options" in body and not body.get("stream"):
        problems.append("'stream_options' is only allowed when 'stream' is enabled")
    for tool in body.get("tools", []):
        if set(tool) != {"type", "function"} or not {"name", "parameters"} <= set(tool["function"]):
            problems.append(f"invalid tool: {tool}")
    if "tools" in body and not body["tools"]:
        problems.append("[] is too short - 'tools'")
    if "tool_choice" in body and "tools" not in body:
        problems.append("'tool_choice' is only allowed when 'tools' are specified")
    open_calls: list[str] = []
    for message in body.get("messages", []):
        role = message.get("role")
        if role != "tool" and open_calls:
            problems.append(f"tool_call_ids did not have response messages: {open_calls}")
            open_calls = []
        problems += _message_problems(message)
        if role == "tool":
            if message.get("tool_call_id") in open_calls:
                open_calls.remove(message["tool_call_id"])
            else:
                problems.append("messages with role 'tool' must be a response to a preceding message with 'tool_calls'")
        open_calls += [call["id"] for call in message.get("tool_calls", ())]
    if open_calls:
        problems.append(f"tool_call_ids did not have response messages: {open_calls}")
    return problems


def _message_problems(message: Json) -> Iterator[str]:
    content = message.get("content")
    match message.get("role"):
        case "system" | "tool":
            parts = content if isinstance(content, list) else []
            if not isinstance(content, str | list) or any(part.get("type") != "text" for part in parts):
                yield "content of system and tool messages must be text"
        case "user":
            parts = content if isinstance(content, list) else []
            if not isinstance(content, str | list) or not content:
                yield "user messages need content"
            for part in parts:
                if part.get("type") == "image_url" and not part["image_url"]["url"].startswith(("data:image/", "http")):
                    yield "invalid image_url"
                if part.get("type") not in ("text", "image_url", "file"):
                    yield f"invalid part: {part}"
        case "assistant":
            if not isinstance(content, str) and not message.get("tool_calls"):
                yield "assistant messages need content or tool calls"
            for call in message.get("tool_calls", ()):
                is_call = set(call) == {"id", "type", "function"} and len(call["id"]) <= 40
                if not is_call or not isinstance(json.loads(call["function"]["arguments"]), dict):
                    yield f"invalid tool call: {call}"
        case role:
            yield f"invalid role: {role}"
