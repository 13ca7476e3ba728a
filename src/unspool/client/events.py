"""Defines the events that a chat yields to front ends. Data only.

A turn is `TurnBegan … TurnEnded`. Inside it, for each step: `StepBegan`, what streams, `BlockDone` for each block that
is whole and written, `ResponseDone`; then for each tool call `CallBegan`, progress, `CallEnded`. The events of a
subagent are wrapped in `SubagentEvent`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from unspool.client.tool_result import Json

Ending: TypeAlias = Literal[
    "end_turn",  # the model has nothing more to do
    "stop_sequence",
    "max_tokens",  # a response reached its token limit, and so did those that continued it
    "refusal",
    "context_full",  # nothing more fits, even after compaction
    "interrupted",
    "hook_stopped",  # a hook refused the prompt, or ended the turn
    "max_steps", "max_total_tokens", "max_cost", "max_seconds",  # a limit that was set
    "failed",  # an error of the API or of the disk
]  # fmt: skip


class ChatEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all events."""


class TurnBegan(ChatEvent, frozen=True):
    """A prompt was written."""

    text: str
    uuid: str


class StepBegan(ChatEvent, frozen=True):
    """A request is sent."""

    number: int
    input_tokens: int
    """About how many tokens it has."""


class RetryScheduled(ChatEvent, frozen=True):
    """The request is sent again in some seconds."""

    seconds: float
    attempt: int
    reason: str
    status: int | None = None


class ResponseBegan(ChatEvent, frozen=True):
    """A response begins; what came of an earlier one for the same request counts no more."""

    message: Json
    """The message without content: id, model, usage so far."""


class TextGrown(ChatEvent, frozen=True):
    """A piece of the text of a response."""

    text: str


class ThinkingGrown(ChatEvent, frozen=True):
    """A piece of the thinking of a response."""

    text: str


class BlockDone(ChatEvent, frozen=True):
    """A block of a response is whole and written."""

    block: Json
    uuid: str
    message: Json
    """The message it is part of, without content: id, model, usage so far."""


class ResponseDone(ChatEvent, frozen=True):
    """A response has ended."""

    id: str | None
    model: str | None
    content: tuple[Json, ...]
    stop_reason: str | None
    usage: Json
    cost_micros: int


class CallBegan(ChatEvent, frozen=True):
    """A tool call has permission and begins."""

    id: str
    name: str
    input: Json
    target: str
    """What it acts on, in a few words."""


class CallProgressed(ChatEvent, frozen=True):
    """The progress of a running tool call."""

    id: str
    data: Json
    """As in a progress line: `{"type": "bash_progress", "output": …}`."""


class CallEnded(ChatEvent, frozen=True):
    """A tool call has ended, or was refused, and its result is written."""

    id: str
    name: str
    input: Json
    content: str | list[Json]
    """What the model gets."""
    result: Any
    """`toolUseResult`."""
    is_error: bool
    uuid: str
    denied: str | None = None
    """Why it was not allowed; None: it was."""


class SubagentEvent(ChatEvent, frozen=True):
    """An event of a subagent."""

    agent_id: str
    call_id: str
    kind: str
    event: ChatEvent


class InputTaken(ChatEvent, frozen=True):
    """Queued text became part of the turn."""

    text: str


class ContextCompacted(ChatEvent, frozen=True):
    """The conversation was compacted."""

    trigger: Literal["auto", "manual"]
    how: Literal["thinned", "summarized", "cut"]
    """Thinned: old results and thinking removed, no line written. Summarized: a boundary was written."""
    before: int
    after: int


class ModeChanged(ChatEvent, frozen=True):
    """The permission mode has changed."""

    mode: str


class TodosChanged(ChatEvent, frozen=True):
    """The todo list has changed."""

    todos: tuple[Json, ...]


class TaskEnded(ChatEvent, frozen=True):
    """A background task has ended."""

    id: str
    status: str
    description: str


class FeatureDisabled(ChatEvent, frozen=True):
    """Something could not be done, a feature of the endpoint or the keeping of a rule; the chat continues without."""

    what: str
    why: str


class HookReported(ChatEvent, frozen=True):
    """Hooks ran and left something: attachments for the session file, words for the user."""

    records: tuple[Json, ...]
    notices: tuple[str, ...] = ()


class TurnFailed(ChatEvent, frozen=True):
    """The turn cannot continue. What was written is kept."""

    message: str
    hint: str | None = None
    exit_code: int = 1
    status: int | None = None


class TurnEnded(ChatEvent, frozen=True):
    """A turn has ended."""

    ending: Ending
    text: str
    """The text of the last response."""
    steps: int
    usage: Json
    """The sums over all responses of this turn, with those of subagents."""
    models: dict[str, Json]
    """The same by model, with `cost_micros`."""
    cost_micros: int
    duration_ms: int
    api_ms: int
    denials: tuple[Json, ...] = ()
    """Calls that were not allowed: `{"tool_name", "tool_use_id", "tool_input"}`."""


AnyEvent: TypeAlias = (
    TurnBegan | StepBegan | RetryScheduled | ResponseBegan | TextGrown | ThinkingGrown | BlockDone | ResponseDone
    | CallBegan | CallProgressed | CallEnded | SubagentEvent | InputTaken | ContextCompacted | ModeChanged
    | TodosChanged | TaskEnded | FeatureDisabled | HookReported | TurnFailed | TurnEnded
)  # fmt: skip
