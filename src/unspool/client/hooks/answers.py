"""Defines the call of a hook, and parses what it answers: its JSON output, or its exit code and plain text.

Rules
  1. JSON of another shape than Claude Code's is nonsense (`failure`), and so is a text that begins like an object and
     is none: it may have been meant to deny.
  2. Exit code 2 blocks, and stderr says why. Every other exit code but 0 is an error that blocks nothing, as measured
     with Claude Code 2.1.325; but 126 and 127 mean that the command could not be started, and a signal that it was
     killed: then it gave no answer.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from unspool.client.tool_result import Json
from unspool.format import replace_surrogates

_ASYNC = re.compile(r'\{\s*"async"\s*:\s*true\s*(?:,\s*"asyncTimeout"\s*:\s*\d+\s*)?\}')
_NOT_STARTED = (126, 127)
_MAX_SHOWN = 300
_MISPLACED = frozenset({"permissionDecision", "updatedInput", "behavior"})
"""Fields that Claude Code drops in silence where they stand outside of `hookSpecificOutput`."""


class PermissionRequestDecision(msgspec.Struct, frozen=True, rename="camel"):
    """The decision of a `PermissionRequest` hook."""

    behavior: Literal["allow", "deny"]
    message: str | None = None
    updated_input: Json | None = None
    interrupt: bool | None = None


class EventOutput(msgspec.Struct, frozen=True, rename="camel"):
    """The part of an answer that belongs to one event."""

    hook_event_name: str | None = None
    permission_decision: Literal["allow", "deny", "ask", "defer"] | None = None
    permission_decision_reason: str | None = None
    updated_input: Json | None = None
    additional_context: str | None = None
    decision: PermissionRequestDecision | None = None


class HookAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """What a hook answers as JSON."""

    continues: bool | None = msgspec.field(name="continue", default=None)
    stop_reason: str | None = None
    decision: Literal["approve", "block"] | None = None
    reason: str | None = None
    system_message: str | None = None
    hook_specific_output: EventOutput | None = None

    @property
    def specific(self) -> EventOutput:
        """The part for the event; empty if there is none."""
        return self.hook_specific_output or EventOutput()


class AgentVerdict(NamedTuple):
    """What an agent that judged an event has found."""

    ok: bool = False
    reason: str = ""
    failure: str | None = None
    """Why it found nothing."""


RunHookAgent: TypeAlias = Callable[[str, str, str], Awaitable[AgentVerdict]]
"""Called with instructions, a prompt and a model."""


class HookCall(NamedTuple):
    """One call of a hook."""

    event: str
    input: Json
    """What a command gets on stdin."""
    call_id: str | None = None
    """Of the tool call that it is about."""
    messages: Sequence[Json] = ()
    """The conversation, for the end of a turn."""
    run_agent: RunHookAgent | None = None
    """Runs an agent that judges the event; None: none can be run."""

    def encode_input(self) -> bytes:
        """Return the input as JSON; the name of a folder may have bytes that are no text."""
        return msgspec.json.encode(replace_surrogates(self.input))


class HookReply(NamedTuple):
    """How the call of one hook ended."""

    answer: HookAnswer = HookAnswer()
    blocked: str | None = None
    """Why it blocks, by exit code 2."""
    error: str | None = None
    """What went wrong, where that blocks nothing."""
    failure: str | None = None
    """Why there is no answer: it could not be called, was killed, took too long or answered nonsense."""
    timed_out: bool = False
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    """None: it is no command."""
    milliseconds: int = 0
    stops: str | None = None
    """Why the turn ends, where a hook that blocks ends it too."""
    usages: tuple[tuple[str | None, Json], ...] = ()
    """The models that it asked, each with the usage of the response."""
    is_told: bool = True
    """Whether output that is no JSON is told to the model, for events where that is so."""

    @property
    def text(self) -> str:
        """What it printed that is no JSON, if that counts."""
        return "" if not self.is_told or self.stdout.lstrip().startswith("{") else self.stdout.strip()


def parse_answer(value: object, event: str) -> HookAnswer | str:
    """Return the answer that a JSON value is; in words what is wrong with it, if it is none."""
    if isinstance(value, dict) and (misplaced := _MISPLACED & value.keys()):
        return f"`{min(misplaced)}` belongs into `hookSpecificOutput`"
    try:
        answer = msgspec.convert(value, HookAnswer)
    except msgspec.ValidationError as error:
        return f"its answer is not what a hook answers: {str(error).lower()}"
    named = answer.specific.hook_event_name
    if named is not None and named != event:
        return f"it answers for `{named[:_MAX_SHOWN]}`, not for `{event}`"
    return answer


def parse_output(event: str, reply: HookReply, text: str) -> HookReply:
    """Return a reply with the answer that a JSON text is, or with what is wrong with it."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return reply._replace(failure=f"its answer is not valid JSON: {text[:_MAX_SHOWN]}")
    answer = parse_answer(value, event)
    return reply._replace(failure=answer) if isinstance(answer, str) else reply._replace(answer=answer)


def parse_exit(event: str, exit_code: int, stdout: str, stderr: str) -> HookReply:
    """Return the reply that the end of a command is."""
    reply = HookReply(stdout=stdout, stderr=stderr, exit_code=exit_code)
    errors = stderr.strip()
    if exit_code < 0:
        return reply._replace(failure=f"it was killed by signal {-exit_code}")
    if exit_code in _NOT_STARTED:
        return reply._replace(failure=f"it cannot be started: {errors[:_MAX_SHOWN] or f'exit code {exit_code}'}")
    if exit_code == 2:
        return reply._replace(blocked=stderr or "No stderr output")
    if exit_code != 0:
        return reply._replace(error=f"Failed with non-blocking status code: {errors or 'No stderr output'}")
    text = stdout.strip()
    first, _, rest = text.partition("\n")
    # A hook may say that its answer comes later. It was waited for, so the answer is there.
    if first.startswith("{") and _ASYNC.fullmatch(first.strip()):
        reply, text = reply._replace(stdout=rest), rest.strip()
    return parse_output(event, reply, text) if text.startswith("{") else reply
