"""Makes events for followers of a session out of its records, and JSON objects out of events.

Kinds: `session_started`, `session_changed`, `session_ended`, `status`, `prompt`, `message`, `tool_call`, `tool_result`,
`compaction`, `title`, and `mode`, which says how changes are noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from unspool.format import (
    AnyRecord,
    Assistant,
    System,
    Text,
    ToolResult,
    ToolUse,
    User,
    format_timestamp,
    parse_local_time,
)
from unspool.graph import Speaker, classify_user_record, describe_target, typed_text
from unspool.live.state.model import SessionStatus, Verdict, describe_verdict

MAX_TEXT = 2000
"""Characters of a text in an event; the whole text is in the line."""
EVENT_SCHEMA: Final = "unspool/watch-event/1"
_TEXT_KEYS = {"prompt": "prompt", "title": "title", "mode": "words"}


class LiveEvent(msgspec.Struct, frozen=True):
    """Something that happened in a session, or to the watching of it."""

    event: str
    session: str
    at: datetime
    path: str = ""
    """The session file."""
    end: int = 0
    """How far that file has been read."""
    agent: str | None = None
    offset: int | None = None
    """Where the line begins, if the event comes from a line."""
    status: SessionStatus | None = None
    verdict: Verdict | None = None
    text: str = ""
    """A prompt, a text of the model, a title, or how changes are noticed."""
    tool: str | None = None
    target: str = ""
    id: str | None = None
    """The id of a tool call."""
    failed: bool | None = None
    facts: dict[str, Any] = {}
    """Fields that only some kinds have, by their JSON names."""


def events_of_record(record: AnyRecord, event: LiveEvent, cwd: str | None) -> Iterator[LiveEvent]:
    """Yield the events of a record; `event` holds the fields that they share."""
    event = replace(event, at=parse_local_time(record.timestamp, UTC) or event.at)
    match record:
        case User():
            yield from _user_events(record, event)
        case Assistant():
            yield from _answer_events(record, event, cwd)
        case System(subtype="compact_boundary", compact_metadata=metadata):
            facts = (
                {
                    "trigger": metadata.trigger,
                    "tokens_before": metadata.pre_tokens,
                    "tokens_after": metadata.post_tokens,
                }
                if metadata
                else {}
            )
            yield replace(event, event="compaction", facts=facts)
        case _:
            pass


def _user_events(record: User, event: LiveEvent) -> Iterator[LiveEvent]:
    blocks = record.message.blocks
    if classify_user_record(record) in (Speaker.HUMAN, Speaker.AGENT, Speaker.NOTIFICATION):
        yield replace(event, event="prompt", text=typed_text(blocks)[:MAX_TEXT])
    for block in blocks:
        if isinstance(block, ToolResult):
            yield replace(event, event="tool_result", id=block.tool_use_id, failed=bool(block.is_error))


def _answer_events(record: Assistant, event: LiveEvent, cwd: str | None) -> Iterator[LiveEvent]:
    facts = {"model": record.message.model, "stop_reason": record.message.stop_reason}
    for block in record.message.blocks:
        match block:
            case Text(text=text):
                yield replace(event, event="message", text=text[:MAX_TEXT], facts=facts)
            case ToolUse(id=id, name=name, input=value):
                target = describe_target(name, value, cwd)[:MAX_TEXT]
                yield replace(event, event="tool_call", tool=name, target=target, id=id)
            case _:
                pass


def event_to_json(event: LiveEvent, now: datetime) -> dict[str, Any]:
    """Return an event as the JSON object that `unspool watch --json` writes."""
    verdict = event.verdict
    common: dict[str, Any] = {
        "schema": EVENT_SCHEMA,
        "event": event.event,
        "session_id": event.session,
        "agent_id": event.agent,
        "time": format_time(event.at),
        "session": event.session,
        "status": event.status.value if event.status else None,
        "detail": describe_verdict(verdict, now) if verdict else None,
        "source": verdict.source.value if verdict else None,
        "since": format_time(verdict.since) if verdict else None,
        "at": format_time(event.at),
        "kind": verdict.activity.kind.value if verdict else None,
        "probably": verdict.probably if verdict else None,
        "agent": event.agent,
        "path": event.path,
        "end": event.end,
    }
    own = {"offset": event.offset, "id": event.id, "failed": event.failed, **event.facts}
    if event.text:
        own[_TEXT_KEYS.get(event.event, "text")] = event.text
    if event.event == "status" and verdict and verdict.activity.tool:
        own |= {"tool": verdict.activity.tool, "target": verdict.activity.target}
    elif event.tool is not None:
        own |= {"tool": event.tool, "target": event.target}
    return {**common, **{key: value for key, value in own.items() if value is not None}}


def format_time(time: datetime | None) -> str | None:
    """Return a time as Claude Code writes it."""
    return format_timestamp(time) if time else None
