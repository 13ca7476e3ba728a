"""What the model is told before anything is said: a desk in, the system prompt out, with what people have written down.

Rules
  1. What is on disk is read once, so that the prompt stays the same and the API can cache it.
  2. The instructions of a folder below are added when a file in it has been read, and then stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from unspool.client import instructions
from unspool.client.branch import branch
from unspool.client.desk import Desk
from unspool.client.instructions import Found, Scope
from unspool.client.system import Surroundings, prompt

Json: TypeAlias = dict[str, Any]


class Briefing:
    """The system prompts of one session."""

    def __init__(self, scope: Scope, where: Surroundings, *, replaced: str | None = None, appended: str = "") -> None:
        self._scope = scope
        self._where = where._replace(branch=branch(scope.root))
        self._replaced, self._appended = replaced, appended
        self.found = instructions.of(scope)
        self._looked: set[Path] = set()

    def address(self, model: str) -> None:
        """Tell it which model it is."""
        self._where = self._where._replace(model=model)

    @property
    def problems(self) -> tuple[str, ...]:
        """What could not be read, or was not."""
        return self.found.problems

    def blocks(self, desk: Desk, words: str | None = None) -> list[Json]:
        """Return the system prompt as blocks; an agent has words of its own."""
        self._look_below(desk)
        replaced = words if words is not None else self._replaced
        return prompt(self._where, instructions.worded(self.found), replaced=replaced, appended=self._appended)

    def _look_below(self, desk: Desk) -> None:
        for path in desk.seen.paths():
            if path.parent not in self._looked:
                self._looked.add(path.parent)
                used = sum(len(one.text) for one in self.found.texts)
                scope = self._scope._replace(limit=max(0, self._scope.limit - used))
                more = instructions.nested(scope, path, self.found.paths)
                self.found = Found((*self.found.texts, *more.texts), (*self.found.problems, *more.problems))
