"""Where a session stands by its lines alone: state and record in, next state out. Pure.

Two things stand side by side. `status` is one of four, by fixed rules; `phase` and the open calls are what `verdict.py`
makes a detail of, which is meant to be right.

Rules of the status
  1. All lines of one `message.id` are one message: what it contains is what its lines had so far.
  2. An open tool call, of this message or of one before, is `waiting_for_approval`. It is open until its result has
     come; of parallel calls each must have its own. A new prompt or an interrupt abandons what is open.
  3. Else a message with a stop reason is `waiting_for_input`, unless it had calls, which are answered: `working`.
  4. Else a message with text is `working`. Thinking alone changes nothing.
  5. A prompt, a notification that makes the model go on, or the last result is `working`; an interrupt is
     `waiting_for_input`; a `summary` line is `idle`.
  6. With no events for five minutes it is `idle`, whatever it was (`status_at`).
  7. Progress, snapshots, notes and unknown types are no events. Lines of a sub-agent in a session's own file (1.0.x)
     are not the session's.

Rules of the phase
  8. Where no stop reason is written (2.0.50 to 2.1.70) a text may be the end of the turn or not (`SAID`).
  9. What the program says in the model's place is an error only if the line says so.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import msgspec
from msgspec.structs import replace

from unspool.format.blocks import AnyBlock, Text, ToolResult, ToolUse
from unspool.format.envelope import Envelope
from unspool.format.meta_records import FileHistoryDelta, FileHistorySnapshot, PermissionMode, Summary
from unspool.format.progress import HookProgress
from unspool.format.records import AnyRecord, Assistant, Progress, System, User
from unspool.graph.speakers import Speaker
from unspool.graph.tool_calls import aim
from unspool.graph.turns import first_text, speaker
from unspool.live.model import QUESTION_TOOLS, Pending, Status

IDLE_AFTER = timedelta(minutes=5)
MOST_OPEN = 64
"""Calls that are kept; no program makes as many at once."""
LONGEST = 2000
"""Characters of a text in the input of an open call."""


class Phase(Enum):
    """What the last lines mean."""

    NEW = "new"
    ASKED = "asked"
    """The model has something to answer."""
    SAID = "said"
    """It said something, and nobody knows whether that was all."""
    MORE = "more"
    """It said something, and there is more to come."""
    DONE = "done"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    RETRYING = "retrying"
    SHELL = "shell"
    """A person's own command runs."""


class State(msgspec.Struct, frozen=True):
    """Where a session, or one sub-agent, stands."""

    is_agent: bool = False
    """Whether the file is a sub-agent's: then its sidechain lines count."""
    status: Status = Status.IDLE
    phase: Phase = Phase.NEW
    since: datetime | None = None
    """When the phase began."""
    event: datetime | None = None
    """When the last event was."""
    last: datetime | None = None
    """When the last line was written, whatever it is."""
    open: tuple[Pending, ...] = ()
    unasked: tuple[str, ...] = ()
    """Ids of results that came before their calls."""
    message: str | None = None
    """The message that the lines are of."""
    texts: bool = False
    calls: bool = False
    stops: bool = False
    """What it had so far: text, calls, a stop reason."""
    mode: str | None = None
    """The permission mode, as far as lines tell."""
    version: str | None = None
    cwd: str | None = None
    words: str = ""
    """An error, or a person's command."""
    is_command: bool = False
    """Whether the last line was a slash command, which may make the model answer."""


def after(state: State, record: AnyRecord, now: datetime) -> State:
    """Return the state after a line; `now` stands in for the time of a line that has none."""
    time = moment(record.timestamp)
    if time is not None and (state.last is None or time > state.last):
        state = replace(state, last=time)
    if isinstance(record, PermissionMode):
        return replace(state, mode=record.permission_mode or state.mode)
    if isinstance(record, Summary):
        return replace(state, status=Status.IDLE, event=_later(state.event, time))
    if record.is_sidechain and not state.is_agent:
        return state
    match record:
        case User():
            state = _known(state, record, time or now)
            return _after_user(state, record, time or now)
        case Assistant():
            state = _known(state, record, time or now)
            return _after_answer(state, record, time or now)
        case System():
            state = _known(state, record, time)
            return _after_note(state, record, time or now)
        case Progress():
            return _after_progress(state, record)
        case FileHistorySnapshot() | FileHistoryDelta():
            return state
        case _:
            return state


def status_at(state: State, now: datetime) -> Status:
    """Return the status at a time: after five minutes without events it is `idle`."""
    if state.event is not None and now - state.event >= IDLE_AFTER:
        return Status.IDLE
    return state.status


def moment(timestamp: str | None) -> datetime | None:
    """Return a line's time; None for what is none, or names no zone."""
    try:
        time = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    return time.astimezone(UTC) if time.tzinfo else None


def _known(state: State, record: Envelope, time: datetime | None) -> State:
    """Take what lines of the conversation have in common."""
    version, cwd = record.version or state.version, state.cwd or record.cwd
    return replace(state, event=_later(state.event, time), version=version, cwd=cwd)


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(one, other) if one and other else one or other


def _after_user(state: State, record: User, time: datetime) -> State:
    state = replace(state, mode=record.permission_mode or state.mode)
    who = speaker(record)
    text = first_text(record.message.blocks).lstrip()
    match who:
        case Speaker.RESULT:
            state = _answered(state, record.message.blocks)
            status = Status.APPROVAL if state.open else Status.WORKING
            return _phase(replace(state, status=status), Phase.ASKED, time)
        case Speaker.INTERRUPT:
            return _phase(replace(state, status=Status.INPUT, open=()), Phase.INTERRUPTED, time)
        case Speaker.HUMAN | Speaker.NOTIFICATION | Speaker.AGENT | Speaker.WARMUP:
            return _working(state, time)
        case Speaker.COMMAND:
            return replace(state, is_command=True)
        case Speaker.META if state.is_command and not text.startswith("<local-command"):
            return _working(state, time)
        case Speaker.OUTPUT if text.startswith("<bash-input>"):
            command = text.removeprefix("<bash-input>").partition("</bash-input>")[0]
            return replace(_phase(state, Phase.SHELL, time), words=command[:LONGEST])
        case Speaker.OUTPUT if text.startswith(("<bash-stdout>", "<bash-stderr>")) and state.phase is Phase.SHELL:
            return _phase(state, Phase.DONE, time)
        case _:
            return state


def _working(state: State, time: datetime) -> State:
    return replace(_phase(replace(state, status=Status.WORKING, open=()), Phase.ASKED, time), message=None)


def _phase(state: State, phase: Phase, time: datetime) -> State:
    """Return the state in a phase, which began now unless it has lasted."""
    lasts = phase is state.phase and phase not in (Phase.ASKED, Phase.SHELL)
    since = state.since if lasts else time
    return replace(state, phase=phase, since=since, words="", is_command=False)


def _answered(state: State, blocks: tuple[AnyBlock, ...]) -> State:
    """Take calls out that have their results now."""
    ids = [block.tool_use_id for block in blocks if isinstance(block, ToolResult)]
    known = {call.id for call in state.open}
    left = tuple(call for call in state.open if call.id not in ids)
    early = tuple(id for id in ids if id not in known)
    return replace(state, open=left, unasked=(*state.unasked, *early)[-MOST_OPEN:] if early else state.unasked)


def _after_answer(state: State, record: Assistant, time: datetime) -> State:
    message = record.message
    blocks = message.blocks
    id = message.id or record.uuid
    if record.is_api_error_message:
        state = replace(state, open=())
    if id is None or id != state.message:
        state = replace(state, message=id, texts=False, calls=False, stops=False)
    uses = [block for block in blocks if isinstance(block, ToolUse)]
    state = replace(
        state,
        texts=state.texts or any(isinstance(block, Text) for block in blocks),
        calls=state.calls or bool(uses),
        stops=state.stops or message.stop_reason is not None,
        open=_opened(state, uses, time),
        is_command=False,
    )
    state = replace(_answered(state, blocks) if uses or state.open else state, status=_status(state))
    return _phase_after_answer(state, record, time)


def _opened(state: State, uses: list[ToolUse], time: datetime) -> tuple[Pending, ...]:
    """Return the open calls with those of a line; one that is written twice, or has its result, is no new one."""
    known = {call.id for call in state.open} | set(state.unasked)
    new = [_pending(use, state.cwd, time) for use in uses if use.id not in known]
    return (*state.open, *new)[-MOST_OPEN:] if new else state.open


def _pending(use: ToolUse, cwd: str | None, time: datetime) -> Pending:
    words = _question(use.input) if use.name in QUESTION_TOOLS else ""
    return Pending(use.id, use.name, aim(use.name, use.input, cwd)[:LONGEST], _bounded(use.input), time, words)


def _question(value: Any) -> str:
    match value:
        case {"questions": [{"question": str(question)}, *_]} | {"question": str(question)}:
            return " ".join(question.split())[:LONGEST]
        case _:
            return ""


def _bounded(value: Any, depth: int = 4) -> Any:
    """Return a value without what is long in it."""
    match value:
        case str():
            return value if len(value) <= LONGEST else f"{value[:LONGEST]}…"
        case dict() if depth:
            return {str(key)[:LONGEST]: _bounded(one, depth - 1) for key, one in list(value.items())[:MOST_OPEN]}
        case list() if depth:
            return [_bounded(one, depth - 1) for one in value[:MOST_OPEN]]
        case dict() | list():
            return "…"
        case _:
            return value


def _status(state: State) -> Status:
    """Return what the message so far says (rules 2 to 4)."""
    if state.open:
        return Status.APPROVAL
    if state.stops:
        return Status.WORKING if state.calls else Status.INPUT
    return Status.WORKING if state.texts else state.status


def _phase_after_answer(state: State, record: Assistant, time: datetime) -> State:
    reason = record.message.stop_reason
    if record.is_api_error_message:
        words = " ".join(first_text(record.message.blocks).split())
        return replace(_phase(state, Phase.FAILED, time), words=words[:LONGEST])
    if state.calls or reason == "tool_use":
        return _phase(state, Phase.MORE, time)
    if reason is not None:
        return _phase(state, Phase.DONE, time)
    return _phase(state, Phase.SAID if state.texts else Phase.MORE, time)


def _after_note(state: State, record: System, time: datetime) -> State:
    match record.subtype:
        case "api_error":
            attempt = f" ({record.retry_attempt} of {record.max_retries})" if record.retry_attempt else ""
            return replace(_phase(state, Phase.RETRYING, time), words=f"{_reason(record.error)}{attempt}")
        case "stop_hook_summary" | "turn_duration" if state.phase in (Phase.SAID, Phase.MORE) and not state.open:
            return _phase(state, Phase.DONE, time)
        case "compact_boundary":
            manual = record.compact_metadata is not None and record.compact_metadata.trigger == "manual"
            state = replace(state, open=(), status=Status.INPUT if manual else Status.WORKING, message=None)
            return _phase(state, Phase.DONE if manual else Phase.ASKED, time)
        case _:
            return state


def _reason(error: Any) -> str:
    match error:
        case {"formatted": str(words)} | {"message": str(words)} | str(words):
            return " ".join(words.split())[:200]
        case {"status": int(status)}:
            return f"API error {status}"
        case _:
            return "API error"


def _after_progress(state: State, record: Progress) -> State:
    """Mark the call that is at work. Hooks run before a tool does: they say nothing of it."""
    ids = {record.tool_use_id, record.parent_tool_use_id}
    if isinstance(record.data, HookProgress) or not any(call.id in ids for call in state.open):
        return state
    return replace(state, open=tuple(replace(call, runs=True) if call.id in ids else call for call in state.open))
