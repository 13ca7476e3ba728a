"""Computes a session's status and phase from its lines alone: a state and a record in, the next state out.

A state holds two answers. `status` is one of four, by the fixed rules that other tools use. `phase` and the open calls
are what `verdict.py` decides from, which is meant to be right.

Rules of the status
  1. All lines of one `message.id` are one message: it contains what its lines contained so far.
  2. An open tool call, of this message or an earlier one, is `waiting_for_approval`. A call is open until its result
     has come; each of several parallel calls needs its own. A new prompt or an interrupt abandons all open calls.
  3. Otherwise a message with a stop reason is `waiting_for_input`, unless it had calls, which have results: `working`.
  4. Otherwise a message with text is `working`. Thinking alone changes nothing.
  5. A prompt, a notification that makes the model continue, or the last missing result is `working`; an interrupt is
     `waiting_for_input`; a `summary` line is `idle`.
  6. After five minutes without events the status is `idle`, whatever it was (`status_at`).
  7. Progress, snapshots, notes and unknown types are no events. Lines of a sub-agent in a session's own file (1.0.x)
     do not belong to the session.

Rules of the phase
  8. Where no stop reason is written (2.0.50 to 2.1.70) a text may or may not be the end of the turn (`ANSWERED`).
  9. A message that Claude Code writes in the model's place is an error only if the line says so.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import msgspec
from msgspec.structs import replace

from unspool.format import (
    AnyBlock,
    AnyRecord,
    Assistant,
    Envelope,
    HookProgress,
    PermissionMode,
    Progress,
    Summary,
    System,
    Text,
    ToolResult,
    ToolUse,
    User,
    parse_local_time,
)
from unspool.graph import Speaker, classify_user_record, describe_target, first_text
from unspool.live.state.background import commands_after
from unspool.live.state.model import QUESTION_TOOLS, PendingCall, SessionStatus

IDLE_AFTER = timedelta(minutes=5)
MAX_OPEN_CALLS = 64
"""Open calls that are kept; Claude Code never makes as many at once."""
MAX_TEXT = 2000
"""Characters of a target, a question or an error on one line."""
MAX_INPUT_TEXT = 20_000
"""Characters of a text in the input of an open call: the page shows the whole command or plan that waits for a yes."""
_MAX_INPUT_DEPTH = 6
"""Options of a question are five levels deep."""


class Phase(Enum):
    """What the last lines mean."""

    NEW = "new"
    PROMPTED = "prompted"
    """The model has a prompt or a result to answer."""
    ANSWERED = "answered"
    """The model wrote text, and it is unknown whether that was the end of the turn."""
    CONTINUES = "continues"
    """The model wrote something, and more will follow."""
    DONE = "done"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    RETRYING = "retrying"
    SHELL = "shell"
    """A shell command that the user typed is running."""


class SessionState(msgspec.Struct, frozen=True):
    """What the lines of a session, or of one sub-agent, have said so far."""

    is_agent: bool = False
    """Whether the file is a sub-agent's: then its sidechain lines count."""
    status: SessionStatus = SessionStatus.IDLE
    phase: Phase = Phase.NEW
    since: datetime | None = None
    """When the phase began."""
    last_event_at: datetime | None = None
    last_line_at: datetime | None = None
    """When the last line of any type was written."""
    open_calls: tuple[PendingCall, ...] = ()
    background: tuple[PendingCall, ...] = ()
    """Commands that run in the background; their ids are those of the tasks."""
    answered: tuple[str, ...] = ()
    """Ids of the calls that were answered last. Either may come first, or be written again."""
    message_id: str | None = None
    """The message that the last lines belong to."""
    has_text: bool = False
    """Whether that message had text so far; in the same way: tool calls, and a stop reason."""
    has_calls: bool = False
    has_stop_reason: bool = False
    permission_mode: str | None = None
    version: str | None = None
    cwd: str | None = None
    message: str = ""
    """An error, or the user's shell command."""
    follows_command: bool = False
    """Whether the last line was a slash command, which may make the model answer."""


def next_state(state: SessionState, record: AnyRecord, now: datetime) -> SessionState:
    """Return the state after a record; `now` stands in for the time of a record that has none."""
    time = parse_local_time(record.timestamp, UTC)
    if time is not None and (state.last_line_at is None or time > state.last_line_at):
        state = replace(state, last_line_at=time)
    if isinstance(record, PermissionMode):
        return replace(state, permission_mode=record.permission_mode or state.permission_mode)
    if isinstance(record, Summary):
        return replace(state, status=SessionStatus.IDLE, last_event_at=_later(state.last_event_at, time))
    if record.is_sidechain and not state.is_agent:
        return state
    background = commands_after(state.background, record, state.open_calls)
    if background is not state.background:
        state = replace(state, background=background)
    match record:
        case User():
            return _after_user(_with_envelope(state, record, time or now), record, time or now)
        case Assistant():
            return _after_answer(_with_envelope(state, record, time or now), record, time or now)
        case System():
            # A note without a time does not count as an event: `now` only stands in for the start of a phase.
            return _after_note(_with_envelope(state, record, time), record, time or now)
        case Progress():
            return _after_progress(state, record)
        case _:
            return state


def status_at(state: SessionState, now: datetime) -> SessionStatus:
    """Return the status at a time: `idle` after five minutes without events."""
    if state.last_event_at is not None and now - state.last_event_at >= IDLE_AFTER:
        return SessionStatus.IDLE
    return state.status


def _with_envelope(state: SessionState, record: Envelope, time: datetime | None) -> SessionState:
    """Take the fields that all records of the conversation have."""
    version, cwd = record.version or state.version, state.cwd or record.cwd
    return replace(state, last_event_at=_later(state.last_event_at, time), version=version, cwd=cwd)


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(one, other) if one and other else one or other


def _after_user(state: SessionState, record: User, time: datetime) -> SessionState:
    state = replace(state, permission_mode=record.permission_mode or state.permission_mode)
    text = first_text(record.message.blocks).lstrip()
    match classify_user_record(record):
        case Speaker.RESULT:
            state = _close_calls(state, record.message.blocks)
            status = SessionStatus.APPROVAL if state.open_calls else SessionStatus.WORKING
            return _enter(replace(state, status=status), Phase.PROMPTED, time)
        case Speaker.INTERRUPT:
            return _enter(replace(state, status=SessionStatus.INPUT, open_calls=()), Phase.INTERRUPTED, time)
        case Speaker.HUMAN | Speaker.NOTIFICATION | Speaker.AGENT | Speaker.WARMUP:
            return _start_turn(state, time)
        case Speaker.COMMAND:
            return replace(state, follows_command=True)
        # Only the expansion of a custom command goes to the model; the caveat and output of a local one do not.
        case Speaker.META if state.follows_command and not text.startswith("<local-command"):
            return _start_turn(state, time)
        case Speaker.OUTPUT if text.startswith("<bash-input>"):
            command = text.removeprefix("<bash-input>").partition("</bash-input>")[0]
            return replace(_enter(state, Phase.SHELL, time), message=command[:MAX_TEXT])
        case Speaker.OUTPUT if text.startswith(("<bash-stdout>", "<bash-stderr>")) and state.phase is Phase.SHELL:
            return _enter(state, Phase.DONE, time)
        case _:
            return state


def _start_turn(state: SessionState, time: datetime) -> SessionState:
    state = replace(state, status=SessionStatus.WORKING, open_calls=(), message_id=None)
    return _enter(state, Phase.PROMPTED, time)


def _enter(state: SessionState, phase: Phase, time: datetime) -> SessionState:
    """Return the state in a phase, which begins at `time` unless the state was in it already."""
    continues = phase is state.phase and phase not in (Phase.PROMPTED, Phase.SHELL)
    since = state.since if continues else time
    return replace(state, phase=phase, since=since, message="", follows_command=False)


def _close_calls(state: SessionState, blocks: tuple[AnyBlock, ...]) -> SessionState:
    """Remove the open calls whose results are in the blocks."""
    ids = [block.tool_use_id for block in blocks if isinstance(block, ToolResult)]
    # Parallel results are written in the order in which they finish: one may stand before the line of its call.
    answered = (*state.answered, *ids)[-MAX_OPEN_CALLS:]
    still_open = tuple(call for call in state.open_calls if call.id not in ids)
    return replace(state, open_calls=still_open, answered=answered)


def _after_answer(state: SessionState, record: Assistant, time: datetime) -> SessionState:
    message, blocks = record.message, record.message.blocks
    id = message.id or record.uuid
    if record.is_api_error_message:
        state = replace(state, open_calls=())
    if id is None or id != state.message_id:
        state = replace(state, message_id=id, has_text=False, has_calls=False, has_stop_reason=False)
    uses = [block for block in blocks if isinstance(block, ToolUse)]
    state = replace(
        state,
        has_text=state.has_text or any(isinstance(block, Text) for block in blocks),
        has_calls=state.has_calls or bool(uses),
        has_stop_reason=state.has_stop_reason or message.stop_reason is not None,
        open_calls=_with_opened(state, uses, time),
        follows_command=False,
    )
    status = _status_of_message(state)
    state = replace(_close_calls(state, blocks) if uses or state.open_calls else state, status=status)
    return _phase_after_answer(state, record, time)


def _with_opened(state: SessionState, uses: list[ToolUse], time: datetime) -> tuple[PendingCall, ...]:
    """Return the open calls with those of a line, but without calls that are written twice or have a result."""
    known = {call.id for call in state.open_calls} | set(state.answered)
    opened = [_pending_call(use, state.cwd, time) for use in uses if use.id not in known]
    return (*state.open_calls, *opened)[-MAX_OPEN_CALLS:] if opened else state.open_calls


def _pending_call(use: ToolUse, cwd: str | None, time: datetime) -> PendingCall:
    question = _question(use.input) if use.name in QUESTION_TOOLS else ""
    return PendingCall(
        use.id, use.name, describe_target(use.name, use.input, cwd)[:MAX_TEXT], _cut(use.input), time, question
    )


def _question(value: Any) -> str:
    match value:
        case {"questions": [{"question": str(question)}, *_]} | {"question": str(question)}:
            return " ".join(question.split())[:MAX_TEXT]
        case _:
            return ""


def _cut(value: Any, depth: int = _MAX_INPUT_DEPTH) -> Any:
    """Return a JSON value with long texts, long lists and deep nesting cut off: a `Write` may hold a whole file."""
    match value:
        case str():
            return value if len(value) <= MAX_INPUT_TEXT else f"{value[:MAX_INPUT_TEXT]}…"
        case dict() if depth:
            return {str(key)[:MAX_TEXT]: _cut(item, depth - 1) for key, item in list(value.items())[:MAX_OPEN_CALLS]}
        case list() if depth:
            return [_cut(item, depth - 1) for item in value[:MAX_OPEN_CALLS]]
        case dict() | list():
            return "…"
        case _:
            return value


def _status_of_message(state: SessionState) -> SessionStatus:
    """Return the status by the message so far (rules 2 to 4)."""
    if state.open_calls:
        return SessionStatus.APPROVAL
    if state.has_stop_reason:
        return SessionStatus.WORKING if state.has_calls else SessionStatus.INPUT
    return SessionStatus.WORKING if state.has_text else state.status


def _phase_after_answer(state: SessionState, record: Assistant, time: datetime) -> SessionState:
    reason = record.message.stop_reason
    if record.is_api_error_message:
        message = " ".join(first_text(record.message.blocks).split())
        return replace(_enter(state, Phase.FAILED, time), message=message[:MAX_TEXT])
    if state.has_calls or reason == "tool_use":
        return _enter(state, Phase.CONTINUES, time)
    if reason is not None:
        return _enter(state, Phase.DONE, time)
    return _enter(state, Phase.ANSWERED if state.has_text else Phase.CONTINUES, time)


def _after_note(state: SessionState, record: System, time: datetime) -> SessionState:
    match record.subtype:
        case "api_error":
            attempt = f" ({record.retry_attempt} of {record.max_retries})" if record.retry_attempt else ""
            return replace(_enter(state, Phase.RETRYING, time), message=f"{_error_text(record.error)}{attempt}")
        case "stop_hook_summary" | "turn_duration" if (
            state.phase in (Phase.ANSWERED, Phase.CONTINUES) and not state.open_calls
        ):
            return _enter(state, Phase.DONE, time)
        case "compact_boundary":
            # After `/compact` the user is next; after an automatic compaction the turn continues.
            is_manual = record.compact_metadata is not None and record.compact_metadata.trigger == "manual"
            status = SessionStatus.INPUT if is_manual else SessionStatus.WORKING
            state = replace(state, open_calls=(), status=status, message_id=None)
            return _enter(state, Phase.DONE if is_manual else Phase.PROMPTED, time)
        case _:
            return state


def _error_text(error: Any) -> str:
    match error:
        case {"formatted": str(text)} | {"message": str(text)} | str(text):
            return " ".join(text.split())[:200]
        case {"status": int(status)}:
            return f"API error {status}"
        case _:
            return "API error"


def _after_progress(state: SessionState, record: Progress) -> SessionState:
    """Mark the call that a progress line shows to be running."""
    ids = {record.tool_use_id, record.parent_tool_use_id}
    # Hooks run before their tool does: their progress does not show that the tool runs.
    if isinstance(record.data, HookProgress) or not any(call.id in ids for call in state.open_calls):
        return state
    calls = (replace(call, is_running=True) if call.id in ids else call for call in state.open_calls)
    return replace(state, open_calls=tuple(calls))
