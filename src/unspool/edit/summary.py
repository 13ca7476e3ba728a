"""What older turns come to, in words: prompts verbatim, files, decisions, calls, open todos. No model is asked.

A summary that a model wrote gets the prompts too: what a person asked for is never left to somebody's summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from unspool.edit.stubs import named
from unspool.edit.view import Call, Group, View
from unspool.format.blocks import Text
from unspool.format.entry import Entry
from unspool.format.records import Assistant, User
from unspool.graph.turns import Turn

BEGINNING = "This session is being continued from a previous conversation that ran out of context."
_CHANGING = frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"})
_DECISION = 700
_MOST_FILES = 100


def without_model(seen: View, groups: Sequence[Group], *, calls: bool) -> str:
    """Return a summary of some turns."""
    told = _told(seen, groups)
    old = [call for call in seen.calls if _within(call.entry, groups)]
    parts = [BEGINNING, _earlier(seen), "What happened, turn by turn:"]
    for turn in told:
        own = [call for call in old if _is_of(call.entry, turn)]
        parts.append(_turn(turn, own if calls else [], _number(seen, turn)))
    changed, looked_at = _files(old)
    parts += _listing("Files changed", changed) + _listing("Files read", looked_at) + _todos(old)
    return "\n\n".join(part for part in parts if part)


def with_model(seen: View, groups: Sequence[Group], words: str, *, calls: bool) -> str:
    """Return a model's summary of some turns, with what a person asked for as they asked for it."""
    told = _told(seen, groups)
    parts = [BEGINNING, "The conversation is summarized below:", words.strip()]
    parts.append("What the user asked for, word for word:")
    parts += [f"{_number(seen, turn)}. {turn.text.strip()}" for turn in told]
    if calls:
        old = [call for call in seen.calls if _within(call.entry, groups)]
        parts += _listing("Tools that were called", [_call(call) for call in old])
    return "\n\n".join(part for part in parts if part)


def _told(seen: View, groups: Sequence[Group]) -> list[Turn]:
    return [turn for turn in seen.turns if _within(turn.prompt, groups)]


def _within(entry: Entry, groups: Iterable[Group]) -> bool:
    return any(group.start <= entry.offset < group.end for group in groups)


def _is_of(entry: Entry, turn: Turn) -> bool:
    last = turn.entries[-1] if turn.entries else turn.prompt
    return turn.prompt.offset <= entry.offset <= last.offset


def _number(seen: View, turn: Turn) -> int:
    return seen.turn_of(turn.prompt)


def _earlier(seen: View) -> str:
    """Return the summary that the context begins with, if it was compacted before."""
    for entry in seen.lines:
        record = entry.record
        if isinstance(record, User) and record.is_compact_summary:
            texts = [block.text for block in record.message.blocks if isinstance(block, Text)]
            return "\n".join(["Before that:\n", *texts])
    return ""


def _turn(turn: Turn, calls: Sequence[Call], number: int) -> str:
    parts = [f"## Turn {number}", f"The user:\n{turn.text.strip()}"]
    if calls:
        parts.append("Calls:\n" + "\n".join(f"- {_call(call)}" for call in calls))
    if answer := _answer(turn):
        parts.append(f"The assistant, in the end:\n{answer}")
    return "\n\n".join(parts)


def _answer(turn: Turn) -> str:
    """Return the last words of a turn, cut where they become long."""
    for entry in reversed(turn.entries):
        record = entry.record
        if isinstance(record, Assistant) and not record.is_sidechain:
            words = "\n".join(block.text for block in record.message.blocks if isinstance(block, Text)).strip()
            if words:
                return words if len(words) <= _DECISION else f"{words[:_DECISION].rstrip()} …"
    return ""


def _call(call: Call) -> str:
    failed = " (failed)" if call.result is not None and call.result.is_error else ""
    return f"{named(call.use)}{failed}"


def _files(calls: Iterable[Call]) -> tuple[list[str], list[str]]:
    changed: dict[str, None] = {}
    looked_at: dict[str, None] = {}
    for call in calls:
        given: dict[str, Any] = call.use.input if isinstance(call.use.input, dict) else {}
        path = given.get("file_path") or given.get("notebook_path")
        if isinstance(path, str) and call.result is not None and not call.result.is_error:
            (changed if call.use.name in _CHANGING else looked_at)[path] = None
    return list(changed), [path for path in looked_at if path not in changed]


def _listing(title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    more = [f"- … and {len(items) - _MOST_FILES} more"] if len(items) > _MOST_FILES else []
    return [f"{title}:\n" + "\n".join([*(f"- {item}" for item in items[:_MOST_FILES]), *more])]


def _todos(calls: Sequence[Call]) -> list[str]:
    """Return what was still to be done by the last todo list."""
    for call in reversed(calls):
        given = call.use.input
        if call.use.name == "TodoWrite" and isinstance(given, dict) and isinstance(given.get("todos"), list):
            items = [item for item in given["todos"] if isinstance(item, dict) and item.get("status") != "completed"]
            words = [f"{item.get('content')} ({item.get('status')})" for item in items if item.get("content")]
            return _listing("Still to be done", words)
    return _tasks(calls)


def _tasks(calls: Sequence[Call]) -> list[str]:
    created = [call.use.input for call in calls if call.use.name == "TaskCreate" and isinstance(call.use.input, dict)]
    done = sum(
        1
        for call in calls
        if call.use.name == "TaskUpdate" and isinstance(call.use.input, dict)
        and call.use.input.get("status") == "completed"
    )  # fmt: skip
    words = [str(given.get("subject") or given.get("description") or "") for given in created]
    return _listing("Tasks", [*filter(None, words), f"{done} of {len(created)} completed"]) if created else []
