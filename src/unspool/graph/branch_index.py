"""Finds which prompts are on an abandoned branch while a file grows: takes lines, returns offsets.

The incremental counterpart of `threads.py` and `export/outline.py`. It keeps numbers instead of entries: a session of
200 MB has a hundred thousand lines, and a page need not hold them to know its branches. The rules of leaves and
branches are those of `branch_tree.py`.

Rules
  1. After all lines of a file the layout is that of `outline.number_sections`, in however many steps the lines came.
  2. The tree is built again only after a line that can change it: a prompt, a `last-prompt`, or one that does not
     continue from where the conversation was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from unspool.format import Assistant, Attachment, Entry, LastPrompt, QueuedCommand, System, User
from unspool.graph.branch_tree import BranchLayout, BranchTree, cut_cycles

# The flags and the two numbers below are written to the page's index cache: changing one makes old caches wrong.
_MESSAGE, _PROMPT, _SIDECHAIN, _REPLACED, _QUEUED = 1, 2, 4, 8, 16
"""A user or assistant line; a user line without a result; of an agent; written again later; from the queue."""
_NO_PARENT, _UNSEEN_PARENT = -1, -2


class BranchState(msgspec.Struct, array_like=True):
    """The lines of a file as a tree of numbers, in the form that is stored. Fields are stored by position."""

    numbers: dict[str, int] = {}
    offsets: list[int] = []
    flags: bytes = b""
    parents: list[int] = []
    """The number of the parent; -1: none; -2: not written so far, and named in `wanted`."""
    wanted: dict[int, str] = {}
    messages: dict[int, str | None] = {}
    """The message ids of answers."""
    moved: dict[int, int] = {}
    """Lines that were written again, and the number of the later one."""
    under: list[int] = []
    """The nearest prompt above, or the line itself."""
    hint: str | None = None
    is_main: bool = False


class BranchIndex:
    """The lines of a file as a tree of numbers that grows line by line."""

    def __init__(self, state: BranchState | None = None) -> None:
        state = state or BranchState()
        self._numbers, self._offsets, self._parents = state.numbers, state.offsets, state.parents
        self._flags = bytearray(state.flags)
        self._unseen_parents, self._message_ids, self._replaced_by = state.wanted, state.messages, state.moved
        self._prompts_above = state.under
        self._hint, self._is_main = state.hint, state.is_main
        self._leaf = -1
        """The line the conversation continues from, if it is known."""
        self._is_stale = bool(self._offsets)
        self._layout = BranchLayout()

    def state(self) -> BranchState:
        """Return what is to be stored."""
        return BranchState(
            self._numbers, self._offsets, bytes(self._flags), self._parents, self._unseen_parents, self._message_ids,
            self._replaced_by, self._prompts_above, self._hint, self._is_main,
        )  # fmt: skip

    def find_offset(self, uuid: str) -> int | None:
        """Return the offset of the line with a uuid."""
        number = self._numbers.get(uuid)
        return None if number is None else self._offsets[number]

    def add(self, entry: Entry) -> None:
        """Add the next line of the file."""
        record = entry.record
        if type(record) is LastPrompt:
            if record.leaf_uuid and record.leaf_uuid != self._hint:
                self._hint, self._is_stale = record.leaf_uuid, True
        elif record.uuid is not None:
            self._add_node(entry, record.uuid)

    def _add_node(self, entry: Entry, uuid: str) -> None:
        record, number = entry.record, len(self._offsets)
        flags = _SIDECHAIN if record.is_sidechain else 0
        if type(record) is User:
            flags |= _MESSAGE if entry.answered_ids else _MESSAGE | _PROMPT
        elif type(record) is Assistant:
            flags |= _MESSAGE
            self._message_ids[number] = record.message.id
        elif type(record) is Attachment and isinstance(record.attachment, QueuedCommand):
            flags |= _QUEUED
        before = self._numbers.get(uuid)
        if before is not None:
            self._flags[before] |= _REPLACED
            self._replaced_by[before] = number
            self._is_stale = True
        parent_uuid = record.parent_uuid
        if parent_uuid is None and type(record) is System and record.subtype == "compact_boundary":
            parent_uuid = record.logical_parent_uuid
        parent = _NO_PARENT if parent_uuid is None else self._numbers.get(parent_uuid, _UNSEEN_PARENT)
        if parent == _UNSEEN_PARENT:
            assert parent_uuid is not None
            self._unseen_parents[number] = parent_uuid
        self._numbers[uuid] = number
        self._offsets.append(entry.offset)
        self._flags.append(flags)
        self._parents.append(parent)
        self._prompts_above.append(number if flags & _PROMPT or parent < 0 else self._prompts_above[parent])
        self._update_leaf(number, flags, parent)

    def _update_leaf(self, number: int, flags: int, parent: int) -> None:
        """Move the leaf to a new line, or mark the layout as stale (rule 2)."""
        # The first message of the main conversation decides that lines of agents are left out: all was built with them.
        if flags & _MESSAGE and not flags & _SIDECHAIN and not self._is_main:
            self._is_main = self._is_stale = True
        if self._is_stale or (flags & _SIDECHAIN and self._is_main):
            return
        above = self._prompts_above
        continues = parent >= 0 and self._leaf >= 0 and above[number] == above[self._leaf]
        if flags & (_PROMPT | _QUEUED) or not continues:
            self._is_stale = True
        elif flags & _MESSAGE:
            self._leaf = number

    def layout(self) -> BranchLayout:
        """Return which prompts are on which branches now."""
        if self._is_stale:
            self._layout, self._leaf = self._build_layout()
            self._is_stale = False
        return self._layout

    def _build_layout(self) -> tuple[BranchLayout, int]:
        left_out = _REPLACED | (_SIDECHAIN if self._is_main else 0)
        numbers = [number for number, flags in enumerate(self._flags) if not flags & left_out]
        nodes = {number: node for node, number in enumerate(numbers)}
        parents = cut_cycles([self._find_parent(node, number, nodes) for node, number in enumerate(numbers)])
        tree = _NumberTree(parents, [self._flags[number] for number in numbers], numbers, self._message_ids)
        leaf = tree.find_leaf(nodes.get(self._numbers.get(self._hint or "", -1)))
        if leaf is None:
            return BranchLayout(), -1
        branches = tree.find_branches(leaf)
        known = {node for path, _ in branches for node in path}
        forks = [fork for _, fork in branches if fork is not None]
        layout = BranchLayout(*(self._prompt_offsets(numbers, part) for part in (known, tree.path(leaf), forks)))
        # Only if the last leaf of the file is the active one does a new line below it leave the branches as they are.
        last_path, _ = branches[-1]
        return layout, numbers[leaf] if leaf == last_path[-1] else -1

    def _prompt_offsets(self, numbers: list[int], nodes: Iterable[int]) -> frozenset[int]:
        among = (numbers[node] for node in nodes)
        return frozenset(self._offsets[number] for number in among if self._flags[number] & (_PROMPT | _QUEUED))

    def _find_parent(self, node: int, number: int, nodes: dict[int, int]) -> int | None:
        """Return the node of a line's parent; the node before it if the parent was never written."""
        parent = self._parents[number]
        if parent == _UNSEEN_PARENT:
            parent = self._numbers.get(self._unseen_parents[number], _UNSEEN_PARENT)
        while parent in self._replaced_by:
            parent = self._replaced_by[parent]
        if parent == _NO_PARENT:
            return None
        parent_node = nodes.get(parent, node - 1)
        return parent_node if 0 <= parent_node != node else None


class _NumberTree(BranchTree):
    """The lines that count, by their index among them (`node`); `numbers` has their numbers in the file."""

    def __init__(
        self, parents: Sequence[int | None], flags: list[int], numbers: list[int], message_ids: dict[int, str | None]
    ) -> None:
        super().__init__(parents, [node for node, flag in enumerate(flags) if flag & _MESSAGE])
        self._flags, self._numbers, self._message_ids = flags, numbers, message_ids

    def is_prompt(self, number: int) -> bool:
        return bool(self._flags[number] & _PROMPT)

    def is_answer(self, number: int) -> bool:
        return self._numbers[number] in self._message_ids

    def message_id(self, number: int) -> str | None:
        return self._message_ids.get(self._numbers[number])
