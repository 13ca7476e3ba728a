"""Translates between the Messages API and OpenAI's `/v1/chat/completions`. Pure: requests out, events in.

    data = encode_completion_request(body, dialect)     # a request of the Messages API as a chat completion
    decoder = CompletionDecoder(new_id)
    decoder.decode(data)                                # the data of one server-sent event: the events of a message
    decoder.finish()                                    # what is still to be said when the stream ends

Rules
  1. Nothing of a request is lost without need: tool results become `tool` messages; pictures in them, which no `tool`
     message may have, go into a user message after the last result. Thinking is left out: nobody takes it back.
  2. Tool calls stay open until the answer ends: servers send the pieces of parallel calls in any order. A piece belongs
     to the call with its index, unless it has another id; without an index to the call with its id, else to the last.
  3. Arguments are passed on as they came. Whether they are JSON is decided where all answers are put together.
  4. An answer with calls ends with `tool_use`, whatever the server says: many say `stop`.
  5. Any field may be of any type: what does not fit is left out. An answer never raises.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from unspool.api.events import (
    AnyEvent,
    BlockDelta,
    BlockFinished,
    BlockStarted,
    InputDelta,
    Json,
    MessageDelta,
    MessageFinished,
    MessageStarted,
    StreamBroken,
    TextDelta,
    ThinkingDelta,
)

NO_PICTURES = "[a picture, which this model cannot see]"
ENDED_EARLY = "the response ended before it was complete"
_MAX_ID = 40
"""The longest id of a call that OpenAI's own server takes."""
_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_EFFORTS = {"xhigh": "high", "max": "high"}
"""Levels that only the Messages API has."""
_PASSED_ON = ("model", "temperature", "top_p")


class CompletionDialect(msgspec.Struct, frozen=True, kw_only=True):
    """What a server takes besides the common core; learned from what it refuses."""

    max_tokens: str = "max_tokens"
    """The name of the field; newer models of OpenAI want `max_completion_tokens`."""
    usage: bool = True
    """Whether `stream_options` may ask for usage."""
    pictures: bool = True
    parallel: bool = True
    """Whether `parallel_tool_calls` may be sent."""


def learn_dialect(dialect: CompletionDialect, refusal: str) -> CompletionDialect | None:
    """Return the dialect without what a refusal names; None if it names nothing that is in use."""
    words = refusal.lower()
    changes: dict[str, Any] = {}
    if "max_completion_tokens" in words and dialect.max_tokens == "max_tokens":
        changes = {"max_tokens": "max_completion_tokens"}
    elif "stream_options" in words and dialect.usage:
        changes = {"usage": False}
    elif "parallel_tool_calls" in words and dialect.parallel:
        changes = {"parallel": False}
    elif dialect.pictures and any(word in words for word in ("image_url", "image input", "multimodal", "vision")):
        changes = {"pictures": False}
    return msgspec.structs.replace(dialect, **changes) if changes else None


def encode_completion_request(body: Json, dialect: CompletionDialect) -> bytes:
    """Return a request of the Messages API as the body of a chat completion."""
    return msgspec.json.encode(to_completion_request(body, dialect))


def to_completion_request(body: Json, dialect: CompletionDialect) -> Json:
    """Return a request of the Messages API as a chat completion."""
    streams = body.get("stream", True) is True
    request: Json = {key: body[key] for key in _PASSED_ON if key in body}
    request["messages"] = [*_system_messages(body.get("system")), *_messages(body.get("messages"), dialect)]
    if "max_tokens" in body:
        request[dialect.max_tokens] = body["max_tokens"]
    if stops := body.get("stop_sequences"):
        request["stop"] = stops
    if tools := [_function(tool) for tool in _objects(body.get("tools")) if "input_schema" in tool]:
        request["tools"] = tools
        request |= _tool_choice(body.get("tool_choice"), dialect)
    output = body.get("output_config")
    if isinstance(output, dict) and isinstance(effort := output.get("effort"), str):
        request["reasoning_effort"] = _EFFORTS.get(effort, effort)
    request["stream"] = streams
    if streams and dialect.usage:
        request["stream_options"] = {"include_usage": True}
    return request


def unsupported_tools(body: Json) -> list[str]:
    """Return the tools that a server would run itself: a chat completion has none."""
    return [str(tool.get("name")) for tool in _objects(body.get("tools")) if "input_schema" not in tool]


def _system_messages(system: object) -> list[Json]:
    texts = [system] if isinstance(system, str) else [str(block.get("text", "")) for block in _objects(system)]
    text = "\n\n".join(text for text in texts if text)
    return [{"role": "system", "content": text}] if text else []


def _messages(messages: object, dialect: CompletionDialect) -> Iterator[Json]:
    for message in _objects(messages):
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)
        if message.get("role") == "assistant":
            yield from _assistant_message(blocks)
        else:
            yield from _user_messages(blocks, dialect)


def _assistant_message(blocks: list[Json]) -> Iterator[Json]:
    text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    calls = [
        {
            "id": _short_id(block.get("id")),
            "type": "function",
            "function": {
                "name": str(block.get("name", "")),
                "arguments": msgspec.json.encode(block.get("input") or {}).decode(),
            },
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    if calls:
        yield {"role": "assistant", "content": text or None, "tool_calls": calls}
    elif text:
        yield {"role": "assistant", "content": text}


def _user_messages(blocks: list[Json], dialect: CompletionDialect) -> Iterator[Json]:
    """Yield the messages of a user: first the results of calls, then everything else as one message."""
    parts: list[Json] = []
    for block in blocks:
        if block.get("type") != "tool_result":
            parts += _part(block, dialect)
            continue
        content = block.get("content")
        inside = [{"type": "text", "text": content}] if isinstance(content, str) else _objects(content)
        converted = [part for item in inside for part in _part(item, dialect)]
        text = "\n".join(part["text"] for part in converted if part["type"] == "text")
        media = [part for part in converted if part["type"] != "text"]
        if media:
            text = "\n".join(filter(None, (text, "[see the next message]")))
            parts += media
        yield {"role": "tool", "tool_call_id": _short_id(block.get("tool_use_id")), "content": text}
    if parts:
        # One string where there is only text: many servers' templates take nothing else.
        only_text = all(part["type"] == "text" for part in parts)
        yield {"role": "user", "content": "\n".join(part["text"] for part in parts) if only_text else parts}


def _part(block: Json, dialect: CompletionDialect) -> list[Json]:
    """Return a block of a user as parts of a chat message."""
    source = block.get("source")
    source = source if isinstance(source, dict) else {}
    match block.get("type"):
        case "text":
            return [{"type": "text", "text": str(block.get("text", ""))}] if block.get("text") else []
        case "image" if not dialect.pictures:
            return [{"type": "text", "text": NO_PICTURES}]
        case "image":
            return [{"type": "image_url", "image_url": {"url": _source_url(source)}}]
        case "document" if source.get("type") == "text":
            return [{"type": "text", "text": str(source.get("data", ""))}]
        case "document" if source.get("type") == "base64":
            name = str(block.get("title") or "document.pdf")
            return [{"type": "file", "file": {"filename": name, "file_data": _source_url(source)}}]
        case kind if isinstance(block.get("text"), str):
            return [{"type": "text", "text": block["text"]}]
        case kind:
            return [{"type": "text", "text": f"[{kind}: {msgspec.json.encode(block).decode()}]"}]


def _source_url(source: Json) -> str:
    if source.get("type") == "url":
        return str(source.get("url", ""))
    return f"data:{source.get('media_type', 'application/octet-stream')};base64,{source.get('data', '')}"


def _function(tool: Json) -> Json:
    function = {
        "name": tool.get("name"),
        "description": tool.get("description", ""),
        "parameters": tool["input_schema"],
    }
    return {"type": "function", "function": function}


def _tool_choice(choice: object, dialect: CompletionDialect) -> Json:
    if not isinstance(choice, dict):
        return {}
    found: Json = {}
    match choice.get("type"):
        case "any":
            found["tool_choice"] = "required"
        case "none" | "auto" as same:
            found["tool_choice"] = same
        case "tool":
            found["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    if choice.get("disable_parallel_tool_use") and dialect.parallel:
        found["parallel_tool_calls"] = False
    return found


def _short_id(id: object) -> str:
    """Return the id of a call as every server takes it: the same for a call and its result."""
    text = str(id)
    return text if len(text) <= _MAX_ID else f"call_{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:32]}"


class _OpenCall:
    """A tool call whose arguments still come."""

    def __init__(self, block: int, index: int | None, id: str | None) -> None:
        self.block = block
        self.index = index
        self.id = id
        self.arguments: list[str] = []

    def is_whole(self) -> bool:
        """Return whether the arguments so far are a JSON object."""
        try:
            return isinstance(msgspec.json.decode("".join(self.arguments)), dict)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False


class CompletionDecoder:
    """Takes a chat completion, whole or in chunks, and gives the events of a message."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._begun = False
        self._over = False
        self._blocks = 0
        self._growing: tuple[str, int] | None = None
        """The text or thinking that grows: its type and its index."""
        self._open: list[int] = []
        """All blocks that have not ended."""
        self._calls: list[_OpenCall] = []
        self._finish_reason: str | None = None
        self._usage: Json = {}

    def decode(self, data: str) -> list[AnyEvent]:
        """Return the events that a chunk of a stream gives; nothing after the end."""
        if self._over:
            return []
        if data.strip() == "[DONE]":
            return self.finish()
        try:
            chunk = msgspec.json.decode(data, type=Json)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self._break_off("the stream contains a malformed event")
        if (problem := _error_words(chunk)) is not None:
            return self._break_off(*problem)
        events = [*self._begin(chunk)]
        self._take_usage(chunk)
        choice = _first_choice(chunk)
        # Some servers send the whole message once more in the last chunk: `delta` goes before `message`.
        events += self._take_delta(choice.get("delta"))
        if isinstance(reason := choice.get("finish_reason"), str) and reason:
            self._finish_reason = reason
        # The usage comes in a chunk of its own after the last one, which has no choices.
        if self._finish_reason is not None and self._usage and not choice:
            events += self.finish()
        return events

    def decode_whole(self, data: bytes) -> list[AnyEvent]:
        """Return the events of a completion that came in one piece."""
        try:
            completion = msgspec.json.decode(data, type=Json)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return self._break_off("the response is neither a stream nor JSON")
        if (problem := _error_words(completion)) is not None:
            return self._break_off(*problem)
        choice = _first_choice(completion)
        if not choice:
            return self._break_off("the response has no choices")
        events = [*self._begin(completion)]
        self._take_usage(completion)
        events += self._take_delta(choice.get("message"))
        reason = choice.get("finish_reason")
        self._finish_reason = reason if isinstance(reason, str) and reason else "stop"
        return events + self.finish()

    def finish(self) -> list[AnyEvent]:
        """Return what ends the message; the stream has ended, or says that it will."""
        if self._over:
            return []
        if self._finish_reason is None:
            return self._break_off(ENDED_EARLY if self._begun else "the response has no choices")
        self._over = True
        reason = _STOP_REASONS.get(self._finish_reason, "end_turn")
        if self._calls and reason == "end_turn":
            reason = "tool_use"
        elif not self._calls and reason == "tool_use":
            reason = "end_turn"
        ended: list[AnyEvent] = [BlockFinished(index=index) for index in sorted(self._open)]
        delta = MessageDelta(delta={"stop_reason": reason, "stop_sequence": None}, usage=self._usage)
        return [*ended, delta, MessageFinished()]

    def _break_off(self, reason: str, kind: str | None = None) -> list[AnyEvent]:
        self._over = True
        return [StreamBroken(reason=reason, kind=kind)]

    def _begin(self, chunk: Json) -> Iterator[AnyEvent]:
        if self._begun or not _first_choice(chunk):  # some servers send what they filtered before anything else
            return
        self._begun = True
        id, model = chunk.get("id"), chunk.get("model")
        yield MessageStarted(
            message={
                "id": id if isinstance(id, str) and id else f"msg_{self._new_id()}",
                "type": "message",
                "role": "assistant",
                "model": model if isinstance(model, str) else None,
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 0, "output_tokens": 0},
            }
        )

    def _take_usage(self, chunk: Json) -> None:
        usage = chunk.get("usage")
        if not isinstance(usage, dict):
            return
        details = usage.get("prompt_tokens_details")
        cached = _number(details.get("cached_tokens")) if isinstance(details, dict) else 0
        prompt = _number(usage.get("prompt_tokens"))
        self._usage = {
            "input_tokens": max(0, prompt - cached),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": min(cached, prompt),
            "output_tokens": _number(usage.get("completion_tokens")),
        }

    def _take_delta(self, delta: object) -> list[AnyEvent]:
        if not isinstance(delta, dict):
            return []
        events: list[AnyEvent] = []
        for thought in (delta.get("reasoning_content"), delta.get("reasoning")):
            if isinstance(thought, str) and thought:
                events += self._grow("thinking", thought)
                break
        for kind, text in _texts(delta.get("content")):
            events += self._grow(kind, text)
        if isinstance(refusal := delta.get("refusal"), str):
            events += self._grow("text", refusal)
        for piece in _objects(delta.get("tool_calls")):
            events += self._take_call(piece)
        return events

    def _grow(self, kind: str, text: str) -> list[AnyEvent]:
        """Add to the block that grows, or begin another."""
        if not text:
            return []
        events: list[AnyEvent] = []
        if self._growing is None or self._growing[0] != kind:
            events += self._end_growing()
            self._growing = (kind, self._next_block())
            empty = {"thinking": "", "signature": ""} if kind == "thinking" else {"text": ""}
            events.append(BlockStarted(index=self._growing[1], content_block={"type": kind, **empty}))
        part = ThinkingDelta(thinking=text) if kind == "thinking" else TextDelta(text=text)
        events.append(BlockDelta(index=self._growing[1], delta=part))
        return events

    def _end_growing(self) -> list[AnyEvent]:
        growing, self._growing = self._growing, None
        # After the first call everything stays open: blocks have to end in their order.
        if growing is None or self._calls:
            return []
        self._open.remove(growing[1])
        return [BlockFinished(index=growing[1])]

    def _next_block(self) -> int:
        index, self._blocks = self._blocks, self._blocks + 1
        self._open.append(index)
        return index

    def _take_call(self, piece: Json) -> list[AnyEvent]:
        """Add a piece to its tool call, or begin one."""
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        events: list[AnyEvent] = []
        call = self._find_call(piece, function)
        if call is None:
            events, call = self._begin_call(piece, function)
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some servers do not encode them
            arguments = msgspec.json.encode(arguments).decode()
        if isinstance(arguments, str) and arguments:
            call.arguments.append(arguments)
            events.append(BlockDelta(index=call.block, delta=InputDelta(partial_json=arguments)))
        return events

    def _find_call(self, piece: Json, function: Json) -> _OpenCall | None:
        id, index = piece.get("id"), piece.get("index")
        if isinstance(id, str) and id:
            if found := next((call for call in self._calls if call.id == id), None):
                return found
            # Another id is another call, also at the same index; but an id may come after the first piece.
            late = next((call for call in self._calls if call.id is None and call.index == index), None)
            if late is not None and not function.get("name"):
                late.id = id
                return late
            return None
        if type(index) is int:
            found = next((call for call in reversed(self._calls) if call.index == index), None)
            # Some servers give every call the index 0 and no id: a name after whole arguments is another call.
            return None if found is not None and function.get("name") and found.is_whole() else found
        return None if function.get("name") or not self._calls else self._calls[-1]

    def _begin_call(self, piece: Json, function: Json) -> tuple[list[AnyEvent], _OpenCall]:
        ended = self._end_growing()
        id, index = piece.get("id"), piece.get("index")
        call = _OpenCall(
            self._next_block(), index if type(index) is int else None, id if isinstance(id, str) and id else None
        )
        self._calls.append(call)
        block = {
            "type": "tool_use",
            "id": call.id or f"toolu_{self._new_id()}",
            "name": str(function.get("name") or ""),
            "input": {},
        }
        return [*ended, BlockStarted(index=call.block, content_block=block)], call


def _first_choice(chunk: Json) -> Json:
    """Return the first choice of a completion; empty if it has none."""
    choices = _objects(chunk.get("choices"))
    return next((choice for choice in choices if choice.get("index", 0) == 0), {})


def _texts(content: object) -> Iterator[tuple[str, str]]:
    """Yield the texts of a content, each with the type of its block: a string, or parts as Mistral's server sends."""
    if isinstance(content, str):
        yield "text", content
    for part in _objects(content):
        if isinstance(text := part.get("text"), str):
            yield "text", text
        for thought in _objects(part.get("thinking")):
            yield "thinking", str(thought.get("text", ""))


def _error_words(value: Json) -> tuple[str, str | None] | None:
    """Return what an error says, and its type; None if the object is none."""
    match value:
        case {"error": {"message": message, **rest}}:
            return str(message), str(rest.get("type") or rest.get("code") or "api_error")
        case {"error": str() as message} if message:
            return message, "api_error"
        case {"object": "error", "message": message, **rest}:
            return str(message), str(rest.get("type") or "api_error")
        case _:
            return None


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(value: object) -> int:
    return value if type(value) is int and value >= 0 else 0
