"""Finds the leaf and the branches in a tree of lines that are identified by numbers.

`threads.py` builds such a tree from all entries of a file and `branch_index.py` from a file that grows: the rules below
exist once, so the two cannot disagree.

Rules
  1. The leaf is the last message of the file; a hint (`leafUuid`) limits the choice to the messages below it.
  2. A branch is a path that has a prompt or an answer of its own. Parallel tool results, and further blocks of a
     message that is on another path already, are none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_NO_CHILDREN: tuple[int, ...] = ()


class BranchLayout(NamedTuple):
    """The offsets of lines that are on any branch, on the active branch, and that begin a branch."""

    known: frozenset[int] = frozenset()
    active: frozenset[int] = frozenset()
    forks: frozenset[int] = frozenset()

    def is_abandoned(self, prompts: Iterable[int]) -> bool:
        """Tell whether the first of some prompts is on a branch that was left; the others are those before it, upwards.

        A prompt that is no line of the tree (queued, before 2.1.100) is on the branch of the one before it.
        """
        if not self.known:  # else all prompts before it would be looked at in vain
            return False
        known = next((offset for offset in prompts if offset in self.known), None)
        return known is not None and known not in self.active


class BranchTree(ABC):
    """Lines in file order, each with the number of its parent; a subclass knows what the lines are."""

    def __init__(self, parents: Sequence[int | None], messages: Sequence[int]) -> None:
        self.parents = parents
        self.messages = messages
        """The numbers of user and assistant lines, in file order."""
        self.children: dict[int, list[int]] = {}
        for number, parent in enumerate(parents):
            if parent is not None:
                self.children.setdefault(parent, []).append(number)

    @abstractmethod
    def is_prompt(self, number: int) -> bool:
        """Tell whether a line is a user line without a tool result."""

    @abstractmethod
    def is_answer(self, number: int) -> bool:
        """Tell whether a line is of the model."""

    @abstractmethod
    def message_id(self, number: int) -> str | None:
        """Return the `message.id` of an answer."""

    def path(self, leaf: int) -> list[int]:
        """Return the lines from the root to a leaf."""
        path: list[int] = []
        number: int | None = leaf
        while number is not None:
            path.append(number)
            number = self.parents[number]
        return path[::-1]

    def find_leaf(self, hint: int | None) -> int | None:
        """Return the line that a resumed session continues from, None if there is no message."""
        messages = self.messages
        if hint is not None:
            below, pending = {hint}, [hint]
            while pending:
                children = self.children.get(pending.pop(), _NO_CHILDREN)
                below.update(children)
                pending += children
            messages = [number for number in messages if number in below] or messages
        return messages[-1] if messages else None

    def find_branches(self, active: int) -> list[tuple[list[int], int | None]]:
        """Return the path of each branch in the order of the leaves, and where it leaves those before it."""
        leaves, covered = [active], set(self.path(active))
        for end in self._find_ends():
            added: list[int] = []
            number: int | None = end
            while number is not None and number not in covered:
                covered.add(number)
                added.append(number)
                number = self.parents[number]
            if any(map(self._starts_branch, added)):
                leaves.append(end)
        branches: list[tuple[list[int], int | None]] = []
        known: set[int] = set()
        for path in map(self.path, sorted(leaves)):
            branches.append((path, next((number for number in path if number not in known), None) if known else None))
            known.update(path)
        return branches

    def _find_ends(self) -> list[int]:
        """Return the messages that no other message follows, newest first."""
        followed: set[int] = set()
        for message in self.messages:
            number = self.parents[message]
            while number is not None and number not in followed:
                followed.add(number)
                number = self.parents[number]
        return [number for number in reversed(self.messages) if number not in followed]

    def _starts_branch(self, number: int) -> bool:
        if self.is_prompt(number):
            return True
        if not self.is_answer(number):
            return False
        # One API response is written as several lines with one `message.id`, as siblings or one below the other.
        parent = self.parents[number]
        near = [] if parent is None else [parent, *self.children[parent]]
        ids = {self.message_id(other) for other in near if other != number and self.is_answer(other)}
        return self.message_id(number) not in ids


def cut_cycles(parents: Sequence[int | None]) -> Sequence[int | None]:
    """Return the parents with every cycle cut, as a walk from the newest line upwards would cut it."""
    # Nearly every file: a path that only leads to earlier lines has no cycle.
    if all(parent is None or parent < number for number, parent in enumerate(parents)):
        return parents
    cleared, cut = [False] * len(parents), set()
    for start in range(len(parents) - 1, -1, -1):
        path: set[int] = set()
        number: int | None = start
        while number is not None and not cleared[number]:
            path.add(number)
            parent = parents[number]
            if parent in path:
                cut.add(number)
                parent = None
            number = parent
        for number in path:
            cleared[number] = True
    return [None if number in cut else parent for number, parent in enumerate(parents)]
