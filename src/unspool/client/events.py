"""What happens in a conversation, as front ends are told of it. Data only.

A turn is `TurnBegan … TurnEnded`. Inside it, for each step: `StepBegan`, what grows, `BlockDone` for each block that is
whole and written, `AnswerDone`; then for each call `CallBegan`, progress, `CallEnded`. What an agent does is told
inside `AgentTold`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

Json: TypeAlias = dict[str, Any]

Ending: TypeAlias = Literal[
    "end_turn",  # it has said what it had to say
    "stop_sequence",
    "max_tokens",  # the answer was cut by the limit of one answer, and again when asked to go on
    "refusal",
    "context_full",  # nothing more fits, even after compaction
    "interrupted",
    "max_steps", "max_total_tokens", "max_cost", "max_seconds",  # a limit that was set
    "failed",  # the API said no, or the disk
]  # fmt: skip


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Any of them."""


class SessionBegan(Event, frozen=True):
    """A conversation is open."""

    session_id: str
    path: str
    cwd: str
    model: str
    mode: str
    tools: tuple[str, ...]
    version: str
    resumed: bool = False
    messages: int = 0
    """How many messages it goes on from."""


class TurnBegan(Event, frozen=True):
    """A prompt was taken and written."""

    text: str
    uuid: str


class StepBegan(Event, frozen=True):
    """A request goes out."""

    number: int
    input_tokens: int
    """About how many tokens it is."""


class Waiting(Event, frozen=True):
    """The API is asked again in some seconds."""

    seconds: float
    attempt: int
    reason: str
    status: int | None = None


class TextGrown(Event, frozen=True):
    """Words of the answer."""

    text: str


class ThinkingGrown(Event, frozen=True):
    """Words of its thinking."""

    text: str


class BlockDone(Event, frozen=True):
    """A block is whole and written."""

    block: Json
    uuid: str
    message: Json
    """The message it is part of, without content: id, model, usage so far."""


class AnswerDone(Event, frozen=True):
    """An answer has ended."""

    id: str | None
    model: str | None
    content: tuple[Json, ...]
    stop_reason: str | None
    usage: Json
    cost_micros: int


class CallBegan(Event, frozen=True):
    """A tool begins, with permission."""

    id: str
    name: str
    input: Json
    target: str
    """What it is aimed at, in a few words."""


class CallProgressed(Event, frozen=True):
    """Something to show of a call that runs."""

    id: str
    data: Json
    """As in a progress line: `{"type": "bash_progress", "output": …}`."""


class CallEnded(Event, frozen=True):
    """A tool has ended, or was never begun, and its result is written."""

    id: str
    name: str
    input: Json
    content: str | list[Json]
    """What the model is told."""
    result: Any
    """`toolUseResult`."""
    is_error: bool
    uuid: str
    denied: str | None = None
    """Why it was not allowed, if that is what happened."""


class AgentTold(Event, frozen=True):
    """Something happened in an agent's conversation."""

    agent_id: str
    call_id: str
    kind: str
    event: Event


class Queued(Event, frozen=True):
    """Words wait for the next step, or for the end of the turn."""

    text: str


class Absorbed(Event, frozen=True):
    """Words that waited were taken into the turn."""

    text: str


class Compacted(Event, frozen=True):
    """The conversation became shorter."""

    trigger: Literal["auto", "manual"]
    how: Literal["thinned", "summarized", "cut"]
    """Thinned: old results and thinking cleared, no line written. Summarized: a boundary was written."""
    before: int
    after: int


class ModeChanged(Event, frozen=True):
    """Another permission mode holds."""

    mode: str


class TodosChanged(Event, frozen=True):
    """The todo list is another one."""

    todos: tuple[Json, ...]


class TaskEnded(Event, frozen=True):
    """Something in the background has ended."""

    id: str
    status: str
    description: str


class Degraded(Event, frozen=True):
    """The endpoint cannot do something; it goes on without."""

    what: str
    why: str


class Failed(Event, frozen=True):
    """The turn cannot go on. What was said is kept."""

    message: str
    hint: str | None = None
    exit_code: int = 1
    status: int | None = None


class TurnEnded(Event, frozen=True):
    """A turn is over."""

    ending: Ending
    text: str
    """The last words of the answer."""
    steps: int
    usage: Json
    """All answers of this turn, agents included, added up."""
    models: dict[str, Json]
    """The same by model, with `cost_micros`."""
    cost_micros: int
    duration_ms: int
    api_ms: int
    denials: tuple[Json, ...] = ()
    """Calls that were not allowed: `{"tool_name", "tool_use_id", "tool_input"}`."""


AnyEvent: TypeAlias = (
    SessionBegan | TurnBegan | StepBegan | Waiting | TextGrown | ThinkingGrown | BlockDone | AnswerDone | CallBegan
    | CallProgressed | CallEnded | AgentTold | Queued | Absorbed | Compacted | ModeChanged | TodosChanged | TaskEnded
    | Degraded | Failed | TurnEnded
)  # fmt: skip
