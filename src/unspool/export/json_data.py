"""Builds the JSON data of a session that `unspool export --json` writes.

Rules
  1. Blocks, inputs, results and usage are taken from the line itself, so that every field is there, known or not.
  2. Lines are identified by their uuid. A line without one, as a queued prompt before 2.1.100, is named `null`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from unspool.format import (
    Assistant,
    CompactMetadata,
    Entry,
    PreservedSegment,
    System,
    ToolUse,
    repair_text,
    to_utc_text,
)
from unspool.graph import ToolCall, Turn, WholeMessage, find_repeated_blocks, is_boundary, is_message
from unspool.home import Session
from unspool.other_agents import find_program

Json: TypeAlias = dict[str, Any]
Originals: TypeAlias = Mapping[int, Json]
"""The JSON of lines, by their offset."""


def session_head(session: Session) -> Json:
    """Return which session it is: id, file, title, project, models and times."""
    facts = session.facts
    return {
        "session_id": session.id,
        "path": str(session.path),
        "title": session.title,
        "project": session.project,
        "cwd": session.cwd,
        "branch": facts.branch,
        "versions": list(facts.versions),
        "models": list(facts.models),
        "started_at": to_utc_text(facts.started),
        "ended_at": to_utc_text(facts.last),
        "agent_program": find_program(session.path),
    }


def session_to_json(session: Session) -> Json:
    """Return which session it is, and its turns, messages, tool calls, threads, agents and compactions."""
    originals = {entry.offset: decode_line(entry) for entry in session.entries if is_message(entry)}
    return {
        **session_head(session),
        "turns": [_turn_to_json(turn) for turn in session.turns],
        "messages": [_message_to_json(message, originals) for message in session.messages],
        "tool_calls": [_tool_call_to_json(call, originals) for call in session.tool_calls],
        "threads": threads_to_json(session),
        "agents": agents_to_json(session),
        "compactions": compactions_to_json(session.entries),
    }


def context_to_json(session: Session) -> Json:
    """Return what the API would be sent if the session were resumed now."""
    return {"messages": [message.json for message in session.context()]}


def threads_to_json(session: Session) -> list[Json]:
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


def agents_to_json(session: Session) -> list[Json]:
    """Return the sub-agents of a session, each with the call that started it."""
    return [
        {
            "agent_id": agent.id,
            "id": agent.id,
            "kind": agent.kind.value,
            "class": agent.kind.value,
            "type": agent.type,
            "description": agent.description,
            "call": agent.call.id if agent.call else None,
            "linked_by": agent.linked_by,
            "path": source.place,
        }
        for agent, source in zip(session.agents, session.agent_sources, strict=True)
    ]


def compactions_to_json(entries: Sequence[Entry]) -> list[Json]:
    """Return the compactions of a session, each with the uuids of the lines it preserved."""
    parents = {entry.record.uuid: entry.record.parent_uuid for entry in entries if entry.record.uuid}
    compactions = []
    for entry in entries:
        record = entry.record
        if isinstance(record, System) and is_boundary(entry):
            metadata = record.compact_metadata or CompactMetadata()
            kept = metadata.preserved_messages
            segment = metadata.preserved_segment
            compactions.append(
                {
                    "uuid": record.uuid,
                    "trigger": metadata.trigger,
                    "pre_tokens": metadata.pre_tokens,
                    "post_tokens": metadata.post_tokens,
                    "preserved": list(kept.all_uuids or kept.uuids) if kept else _preserved_uuids(segment, parents),
                    "time": to_utc_text(record.timestamp),
                    "timestamp": record.timestamp,
                }
            )
    return compactions


def decode_line(entry: Entry) -> Json:
    """Return a line's JSON, every field of it; empty if the line is nested too deeply to be decoded."""
    # A byte order mark and zero bytes around a line are no part of its JSON.
    text = entry.line.strip(b"\0\xef\xbb\xbf \t\r\n")
    try:
        value = msgspec.json.decode(repair_text(text)[0])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _turn_to_json(turn: Turn) -> Json:
    answers = [entry.record for entry in turn.entries if isinstance(entry.record, Assistant)]
    calls = [block.id for answer in answers for block in answer.message.blocks if isinstance(block, ToolUse)]
    return {
        "start_uuid": turn.prompt.record.uuid,
        "prompt": turn.text,
        "kind": turn.speaker.value,
        "queued": turn.speaker.value == "queued",
        "responses": [answer.uuid for answer in answers],
        "tool_calls": list(dict.fromkeys(calls)),
    }


def _message_to_json(message: WholeMessage, originals: Originals) -> Json:
    lines = [originals[entry.offset] for entry in message.entries]
    return {
        "id": message.id,
        "role": message.role,
        "uuids": [entry.record.uuid for entry in message.entries],
        "blocks": _message_blocks(message, originals),
        "usage": _final_usage(lines),
        "final": message.final,
        "model": message.model,
        "stop_reason": message.stop_reason,
    }


def _message_blocks(message: WholeMessage, originals: Originals) -> list[Any]:
    """Return the JSON of the blocks of a message, without those that repeat earlier ones."""
    repeated = find_repeated_blocks(message.entries)
    return [
        block
        for entry in message.entries
        for number, block in enumerate(line_blocks(originals[entry.offset]))
        if number not in repeated.get(entry.offset, ())
    ]


def _tool_call_to_json(call: ToolCall, originals: Originals) -> Json:
    result_line = originals[call.result_entry.offset] if call.result_entry else {}
    use = find_block(originals[call.use_entry.offset], "id", call.id)
    result = find_block(result_line, "tool_use_id", call.id)
    return {
        "id": call.id,
        "name": call.name,
        "input": use.get("input"),
        "use_uuid": call.use_entry.record.uuid,
        "result_uuid": call.result_entry.record.uuid if call.result_entry else None,
        "result": result.get("content"),
        "structured": result_line.get("toolUseResult"),
        "error": call.failed,
        "started_at": to_utc_text(call.start_timestamp),
        "ended_at": to_utc_text(call.end_timestamp),
        "started": call.start_timestamp,
        "ended": call.end_timestamp,
    }


def line_blocks(line: Json) -> list[Any]:
    """Return the blocks in a line's JSON; a plain string is one."""
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content if isinstance(content, list) else []


def find_block(line: Json, key: str, id: str) -> Json:
    """Return the block of a line that has this id; an empty one if there is none."""
    return next((block for block in line_blocks(line) if isinstance(block, dict) and block.get(key) == id), {})


def _final_usage(lines: Sequence[Json]) -> Json | None:
    """Return the usage of the line with the most output tokens: early lines may hold the count of the start."""
    messages = [line["message"] for line in lines if isinstance(line.get("message"), dict)]
    usages = [usage for message in messages if isinstance(usage := message.get("usage"), dict)]
    return max(usages, key=_output_tokens, default=None)


def _output_tokens(usage: Json) -> float:
    tokens = usage.get("output_tokens")
    return tokens if isinstance(tokens, int | float) else 0


def _preserved_uuids(segment: PreservedSegment | None, parents: Mapping[str, str | None]) -> list[str]:
    """Return the uuids of a preserved segment, from its head to its tail."""
    path: list[str] = []
    uuid = segment.tail_uuid if segment else None
    while segment and uuid is not None and uuid in parents and uuid not in path:
        path.append(uuid)
        uuid = parents[uuid] if uuid != segment.head_uuid else None  # `not in path`: parents may form a cycle
    return path[::-1]
