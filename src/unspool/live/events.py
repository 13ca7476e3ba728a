"""Events: what happened in a session, for those who follow. What lines say in, events out; events in, JSON out. Pure.

Kinds: `session_started`, `session_changed`, `session_ended`, `status`, `prompt`, `message`, `tool_call`, `tool_result`,
`compaction`, `title`, and `mode`, which is about the watching itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from unspool.format.blocks import Text, ToolResult, ToolUse
from unspool.format.records import AnyRecord, Assistant, System, User
from unspool.graph.tool_calls import aim
from unspool.graph.turns import Speaker, speaker, typed_text
from unspool.live.model import Status, Verdict, say
from unspool.live.status import moment

LONGEST = 2000
"""Characters of a text in an event; the line has all of it."""


class Event(msgspec.Struct, frozen=True):
    """Something that happened."""

    event: str
    session: str
    at: datetime
    path: str = ""
    """The file it stands in."""
    end: int = 0
    """How far that file has been read."""
    agent: str | None = None
    offset: int | None = None
    """Where the line begins, of what is told by a line."""
    status: Status | None = None
    verdict: Verdict | None = None
    text: str = ""
    """A prompt, what the model said, a title, what the watching says of itself."""
    tool: str | None = None
    target: str = ""
    id: str | None = None
    """Of a tool call."""
    failed: bool | None = None
    facts: dict[str, Any] = {}
    """What only some kinds have."""


def told(record: AnyRecord, event: Event, cwd: str | None) -> Iterator[Event]:
    """Yield what a line tells; `event` has what its events share."""
    at = moment(record.timestamp) or event.at
    match record:
        case User():
            yield from _of_user(record, msgspec.structs.replace(event, at=at))
        case Assistant():
            yield from _of_answer(record, msgspec.structs.replace(event, at=at), cwd)
        case System(subtype="compact_boundary", compact_metadata=metadata):
            facts = (
                {"trigger": metadata.trigger, "tokensBefore": metadata.pre_tokens, "tokensAfter": metadata.post_tokens}
                if metadata
                else {}
            )
            yield msgspec.structs.replace(event, event="compaction", at=at, facts=facts)
        case _:
            pass


def _of_user(record: User, event: Event) -> Iterator[Event]:
    blocks = record.message.blocks
    if speaker(record) in (Speaker.HUMAN, Speaker.AGENT, Speaker.NOTIFICATION):
        yield msgspec.structs.replace(event, event="prompt", text=typed_text(blocks)[:LONGEST])
    for block in blocks:
        if isinstance(block, ToolResult):
            failed = bool(block.is_error)
            yield msgspec.structs.replace(event, event="tool_result", id=block.tool_use_id, failed=failed)


def _of_answer(record: Assistant, event: Event, cwd: str | None) -> Iterator[Event]:
    facts = {"model": record.message.model, "stopReason": record.message.stop_reason}
    for block in record.message.blocks:
        match block:
            case Text(text=text):
                yield msgspec.structs.replace(event, event="message", text=text[:LONGEST], facts=facts)
            case ToolUse(id=id, name=name, input=value):
                target = aim(name, value, cwd)[:LONGEST]
                yield msgspec.structs.replace(event, event="tool_call", tool=name, target=target, id=id)
            case _:
                pass


def plain(event: Event, now: datetime) -> dict[str, Any]:
    """Return an event as JSON has it."""
    verdict = event.verdict
    found: dict[str, Any] = {
        "event": event.event,
        "session": event.session,
        "status": event.status.value if event.status else None,
        "detail": say(verdict, now) if verdict else None,
        "source": verdict.source.value if verdict else None,
        "since": text_of(verdict.since) if verdict else None,
        "at": text_of(event.at),
        "kind": verdict.detail.kind.value if verdict else None,
        "probably": verdict.probably if verdict else None,
        "agent": event.agent,
        "path": event.path,
        "end": event.end,
    }
    own = {"offset": event.offset, "id": event.id, "failed": event.failed, **event.facts}
    if event.text:
        own[_TEXTS.get(event.event, "text")] = event.text
    if event.event == "status" and verdict and verdict.detail.tool:
        own |= {"tool": verdict.detail.tool, "target": verdict.detail.target}
    elif event.tool is not None:
        own |= {"tool": event.tool, "target": event.target}
    return {**found, **{key: value for key, value in own.items() if value is not None}}


_TEXTS = {"prompt": "prompt", "title": "title", "mode": "words"}


def text_of(time: datetime | None) -> str | None:
    """Return a time as the program writes it."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z") if time else None
