"""Builds the graph of a conversation and finds its leaf and its branches.

Rules
  1. A node is a line with a uuid. Where a uuid is written twice the later line counts.
  2. A parent that was never written is replaced: the node hangs on the node before it in the file. (5,221 such
     parents in 616 of 7,232 files. What Claude Code sends after a resume goes by the time: `thread_lines.py`.)
  3. A cycle of parents is cut, so that every walk ends.
  4. Sub-agents written into the main file (1.0.x) are threads of their own, never part of the main one.
  5. The leaf is the last user or assistant line of the file; a `last-prompt` line chooses the branch: the last such
     line that descends from its `leafUuid`, if that is in the file. Before 2.1.200 Claude Code took the newest
     timestamp instead (`find_leaf_by_oldest_rule`).
  6. A compaction boundary has no parent; it continues from its `logicalParentUuid`.
  7. A fork is where two prompts follow one line (`branch_tree.py`).
What a resumed session is built from is found by `thread_lines.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from unspool.format import Assistant, Entry, LastPrompt, System, User
from unspool.graph.branch_tree import BranchLayout, BranchTree, cut_cycles


class GraphNode(msgspec.Struct, frozen=True, gc=False):
    """A line of the graph, identified by its number: its index among the nodes of the file."""

    entry: Entry
    parent: int | None = None
    healed: bool = False
    """Whether the parent it names was never written."""


class SessionGraph(BranchTree):
    """The nodes of a file in file order, with their parents and children."""

    def __init__(self, nodes: tuple[GraphNode, ...], numbers: dict[str, int], hint: str | None = None) -> None:
        messages = [number for number, node in enumerate(nodes) if is_message(node.entry)]
        super().__init__([node.parent for node in nodes], messages)
        self.nodes = nodes
        self.numbers = numbers
        """The number of each node by its uuid."""
        self.hint = hint
        """The newest `leafUuid`."""

    def is_prompt(self, number: int) -> bool:
        """Tell whether a line is a user line without a tool result."""
        entry = self.nodes[number].entry
        return isinstance(entry.record, User) and not entry.answered_ids

    def is_answer(self, number: int) -> bool:
        """Tell whether a line is of the model."""
        return isinstance(self.nodes[number].entry.record, Assistant)

    def message_id(self, number: int) -> str | None:
        """Return the `message.id` of an answer."""
        record = self.nodes[number].entry.record
        return record.message.id if isinstance(record, Assistant) else None


class Thread(msgspec.Struct, frozen=True):
    """A branch: its leaf, its lines from the root on, and the first of them that no earlier thread has."""

    leaf: Entry
    entries: tuple[Entry, ...]
    fork: Entry | None = None
    active: bool = False

    def __repr__(self) -> str:
        return f"<Thread of {len(self.entries)} lines{', active' if self.active else ''}>"


def build_graph(entries: Iterable[Entry], *, sidechain: bool | None = None) -> SessionGraph:
    """Return the graph of a file; `sidechain` picks the lines of the main conversation or of sub-agents only."""
    by_uuid: dict[str, Entry] = {}
    hint = None
    for entry in entries:
        record = entry.record
        if isinstance(record, LastPrompt):
            hint = record.leaf_uuid or hint
        elif record.uuid is not None and sidechain in (None, bool(record.is_sidechain)):
            by_uuid.pop(record.uuid, None)  # rule 1: the later line counts, at its own place in the order
            by_uuid[record.uuid] = entry
    numbers = {uuid: number for number, uuid in enumerate(by_uuid)}
    nodes = tuple(_build_node(entry, number, numbers) for number, entry in enumerate(by_uuid.values()))
    parents = [node.parent for node in nodes]
    if (acyclic := cut_cycles(parents)) is not parents:
        nodes = tuple(
            node if node.parent == parent else GraphNode(node.entry)
            for node, parent in zip(nodes, acyclic, strict=True)
        )
    return SessionGraph(nodes, numbers, hint)


def build_main_graph(entries: Sequence[Entry]) -> SessionGraph:
    """Return the graph of the conversation a file is about: of a session its main one, of an agent its own."""
    main = any(is_message(entry) and not entry.record.is_sidechain for entry in entries)
    return build_graph(entries, sidechain=False if main else None)


def find_leaf(graph: SessionGraph) -> int | None:
    """Return the line that a resumed session continues from."""
    return graph.find_leaf(graph.numbers.get(graph.hint or ""))


def find_leaf_by_oldest_rule(graph: SessionGraph) -> int | None:
    """Return the line that versions before 2.1.200 continued from: the message with the newest timestamp.

    Of several with the same, as the lines of a local command are, it is the first in the file.
    """
    return max(graph.messages, key=lambda number: graph.nodes[number].entry.record.timestamp or "", default=None)


def find_threads(entries: Sequence[Entry]) -> list[Thread]:
    """Return every branch of a conversation, oldest leaf first; exactly one is active."""
    graph = build_main_graph(entries)
    active = find_leaf(graph)
    if active is None:
        return []
    threads = []
    for path, fork in graph.find_branches(active):
        lines = tuple(graph.nodes[number].entry for number in path)
        first_own = graph.nodes[fork].entry if fork is not None else None
        threads.append(Thread(lines[-1], lines, first_own, active=path[-1] == active))
    return threads


def lay_out_threads(threads: Iterable[Thread]) -> BranchLayout:
    """Return which lines are on any branch, on the active branch, and begin a branch."""
    known, active, forks = set[int](), set[int](), set[int]()
    for thread in threads:
        offsets = {entry.offset for entry in thread.entries}
        known |= offsets
        if thread.active:
            active = offsets
        if thread.fork is not None:
            forks.add(thread.fork.offset)
    return BranchLayout(frozenset(known), frozenset(active), frozenset(forks))


def is_message(entry: Entry) -> bool:
    """Tell whether a line is part of the conversation itself."""
    kind = type(entry.record)  # not `isinstance` of a union: it is asked several times for every line
    return kind is Assistant or kind is User


def is_boundary(entry: Entry) -> bool:
    """Tell whether a line is where a compaction cut the conversation."""
    return isinstance(entry.record, System) and entry.record.subtype == "compact_boundary"


def _build_node(entry: Entry, number: int, numbers: dict[str, int]) -> GraphNode:
    record = entry.record
    parent_uuid = record.parent_uuid
    if parent_uuid is None and is_boundary(entry):
        parent_uuid = getattr(record, "logical_parent_uuid", None)
    if parent_uuid is None:
        return GraphNode(entry)
    parent = numbers.get(parent_uuid)
    if parent is None:
        return GraphNode(entry, number - 1 if number else None, healed=True)
    return GraphNode(entry, parent if parent != number else None)
