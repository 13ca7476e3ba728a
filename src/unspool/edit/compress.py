"""Older turns become a summary, the way the program itself does it: a boundary, and a summary that hangs on it.

| the session's version | where the boundary comes           | the turns that stay                                |
|-----------------------|------------------------------------|----------------------------------------------------|
| 2.1.170 and later     | at the end of the file             | are preserved by it, as the program itself does    |
| before                | before the first turn that stays   | hang on the summary: older readers preserve nothing |

Rules
  1. Nothing is deleted: the old turns are before the boundary, out of the context. What was used stays written down.
  2. No `summary` line: that is a title, and no version of the program takes it for a compaction.
  3. New lines are written like the last one of the session: same version, same folder, same branch.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from unspool.edit.plan import Change
from unspool.edit.steps import Draft
from unspool.edit.view import Group, View
from unspool.errors import Refused
from unspool.format.entry import Entry
from unspool.format.notes import AiTitle, CustomTitle, LastPrompt, Tag
from unspool.format.patch import encode
from unspool.format.records import Assistant
from unspool.graph.threads import is_message

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
