"""Plans a fork: keeps a session up to a turn or line, on any of its branches.

Rules
  1. A point is a turn (up to its end) or a line (up to it, with the rest of its message and the results of its calls).
  2. What leads there stays, from the root on, compactions included; other branches and all that came later are removed.
  3. Notes before the point stay. The last titles and the last prompt are repeated at the end, where lists of sessions
     look for them; the prompt names the line to continue from, which need not be the last of the file.
"""

from __future__ import annotations

from unspool.display import amount
from unspool.edit.planning.draft import EditDraft, repeat_metadata
from unspool.errors import NotFound, Refused, turn_not_found
from unspool.format import Entry, User
from unspool.graph import (
    SessionGraph,
    Speaker,
    build_main_graph,
    classify_user_record,
    find_path_with_siblings,
    is_boundary,
    is_message,
    split_turns,
)


def plan_fork(draft: EditDraft, point: str) -> None:
    """Record that every line is removed that does not lead to a point."""
    entries = draft.text.entries
    graph = build_main_graph(entries)
    tip = _find_tip(graph, _message_at(graph, _find_point(entries, graph, point)))
    kept = set(find_path_with_siblings(graph, tip))
    cut = max(graph.nodes[number].entry.offset for number in kept)
    if not any(is_message(graph.nodes[number].entry) for number in _descendants(graph, tip)):
        # No message follows the point: notes after it, to the end of the file, belong to it.
        cut = max((entry.offset for entry in entries), default=cut)
    for number, node in enumerate(graph.nodes):  # what hangs beside: progress, attachments, local commands
        if node.parent in kept and not is_message(node.entry) and node.entry.offset <= cut:
            kept.add(number)
    staying = {graph.nodes[number].entry.offset for number in kept}
    for entry in entries:
        if entry.offset not in staying and not _is_kept_note(entry, cut):
            draft.remove_line(entry, "line", "not on the path to the fork point")
    draft.end = cut
    draft.new_leaf = graph.nodes[tip].entry.record.uuid
    draft.insert_lines(len(draft.text.data), repeat_metadata(draft.text, draft.new_leaf, end=cut))


def _find_point(entries: tuple[Entry, ...], graph: SessionGraph, point: str) -> int:
    """Return the node that a person names: the end of a turn by number, or a line by the beginning of its id."""
    # Fewer than eight digits are a turn's number: so many digits in a row may begin a uuid.
    if point.lstrip("-").isdigit() and len(point) < 8:
        session_turns = split_turns(entries)
        number = int(point) if int(point) > 0 else len(session_turns) + 1 + int(point)
        if not 1 <= number <= len(session_turns):
            raise turn_not_found(point, amount(len(session_turns), "turn"))
        turn = session_turns[number - 1]
        nodes = [graph.numbers.get(entry.record.uuid or "") for entry in (turn.prompt, *turn.entries)]
        found = [number for number in nodes if number is not None and is_message(graph.nodes[number].entry)]
        # A line may be written before its parent: what hangs on a later prompt is not of this turn.
        later = {graph.numbers.get(other.prompt.record.uuid or "") for other in session_turns[number:]}
        found = [node for node in found if later.isdisjoint(graph.path(node))] if later else found
        if not found:
            raise Refused(
                f"turn {point} has no line to fork from",
                hint="name a line by its uuid; list branches with `unspool show SESSION --tree`",
            )
        # What a task tells after the last answer is sent with the next prompt. Claude Code 2.1.326 leaves it out if a
        # session ends with it.
        while len(found) > 1 and _is_notification(graph.nodes[found[-1]].entry):
            found.pop()
        return found[-1]
    found = [number for uuid, number in graph.numbers.items() if uuid == point] or [
        number for uuid, number in graph.numbers.items() if uuid.startswith(point)
    ]
    if len(found) != 1:
        words = f"no line id starts with `{point}`" if not found else f"`{point}` fits {len(found)} lines"
        raise NotFound(words, hint="give a turn number, or more of a line's uuid")
    return found[0]


def _find_tip(graph: SessionGraph, number: int) -> int:
    """Return the last line that belongs to a point: the end of its message, the last result of its calls, a summary."""
    entry = graph.nodes[number].entry
    if is_boundary(entry):
        return next((child for child in graph.children.get(number, []) if _is_summary(graph, child)), number)
    message_id = graph.message_id(number)
    if results := set(entry.answered_ids):
        calling = (other for other, node in enumerate(graph.nodes) if results.intersection(node.entry.call_ids))
        message_id = next(filter(None, map(graph.message_id, calling)), None)
    if message_id is None:
        return number
    lines = [other for other in range(len(graph.nodes)) if graph.message_id(other) == message_id]
    calls = {id for other in lines for id in graph.nodes[other].entry.call_ids}
    results_at = (other for other, node in enumerate(graph.nodes) if calls.intersection(node.entry.answered_ids))
    return max(number, *lines, *results_at)


def _is_summary(graph: SessionGraph, number: int) -> bool:
    record = graph.nodes[number].entry.record
    return isinstance(record, User) and record.is_compact_summary


def _is_notification(entry: Entry) -> bool:
    return isinstance(entry.record, User) and classify_user_record(entry.record) is Speaker.NOTIFICATION


def _message_at(graph: SessionGraph, number: int) -> int:
    """Return the message or compaction at a node, or the nearest above it: no session continues from a reminder."""
    at: int | None = number
    while at is not None and not (is_message(graph.nodes[at].entry) or is_boundary(graph.nodes[at].entry)):
        at = graph.nodes[at].parent
    return number if at is None else at


def _descendants(graph: SessionGraph, number: int) -> set[int]:
    found: set[int] = set()
    pending = [number]
    while pending:
        for child in graph.children.get(pending.pop(), []):
            if child not in found and child != number:
                found.add(child)
                pending.append(child)
    return found


def _is_kept_note(entry: Entry, cut: int) -> bool:
    if entry.record.uuid is not None and not entry.record.is_sidechain:
        return False
    return entry.offset <= cut
