"""What follows an answer: why it ended in, how the turn goes on out. Pure."""

from __future__ import annotations

from typing import NamedTuple

from unspool.api.assembly import Answer
from unspool.client import lines
from unspool.client.conversation import THINKING
from unspool.client.events import Ending

GOES_ON = 3
"""How often in a row an answer that hit a limit of its length is asked to go on."""
_LIMITED: dict[str | None, Ending] = {"max_tokens": "max_tokens", "model_context_window_exceeded": "context_full"}


class Course(NamedTuple):
    """How a turn goes on."""

    ending: Ending | None = None
    """It ends, and why."""
    say: str | None = None
    """What the model is told before it is asked again."""
    cut: bool = False
    """Whether the answer was cut by a limit."""


def after(answer: Answer, *, called: bool, cuts: int) -> Course:
    """Return how a turn goes on; `called`: it has calls, and their results are there; `cuts`: answers cut in a row."""
    match answer.stop_reason:
        case "refusal":
            return Course("refusal")
        case "max_tokens" | "model_context_window_exceeded" as reason:
            if cuts >= GOES_ON:
                return Course(_LIMITED[reason])
            lost = any(part.type == "tool_use" for part in answer.unfinished)
            return Course(say=lines.CALL_CUT_SHORT if lost else lines.CUT_SHORT, cut=True)
        case "pause_turn":
            if all(block.get("type") in THINKING for block in answer.content):  # the same would be asked again
                return Course("end_turn") if cuts >= GOES_ON else Course(cut=True)
            return Course()
        case reason:
            ending: Ending = "stop_sequence" if reason == "stop_sequence" else "end_turn"
            return Course(None if called else ending)
