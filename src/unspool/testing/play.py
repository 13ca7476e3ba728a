"""A script while it is played: a request in, the step for it out.

Rules
  1. A cue is looked for from the last message back; the answers given since then say which of its steps comes next. So
     agents, resumed sessions and requests at the same time get theirs, and a request asked again gets the same.
  2. What no cue is for gets the next of the steps. A step is used up by one request; one that fails some times first,
     by so many more.
  3. When nothing is left, `default` is said. Without one the run has failed.
"""

from __future__ import annotations

import collections
import threading
from typing import NamedTuple

from unspool.testing.script import Json, Script, Step


class Cast(NamedTuple):
    """A step with its name, and whether it fails this time."""

    name: str
    step: Step
    fails: bool


class Play:
    """How far a script has been played. Threads may ask at the same time."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._at = 0
        self._tries: collections.Counter[str] = collections.Counter()
        self._lock = threading.Lock()

    @property
    def window(self) -> int | None:
        """How many tokens fit, if the script says so."""
        return self._script.window

    @property
    def unused(self) -> list[str]:
        """The names of steps that nobody has asked for."""
        return [f"steps.{number}" for number in range(self._at, len(self._script.steps))]

    def cast(self, body: Json) -> Cast | None:
        """Return the step for a request."""
        with self._lock:
            return self._cued(body) or self._next() or self._rest()

    def _cued(self, body: Json) -> Cast | None:
        answers = 0
        messages = body.get("messages")
        for message in reversed(messages if isinstance(messages, list) else []):
            if not isinstance(message, dict) or message.get("role") == "assistant":
                answers += 1
                continue
            text = "\n".join(texts(message)) if message.get("role") == "user" else ""
            place, cue = max(((text.rfind(cue), cue) for cue in self._script.cues), default=(-1, ""))
            if place >= 0 and self._script.cues[cue]:
                steps = self._script.cues[cue]
                number = min(answers, len(steps) - 1)
                return self._tried(f"cues.{cue}.{number}", _step(steps[number]))
        return None

    def _next(self) -> Cast | None:
        if self._at >= len(self._script.steps):
            return None
        name, step = f"steps.{self._at}", _step(self._script.steps[self._at])
        cast = self._tried(name, step)
        if not self._has_more(name, step, cast):
            self._at += 1
        return cast

    def _rest(self) -> Cast | None:
        default = self._script.default
        return None if default is None else self._tried("default", _step(default))

    def _tried(self, name: str, step: Step) -> Cast:
        self._tries[name] += 1
        times = _times(step)
        return Cast(name, step, times is None or self._tries[name] <= times)

    def _has_more(self, name: str, step: Step, cast: Cast) -> bool:
        """Tell whether the next request gets this step again: after a failure that is not the last of it."""
        failure = step.error or step.breaks
        if failure is None or not cast.fails:
            return False
        if step.breaks is not None and step.breaks.times is None:
            return False
        return bool(step.blocks) or self._tries[name] < (failure.times or 1)


def texts(message: Json) -> list[str]:
    """Return the texts of a message."""
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    return [str(block.get("text")) for block in blocks if isinstance(block, dict) and block.get("type") == "text"]


def _step(step: str | Step) -> Step:
    return Step(content=step) if isinstance(step, str) else step


def _times(step: Step) -> int | None:
    """Return how often a step fails before it is said; None if it always does."""
    failure = step.error or step.breaks
    if failure is None:
        return 0
    if failure.times is not None and step.blocks:
        return failure.times
    return 1 if step.error is not None and step.blocks else None
