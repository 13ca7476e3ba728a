"""Removes texts from the lines of a session or of an agent.

Rules
  1. Lines stay, with their ids and parents: only what they say changes. So turns keep their numbers, and the same
     command does the same again.
  2. A thinking block has a signature: one with a text to remove goes as a whole.
  3. Lines that hold nothing to remove keep every byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from unspool.edit.planning.draft import EditDraft, FinishedEdit
from unspool.edit.planning.plan import PlannedChange
from unspool.edit.planning.session_view import SessionView
from unspool.edit.rules.check import resume_context
from unspool.edit.session_text import SessionText, parse_session_text
from unspool.format import Assistant, Entry, Text, Thinking, User
from unspool.graph import AgentFile, link_agents
from unspool.redact import TextRemoval

SHORTEST_TEXT = 12
"""Characters of a text of removed turns that is searched for elsewhere; shorter ones stand everywhere."""
LONGEST_TEXT = 2000
"""Characters of a text that is searched for; of a longer one, its beginning."""


def redact_session_text(
    text: SessionText, removal: TextRemoval, *, whole: bool = False, is_own: Callable[[Entry], bool] = lambda _: True
) -> FinishedEdit:
    """Return a session or agent without the texts that are to go. `whole`: without any text of its lines."""
    pieces, changes, counts = list[bytes](), list[PlannedChange](), Counter[str]()
    thinking: dict[int, list[int]] = {}
    at = 0
    for item in text.items:
        raw = text.data[item.offset : item.offset + item.length]
        body = raw.removesuffix(b"\n")
        cleaned = body
        if not isinstance(item, Entry) or is_own(item):
            cleaned = removal.clean_lines(body, whole=whole)
        if cleaned != body:
            uuid = item.record.uuid if isinstance(item, Entry) else None
            changes.append(PlannedChange(item.offset, uuid, None, "line", "a text to remove is in it"))
            counts["line"] += 1
            if isinstance(item, Entry) and (blocks := _changed_thinking(body, cleaned)):
                thinking[at] = blocks
        pieces += [cleaned, raw[len(body) :]]
        at += len(cleaned) + len(raw) - len(body)
    result = parse_session_text(text.id, b"".join(pieces))
    draft = EditDraft(result, resume_context(result).leaf, in_place=True)
    for entry in result.entries:
        for index in thinking.get(entry.offset, ()):
            draft.remove_block(entry, index, "thinking", "a text to remove is in it")
    if draft.is_empty and text.data.endswith(b"\n"):
        # Not by `finish`: it would look after pointers that the source never had right.
        lines = len(result.entries)
        leaf = resume_context(result).leaf
        return FinishedEdit(result.data, tuple(changes), dict(counts), {}, leaf, lines, ())
    finished = draft.finish()
    return finished._replace(changes=(*changes, *finished.changes), removed={**counts, **finished.removed})


def _changed_thinking(before: bytes, after: bytes) -> list[int]:
    """Return the numbers of the thinking blocks of a line that are no longer as they were signed."""
    try:
        old, new = (msgspec.json.decode(line)["message"]["content"] for line in (before, after))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return []
    if not isinstance(old, list) or not isinstance(new, list):
        return []
    return [
        number
        for number, (one, other) in enumerate(zip(old, new, strict=False))
        if isinstance(one, dict) and one.get("type") in ("thinking", "redacted_thinking") and one != other
    ]


def find_turn_lines(view: SessionView, numbers: range) -> list[Entry]:
    """Return the lines of some turns: from a prompt up to the next one."""
    first = [turn.prompt.offset for turn in view.turns]
    found = []
    for entry in view.text.entries:
        if view.turn_number(entry) in numbers and (first and entry.offset >= first[0]):
            found.append(entry)
    return found


def find_turn_agents(text: SessionText, lines: Sequence[Entry], agents: Sequence[AgentFile]) -> set[str]:
    """Return the ids of the agents that were started on some lines, and of those that these started."""
    calls = {id for entry in lines for id in entry.call_ids}
    linked = {agent.id: agent.call.id for agent in link_agents(text.entries, agents) if agent.call}
    found: set[str] = set()
    while more := {id for id, call in linked.items() if call in calls} - found:
        found |= more
        calls |= {id for agent in agents if agent.id in more for entry in agent.entries for id in entry.call_ids}
    return found


def list_texts(lines: Sequence[Entry]) -> Iterator[str]:
    """Yield the texts of lines that may stand beside the session too: prompts, answers and thinking."""
    for entry in lines:
        record = entry.record
        if not isinstance(record, User | Assistant):
            continue
        for block in record.message.blocks:
            if isinstance(block, Text):
                yield from _searchable(block.text)
            elif isinstance(block, Thinking):
                yield from _searchable(block.thinking)


def _searchable(text: object) -> Iterator[str]:
    if isinstance(text, str) and len(text.strip()) >= SHORTEST_TEXT:
        yield text.strip()[:LONGEST_TEXT]
        # Lists of sessions and titles hold the beginning of a prompt, on one line.
        first = text.strip().splitlines()[0].strip()
        if len(first) >= SHORTEST_TEXT:
            yield first[:LONGEST_TEXT]
