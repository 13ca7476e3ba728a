"""Counts the lines, blocks, messages and tool calls of sessions for `unspool ls` and `unspool stats`.

Rules
  1. Lines are entries and bad lines, as for `unspool doctor`. Entries, stop reasons and blocks are counted by the line,
     messages, calls and results by their ids.
  2. A prompt that is a plain string counts as no block: the file has none there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from unspool.format import Assistant, BadLine, User, type_name
from unspool.graph import collect_uses_and_results
from unspool.home import Session
from unspool.read import kind_of

Json: TypeAlias = dict[str, Any]

STOP_REASONS = ("end_turn", "tool_use", "stop_sequence", "null")
BLOCK_KINDS = ("text", "tool_use", "tool_result", "thinking")
"""What always has a column, even if no session has it."""

_COLUMNS = {
    "file_history": "file-history-snapshot",
    "summary": "summary",
    "system": "system",
    "queue_operation": "queue-operation",
}


def session_row(session: Session) -> Json:
    """Return the row of a session in a list: what it shows and what it is filtered by."""
    facts = session.facts
    return {
        "id": session.id,
        "path": str(session.path),
        "title": session.title,
        "project": session.project,
        "cwd": session.cwd,
        "branch": facts.branch,
        "versions": list(facts.versions),
        "models": list(facts.models),
        "started": facts.started,
        "last": facts.last,
        "turns": facts.turns,
        "command_turns": facts.command_turns,
        "messages": facts.messages,
        "tool_calls": facts.tool_calls,
        "errors": facts.errors,
        "agents": len(session.agent_sources),
        "bytes": session.source.size,
        "context_tokens": facts.context_tokens,
        "project_key": session.source.project,
        "images": facts.images,
        "compactions": facts.compactions,
        "pull_requests": list(facts.pull_requests),
        "hidden": facts.hidden,
    }


def count_session(session: Session) -> Json:
    """Return the counts of a session's own file, without those of its agents."""
    entries = session.entries
    answers = [entry.record for entry in entries if isinstance(entry.record, Assistant)]
    uses, results = (by_id.keys() for by_id in collect_uses_and_results(entries))
    return {
        "lines": len(entries) + sum(isinstance(item, BadLine) for item in session.items),
        "bytes": sum(item.length for item in session.items),
        "versions": dict(Counter(entry.record.version for entry in entries if entry.record.version)),
        "entries": _count_by_frequency(kind_of(entry)[0].partition("/")[0] for entry in entries),
        "stop_reasons": _count_by_frequency(answer.message.stop_reason or "null" for answer in answers),
        # Not `message.blocks`: it makes a block of a plain string (rule 2).
        "blocks": _count_by_frequency(
            type_name(block) or "(no type)" for entry in entries for block in entry.content_blocks
        ),
        "messages": len(session.messages),
        "tool_calls": len(uses),
        "tool_results": len(results),
        "paired": len(uses & results),
        "uses_without_result": len(uses - results),
        "results_without_use": len(results - uses),
        "human_turns": sum(turn.is_human for turn in session.turns),
        "command_turns": sum(not turn.is_human for turn in session.turns),
        "text_prompts": sum(
            isinstance(entry.record, User) and isinstance(entry.record.message.content, str) for entry in entries
        ),
        "models": list(session.facts.models),
        "agents": len(session.agent_sources),
    }


def build_tables(counted: Iterable[tuple[str, Json]]) -> dict[str, list[Json]]:
    """Return counts of many sessions, by id, as three tables: an inventory, stop reasons, content blocks."""
    sessions = list(counted)
    reasons = _columns(STOP_REASONS, (counts["stop_reasons"] for _, counts in sessions))
    kinds = _columns(BLOCK_KINDS, (counts["blocks"] for _, counts in sessions))
    return {
        "sessions": [_inventory(id, counts) for id, counts in sessions],
        **{
            table: [{"id": id, **{name: counts[table].get(name, 0) for name in columns}} for id, counts in sessions]
            for table, columns in (("stop_reasons", reasons), ("blocks", kinds))
        },
    }


def _inventory(id: str, counts: Json) -> Json:
    entries = counts["entries"]
    return {
        "id": id,
        "lines": counts["lines"],
        "versions": list(counts["versions"]),
        "user": entries.get("user", 0),
        "assistant": entries.get("assistant", 0),
        "tool_calls": counts["tool_calls"],
        "human_turns": counts["human_turns"],
        **{name: entries.get(kind, 0) for name, kind in _COLUMNS.items()},
    }


def _columns(always: Sequence[str], counted: Iterable[Json]) -> list[str]:
    others = {name for counts in counted for name in counts} - set(always)
    return [*always, *sorted(others)]


def _count_by_frequency(names: Iterable[str]) -> dict[str, int]:
    return dict(Counter(names).most_common())
