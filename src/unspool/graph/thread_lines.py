"""Finds the entries that a resumed session is built from, in the order in which Claude Code puts them together.

Rules
  1. The entries of a thread are the path from the leaf up to the last compaction boundary or the root, in the order of
     the path: a line may be written before its parent (14 in 10 of 7,232 files). Where a parent was never written, or
     leads in a circle, the path goes on with the newest line that is not newer than the child, if it is at most five
     seconds older; else it begins there. (2.1.100 to 2.1.326; of lines at one moment the first in the file.)
  2. Beside the path lie the other blocks of its messages, the results of their calls, and what hangs on those alone
     (reminders, texts of skills). They are put between the lines of their message and the next prompt or answer, by
     their place in the file.
  3. What follows the leaf and is no message (attachments, local commands) comes last.
  4. The last compaction before the leaf may preserve lines: those in `preservedMessages.uuids`, or without a list
     (2.1.100) those from the tail of `preservedSegment` up to its head. They hang on the anchor one
     below the other, and what hung on the anchor hangs on the last of them: after the summary, or before it where the
     anchor is the boundary itself ("Summarize from here"). `allUuids` is not read. All other lines before the boundary
     are gone; a message that hung on one of them hangs on the last preserved line.
  5. Where a preserved line is missing, nothing is preserved.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Sequence

from unspool.format import Assistant, Attachment, CompactMetadata, Entry, Progress, System, User, milliseconds
from unspool.graph.threads import SessionGraph, build_main_graph, find_leaf, is_boundary, is_message

_MAX_GAP_MS = 5000


def find_thread_entries(entries: Sequence[Entry], leaf_uuid: str | None = None) -> list[Entry]:
    """Return the entries that lead to a leaf: the one with this uuid, else the one a resumed session continues from."""
    graph = build_main_graph(entries)
    leaf = graph.numbers.get(leaf_uuid) if leaf_uuid is not None else find_leaf(graph)
    return find_thread_entries_in_graph(graph, leaf, leaf_uuid)


def find_thread_entries_in_graph(
    graph: SessionGraph, leaf: int | None, leaf_uuid: str | None = None, *, rehang: bool = True
) -> list[Entry]:
    """Return the entries that lead to a node of a graph; without a leaf, those of a file that has no message.

    Without `rehang`, as 2.1.100 reads it, a message whose parent a compaction has not preserved has no parent.
    """
    if leaf is None and leaf_uuid is None and graph.nodes:
        leaf = len(graph.nodes) - 1  # nothing but local commands
    if leaf is None:
        return []
    links = _relink_preserved(graph, leaf, rehang)
    path = links.path(links.tail if links.tail is not None and leaf == links.anchor else leaf)
    start = max((index for index, number in enumerate(path) if is_boundary(graph.nodes[number].entry)), default=0)
    numbers = _with_siblings(graph, path[start:], links)
    known = set(numbers)
    # A compaction after the leaf does not count: the session is rewound to before it, or its summary is missing.
    numbers += [n for n in links.trailing(path[-1]) if n not in known and not is_boundary(graph.nodes[n].entry)]
    return [graph.nodes[number].entry for number in numbers]


def find_path_with_siblings(graph: SessionGraph, leaf: int) -> list[int]:
    """Return all nodes from the root to a leaf, through compactions, with what lies beside them (rule 2)."""
    return _with_siblings(graph, graph.path(leaf), _ThreadLinks(graph))


def find_preserved(graph: SessionGraph, metadata: CompactMetadata | None) -> list[int]:
    """Return the nodes that a compaction preserves, in their order; none if one of them is missing."""
    if metadata is None:
        return []
    if (kept := metadata.preserved_messages) is not None:
        numbers = [graph.numbers.get(uuid) for uuid in dict.fromkeys(kept.uuids)]
        return [] if None in numbers else [number for number in numbers if number is not None]
    segment = metadata.preserved_segment
    head = graph.numbers.get(segment.head_uuid or "") if segment else None
    number = graph.numbers.get(segment.tail_uuid or "") if segment else None
    walked: list[int] = []
    while head is not None and number is not None:
        walked.append(number)
        if number == head:
            return walked[::-1]
        number = graph.parents[number]
    return []


class _ThreadLinks:
    """The parents of the lines of a graph, some of them changed by a compaction that preserves lines (rule 4)."""

    def __init__(
        self,
        graph: SessionGraph,
        last: int | None = None,
        preserved: Sequence[int] = (),
        anchor: int | None = None,
        *,
        rehang: bool = True,
    ) -> None:
        self._graph = graph
        self._by_time: list[tuple[int, int]] | None = None
        self.anchor = anchor
        self.tail = preserved[-1] if preserved else None
        kept = set(preserved)
        self.gone = frozenset(number for number in range(last or 0) if number not in kept)
        """The lines before the compaction that it does not preserve."""
        self._parents = {} if last is None else self._relink(last, preserved, rehang)
        self._moved: dict[int, list[int]] = {}
        for number, parent in self._parents.items():
            if parent is not None:
                self._moved.setdefault(parent, []).append(number)

    def _relink(self, last: int, preserved: Sequence[int], rehang: bool) -> dict[int, int | None]:
        """Return the new parent of each line that gets one."""
        graph = self._graph
        parents: dict[int, int | None] = {}
        for number in range(last + 1, len(graph.nodes)) if rehang else ():
            node = graph.nodes[number]
            if node.parent in self.gone and is_message(node.entry) and not node.healed:
                parents[number] = self.tail
        if self.anchor is not None:
            parents.update(dict.fromkeys(graph.children.get(self.anchor, ()), self.tail))
        parents.update(zip(preserved, [self.anchor, *preserved], strict=False))
        return {**parents, last: None}

    def path(self, leaf: int) -> list[int]:
        """Return the lines from the first to a leaf."""
        path: dict[int, None] = {}  # what a file says of its anchor may lead in a circle
        number: int | None = leaf
        while number is not None and number not in path and number not in self.gone:
            path[number] = None
            number = self._parents[number] if number in self._parents else self._find_parent(number, path)
        return [*path][::-1]

    def _find_parent(self, number: int, path: Container[int]) -> int | None:
        node, parent = self._graph.nodes[number], self._graph.parents[number]
        if parent is not None and not node.healed and parent not in path and parent not in self.gone:
            return parent
        # A boundary has no parent of its own, and nothing before it is read.
        if node.entry.record.parent_uuid is None:
            return parent
        return self._find_line_before(number, path)

    def _find_line_before(self, number: int, path: Container[int]) -> int | None:
        """Return the newest line that is not newer than a line, within the time that Claude Code allows (rule 1)."""
        time = milliseconds(self._graph.nodes[number].entry.record.timestamp)
        if time is None:
            return None
        if self._by_time is None:
            self._by_time = sorted(
                (at, -other)
                for other, node in enumerate(self._graph.nodes)
                if other not in self.gone and (at := milliseconds(node.entry.record.timestamp)) is not None
            )
        for index in range(bisect_right(self._by_time, (time, 1)) - 1, -1, -1):
            at, other = self._by_time[index]
            if time - at > _MAX_GAP_MS:
                return None
            if -other not in path:
                return -other
        return None

    def children(self, number: int) -> list[int]:
        """Return the lines that hang on a line, in file order."""
        own = self._graph.children.get(number, [])
        if not self._parents:
            return own
        staying = [n for n in own if n not in self._parents and n not in self.gone]
        return sorted([*staying, *self._moved.get(number, [])])

    def trailing(self, leaf: int) -> list[int]:
        """Return the lines that follow the leaf and are no messages (rule 3)."""
        trailing: dict[int, None] = {}
        pending = [leaf]
        while pending:
            below = [n for n in self.children(pending.pop()) if not is_message(self._graph.nodes[n].entry)]
            below = [n for n in below if n not in trailing]
            trailing.update(dict.fromkeys(below))
            pending += below
        return sorted(trailing)


def _relink_preserved(graph: SessionGraph, leaf: int, rehang: bool) -> _ThreadLinks:
    """Return the links of a graph after the last compaction before a leaf."""
    last = next((n for n in range(leaf, -1, -1) if is_boundary(graph.nodes[n].entry)), None)
    boundary = graph.nodes[last].entry.record if last is not None else None
    metadata = boundary.compact_metadata if isinstance(boundary, System) else None
    preserved = find_preserved(graph, metadata)
    kept = (metadata.preserved_messages or metadata.preserved_segment) if metadata else None
    if last is None or kept is None or not preserved:
        return _ThreadLinks(graph)
    return _ThreadLinks(graph, last, preserved, graph.numbers.get(kept.anchor_uuid or ""), rehang=rehang)


class _Answer:
    """The lines of one message of the model, and those that belong to it and lie beside the path."""

    def __init__(self) -> None:
        self.lines: list[int] = []
        self.results: list[int] = []
        self.beside: list[int] = []
        self.has_calls = False


def _with_siblings(graph: SessionGraph, path: list[int], links: _ThreadLinks) -> list[int]:
    """Put what lies beside a path between its lines (rule 2)."""
    on_path, first = set(path), min(path)
    beside = [n for n in range(first, len(graph.nodes)) if n not in on_path and n not in links.gone]
    if not beside:
        return path
    answers = _find_answers(graph, path, beside)
    seen = on_path.union(number for answer in answers for number in answer.beside)
    at = {number: index for index, number in enumerate(path)}
    windows: list[tuple[int, int, list[int]]] = []
    for answer in answers:
        own = [at[number] for number in answer.lines if number in at]
        start, end = own[0], max(own) + 1
        message_id = graph.message_id(path[start])
        while end < len(path) and _belongs_to_answer(graph.nodes[path[end]].entry, message_id):
            end += 1
        if answer.has_calls:
            for number in [*answer.lines, *answer.results, *path[start + 1 : end]]:
                for child in links.children(number):
                    tail = _find_tail(graph, links, child, seen)
                    seen.update(tail)
                    answer.beside += tail
        if answer.beside:
            windows.append((start, end, answer.beside))
    return _merge_windows(path, windows)


def _find_answers(graph: SessionGraph, path: list[int], beside: list[int]) -> list[_Answer]:
    """Return the messages of the model on a path, each with its other blocks and the results of its calls."""
    answers: dict[str | int, _Answer] = {}
    for number in path:
        if graph.is_answer(number):
            answers.setdefault(graph.message_id(number) or number, _Answer()).lines.append(number)
    for number in beside:
        if graph.is_answer(number) and (answer := answers.get(graph.message_id(number) or number)) is not None:
            answer.lines.append(number)
            answer.beside.append(number)
    asking: dict[str, _Answer] = {}
    for answer in answers.values():
        for number in answer.lines:
            for id in graph.nodes[number].entry.call_ids:
                asking[id] = answer
                answer.has_calls = True
    answered: set[str] = set()
    for number in path:
        ids = graph.nodes[number].entry.answered_ids
        answered.update(ids)
        if ids and ids[0] in asking:
            asking[ids[0]].results.append(number)
    for number in beside:
        ids = graph.nodes[number].entry.answered_ids
        # The first result of a call counts (`tool_calls.py`, rule 2).
        if ids and asking.keys() >= set(ids) and answered.isdisjoint(ids):
            asking[ids[0]].results.append(number)
            asking[ids[0]].beside.append(number)
            answered.update(ids)
    return [*answers.values()]


def _belongs_to_answer(entry: Entry, message_id: str | None) -> bool:
    """Tell whether a line on the path comes before what the next prompt or answer begins."""
    match entry.record:
        case Assistant(message=message):
            return message_id is not None and message.id == message_id
        case User(is_meta=is_meta):
            return bool(is_meta) or bool(entry.answered_ids)
        case Attachment() | Progress():
            return True
        case System():
            return not is_boundary(entry)
        case _:
            return False


def _find_tail(graph: SessionGraph, links: _ThreadLinks, number: int, seen: set[int]) -> list[int]:
    """Return a chain of lines that are no conversation of their own; none if it leads to one, or forks."""
    tail: list[int] = []
    following = [number]
    while following:
        number = following[0]
        record = graph.nodes[number].entry.record
        is_meta = isinstance(record, User) and record.is_meta and not graph.nodes[number].entry.answered_ids
        is_note = isinstance(record, Attachment) or (
            isinstance(record, System) and record.subtype != "compact_boundary"
        )
        if number in seen or len(following) > 1 or not (is_meta or is_note):
            return []
        tail.append(number)
        following = [child for child in links.children(number) if child not in seen]
    return tail


def _merge_windows(path: list[int], windows: list[tuple[int, int, list[int]]]) -> list[int]:
    """Put lines into parts of a path, each before the first line of its part that comes later in the file."""
    ordered: list[int] = []
    done = 0
    windows.sort(key=lambda window: window[0])
    while windows:
        start, end, added = windows.pop(0)
        while windows and windows[0][0] < end:  # messages whose lines are mixed
            _, other_end, more = windows.pop(0)
            end, added = max(end, other_end), [*added, *more]
        ordered += path[done : start + 1]
        waiting = sorted(added, reverse=True)
        for number in path[start + 1 : end]:
            while waiting and waiting[-1] < number:
                ordered.append(waiting.pop())
            ordered.append(number)
        ordered += waiting[::-1]
        done = end
    return [*ordered, *path[done:]]
