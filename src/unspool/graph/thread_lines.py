"""The lines of a thread as the program reads them: from the last compaction boundary to the leaf.

Rules
  1. The way from the leaf up, and beside it the other blocks of each message on it and the results of its calls.
  2. A compaction boundary ends the way. The lines it preserves stand after its summary.
"""

from __future__ import annotations

from collections.abc import Sequence

from unspool.format.blocks import ToolResult, ToolUse
from unspool.format.entry import Entry
from unspool.format.records import Assistant, CompactMetadata, System, User
from unspool.graph.threads import Graph, is_boundary, is_message, leaf, main_graph


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
