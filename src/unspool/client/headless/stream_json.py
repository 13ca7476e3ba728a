"""Turns the events of a chat into the JSON objects that Claude Code prints with `--output-format stream-json`.

Rules
  1. Each object has a `type`, the session's id and an id of its own. `system/init` comes first, `result` last.
  2. What a subagent does has the id of the call that started it in `parent_tool_use_id`.
  3. With `partial`, what the API streamed is printed too, as `stream_event`: frames that make up the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from unspool.client import events
from unspool.client.hooks.registry import HookCallProgress
from unspool.client.tool_result import Json
from unspool.graph.context import context_window

# The words that Claude Code writes to the session, too.
INTERRUPTED = "[Request interrupted by user]"
INTERRUPTED_CALL = "[Request interrupted by user for tool use]"
_RESULT_SUBTYPES = {
    "max_steps": "error_max_turns",
    "max_cost": "error_max_budget_usd",
    "max_total_tokens": "error_max_tokens",
    "max_seconds": "error_max_seconds",
    "context_full": "error_during_execution",
    "interrupted": "error_during_execution",
    "failed": "error_during_execution",
}
_TERMINAL_REASONS = {"interrupted": "aborted_streaming", "max_steps": "max_turns", "failed": "model_error"}
"""Claude Code's words for why a turn has ended; `completed` for all others."""
_LIMIT_MESSAGES = {
    "max_steps": "reached the maximum number of turns",
    "max_cost": "reached the maximum cost",
    "max_total_tokens": "reached the maximum number of tokens",
    "max_seconds": "reached the maximum time",
    "context_full": "the conversation no longer fits the context window",
}


class StreamJsonEncoder:
    """Encodes the events of one chat, in their order."""

    def __init__(self, session_id: str, new_id: Callable[[], str], *, partial: bool = False) -> None:
        self._session_id = session_id
        self._new_id = new_id
        self._frame_builder = _FrameBuilder() if partial else None
        self._message_id: str | None = None
        """Of the message whose frames are printed."""
        self._open: set[str] = set()
        self._failed: events.TurnFailed | None = None

    def objects(self, event: events.ChatEvent) -> Iterator[Json]:
        """Yield the objects to print for an event."""
        match event:
            case events.BlockDone():
                # The `assistant` object stands before the end of its block in the stream, as Claude Code prints it.
                yield from self._partial_objects(event)
                # The stop reason of a message is not known yet when Claude Code prints its blocks.
                message = {**event.message, "stop_reason": None, "content": [event.block]}
                yield self._message("assistant", message, event.uuid)
                yield from self._stop_block()
            case events.CallBegan():
                self._open.add(event.id)
            case events.CallEnded():
                self._open.discard(event.id)
                yield self._tool_result(event)
            case events.SubagentEvent():
                yield from self._agent_objects(event)
            case events.TurnFailed():
                self._failed = event
            case events.TurnEnded():
                if event.ending == "interrupted":
                    words = INTERRUPTED_CALL if self._open else INTERRUPTED
                    message = {"role": "user", "content": [{"type": "text", "text": words}]}
                    yield self._message("user", message, self._new_id())
                result = result_object(event, self._failed, self._session_id, self._new_id())
                in_tools = event.ending == "interrupted" and self._open
                yield {**result, "terminal_reason": "aborted_tools"} if in_tools else result
            case events.TurnBegan():
                self._open, self._failed = set(), None
            case (
                events.StepBegan()
                | events.ResponseBegan()
                | events.TextGrown()
                | events.ThinkingGrown()
                | events.ResponseDone()
            ):
                yield from self._partial_objects(event)
            case _:
                yield from self._system_objects(event)

    def _tool_result(self, event: events.CallEnded, parent: str | None = None) -> Json:
        block: Json = {"tool_use_id": event.id, "type": "tool_result", "content": event.content}
        if event.is_error:
            block["is_error"] = True
        value = self._message("user", {"role": "user", "content": [block]}, event.uuid, parent)
        return value if event.result is None else {**value, "tool_use_result": event.result}

    def _agent_objects(self, event: events.SubagentEvent) -> Iterator[Json]:
        match event.event:
            case events.BlockDone(block=block, message=message, uuid=uuid):
                yield self._message("assistant", {**message, "content": [block]}, uuid, event.call_id)
            case events.CallEnded() as ended:
                yield self._tool_result(ended, event.call_id)
            case _:
                pass

    def _system_objects(self, event: events.ChatEvent) -> Iterator[Json]:
        """Yield the `system` objects of other events; those that Claude Code does not print yield nothing."""
        match event:
            case events.ContextCompacted(how="summarized"):
                metadata = {"trigger": event.trigger, "pre_tokens": event.before, "post_tokens": event.after}
                yield self._system("compact_boundary", compact_metadata=metadata)
            case events.RetryScheduled():
                yield self._system(
                    "api_retry",
                    attempt=event.attempt,
                    retry_delay_ms=round(event.seconds * 1000),
                    error_status=event.status,
                    error=event.reason,
                )
            case events.ModeChanged():
                yield self._system("status", status=None, permissionMode=event.mode)
            case events.TaskEnded():
                yield self._system(
                    "task_notification",
                    task_id=event.id,
                    status=event.status,
                    summary=event.description,
                    output_file="",
                )
            case events.FeatureDisabled():
                yield self._system("degraded", what=event.what, why=event.why)
            case _:
                pass

    def _partial_objects(self, event: events.ChatEvent) -> Iterator[Json]:
        if self._frame_builder and type(event) is events.StepBegan:
            yield self._system("status", status="requesting")
        for frame in self._frame_builder.frames(event) if self._frame_builder else ():
            yield self._stream_event(frame)

    def _stop_block(self) -> Iterator[Json]:
        if self._frame_builder:
            yield self._stream_event(self._frame_builder.stop())

    def _stream_event(self, frame: Json) -> Json:
        if frame["type"] == "message_start":
            self._message_id = frame["message"]["id"]
        head = {"type": "stream_event", "event": frame, "session_id": self._session_id}
        return {**head, "parent_tool_use_id": None, "uuid": self._new_id(), "api_message_id": self._message_id}

    def _message(self, kind: str, message: Json, uuid: str, parent: str | None = None) -> Json:
        head = {"type": kind, "message": message, "parent_tool_use_id": parent}
        return {**head, "session_id": self._session_id, "uuid": uuid}

    def _system(self, subtype: str, **fields: object) -> Json:
        return {"type": "system", "subtype": subtype, **fields, "session_id": self._session_id, "uuid": self._new_id()}


class _FrameBuilder:
    """Rebuilds the API's stream frames of a message from the events of the chat."""

    def __init__(self) -> None:
        self._index = 0
        self._is_open = False
        self._has_begun = False

    def frames(self, event: events.ChatEvent) -> Iterator[Json]:
        """Yield the frames of an event."""
        match event:
            case events.StepBegan():
                self._index, self._is_open, self._has_begun = 0, False, False
            case events.ResponseBegan(message=message):
                self._index, self._is_open, self._has_begun = 0, False, False
                yield from self._start_message(message)
            case events.TextGrown(text=text):
                yield from self._delta({"type": "text", "text": ""}, {"type": "text_delta", "text": text})
            case events.ThinkingGrown(text=text):
                start = {"type": "thinking", "thinking": "", "signature": ""}
                yield from self._delta(start, {"type": "thinking_delta", "thinking": text})
            case events.BlockDone(block=block, message=message):
                yield from self._complete(block, message)
            case events.ResponseDone():
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

    def _delta(self, start: Json, delta: Json) -> Iterator[Json]:
        yield from self._start_message({})
        if not self._is_open:
            self._is_open = True
            yield {"type": "content_block_start", "index": self._index, "content_block": start}
        yield {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _complete(self, block: Json, message: Json) -> Iterator[Json]:
        """Yield what no delta has carried: the input of a call, a signature, or a whole block that came at once."""
        yield from self._start_message(message)
        match block:
            case {"type": "tool_use", "input": input}:
                words = msgspec.json.encode(input).decode()
                yield from self._delta({**block, "input": {}}, {"type": "input_json_delta", "partial_json": words})
            case {"type": "thinking", "signature": signature} if self._is_open:
                yield from self._delta({}, {"type": "signature_delta", "signature": signature})
            case _ if not self._is_open:
                yield {"type": "content_block_start", "index": self._index, "content_block": block}
            case _:
                pass

    def _start_message(self, message: Json) -> Iterator[Json]:
        if not self._has_begun:
            self._has_begun = True
            empty = {"id": "", "type": "message", "role": "assistant", "model": "", "usage": {}}
            yield {"type": "message_start", "message": {**empty, **message, "content": []}}


def init_object(session_id: str, new_id: str, **facts: object) -> Json:
    """Return the `system/init` object, which comes first."""
    return {
        "type": "system",
        "subtype": "init",
        **facts,
        "session_id": session_id,
        "uuid": new_id,
    }


def hook_objects(
    progress: HookCallProgress, session_id: str, new_id: Callable[[], str], *, all_events: bool
) -> Iterator[Json]:
    """Yield the object that tells of the begin or the end of a hook's call, if there is one for its event.

    Without `all_events` these are the hooks at the start of a session, as Claude Code 2.1.327 has it.
    """
    # Those of the end come after the result: a program reads no further.
    if progress.event == "SessionEnd" or not (all_events or progress.event == "SessionStart"):
        return
    reply = progress.reply
    head = {"type": "system", "subtype": "hook_started" if reply is None else "hook_response"}
    value: Json = {**head, "hook_id": progress.id, "hook_name": progress.name, "hook_event": progress.event}
    if reply is not None:
        outcome = "cancelled" if reply.timed_out else "success" if not (reply.exit_code or reply.failure) else "error"
        value |= {"output": reply.stdout + reply.stderr, "stdout": reply.stdout, "stderr": reply.stderr}
        value |= {"exit_code": reply.exit_code or int(outcome != "success"), "outcome": outcome}
    yield {**value, "uuid": new_id(), "session_id": session_id}


def result_object(ended: events.TurnEnded, failed: events.TurnFailed | None, session_id: str, new_id: str) -> Json:
    """Return the `result` object of a turn, which comes last."""
    subtype = _RESULT_SUBTYPES.get(ended.ending, "success")
    message = failed.message if failed else _LIMIT_MESSAGES.get(ended.ending, "")
    value = {
        "type": "result",
        "subtype": subtype,
        "is_error": subtype != "success",
        "duration_ms": ended.duration_ms,
        "duration_api_ms": ended.api_ms,
        "num_turns": ended.steps,
        "result": failed.message if failed else ended.text,
        "stop_reason": ended.ending,
        "session_id": session_id,
        "total_cost_usd": ended.cost_micros / 1_000_000,
        "total_cost_micros": ended.cost_micros,
        "usage": ended.usage,
        "modelUsage": {name: _model_usage(name, usage) for name, usage in ended.models.items()},
        "permission_denials": list(ended.denials),
        "terminal_reason": _TERMINAL_REASONS.get(ended.ending, "completed"),
        "uuid": new_id,
    }
    return {**value, "errors": [message] if message else []} if subtype != "success" else value


def exit_code(ended: events.TurnEnded | None, failed: events.TurnFailed | None) -> int:
    """Return the exit code of a turn: 0 done, 1 at a limit, 130 interrupted, otherwise that of the failure."""
    if failed is not None:
        return failed.exit_code
    if ended is None or ended.ending == "interrupted":
        return 130
    return 1 if ended.ending in _RESULT_SUBTYPES else 0


def limit_message(ended: events.TurnEnded) -> str | None:
    """Return which limit ended a turn; None if none did."""
    return _LIMIT_MESSAGES.get(ended.ending)


def encode_line(value: Json) -> str:
    """Return an object as a line that is safe to print on a terminal."""
    # A line may be shown by a terminal, so control characters in it are escaped.
    from unspool.display import clean_json

    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate, from a file name that is not UTF-8
        import json

        text = json.dumps(value, separators=(",", ":"))
    return clean_json(text)


def _model_usage(name: str, usage: Json) -> Json:
    """Return the usage of a model by Claude Code's field names."""
    return {
        "inputTokens": usage.get("input_tokens", 0),
        "outputTokens": usage.get("output_tokens", 0),
        "cacheReadInputTokens": usage.get("cache_read_input_tokens", 0),
        "cacheCreationInputTokens": usage.get("cache_creation_input_tokens", 0),
        "webSearchRequests": usage.get("web_search_requests", 0),
        "costUSD": usage.get("cost_micros", 0) / 1_000_000,
        "contextWindow": context_window(name) or 200_000,
    }
