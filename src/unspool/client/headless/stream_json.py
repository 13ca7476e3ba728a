"""A conversation for programs: events in, objects out, shaped as the program prints them with `stream-json`.

Rules
  1. Each object has a `type`, the session's id and an id of its own. First comes `system/init`, last `result`.
  2. What an agent does has the id of the call that sent it in `parent_tool_use_id`.
  3. With `partial`, what the API streamed is told too, as `stream_event`: frames that make up the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from unspool.client.events import (
    AgentTold,
    AnswerDone,
    BlockDone,
    CallBegan,
    CallEnded,
    Compacted,
    Degraded,
    Event,
    Failed,
    ModeChanged,
    StepBegan,
    TaskEnded,
    TextGrown,
    ThinkingGrown,
    TurnBegan,
    TurnEnded,
    Waiting,
)
from unspool.graph.context.model_rules import window

Json: TypeAlias = dict[str, Any]

INTERRUPTED = "[Request interrupted by user]"
INTERRUPTED_CALL = "[Request interrupted by user for tool use]"
_SUBTYPES = {
    "max_steps": "error_max_turns",
    "max_cost": "error_max_budget_usd",
    "max_total_tokens": "error_max_tokens",
    "max_seconds": "error_max_seconds",
    "context_full": "error_during_execution",
    "interrupted": "error_during_execution",
    "failed": "error_during_execution",
}
_WORDS = {
    "max_steps": "reached the maximum number of turns",
    "max_cost": "reached the maximum cost",
    "max_total_tokens": "reached the maximum number of tokens",
    "max_seconds": "reached the maximum time",
    "context_full": "the conversation does not fit the context window any more",
}


class Stream:
    """One conversation, told as objects."""

    def __init__(self, session_id: str, new_id: Callable[[], str], *, partial: bool = False) -> None:
        self._session = session_id
        self._new_id = new_id
        self._frames = _Frames() if partial else None
        self._open: set[str] = set()
        self._failed: Failed | None = None

    def objects(self, event: Event) -> Iterator[Json]:
        """Yield what to print of an event."""
        match event:
            case BlockDone():
                yield from self._partial(event)
                yield self._message("assistant", {**event.message, "content": [event.block]}, event.uuid)
                yield from self._stopped()
            case CallBegan():
                self._open.add(event.id)
            case CallEnded():
                self._open.discard(event.id)
                yield self._result(event)
            case AgentTold():
                yield from self._agent(event)
            case Failed():
                self._failed = event
            case TurnEnded():
                if event.ending == "interrupted":
                    words = INTERRUPTED_CALL if self._open else INTERRUPTED
                    said = {"role": "user", "content": [{"type": "text", "text": words}]}
                    yield self._message("user", said, self._new_id())
                yield result(event, self._failed, self._session, self._new_id())
            case TurnBegan():
                self._open, self._failed = set(), None
            case StepBegan() | TextGrown() | ThinkingGrown() | AnswerDone():
                yield from self._partial(event)
            case _:
                yield from self._note(event)

    def _result(self, event: CallEnded, parent: str | None = None) -> Json:
        block: Json = {"tool_use_id": event.id, "type": "tool_result", "content": event.content}
        if event.is_error:
            block["is_error"] = True
        told = self._message("user", {"role": "user", "content": [block]}, event.uuid, parent)
        return told if event.result is None else {**told, "tool_use_result": event.result}

    def _agent(self, told: AgentTold) -> Iterator[Json]:
        match told.event:
            case BlockDone(block=block, message=message, uuid=uuid):
                yield self._message("assistant", {**message, "content": [block]}, uuid, told.call_id)
            case CallEnded() as ended:
                yield self._result(ended, told.call_id)
            case _:
                pass

    def _note(self, event: Event) -> Iterator[Json]:
        """Yield what the program tells beside the conversation, and nothing of what it does not."""
        match event:
            case Compacted(how="summarized"):
                metadata = {"trigger": event.trigger, "pre_tokens": event.before, "post_tokens": event.after}
                yield self._system("compact_boundary", compact_metadata=metadata)
            case Waiting():
                yield self._system(
                    "api_retry",
                    attempt=event.attempt,
                    retry_delay_ms=round(event.seconds * 1000),
                    error_status=event.status,
                    error=event.reason,
                )
            case ModeChanged():
                yield self._system("status", status=None, permissionMode=event.mode)
            case TaskEnded():
                yield self._system(
                    "task_notification",
                    task_id=event.id,
                    status=event.status,
                    summary=event.description,
                    output_file="",
                )
            case Degraded():
                yield self._system("degraded", what=event.what, why=event.why)
            case _:
                pass

    def _partial(self, event: Event) -> Iterator[Json]:
        for frame in self._frames.of(event) if self._frames else ():
            yield self._framed(frame)

    def _stopped(self) -> Iterator[Json]:
        if self._frames:
            yield self._framed(self._frames.stop())

    def _framed(self, frame: Json) -> Json:
        head = {"type": "stream_event", "event": frame, "session_id": self._session}
        return {**head, "parent_tool_use_id": None, "uuid": self._new_id()}

    def _message(self, kind: str, message: Json, uuid: str, parent: str | None = None) -> Json:
        head = {"type": kind, "message": message, "parent_tool_use_id": parent}
        return {**head, "session_id": self._session, "uuid": uuid}

    def _system(self, subtype: str, **fields: object) -> Json:
        return {"type": "system", "subtype": subtype, **fields, "session_id": self._session, "uuid": self._new_id()}


class _Frames:
    """The frames of an answer, made again from what is told of it."""

    def __init__(self) -> None:
        self._index = 0
        self._is_open = False
        self._has_begun = False

    def of(self, event: Event) -> Iterator[Json]:
        """Yield the frames of an event."""
        match event:
            case StepBegan():
                self._index, self._is_open, self._has_begun = 0, False, False
            case TextGrown(text=text):
                yield from self._grown({"type": "text", "text": ""}, {"type": "text_delta", "text": text})
            case ThinkingGrown(text=text):
                start = {"type": "thinking", "thinking": "", "signature": ""}
                yield from self._grown(start, {"type": "thinking_delta", "thinking": text})
            case BlockDone(block=block, message=message):
                yield from self._whole(block, message)
            case AnswerDone():
                delta = {"stop_reason": event.stop_reason, "stop_sequence": None}
                yield {"type": "message_delta", "delta": delta, "usage": event.usage}
                yield {"type": "message_stop"}
            case _:
                pass

    def stop(self) -> Json:
        """Return the frame that ends a block."""
        self._index += 1
        self._is_open = False
        return {"type": "content_block_stop", "index": self._index - 1}

    def _grown(self, start: Json, delta: Json) -> Iterator[Json]:
        yield from self._begun({})
        if not self._is_open:
            self._is_open = True
            yield {"type": "content_block_start", "index": self._index, "content_block": start}
        yield {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _whole(self, block: Json, message: Json) -> Iterator[Json]:
        """Yield what was not told while it grew: a call's input, a signature, all of a block that came at once."""
        yield from self._begun(message)
        match block:
            case {"type": "tool_use", "input": input}:
                words = msgspec.json.encode(input).decode()
                yield from self._grown({**block, "input": {}}, {"type": "input_json_delta", "partial_json": words})
            case {"type": "thinking", "signature": signature} if self._is_open:
                yield from self._grown({}, {"type": "signature_delta", "signature": signature})
            case _ if not self._is_open:
                yield {"type": "content_block_start", "index": self._index, "content_block": block}
            case _:
                pass

    def _begun(self, message: Json) -> Iterator[Json]:
        if not self._has_begun:
            self._has_begun = True
            empty = {"id": "", "type": "message", "role": "assistant", "model": "", "usage": {}}
            yield {"type": "message_start", "message": {**empty, **message, "content": []}}


def init(session_id: str, new_id: str, **facts: object) -> Json:
    """Return the object that comes first."""
    return {
        "type": "system",
        "subtype": "init",
        **facts,
        "session_id": session_id,
        "mcp_servers": [],
        "output_style": "default",
        "skills": [],
        "plugins": [],
        "uuid": new_id,
    }


def result(ended: TurnEnded, failed: Failed | None, session_id: str, new_id: str) -> Json:
    """Return the object that comes last: what came of a turn."""
    subtype = _SUBTYPES.get(ended.ending, "success")
    words = failed.message if failed else _WORDS.get(ended.ending, "")
    told = {
        "type": "result",
        "subtype": subtype,
        "is_error": subtype != "success" and ended.ending != "interrupted",
        "duration_ms": ended.duration_ms,
        "duration_api_ms": ended.api_ms,
        "num_turns": ended.steps,
        "result": failed.message if failed else ended.text,
        "stop_reason": ended.ending,
        "session_id": session_id,
        "total_cost_usd": ended.cost_micros / 1_000_000,
        "total_cost_micros": ended.cost_micros,
        "usage": ended.usage,
        "modelUsage": {name: _by_model(name, usage) for name, usage in ended.models.items()},
        "permission_denials": list(ended.denials),
        "uuid": new_id,
    }
    return {**told, "errors": [words] if words else []} if subtype != "success" else told


def exit_code(ended: TurnEnded | None, failed: Failed | None) -> int:
    """Return the exit code for how a turn ended: 0 done, 1 at a limit, 130 interrupted, else what failed says."""
    if failed is not None:
        return failed.exit_code
    if ended is None or ended.ending == "interrupted":
        return 130
    return 1 if ended.ending in _SUBTYPES else 0


def limit_words(ended: TurnEnded) -> str | None:
    """Return why a turn ended before it was done, if a limit ended it."""
    return _WORDS.get(ended.ending)


def line(value: Json) -> str:
    """Return an object as a line that is safe to print."""
    from unspool.display.safe import clean_json

    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # half of a pair, from a file's name
        import json

        text = json.dumps(value, separators=(",", ":"))
    return clean_json(text)


def _by_model(name: str, usage: Json) -> Json:
    """Return what a model used, named as the program names it."""
    return {
        "inputTokens": usage.get("input_tokens", 0),
        "outputTokens": usage.get("output_tokens", 0),
        "cacheReadInputTokens": usage.get("cache_read_input_tokens", 0),
        "cacheCreationInputTokens": usage.get("cache_creation_input_tokens", 0),
        "webSearchRequests": usage.get("web_search_requests", 0),
        "costUSD": usage.get("cost_micros", 0) / 1_000_000,
        "contextWindow": window(name) or 200_000,
    }
