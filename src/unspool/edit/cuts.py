"""Whole turns that go, and lines outside the context.

Rules
  1. A conversation is cut where a prompt begins, nowhere else: a turn goes with all its lines, calls with results.
  2. A compaction and its summary stay, and what it preserves; so does what the program itself keeps (modes, titles, …).
  3. Of notes that are written again and again, the last one counts; that one stays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from unspool.edit.steps import Draft
from unspool.edit.view import Group, View, boundary
from unspool.errors import Refused
from unspool.format.entry import Entry
from unspool.format.envelope import Unknown
from unspool.format.notes import (
    AgentColor,
    AgentName,
    AgentSetting,
    AiTitle,
    ApiRequest,
    ApiRequestBlob,
    ApiRequestShape,
    CostState,
    CustomTitle,
    FileHistoryDelta,
    FileHistorySnapshot,
    LastPrompt,
    Mode,
    PermissionMode,
    QueueOperation,
    Tag,
    TaskSummary,
    ToolsUsed,
)
from unspool.format.records import Progress, User
from unspool.graph.threads import is_boundary

_LAST_COUNTS = (
    CustomTitle, AiTitle, TaskSummary, Tag, AgentName, AgentColor, AgentSetting, Mode, PermissionMode, LastPrompt,
    CostState, ToolsUsed,
)  # fmt: skip
_REQUESTS = (ApiRequest, ApiRequestShape, ApiRequestBlob)


def remove_turns(draft: Draft, seen: View, wanted: range) -> None:
    """Note that turns go, by number."""
    if not wanted or wanted[0] > len(seen.turns) or wanted[-1] < 1:
        raise Refused(f"there are no such turns; the session has {len(seen.turns):,}")
    whole = [group for group in seen.groups if set(group.numbers) <= set(wanted)]
    if not whole:
        around = next(group.numbers for group in seen.groups if set(group.numbers) & set(wanted))
        raise Refused(
            "what was typed while a turn was under way cannot go without it",
            hint=f"the whole of it: `--range {around.start}..{around.stop - 1}`",
        )
    if all(group in whole for group in seen.thread_groups):
        raise Refused("nothing would be left of the conversation", hint="leave a turn of it")
    _remove_groups(draft, seen, whole)


def keep_last(draft: Draft, seen: View, count: int) -> None:
    """Note that all turns of the context go but the last; what a compaction preserved stays."""
    compaction = boundary(seen.lines)
    since = compaction.offset if compaction else 0
    groups = [group for group in seen.thread_groups if group.start >= since]
    _remove_groups(draft, seen, groups[: max(len(groups) - max(count, 1), 0)])


def remove_outside(draft: Draft, seen: View) -> None:
    """Note that lines outside the context go."""
    here = {entry.offset for entry in seen.lines}
    last = {type(entry.record): entry.offset for entry in seen.manuscript.entries}
    for entry in seen.manuscript.entries:
        record = entry.record
        if isinstance(record, Unknown):
            continue
        if record.uuid is not None:
            if entry.offset not in here or isinstance(record, Progress):
                draft.remove(entry, "line outside", _where(entry))
        elif isinstance(record, _LAST_COUNTS):
            if last[type(record)] != entry.offset:
                draft.remove(entry, "line outside", "a later one of its kind counts")
        elif isinstance(record, _REQUESTS):
            draft.remove(entry, "line outside", "a copy of what was sent")
        elif isinstance(record, FileHistorySnapshot | FileHistoryDelta):
            continue  # they go with what they belong to


def _where(entry: Entry) -> str:
    if isinstance(entry.record, Progress):
        return "what a tool was doing"
    if is_boundary(entry):
        return "an earlier compaction"
    return "a sub-agent's" if entry.record.is_sidechain else "before the last compaction, or on another branch"


def _remove_groups(draft: Draft, seen: View, groups: Sequence[Group]) -> None:
    kept = _preserved(seen)
    draft.counts["turn"] += len(groups)
    starts = [group.start for group in groups]
    for entry in seen.manuscript.entries:
        at = bisect_right(starts, entry.offset) - 1
        if at >= 0 and entry.offset < groups[at].end and _goes(entry, kept):
            draft.remove(entry, "line", f"turn {groups[at].numbers.start}", counted=False)
    for call in seen.calls:  # a result that came after the next prompt goes with its call, and the other way
        if call.result_entry is None:
            continue
        if call.entry.offset in draft.gone and call.result_entry.offset not in draft.gone:
            draft.remove_block(call.result_entry, call.result_index, "result", "its call goes")
        elif call.result_entry.offset in draft.gone and call.entry.offset not in draft.gone:
            draft.keep(call.result_entry)


def _goes(entry: Entry, kept: set[str]) -> bool:
    record = entry.record
    if isinstance(record, QueueOperation):
        return True
    if record.uuid is None or record.uuid in kept or isinstance(record, Unknown) or is_boundary(entry):
        return False
    return not (isinstance(record, User) and record.is_compact_summary)


def _preserved(seen: View) -> set[str]:
    """Return the lines that a compaction outside the turns preserves."""
    kept: set[str] = set()
    for entry in seen.manuscript.entries:
        metadata = getattr(entry.record, "compact_metadata", None)
        if metadata is not None and metadata.preserved_messages is not None:
            kept.update(metadata.preserved_messages.all_uuids or metadata.preserved_messages.uuids)
    return kept
