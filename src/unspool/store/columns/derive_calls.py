"""Derives rows from the tool calls of one session file: the calls, the files they touch, and the agents they start.

Rules
  1. The first call and the first result of an id count, as in `graph/tool_calls.py`.
  2. A call's row is emitted when its result comes, or at the end of the file: results are bulky, and none is held
     unless it comes before its call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from unspool.format import (
    DECODE_ERRORS,
    Image,
    ToolResult,
    ToolUse,
    decode_file_change,
    elapsed_time,
    structured_result_text,
)
from unspool.format.tools import AGENT_TOOLS, AgentInput, parse_input, parse_result
from unspool.graph import join_text
from unspool.store.columns.values import epoch_micros

RowSink: TypeAlias = Callable[[str, tuple[object, ...]], None]
"""Takes the name of a table and the values of a row."""

_FILE_ACTIONS = {
    "Read": "read",
    "NotebookRead": "read",
    "Write": "write",
    "Edit": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
}


class LineContext(NamedTuple):
    """The message that a block belongs to, and the line it stands on."""

    session_id: str | None
    agent_id: str | None
    family: str
    message_id: str
    uuid: str | None = None
    offset: int = 0
    timestamp: str | None = None


class _Call(NamedTuple):
    context: LineContext
    block: ToolUse
    input: str | None


class _Result(NamedTuple):
    context: LineContext
    is_error: bool
    text: str
    images: int
    structured: str | None
    raw: msgspec.Raw


class ToolCallRows:
    """Pairs the tool calls of one session file with their results and emits their rows."""

    def __init__(self, emit: RowSink) -> None:
        self._emit = emit
        self._open: dict[str, _Call] = {}
        self._early: dict[str, _Result] = {}
        """Results that came before their call."""
        self._finished: set[str] = set()
        self.outcomes: list[tuple[int, bool]] = []
        """The offset of each call, and whether it failed."""

    def add_call(self, block: ToolUse, context: LineContext, input: str | None) -> bool:
        """Take a call; return whether it is the first with its id."""
        id = block.id
        if id in self._open or id in self._finished:
            return False
        call = _Call(context, block, input)
        if id in self._early:
            self._finish_call(call, self._early.pop(id))
        else:
            self._open[id] = call
        return True

    def add_result(self, block: ToolResult, context: LineContext, raw: msgspec.Raw) -> tuple[str, bool]:
        """Take a result; return its text, and whether a call's row holds it."""
        blocks, id = block.blocks, block.tool_use_id
        text = join_text(blocks)
        if id in self._finished or id in self._early:
            return text, False
        images = sum(isinstance(inner, Image) for inner in blocks)
        result = _Result(context, bool(block.is_error), text, images, structured_result_text(raw), raw)
        call = self._open.pop(id, None)
        if call is None:
            # A copy: the raw bytes are a view that would keep the whole chunk of the file in memory.
            self._early[id] = result._replace(raw=msgspec.Raw(bytes(raw)))
            return text, False
        self._finish_call(call, result)
        return text, True

    def finish(self) -> None:
        """Emit the calls without a result."""
        for call in self._open.values():
            self._finish_call(call, None)

    def _finish_call(self, call: _Call, result: _Result | None) -> None:
        context, block = call.context, call.block
        self._finished.add(block.id)
        self.outcomes.append((context.offset, bool(result and result.is_error)))
        ended = result.context.timestamp if result else None
        duration = elapsed_time(context.timestamp, ended)
        milliseconds = None if duration is None else round(duration.total_seconds() * 1000)
        about = (context.session_id, context.agent_id, block.id, block.name, call.input)
        given = (result.text, result.is_error, result.structured) if result else (None,) * 3
        times = (epoch_micros(context.timestamp), epoch_micros(ended), milliseconds)
        uuids = (context.message_id, context.uuid, result.context.uuid if result else None)
        offsets = (context.offset, result.context.offset if result else None)
        more = (result.images, _overflow_path(result)) if result else (None, None)
        self._emit("tool_calls", (*about, *given, *times, *uuids, *offsets, *more))
        if block.name in _FILE_ACTIONS:
            self._emit_touched_file(call, result)
        if block.name in AGENT_TOOLS:
            self._emit_agent_start(call, result)

    def _emit_touched_file(self, call: _Call, result: _Result | None) -> None:
        context, block = call.context, call.block
        fields: dict[str, Any] = block.input if isinstance(block.input, dict) else {}
        path = fields.get("file_path") or fields.get("notebook_path")
        if not isinstance(path, str):
            return
        succeeded = result is not None and not result.is_error
        changed = _count_changed_lines(result) if succeeded and result and block.name != "Read" else (None, None)
        about = (context.session_id, context.agent_id, block.id, block.name, path, _FILE_ACTIONS[block.name])
        self._emit("files_touched", (*about, epoch_micros(context.timestamp), succeeded, *changed))

    def _emit_agent_start(self, call: _Call, result: _Result | None) -> None:
        context, block = call.context, call.block
        input = parse_input(block.name, block.input)
        about: tuple[str | None, str | None, str] = (None, None, "")
        if isinstance(input, AgentInput):
            about = (input.subagent_type, input.description, (input.prompt or "").strip())
        output = parse_result(block.name, result.raw) if result else None
        # A call to `Agent` that starts a teammate has its id under another name.
        agents = (getattr(output, name, None) for name in ("agent_id", "teammate_id"))
        agent = next((id for id in agents if isinstance(id, str)), None)
        self._emit("starters", (context.family, context.offset, block.id, agent, result is not None, *about))


def _overflow_path(result: _Result) -> str | None:
    """Return the path of the file that Claude Code wrote long output to."""
    if result.structured is None or '"persistedOutputPath"' not in result.structured:
        return None
    try:
        value = msgspec.json.decode(result.structured)
    except DECODE_ERRORS:
        return None
    path = value.get("persistedOutputPath") if isinstance(value, dict) else None
    return path if isinstance(path, str) else None


def _count_changed_lines(result: _Result) -> tuple[int | None, int | None]:
    """Return how many lines a change added and removed, if its result contains the patch."""
    if result.structured is None or not result.structured.startswith("{"):
        return None, None
    try:
        return decode_file_change(result.structured).count_changed_lines() or (None, None)
    except DECODE_ERRORS:
        return None, None
