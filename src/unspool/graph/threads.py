"""The conversation as a graph: parents, branches, the thread that goes on.

Rules
  1. A node is a line with a uuid. Where a uuid is written twice the later line counts.
  2. A parent that was never written is healed: the node hangs on the node before it in the file. (5,221 such
     parents in 616 of 7,232 files; 2.1.325 heals the same way.)
  3. A parent that comes back on itself is cut: no walk is endless.
  4. Sub-agents written into the main file (1.0.x) are threads of their own, never part of the main one.
  5. The leaf is the last user or assistant line of the file; a `last-prompt` line chooses the branch: the last such
     line that descends from its `leafUuid`, if that is in the file. Before 2.1.100 the program took the newest
     timestamp instead (`oldest_rule`).
  6. A compaction boundary has no parent; it goes on from its `logicalParentUuid`.
  7. A fork is where two prompts follow one line. Parallel results, and blocks of one message, are none.

[merged: thread_lines.py] The lines of a thread as the program reads them: from the last compaction boundary to the leaf.

Rules
  1. The way from the leaf up, and beside it the other blocks of each message on it and the results of its calls.
  2. A compaction boundary ends the way. The lines it preserves stand after its summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from unspool.format.blocks import ToolResult, ToolUse
from unspool.format.entry import Entry
from unspool.format.meta_records import LastPrompt
from unspool.format.records import Assistant, CompactMetadata, System, User


class Node(msgspec.Struct, frozen=True, gc=False):
    """A line of the graph. Nodes are known by their number: their place among the nodes of the file."""

    entry: Entry
    parent: int | None = None
    healed: bool = False


class Graph(msgspec.Struct, frozen=True, gc=False):
    """The nodes of a file in file order, and who follows whom."""

    nodes: tuple[Node, ...]
    numbers: dict[str, int]
    children: dict[int, list[int]]
    hint: str | None = None
    """The newest `leafUuid`."""

    def path(self, leaf: int) -> list[int]:
        """Return the way from the root to a leaf."""
        way: list[int] = []
        at: int | None = leaf
        while at is not None:
            way.append(at)
            at = self.nodes[at].parent
        return way[::-1]


class Thread(msgspec.Struct, frozen=True):
    """A branch: its leaf, its lines from the root on, and the first of them that no earlier thread has."""

    leaf: Entry
    entries: tuple[Entry, ...]
    fork: Entry | None = None
    active: bool = False


def graph(entries: Iterable[Entry], *, sidechain: bool | None = None) -> Graph:
    """Return the graph of a file; `sidechain` picks the lines of the main conversation or of sub-agents only."""
    chosen: dict[str, Entry] = {}
    hint = None
    for entry in entries:
        record = entry.record
        if isinstance(record, LastPrompt):
            hint = record.leaf_uuid or hint
        elif record.uuid is not None and sidechain in (None, bool(record.is_sidechain)):
            chosen.pop(record.uuid, None)  # the later line takes its own place
            chosen[record.uuid] = entry
    numbers = {uuid: number for number, uuid in enumerate(chosen)}
    nodes = tuple(_node(entry, number, numbers) for number, entry in enumerate(chosen.values()))
    if any(node.parent is not None and node.parent > number for number, node in enumerate(nodes)):
        nodes = _without_cycles(nodes)  # a way that only leads back in the file is no circle
    children: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        if node.parent is not None:
            children.setdefault(node.parent, []).append(number)
    return Graph(nodes, numbers, children, hint)


def main_graph(entries: Sequence[Entry]) -> Graph:
    """Return the graph of the conversation a file is about: of a session its main one, of an agent its own."""
    main = any(is_message(entry) and not entry.record.is_sidechain for entry in entries)
    return graph(entries, sidechain=False if main else None)


def leaf(graph: Graph) -> int | None:
    """Return the line that a resumed session goes on from."""
    messages = [number for number, node in enumerate(graph.nodes) if is_message(node.entry)]
    chosen = graph.numbers.get(graph.hint or "")
    if chosen is not None:
        below = _descendants(graph, chosen)
        messages = [number for number in messages if number in below] or messages
    return messages[-1] if messages else None


def oldest_rule(graph: Graph) -> int | None:
    """Return the line that versions before 2.1.100 went on from: the message with the newest timestamp."""
    messages = [number for number, node in enumerate(graph.nodes) if is_message(node.entry)]
    return max(messages, key=lambda number: (graph.nodes[number].entry.record.timestamp or "", number), default=None)


def threads(entries: Sequence[Entry]) -> list[Thread]:
    """Return every branch of a conversation, oldest leaf first; exactly one is active."""
    whole = main_graph(entries)
    active = leaf(whole)
    if active is None:
        return []
    tips = _tips(whole, active)
    seen: set[int] = set()
    found = []
    for tip in tips:
        way = whole.path(tip)
        new = next((number for number in way if number not in seen), None)
        fork = whole.nodes[new].entry if seen and new is not None else None
        seen.update(way)
        lines = tuple(whole.nodes[number].entry for number in way)
        found.append(Thread(whole.nodes[tip].entry, lines, fork, active=tip == active))
    return found


def is_message(entry: Entry) -> bool:
    """Tell whether a line is part of the conversation itself."""
    return isinstance(entry.record, User | Assistant)


def is_boundary(entry: Entry) -> bool:
    """Tell whether a line is where a compaction cut the conversation."""
    return isinstance(entry.record, System) and entry.record.subtype == "compact_boundary"


def _node(entry: Entry, number: int, numbers: dict[str, int]) -> Node:
    record = entry.record
    wanted = record.parent_uuid
    if wanted is None and is_boundary(entry):
        wanted = getattr(record, "logical_parent_uuid", None)
    if wanted is None:
        return Node(entry)
    parent = numbers.get(wanted)
    if parent is None:
        return Node(entry, number - 1 if number else None, healed=True)
    return Node(entry, parent if parent != number else None)


def _without_cycles(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Cut each way where it comes back on itself, seen from the newest line: as one would who walks from the leaf."""
    cleared = [False] * len(nodes)
    cut: set[int] = set()
    for start in range(len(nodes) - 1, -1, -1):
        way: set[int] = set()
        at: int | None = start
        while at is not None and not cleared[at]:
            way.add(at)
            parent = nodes[at].parent
            if parent in way:
                cut.add(at)
                parent = None
            at = parent
        for number in way:
            cleared[number] = True
    if not cut:
        return nodes
    return tuple(Node(node.entry) if number in cut else node for number, node in enumerate(nodes))


def _descendants(graph: Graph, number: int) -> set[int]:
    found, pending = {number}, [number]
    while pending:
        below = graph.children.get(pending.pop(), [])
        found.update(below)
        pending += below
    return found


def _tips(graph: Graph, active: int) -> list[int]:
    """Return the leaf of each true branch: forks between prompts, not between results or blocks of one message."""
    tips = [active]
    covered = set(graph.path(active))
    for number in _ends(graph):
        new: list[int] = []
        at: int | None = number
        while at is not None and at not in covered:
            covered.add(at)
            new.append(at)
            at = graph.nodes[at].parent
        if any(_starts_branch(graph, step) for step in new):
            tips.append(number)
    return sorted(tips)


def _ends(graph: Graph) -> list[int]:
    """Return the messages that no other message follows, newest first."""
    followed: set[int] = set()
    for node in graph.nodes:
        at = node.parent if is_message(node.entry) else None
        while at is not None and at not in followed:
            followed.add(at)
            at = graph.nodes[at].parent
    numbers = range(len(graph.nodes) - 1, -1, -1)
    return [number for number in numbers if number not in followed and is_message(graph.nodes[number].entry)]


def _starts_branch(graph: Graph, number: int) -> bool:
    """Tell a fork from a result or block beside the way: a branch has a prompt or another answer of its own."""
    node = graph.nodes[number]
    match node.entry.record:
        case User(message=message):
            return not any(isinstance(block, ToolResult) for block in message.blocks)
        case Assistant(message=message):
            near = [] if node.parent is None else [node.parent, *graph.children[node.parent]]
            ids = {
                record.message.id
                for record in (graph.nodes[other].entry.record for other in near if other != number)
                if isinstance(record, Assistant)
            }
            return message.id not in ids
        case _:
            return False


def thread_lines(entries: Sequence[Entry], at: str | None = None) -> list[Entry]:
    """Return the lines that lead to a leaf: the one with this uuid, else the one a resumed session goes on from."""
    whole = main_graph(entries)
    return lines_of(whole, whole.numbers.get(at) if at is not None else leaf(whole), at)


def lines_of(whole: Graph, tip: int | None, at: str | None = None) -> list[Entry]:
    """Return the same from a graph that was made already, for one of its nodes."""
    if tip is None and at is None and whole.nodes:
        tip = len(whole.nodes) - 1  # nothing but local commands
    if tip is None:
        return []
    # A compaction after the leaf has not happened: somebody goes back to before it, or its summary was never written.
    after = [number for number in _after(whole, tip) if not is_boundary(whole.nodes[number].entry)]
    way = [*whole.path(tip), *after]
    start = max((place for place, number in enumerate(way) if is_boundary(whole.nodes[number].entry)), default=0)
    numbers = _with_siblings(whole, way[start:])
    boundary = whole.nodes[way[start]].entry.record
    if isinstance(boundary, System) and boundary.compact_metadata is not None:
        numbers = _with_preserved(whole, numbers, boundary.compact_metadata)
    return [whole.nodes[number].entry for number in numbers]


def whole_thread(whole: Graph, tip: int) -> list[int]:
    """Return all nodes that lead to one, from the root on: compactions are passed, what lies beside is there."""
    return _with_siblings(whole, whole.path(tip))


def _after(whole: Graph, tip: int) -> list[int]:
    """Return the lines that follow the leaf and are no messages: attachments, local commands."""
    found: list[int] = []
    pending = [tip]
    while pending:
        below = [n for n in whole.children.get(pending.pop(), []) if not is_message(whole.nodes[n].entry)]
        found += below
        pending += below
    return sorted(found)


def _with_siblings(whole: Graph, way: list[int]) -> list[int]:
    """Add what lies beside the way: blocks of the same messages, results of their calls. In file order."""
    first, on_way = min(way), set(way)
    if len(on_way) == len(whole.nodes) - first:
        return sorted(way)  # nothing lies beside it
    beside = [number for number in range(first, len(whole.nodes)) if number not in on_way]
    messages = {record.message.id for record in _assistants(whole, way) if record.message.id}
    blocks = [
        number
        for number, record in ((number, whole.nodes[number].entry.record) for number in beside)
        if isinstance(record, Assistant) and record.message.id in messages
    ]
    calls = {
        block.id
        for record in _assistants(whole, [*way, *blocks])
        for block in record.message.blocks
        if isinstance(block, ToolUse)
    }
    given = {result for number in way for result in _results(whole, number)}
    found = [*way, *blocks]
    for number in beside:
        results = _results(whole, number)
        if results and results <= calls and not results & given:
            found.append(number)
            given |= results
    return sorted(found)


def _with_preserved(whole: Graph, numbers: list[int], metadata: CompactMetadata) -> list[int]:
    """Put the preserved lines after the summary they belong to."""
    kept = metadata.preserved_messages
    if kept is None:
        return numbers
    preserved = [whole.numbers[uuid] for uuid in kept.all_uuids or kept.uuids if uuid in whole.numbers]
    anchor = whole.numbers.get(kept.anchor_uuid or "")
    place = numbers.index(anchor) + 1 if anchor in numbers else len(numbers)
    return [*numbers[:place], *(n for n in preserved if n not in numbers), *numbers[place:]]


def _assistants(whole: Graph, way: list[int]) -> list[Assistant]:
    records = (whole.nodes[number].entry.record for number in way)
    return [record for record in records if isinstance(record, Assistant)]


def _results(whole: Graph, number: int) -> set[str]:
    record = whole.nodes[number].entry.record
    if not isinstance(record, User):
        return set()
    return {block.tool_use_id for block in record.message.blocks if isinstance(block, ToolResult)}
