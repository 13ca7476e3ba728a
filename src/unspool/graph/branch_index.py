"""Which prompts are on a branch that was left, while a file grows: lines in, places out.

The rules are those of `graph/threads.py` and `export/outline.py`, on numbers instead of entries: a session of 200 MB
has a hundred thousand lines, and a page need not hold them to know its branches.

Rules
  1. After all lines of a file the outcome is that of `outline.sections`, in however many goes the lines came.
  2. The tree is walked again only after a line that can change it: a prompt, a `last-prompt`, or one that does not go
     on from where the conversation was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from unspool.format.attachments import QueuedCommand
from unspool.format.blocks import ToolResult
from unspool.format.entry import Entry
from unspool.format.meta_records import LastPrompt
from unspool.format.records import Assistant, Attachment, System, User

_MESSAGE, _PROMPT, _SIDE, _DEAD, _QUEUED = 1, 2, 4, 8, 16
"""Of the conversation itself; in the user's name and no result; of an agent; written again later; from the queue."""


class Ways(NamedTuple):
    """Where prompts stand that some branch has, that the active one has, and that begin one."""

    known: frozenset[int] = frozenset()
    active: frozenset[int] = frozenset()
    forks: frozenset[int] = frozenset()


class BranchState(msgspec.Struct, array_like=True):
    """The lines of a file as a tree of numbers, written down."""

    numbers: dict[str, int] = {}
    offsets: list[int] = []
    flags: bytes = b""
    parents: list[int] = []
    """The number of the parent; -1: none; -2: not written so far, and named in `wanted`."""
    wanted: dict[int, str] = {}
    messages: dict[int, str | None] = {}
    """The message ids of answers."""
    moved: dict[int, int] = {}
    """Lines that were written again, and where."""
    under: list[int] = []
    """The nearest prompt above, or the line itself."""
    hint: str | None = None
    is_main: bool = False


class Branches:
    """The lines of a file as a tree of numbers."""

    def __init__(self, state: BranchState | None = None) -> None:
        state = state or BranchState()
        self._numbers, self._offsets, self._parents = state.numbers, state.offsets, state.parents
        self._flags = bytearray(state.flags)
        self._wanted, self._messages, self._moved = state.wanted, state.messages, state.moved
        self._under = state.under
        self._hint, self._is_main = state.hint, state.is_main
        self._leaf = -1
        """Where the conversation goes on, if that is known."""
        self._is_stale = bool(self._offsets)
        self._ways = Ways()

    def state(self) -> BranchState:
        """Return what is to be remembered."""
        return BranchState(
            self._numbers, self._offsets, bytes(self._flags), self._parents, self._wanted, self._messages,
            self._moved, self._under, self._hint, self._is_main,
        )  # fmt: skip

    def take(self, entry: Entry) -> None:
        """Look at a line."""
        record = entry.record
        if type(record) is LastPrompt:
            if record.leaf_uuid and record.leaf_uuid != self._hint:
                self._hint, self._is_stale = record.leaf_uuid, True
        elif record.uuid is not None:
            self._add(entry, record.uuid)

    def _add(self, entry: Entry, uuid: str) -> None:
        record, number = entry.record, len(self._offsets)
        flags = _SIDE if record.is_sidechain else 0
        if type(record) is User:
            flags |= _MESSAGE if _has_result(record) else _MESSAGE | _PROMPT
        elif type(record) is Assistant:
            flags |= _MESSAGE
            self._messages[number] = record.message.id
        elif type(record) is Attachment and isinstance(record.attachment, QueuedCommand):
            flags |= _QUEUED
        before = self._numbers.get(uuid)
        if before is not None:
            self._flags[before] |= _DEAD
            self._moved[before] = number
            self._is_stale = True
        wanted = record.parent_uuid
        if wanted is None and type(record) is System and record.subtype == "compact_boundary":
            wanted = record.logical_parent_uuid
        parent = -1 if wanted is None else self._numbers.get(wanted, -2)
        if parent == -2:
            assert wanted is not None
            self._wanted[number] = wanted
        self._numbers[uuid] = number
        self._offsets.append(entry.offset)
        self._flags.append(flags)
        self._parents.append(parent)
        self._under.append(number if flags & _PROMPT or parent < 0 else self._under[parent])
        self._look(number, flags, parent)

    def _look(self, number: int, flags: int, parent: int) -> None:
        """Tell whether the tree must be walked again (rule 2)."""
        if flags & _MESSAGE and not flags & _SIDE and not self._is_main:
            self._is_main = self._is_stale = True
        if self._is_stale or (flags & _SIDE and self._is_main):
            return
        goes_on = parent >= 0 and self._leaf >= 0 and self._under[number] == self._under[self._leaf]
        if flags & (_PROMPT | _QUEUED) or not goes_on:
            self._is_stale = True
        elif flags & _MESSAGE:
            self._leaf = number

    def ways(self) -> Ways:
        """Return what is known of the branches now."""
        if self._is_stale:
            self._ways, self._leaf = self._walked()
            self._is_stale = False
        return self._ways

    def _walked(self) -> tuple[Ways, int]:
        unwanted = _DEAD | (_SIDE if self._is_main else 0)
        chosen = [number for number, flags in enumerate(self._flags) if not flags & unwanted]
        places = {number: place for place, number in enumerate(chosen)}
        parents = _without_cycles([self._parent(place, number, places) for place, number in enumerate(chosen)])
        tree = _Tree(chosen, parents, self._flags, self._messages)
        hint = places.get(self._numbers.get(self._hint or "", -1), -1)
        leaf = tree.leaf(hint)
        if leaf < 0:
            return Ways(), -1
        known: set[int] = set()
        forks: set[int] = set()
        tips = tree.tips(leaf)
        for tip in tips:
            way = tree.path(tip)
            new = next((place for place in way if place not in known), None)
            if known and new is not None:
                forks.add(new)
            known.update(way)
        ways = [self._prompts(chosen, places) for places in (known, tree.path(leaf), forks)]
        return Ways(*ways), chosen[leaf] if leaf == tips[-1] else -1

    def _prompts(self, chosen: list[int], places: Iterable[int]) -> frozenset[int]:
        numbers = (chosen[place] for place in places)
        return frozenset(self._offsets[number] for number in numbers if self._flags[number] & (_PROMPT | _QUEUED))

    def _parent(self, place: int, number: int, places: dict[int, int]) -> int:
        """Return the place of a line's parent, healed if it was never written; -1 if it has none."""
        parent = self._parents[number]
        if parent == -2:
            parent = self._numbers.get(self._wanted[number], -2)
        while parent in self._moved:
            parent = self._moved[parent]
        if parent == -1:
            return -1
        found = places.get(parent, -2)
        if found == -2:
            return place - 1
        return found if found != place else -1


class _Tree:
    """The chosen lines by their place, with their parents."""

    def __init__(
        self, chosen: list[int], parents: list[int], flags: bytearray, messages: dict[int, str | None]
    ) -> None:
        self._parents = parents
        self._flags = [flags[number] for number in chosen]
        self._ids = [messages.get(number) for number in chosen]
        self._answers = [number in messages for number in chosen]
        self._children: dict[int, list[int]] = {}
        for place, parent in enumerate(parents):
            if parent >= 0:
                self._children.setdefault(parent, []).append(place)

    def leaf(self, hint: int) -> int:
        messages = [place for place, flags in enumerate(self._flags) if flags & _MESSAGE]
        if hint >= 0:
            below, pending = {hint}, [hint]
            while pending:
                children = self._children.get(pending.pop(), [])
                below.update(children)
                pending += children
            messages = [place for place in messages if place in below] or messages
        return messages[-1] if messages else -1

    def path(self, leaf: int) -> list[int]:
        way, at = [], leaf
        while at >= 0:
            way.append(at)
            at = self._parents[at]
        return way[::-1]

    def tips(self, active: int) -> list[int]:
        tips, covered = [active], set(self.path(active))
        for end in self._ends():
            new, at = [], end
            while at >= 0 and at not in covered:
                covered.add(at)
                new.append(at)
                at = self._parents[at]
            if any(self._starts_branch(place) for place in new):
                tips.append(end)
        return sorted(tips)

    def _ends(self) -> list[int]:
        followed: set[int] = set()
        for place, parent in enumerate(self._parents):
            at = parent if self._flags[place] & _MESSAGE else -1
            while at >= 0 and at not in followed:
                followed.add(at)
                at = self._parents[at]
        places = range(len(self._parents) - 1, -1, -1)
        return [place for place in places if place not in followed and self._flags[place] & _MESSAGE]

    def _starts_branch(self, place: int) -> bool:
        if self._flags[place] & _PROMPT:
            return True
        if not self._answers[place]:
            return False
        parent = self._parents[place]
        near = [] if parent < 0 else [parent, *self._children[parent]]
        return self._ids[place] not in {self._ids[other] for other in near if other != place and self._answers[other]}


def _without_cycles(parents: Sequence[int]) -> list[int]:
    """Cut each way where it comes back on itself, seen from the newest line."""
    whole = list(parents)
    if all(parent < place for place, parent in enumerate(whole)):
        return whole
    cleared, cut = [False] * len(whole), set()
    for start in range(len(whole) - 1, -1, -1):
        way: set[int] = set()
        at = start
        while at >= 0 and not cleared[at]:
            way.add(at)
            parent = whole[at]
            if parent in way:
                cut.add(at)
                parent = -1
            at = parent
        for place in way:
            cleared[place] = True
    return [-1 if place in cut else parent for place, parent in enumerate(whole)]


def _has_result(record: User) -> bool:
    content = record.message.content
    return not isinstance(content, str) and any(isinstance(block, ToolResult) for block in content)
