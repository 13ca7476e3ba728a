"""A session up to some point, on any of its branches: a session and a point in, steps out.

Rules
  1. A point is a turn (up to its end) or a line (up to it, with the rest of its answer and the results of its calls).
  2. What leads there stays, from the root on, compactions included; other branches and all that came later go.
  3. Notes before the point stay; of later ones only the titles.
"""

from __future__ import annotations

from unspool.edit.draft import Draft
from unspool.errors import NotFound, Refused
from unspool.format.blocks import ToolResult, ToolUse
from unspool.format.entry import Entry
from unspool.format.meta_records import AiTitle, CustomTitle, Tag
from unspool.format.records import Assistant, User
from unspool.graph.threads import Graph, is_boundary, is_message, main_graph, whole_thread
from unspool.graph.turns import turns


def fork(draft: Draft, at: str) -> None:
    """Note what goes: all that does not lead to a point."""
    entries = draft.manuscript.entries
    whole = main_graph(entries)
    tip = _tip(whole, _message_at(whole, _point(entries, whole, at)))
    kept = set(whole_thread(whole, tip))
    cut = max(whole.nodes[number].entry.offset for number in kept)
    if not _has_messages_below(whole, tip):
        cut = max((entry.offset for entry in entries), default=cut)
    for number, node in enumerate(whole.nodes):  # what hangs beside: progress, attachments, local commands
        if node.parent in kept and not is_message(node.entry) and node.entry.offset <= cut:
            kept.add(number)
    staying = {whole.nodes[number].entry.offset for number in kept}
    for entry in entries:
        if entry.offset not in staying and not _is_note_before(entry, cut):
            draft.remove(entry, "line", "it does not lead to the point of the fork")
    draft.end = cut
    draft.leaf = whole.nodes[tip].entry.record.uuid


def _point(entries: tuple[Entry, ...], whole: Graph, at: str) -> int:
    """Return the node that a person means: the end of a turn, or a line by the beginning of its id."""
    if at.lstrip("-").isdigit() and len(at) < 8:
        told = turns(entries)
        number = int(at) if int(at) > 0 else len(told) + 1 + int(at)
        if not 1 <= number <= len(told):
            raise NotFound(f"no such turn: `{at}`", hint=f"the session has {len(told):,}")
        turn = told[number - 1]
        nodes = [whole.numbers.get(entry.record.uuid or "") for entry in (turn.prompt, *turn.entries)]
        found = [number for number in nodes if number is not None and is_message(whole.nodes[number].entry)]
        if not found:
            raise Refused(f"turn {at} has no line to go on from", hint="name a line by its uuid")
        return found[-1]
    found = [number for uuid, number in whole.numbers.items() if uuid == at] or [
        number for uuid, number in whole.numbers.items() if uuid.startswith(at)
    ]
    if len(found) != 1:
        words = f"no line begins with `{at}`" if not found else f"`{at}` fits {len(found)} lines"
        raise NotFound(words, hint="give a turn's number, or more of a line's uuid")
    return found[0]


def _tip(whole: Graph, number: int) -> int:
    """Return the last line that belongs to a point: the end of its answer, the last result of its calls, a summary."""
    record = whole.nodes[number].entry.record
    if is_boundary(whole.nodes[number].entry):
        return next((child for child in whole.children.get(number, []) if _is_summary(whole, child)), number)
    answer = record.message.id if isinstance(record, Assistant) else None
    if isinstance(record, User):
        given = {block.tool_use_id for block in record.message.blocks if isinstance(block, ToolResult)}
        answer = next((id for id, calls in _calls(whole).items() if calls & given), None) if given else None
    if answer is None:
        return number
    calls = _calls(whole).get(answer, set())
    found = [number]
    for other, node in enumerate(whole.nodes):
        match node.entry.record:
            case Assistant(message=message) if message.id == answer:
                found.append(other)
            case User(message=message):
                if any(isinstance(block, ToolResult) and block.tool_use_id in calls for block in message.blocks):
                    found.append(other)
            case _:
                pass
    return max(found)


def _is_summary(whole: Graph, number: int) -> bool:
    record = whole.nodes[number].entry.record
    return isinstance(record, User) and record.is_compact_summary


def _message_at(whole: Graph, number: int) -> int:
    """Return the message or compaction at a node, or the nearest above it: nothing goes on from a reminder."""
    at: int | None = number
    while at is not None and not (is_message(whole.nodes[at].entry) or is_boundary(whole.nodes[at].entry)):
        at = whole.nodes[at].parent
    return number if at is None else at


def _calls(whole: Graph) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in whole.nodes:
        record = node.entry.record
        if isinstance(record, Assistant) and record.message.id and not isinstance(record.message.content, str):
            made = {block.id for block in record.message.content if isinstance(block, ToolUse)}
            found.setdefault(record.message.id, set()).update(made)
    return found


def _below(whole: Graph, number: int) -> set[int]:
    found, pending = {number}, [number]
    while pending:
        for child in whole.children.get(pending.pop(), []):
            if child not in found:
                found.add(child)
                pending.append(child)
    return found


def _has_messages_below(whole: Graph, tip: int) -> bool:
    return any(is_message(whole.nodes[number].entry) for number in _below(whole, tip) - {tip})


def _is_note_before(entry: Entry, cut: int) -> bool:
    if entry.record.uuid is not None and not entry.record.is_sidechain:
        return False
    return entry.offset <= cut or isinstance(entry.record, CustomTitle | AiTitle | Tag)
