"""Older turns become a summary, the way the program itself does it: a boundary, and a summary that hangs on it.

| the session's version | where the boundary comes           | the turns that stay                                |
|-----------------------|------------------------------------|----------------------------------------------------|
| 2.1.170 and later     | at the end of the file             | are preserved by it, as the program itself does    |
| before                | before the first turn that stays   | hang on the summary: older readers preserve nothing |

Rules
  1. Nothing is deleted: the old turns are before the boundary, out of the context. What was used stays written down.
  2. No `summary` line: that is a title, and no version of the program takes it for a compaction.
  3. New lines are written like the last one of the session: same version, same folder, same branch.

[merged: summary.py] What older turns come to, in words: prompts verbatim, files, decisions, calls, open todos. No model is asked.

A summary that a model wrote gets the prompts too: what a person asked for is never left to somebody's summary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from unspool.edit.draft import Draft
from unspool.edit.plan import Change
from unspool.edit.session_view import Call, Group, View
from unspool.edit.stubs import named
from unspool.errors import Refused
from unspool.format.blocks import Text
from unspool.format.entry import Entry
from unspool.format.json_edit import encode
from unspool.format.meta_records import AiTitle, CustomTitle, LastPrompt, Tag
from unspool.format.records import Assistant, User
from unspool.graph.threads import is_message
from unspool.graph.turns import Turn

_PRESERVES = (2, 1, 170)
_ENVELOPE = ("isSidechain", "userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug")


class Fresh(NamedTuple):
    """What new lines are made with: ids and a time come from outside."""

    boundary: str
    summary: str
    now: str


class Parts(NamedTuple):
    """The turns that become a summary, and those that stay."""

    old: list[Group]
    kept: list[Group]


def parts(seen: View, keep_last: int) -> Parts:
    """Return which turns of the context become a summary."""
    groups = seen.thread_groups
    old = groups[: max(len(groups) - max(keep_last, 0), 0)]
    if not old:
        count = len(groups)
        raise Refused(
            f"nothing to compress: of {count} turn{'' if count == 1 else 's'} in the context, {keep_last} are to stay",
            hint="a smaller `--keep-last` leaves more to compress",
        )
    return Parts(old, groups[len(old) :])


def compress(draft: Draft, seen: View, chosen: Parts, words: str, fresh: Fresh) -> None:
    """Note where boundary and summary come, and what hangs on them."""
    last = _last_node(seen)
    kept = [entry for entry in seen.lines if chosen.kept and entry.offset >= chosen.kept[0].start]
    at_end = not kept or _version(last) >= _PRESERVES
    envelope = _envelope(last)
    metadata: dict[str, Any] = {"trigger": "manual", "preTokens": _tokens(seen)}
    if at_end and kept:
        uuids = [entry.record.uuid for entry in kept if entry.record.uuid]
        messages = [entry.record.uuid for entry in kept if is_message(entry)]
        metadata["preservedSegment"] = {"headUuid": uuids[0], "anchorUuid": fresh.summary, "tailUuid": uuids[-1]}
        metadata["preservedMessages"] = {"anchorUuid": fresh.summary, "uuids": messages, "allUuids": uuids}
    before = last if at_end else _before(seen, kept[0])
    time = fresh.now if at_end else (before.record.timestamp or fresh.now)
    lines = [_boundary(envelope, before, metadata, fresh, time), _summary(envelope, words, fresh, _next(time))]
    draft.insert(len(draft.manuscript.data) if at_end else kept[0].offset, map(_line, lines))
    if at_end:
        draft.leaf = fresh.summary
        draft.insert(len(draft.manuscript.data), _again(seen, fresh))
    else:
        _hang(draft, seen, kept, fresh)
    _count(draft, seen, chosen)


def _hang(draft: Draft, seen: View, kept: list[Entry], fresh: Fresh) -> None:
    """Hang what stays on the summary."""
    staying = {entry.record.uuid for entry in kept}
    for entry in kept:
        if entry.record.parent_uuid not in staying:
            draft.change(entry, ("parentUuid",), fresh.summary)


def _count(draft: Draft, seen: View, chosen: Parts) -> None:
    draft.counts["turn"] += len(chosen.old)
    for group in chosen.old:
        prompt = next(turn.prompt for turn in seen.turns if turn.prompt.offset == group.start)
        change = Change(prompt.offset, prompt.record.uuid, None, "turn", "it is in the summary")
        draft.changes.append(change)


def _boundary(envelope: dict[str, Any], before: Entry, metadata: Any, fresh: Fresh, time: str) -> dict[str, Any]:
    return {
        "parentUuid": None,
        "logicalParentUuid": before.record.uuid,
        **envelope,
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "timestamp": time,
        "uuid": fresh.boundary,
        "level": "info",
        "compactMetadata": metadata,
    }


def _summary(envelope: dict[str, Any], words: str, fresh: Fresh, time: str) -> dict[str, Any]:
    return {
        "parentUuid": fresh.boundary,
        **envelope,
        "type": "user",
        "message": {"role": "user", "content": words},
        "isVisibleInTranscriptOnly": True,
        "isCompactSummary": True,
        "uuid": fresh.summary,
        "timestamp": time,
    }


def _next(time: str) -> str:
    """Return the moment after: of two lines with one time, old versions may go on from the first."""
    try:
        later = datetime.fromisoformat(time) + timedelta(milliseconds=1)
    except ValueError:
        return time
    return later.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _again(seen: View, fresh: Fresh) -> list[bytes]:
    """Return what lists of sessions look for at the end of a file, said once more; with the new leaf."""
    last: dict[type, Entry] = {}
    for entry in seen.manuscript.entries:
        if isinstance(entry.record, CustomTitle | AiTitle | Tag | LastPrompt):
            last[type(entry.record)] = entry
    lines = []
    for kind, entry in last.items():
        line = bytes(entry.raw).rstrip(b"\r\n") + b"\n"
        if kind is LastPrompt:
            value = msgspec.json.decode(line)
            line = _line({**value, "leafUuid": fresh.summary})
        lines.append(line)
    return lines


def _line(value: dict[str, Any]) -> bytes:
    return encode(value) + b"\n"


def _last_node(seen: View) -> Entry:
    return next(entry for entry in reversed(seen.lines) if entry.record.uuid and is_message(entry))


def _before(seen: View, first: Entry) -> Entry:
    earlier = [entry for entry in seen.lines if entry.offset < first.offset and entry.record.uuid]
    return earlier[-1] if earlier else first


def _envelope(entry: Entry) -> dict[str, Any]:
    value = msgspec.json.decode(bytes(entry.raw).strip())
    return {name: value[name] for name in _ENVELOPE if name in value}


def _version(entry: Entry) -> tuple[int, ...]:
    return tuple(int(part) for part in (entry.record.version or "").split(".") if part.isdigit())


def _tokens(seen: View) -> int:
    """Return how many tokens the last request had, as the session was told."""
    for entry in reversed(seen.lines):
        record = entry.record
        if isinstance(record, Assistant) and record.message.usage is not None:
            used = record.message.usage
            return used.input_tokens + used.cache_read_input_tokens + used.cache_creation_input_tokens
    return 0


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
