"""What is left of a graph, joined up: pointers to lines that go.

| pointer                                        | becomes                                                        |
|------------------------------------------------|----------------------------------------------------------------|
| `parentUuid`                                   | the nearest line above that stays; none: a root                |
| `logicalParentUuid`                            | the same; none: null                                           |
| `leafUuid` of a last prompt                    | the same; none: the line goes                                  |
| `leafUuid` of a title                          | the same; none: the line to go on from                         |
| `messageId` of a snapshot or delta             | the nearest line above; if the prompt it is of goes, so does it |
| `sourceToolAssistantUUID`                      | goes                                                           |
| preserved lines of a compaction                | those that stay                                                |
| calls of a content replacement, of progress    | those that stay; without any, the line goes                    |

Rules
  1. Never the previous line of the file: that may be on another branch.
  2. No root is added. A branch that began at a line that went, and would now begin at nothing, goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from unspool.edit.session_view import Manuscript
from unspool.format.entry import Entry
from unspool.format.json_edit import REMOVE, Path
from unspool.format.meta_records import ContentReplacement, FileHistoryDelta, FileHistorySnapshot, LastPrompt, Summary
from unspool.format.records import CompactMetadata, Progress, System, User
from unspool.graph.threads import is_boundary, is_message


class Joined(NamedTuple):
    """How what is left is joined up."""

    patches: dict[int, dict[Path, object]]
    """Values that change, by the offset of their line."""
    pruned: list[tuple[Entry, str, str]]
    """Lines that go as well: which, what kind, why."""
    moved: dict[str, str | None]
    """Each line that goes, with the nearest above it that stays."""
    leaf: str | None
    """The line to go on from."""


def joined(
    manuscript: Manuscript,
    gone: Mapping[int, Entry],
    calls_gone: set[str],
    goes_on: str | None,
    *,
    keeps_branches: bool = False,
) -> Joined:
    """Return how the lines that stay are joined up when others go; `goes_on` is the line to go on from.

    `keeps_branches`: a branch that would begin at nothing hangs on the first line that is left instead.
    """
    pruned = [
        (entry, "progress", "what a call was doing that goes")
        for entry in manuscript.entries
        if calls_gone and _is_progress_of(entry, calls_gone) and entry.offset not in gone
    ]
    all_gone = {**gone, **{entry.offset: entry for entry, _, _ in pruned}}
    if not all_gone:
        return Joined({}, [], {}, goes_on)
    above = _ancestry(manuscript)
    moved = _moved(manuscript, all_gone, above)
    orphans = _orphans(manuscript, all_gone, moved, above, goes_on)
    hung: dict[int, dict[Path, object]] = {}
    if orphans and keeps_branches:
        hung = {entry.offset: {("parentUuid",): orphans[0].record.uuid} for entry in orphans[1:]}
    elif orphans:
        lost = [*_subtrees(manuscript, {entry.record.uuid for entry in orphans[1:]}, all_gone, above)]
        pruned += [(entry, "branch", "it began at a line that goes") for entry in lost]
        all_gone |= {entry.offset: entry for entry in lost}
        moved = _moved(manuscript, all_gone, above)
    leaf_left = _message_at(manuscript, moved[goes_on], above) if goes_on in moved else goes_on
    patches: dict[int, dict[Path, object]] = {}
    for entry in manuscript.entries:
        if entry.offset in all_gone:
            continue
        values = _repaired(entry, moved, calls_gone, leaf_left)
        if values is None:
            pruned.append((entry, "note", "it speaks of lines that go"))
        elif values:
            patches[entry.offset] = {**values, **hung.get(entry.offset, {})}
    return Joined(patches, pruned, moved, leaf_left)


def nearest(uuid: str | None, moved: Mapping[str, str | None]) -> str | None:
    """Return a line, or if it goes the nearest one above it that stays."""
    return moved.get(uuid, uuid) if uuid is not None else None


def _message_at(manuscript: Manuscript, start: str | None, above: Mapping[str, str | None]) -> str | None:
    """Return the nearest message at or above a line."""
    messages = {entry.record.uuid for entry in manuscript.entries if is_message(entry)}
    at, seen = start, set[str]()
    while at is not None and at not in messages and at not in seen:
        seen.add(at)
        at = above.get(at)
    return at


def _is_progress_of(entry: Entry, calls: set[str]) -> bool:
    return isinstance(entry.record, Progress) and entry.record.parent_tool_use_id in calls


def _ancestry(manuscript: Manuscript) -> dict[str, str | None]:
    """Return the parent of each line; one that was never written is the line before, as every reader heals it."""
    known = {entry.record.uuid for entry in manuscript.entries if entry.record.uuid is not None}
    above: dict[str, str | None] = {}
    before: dict[bool, str] = {}
    for entry in manuscript.entries:
        record = entry.record
        if record.uuid is None:
            continue
        parent = record.parent_uuid
        if parent is None and is_boundary(entry):
            parent = getattr(record, "logical_parent_uuid", None)
            parent = parent if parent in known else None
        side = bool(record.is_sidechain)
        if parent is not None and parent not in known:
            parent = before.get(side)
        above[record.uuid] = parent if parent != record.uuid else None
        before[side] = record.uuid
    return above


def _moved(manuscript: Manuscript, gone: Mapping[int, Entry], above: Mapping[str, str | None]) -> dict[str, str | None]:
    going = {entry.record.uuid for entry in gone.values() if entry.record.uuid is not None}
    going -= {entry.record.uuid for entry in manuscript.entries if entry.record.uuid and entry.offset not in gone}
    moved: dict[str, str | None] = {}
    for start in going:
        way: list[str] = []
        at: str | None = start
        seen: set[str] = set()
        while at is not None and at in going and at not in moved and at not in seen:
            seen.add(at)
            way.append(at)
            at = above.get(at)
        end = moved[at] if at is not None and at in moved else (None if at in seen else at)
        moved.update(dict.fromkeys(way, end))
    return moved


def _orphans(
    manuscript: Manuscript,
    gone: Mapping[int, Entry],
    moved: Mapping[str, str | None],
    above: Mapping[str, str | None],
    goes_on: str | None,
) -> list[Entry]:
    """Return the lines that would be roots and may not, after the first one that is left (rule 2)."""
    orphans = [
        entry
        for entry in manuscript.entries
        if entry.offset not in gone
        and entry.record.uuid is not None
        and not entry.record.is_sidechain
        and entry.record.parent_uuid is not None
        and entry.record.parent_uuid in moved
        and moved[entry.record.parent_uuid] is None
    ]
    roots = sum(1 for entry in gone.values() if _is_root(entry))
    if len(orphans) <= roots or not orphans:
        return []
    way = _way_up(goes_on, above)
    orphans.sort(key=lambda entry: (entry.record.uuid not in way, entry.offset))
    return [orphans[0], *orphans[max(roots, 1) :]]


def _subtrees(
    manuscript: Manuscript, heads: set[str | None], gone: Mapping[int, Entry], above: Mapping[str, str | None]
) -> Iterator[Entry]:
    lost = set(heads)
    for entry in manuscript.entries:  # a parent may stand after its child, but those are not many
        record = entry.record
        if record.uuid is not None and (record.uuid in lost or above.get(record.uuid) in lost):
            lost.add(record.uuid)
            if entry.offset not in gone:
                yield entry


def _is_root(entry: Entry) -> bool:
    record = entry.record
    return record.uuid is not None and record.parent_uuid is None and not record.is_sidechain and not is_boundary(entry)


def _way_up(start: str | None, above: Mapping[str, str | None]) -> set[str]:
    way: set[str] = set()
    at = start
    while at is not None and at not in way:
        way.add(at)
        at = above.get(at)
    return way


def _repaired(
    entry: Entry, moved: Mapping[str, str | None], calls_gone: set[str], leaf_left: str | None
) -> dict[Path, object] | None:
    """Return the values of a line that change; None if the line goes."""
    record = entry.record
    values: dict[Path, object] = {}
    if record.parent_uuid is not None and record.parent_uuid in moved:
        values[("parentUuid",)] = moved[record.parent_uuid]
    match record:
        case User(source_tool_assistant_uuid=str(source)) if source in moved:
            values[("sourceToolAssistantUUID",)] = REMOVE
        case System(logical_parent_uuid=logical, compact_metadata=metadata):
            if logical is not None and logical in moved:
                values[("logicalParentUuid",)] = moved[logical]
            if metadata is not None:
                values |= _preserved(metadata, moved)
        case LastPrompt(leaf_uuid=str(target)) if target in moved:
            if moved[target] is None:
                return None
            values[("leafUuid",)] = moved[target]
        case Summary(leaf_uuid=str(target)) if target in moved:
            values[("leafUuid",)] = moved[target] or leaf_left
        case FileHistorySnapshot() | FileHistoryDelta():
            return _snapshot(record, moved)
        case ContentReplacement(replacements=replacements) if calls_gone:
            left = [at for at, one in enumerate(replacements) if one.tool_use_id not in calls_gone]
            if not left and replacements:
                return None
            values |= {("replacements", at): REMOVE for at in reversed(range(len(replacements))) if at not in left}
        case _:
            pass
    return values


def _snapshot(
    record: FileHistorySnapshot | FileHistoryDelta, moved: Mapping[str, str | None]
) -> dict[Path, object] | None:
    of = record.snapshot.message_id if isinstance(record, FileHistorySnapshot) else record.snapshot_message_id
    if of in moved:
        return None
    if record.message_id is None or record.message_id not in moved:
        return {}
    left = moved[record.message_id]
    return {("messageId",): left} if left is not None else None


def _preserved(metadata: CompactMetadata, moved: Mapping[str, str | None]) -> dict[Path, object]:
    values: dict[Path, object] = {}
    kept, segment = metadata.preserved_messages, metadata.preserved_segment
    left: list[str] = []
    if kept is not None:
        for name, uuids in (("uuids", kept.uuids), ("allUuids", kept.all_uuids)):
            staying = [uuid for uuid in uuids if uuid not in moved]
            left = left or staying
            if len(staying) < len(uuids):
                values[("compactMetadata", "preservedMessages", name)] = staying
    if segment is not None and left:
        for name, uuid, end in (("headUuid", segment.head_uuid, left[0]), ("tailUuid", segment.tail_uuid, left[-1])):
            if uuid in moved:
                values[("compactMetadata", "preservedSegment", name)] = end
    elif segment is not None and {segment.head_uuid, segment.tail_uuid} & moved.keys():
        values[("compactMetadata", "preservedSegment")] = REMOVE
        values[("compactMetadata", "preservedMessages")] = REMOVE
    return values
