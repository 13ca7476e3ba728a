"""A session as plain data: what `unspool export --json` writes.

Rules
  1. Blocks, inputs, results and usage are taken from the line itself, so that every field is there, known or not.
  2. Lines are named by their uuid. A line without one, as a queued prompt before 2.1.100, is named `null`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from unspool.format.blocks import ToolUse
from unspool.format.entry import Entry
from unspool.format.records import Assistant, PreservedSegment, System, User
from unspool.format.repair_text import mend
from unspool.graph.messages import Message
from unspool.graph.threads import is_boundary
from unspool.graph.tool_calls import ToolCall
from unspool.graph.turns import Turn
from unspool.home import Session

Json: TypeAlias = dict[str, Any]
Originals: TypeAlias = Mapping[int, Json]
"""The JSON of lines, by their offset."""


def everything(session: Session) -> Json:
    """Return turns, messages, tool calls, threads, agents and compactions of a session."""
    originals = {entry.offset: original(entry) for entry in session.entries if _is_message(entry)}
    return {
        "turns": [_turn(turn) for turn in session.turns],
        "messages": [_message(message, originals) for message in session.messages],
        "tool_calls": [_tool_call(call, originals) for call in session.tool_calls],
        "threads": threads(session),
        "agents": agents(session),
        "compactions": compactions(session.entries),
    }


def context(session: Session) -> Json:
    """Return what the API would be sent if the session were resumed now."""
    return {"messages": [message.json for message in session.context()]}


def threads(session: Session) -> list[Json]:
    """Return every branch of a session."""
    return [
        {
            "leaf": thread.leaf.record.uuid,
            "active": thread.active,
            "fork": thread.fork.record.uuid if thread.fork else None,
            "uuids": [entry.record.uuid for entry in thread.entries],
        }
        for thread in session.threads
    ]


def agents(session: Session) -> list[Json]:
    """Return the sub-agents of a session, each with the call that started it."""
    return [
        {
            "id": agent.id,
            "class": agent.kind.value,
            "type": agent.type,
            "description": agent.description,
            "call": agent.call.id if agent.call else None,
            "linked_by": agent.linked_by,
            "path": source.place,
        }
        for agent, source in zip(session.agents, session.agent_sources, strict=True)
    ]


def compactions(entries: Sequence[Entry]) -> list[Json]:
    """Return where the conversation was compacted, and what was kept."""
    parents = {entry.record.uuid: entry.record.parent_uuid for entry in entries if entry.record.uuid}
    found = []
    for entry in entries:
        record = entry.record
        if isinstance(record, System) and is_boundary(entry):
            done = record.compact_metadata
            kept = done.preserved_messages if done else None
            segment = done.preserved_segment if done else None
            found.append(
                {
                    "uuid": record.uuid,
                    "trigger": done.trigger if done else None,
                    "pre_tokens": done.pre_tokens if done else None,
                    "post_tokens": done.post_tokens if done else None,
                    "preserved": list(kept.all_uuids or kept.uuids) if kept else _stretch(segment, parents),
                    "timestamp": record.timestamp,
                }
            )
    return found


def original(entry: Entry) -> Json:
    """Return a line's JSON, every field of it; empty if the line is nested too deeply to be decoded."""
    text = entry.line.strip(b"\0\xef\xbb\xbf \t\r\n")
    try:
        value = msgspec.json.decode(mend(text)[0])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _turn(turn: Turn) -> Json:
    answers = [entry.record for entry in turn.entries if isinstance(entry.record, Assistant)]
    calls = [block.id for answer in answers for block in answer.message.blocks if isinstance(block, ToolUse)]
    return {
        "start_uuid": turn.prompt.record.uuid,
        "prompt": turn.text,
        "queued": turn.speaker.value == "queued",
        "responses": [answer.uuid for answer in answers],
        "tool_calls": list(dict.fromkeys(calls)),
    }


def _message(message: Message, originals: Originals) -> Json:
    lines = [originals[entry.offset] for entry in message.entries]
    return {
        "id": message.id,
        "role": message.role,
        "uuids": [entry.record.uuid for entry in message.entries],
        "blocks": [block for line in lines for block in _blocks(line)],
        "usage": _usage(lines),
        "final": message.final,
        "model": message.model,
        "stop_reason": message.stop_reason,
    }


def _tool_call(call: ToolCall, originals: Originals) -> Json:
    used = originals[call.use_entry.offset]
    given = originals[call.result_entry.offset] if call.result_entry else {}
    use, result = _block(used, "id", call.id), _block(given, "tool_use_id", call.id)
    return {
        "id": call.id,
        "name": call.name,
        "input": use.get("input"),
        "use_uuid": call.use_entry.record.uuid,
        "result_uuid": call.result_entry.record.uuid if call.result_entry else None,
        "result": result.get("content"),
        "structured": given.get("toolUseResult"),
        "error": call.failed,
        "started": call.started,
        "ended": call.ended,
    }


def _blocks(line: Json) -> list[Any]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def _block(line: Json, key: str, id: str) -> Json:
    """Return the block of a line that has this id."""
    return next((block for block in _blocks(line) if isinstance(block, dict) and block.get(key) == id), {})


def _usage(lines: Sequence[Json]) -> Json | None:
    """Return the usage of the line with the most output tokens."""
    messages = [line["message"] for line in lines if isinstance(line.get("message"), dict)]
    usages = [usage for message in messages if isinstance(usage := message.get("usage"), dict)]
    return max(usages, key=_output, default=None)


def _output(usage: Json) -> float:
    tokens = usage.get("output_tokens")
    return tokens if isinstance(tokens, int | float) else 0


def _stretch(segment: PreservedSegment | None, parents: Mapping[str, str | None]) -> list[str]:
    """Return the lines from the end of a kept stretch back to its head, in order."""
    way: list[str] = []
    at = segment.tail_uuid if segment else None
    while segment and at is not None and at in parents and at not in way:
        way.append(at)
        at = parents[at] if at != segment.head_uuid else None
    return way[::-1]


def _is_message(entry: Entry) -> bool:
    return isinstance(entry.record, User | Assistant)
