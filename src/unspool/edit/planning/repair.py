"""Plans a repair: a broken session in, one that keeps every rule out; or the reason why that cannot be done.

What is found and how it is repaired is the table of `rules/breakage.py`. Breakages are repaired one kind after the
other, and the session is read anew after each: which results are orphans is only known when every parent is.

Rules
  1. Afterwards no breakage is left and no rule is broken; else the repair is refused, with what is left.
  2. Lines that no repair touches keep every byte.
  3. Nothing is invented. A call without a result gets what Claude Code itself sends for a call that was interrupted.
  4. What goes is part of a breakage. Its bytes are in the source, or in the backup of an edit in place.
  5. The session continues from the same line, or from a result that was added after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any, NamedTuple

from unspool.edit.planning.draft import EditDraft, find_parents, repair_preserved, repeat_metadata
from unspool.edit.planning.ids import derive_uuid
from unspool.edit.planning.plan import EditIds, PlannedChange
from unspool.edit.planning.session_view import view_session
from unspool.edit.planning.shrink import format_stub, restore_hint, shorten_structured_result
from unspool.edit.rules.breakage import (
    BREAKAGES,
    FINDERS,
    Breakage,
    find_remaining_violations,
    preserved_uuids,
    standing_line,
)
from unspool.edit.rules.check import resume_context
from unspool.edit.session_text import SessionText, parse_session_text
from unspool.errors import NothingFound, Refused
from unspool.format import (
    REMOVE,
    Entry,
    Image,
    JsonPath,
    System,
    ToolResult,
    User,
    decode_plain,
    encode_json,
    format_timestamp,
    parse_timestamp,
    patch,
)
from unspool.graph.context import INTERRUPTED_CALL

_MAX_ROUNDS = 40
"""Each kind of breakage takes one round, and few bring another to light."""
_ENVELOPE = ("isSidechain", "userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug")
_ORDER = {kind: number for number, kind in enumerate(BREAKAGES)}


class RepairedSession(NamedTuple):
    """A session after its repair, under its own ids."""

    text: SessionText
    changes: tuple[PlannedChange, ...]
    removed: dict[str, int]
    """How many breakages of each kind were repaired."""
    kept_ancestors: dict[str, str | None]


def repair_session(text: SessionText, ids: EditIds, *, in_place: bool) -> RepairedSession:
    """Repair every breakage of a session; raise an error if there is none, or if one is left."""
    repair = _Repair(text, ids, in_place=in_place)
    for _ in range(_MAX_ROUNDS):
        if not (found := _find_next(repair.text)):
            break
        repair.apply(found)
    else:
        raise Refused(f"the session cannot be repaired: {_describe(_find_next(repair.text)[0])}")
    left = find_remaining_violations(repair.text)
    if left:
        first = min(left, key=lambda one: one.offset)
        what = f"{first.rule}: {first.message}"
        raise Refused(
            f"the session cannot be repaired: {what}", hint="list every broken rule with `unspool doctor --session`"
        )
    if repair.text.data == text.data:
        raise NothingFound("nothing to repair: the session keeps every rule")
    return repair.finish()


def _find_next(text: SessionText) -> list[Breakage]:
    """Return the breakages of the first kind that a session has, in file order."""
    for find in FINDERS:
        if found := sorted(find(text), key=lambda one: (_ORDER[one.kind], one.offset)):
            return [one for one in found if one.kind == found[0].kind]
    return []


def _describe(breakage: Breakage) -> str:
    return f"{BREAKAGES[breakage.kind]}, at {breakage.offset}: {breakage.message}"


class _Repair:
    """A session under repair, and what was done to it."""

    def __init__(self, text: SessionText, ids: EditIds, *, in_place: bool) -> None:
        self.text = text
        self._source, self._ids, self._in_place = text, ids, in_place
        self._changes: list[PlannedChange] = []
        self._counts: Counter[str] = Counter()
        self._kept: dict[str, str | None] = {}
        self._origins = {entry.record.uuid: entry.offset for entry in text.entries if entry.record.uuid}

    def apply(self, found: Sequence[Breakage]) -> None:
        """Repair breakages of one kind."""
        kind = found[0].kind
        self._counts[kind] += len(found)
        for one in found:
            uuid = one.entry.record.uuid if one.entry else None
            self._changes.append(PlannedChange(self._origin(one), uuid, one.block, kind, one.message))
        if kind == "torn-line":
            data = b"".join(standing_line(item, self.text.data) for item in self.text.items)
            self._replace(data)
            return
        draft = EditDraft(self.text, resume_context(self.text).leaf, in_place=True)
        _STEPS[kind](self, draft, found)
        finished = draft.finish()
        self._kept = {
            uuid: finished.kept_ancestors.get(above, above) if above is not None else None
            for uuid, above in self._kept.items()
        } | finished.kept_ancestors
        self._replace(finished.data)
        if resume_context(self.text).leaf != finished.leaf:
            raise Refused(
                f"the session cannot be repaired: without {BREAKAGES[kind]} it would continue on another branch",
                hint="copy the branch that you need with `unspool edit fork SESSION --at LINE`",
            )

    def finish(self) -> RepairedSession:
        """Return what the session has become."""
        return RepairedSession(self.text, tuple(self._changes), dict(self._counts), self._kept)

    def _replace(self, data: bytes) -> None:
        self.text = parse_session_text(self.text.id, data)

    def _origin(self, breakage: Breakage) -> int:
        """Return where a line begins in the source; for one that a repair has added, where it is now."""
        uuid = breakage.entry.record.uuid if breakage.entry else None
        if self.text is self._source or uuid not in self._origins:
            return breakage.offset
        return self._origins[uuid]

    def rename_sessions(self, draft: EditDraft, found: Iterable[Breakage]) -> None:
        """Let lines name their own session."""
        for one in found:
            assert one.entry is not None
            draft.change_value(one.entry, ("sessionId",), one.target)
            if one.entry.record.session_id_again is not None:
                draft.change_value(one.entry, ("session_id",), one.target)

    def separate_lines(self, draft: EditDraft, found: Iterable[Breakage]) -> None:
        """Remove repetitions; give another line that has the same uuid one of its own.

        Lines between the two mean the first of them: they were written before the second.
        """
        renamed: dict[int, dict[str, str]] = {}
        for one in found:
            assert one.entry is not None
            if one.target is None:
                draft.removed_lines[one.offset] = one.entry
            else:
                new = derive_uuid(self._ids.seed, f"{one.target} {one.offset}")
                renamed.setdefault(one.offset, {})[one.target] = new
                draft.change_value(one.entry, ("uuid",), new)
        current: dict[str, str] = {}
        last = {entry.record.uuid: entry.offset for entry in self.text.entries if entry.record.uuid}
        for entry in self.text.entries:
            if entry.offset in draft.removed_lines:
                continue
            if current:
                for path, pointer in _pointers(entry):
                    if pointer in current:
                        draft.change_value(entry, path, current[pointer])
            current |= renamed.get(entry.offset, {})
            if entry.record.uuid in current and entry.offset == last[entry.record.uuid]:
                del current[entry.record.uuid]

    def relink_lines(self, draft: EditDraft, found: Iterable[Breakage]) -> None:
        """Give lines the parents that they should have."""
        known = {entry.record.uuid: entry for entry in self.text.entries if entry.record.uuid}
        for one in found:
            assert one.entry is not None
            if one.field == "line":
                _move_result(draft, one.entry, one.target or "", known)
            else:
                draft.change_value(one.entry, ("parentUuid",), one.target)

    def repair_pointers(self, draft: EditDraft, found: Iterable[Breakage]) -> None:
        """Let notes refer to lines that are there; remove those that have nothing to refer to."""
        for one in found:
            assert one.entry is not None
            if one.field in ("messageId", "parentToolUseID") or (one.field == "leafUuid" and one.target is None):
                draft.removed_lines[one.offset] = one.entry
            elif one.field == "logicalParentUuid":
                draft.change_value(one.entry, (one.field,), one.target)
            elif one.field != "replacements":
                draft.change_value(one.entry, (one.field,), REMOVE if one.target is None else one.target)
        for offset, group in groupby((one for one in found if one.field == "replacements"), lambda one: one.offset):
            breakages = [*group]
            entry = breakages[0].entry
            assert entry is not None
            if len(breakages) == len(getattr(entry.record, "replacements", ())):
                draft.removed_lines[offset] = entry
                continue
            for one in reversed(breakages):  # from the end, so that the indexes before it stay valid
                draft.change_value(entry, ("replacements", one.block or 0), REMOVE)

    def finish_compactions(self, draft: EditDraft, found: Iterable[Breakage]) -> None:
        """Take compactions back that have no summary; let the others preserve what is there."""
        known = {entry.record.uuid for entry in self.text.entries if entry.record.uuid}
        for one in found:
            entry = one.entry
            assert entry is not None
            if not one.field:
                draft.removed_lines[one.offset] = entry
                continue
            metadata = entry.record.compact_metadata if isinstance(entry.record, System) else None
            assert metadata is not None
            missing: dict[str, str | None] = {uuid: None for uuid in preserved_uuids(metadata) if uuid not in known}
            values = repair_preserved(metadata, missing, find_parents(self.text))
            kept = metadata.preserved_messages
            if kept is not None and all(uuid in missing for uuid in kept.uuids):
                # A list without lines says that nothing is preserved, which is what no list says.
                values = {("compactMetadata", "preservedMessages"): REMOVE}
                if metadata.preserved_segment is not None:
                    values[("compactMetadata", "preservedSegment")] = REMOVE
            for path, value in values.items():
                draft.change_value(entry, path, value)

    def separate_calls(self, draft: EditDraft, found: Iterable[Breakage]) -> None:
        """Remove calls that are written again; give another call with the same id one of its own, and its result."""
        lines = resume_context(self.text).lines
        for one in found:
            assert one.entry is not None
            assert one.block is not None
            if one.target is None:
                _remove_block(draft, one)
                continue
            new = f"toolu_{derive_uuid(self._ids.seed, f'{one.target} {one.offset} {one.block}').replace('-', '')[:24]}"
            draft.change_value(one.entry, ("message", "content", one.block, "id"), new)
            _rename_result(draft, lines, one, new)

    def add_results(self, draft: EditDraft, found: Iterable[Breakage]) -> None:
        """Write the missing results of calls after those that are there, one line each, in front of what comes next."""
        lines = resume_context(self.text).lines
        numbers = {line.offset: number for number, line in enumerate(lines)}
        known = {line.record.uuid: line for line in lines}
        places: dict[int, list[Breakage]] = {}
        for breakage in found:
            places.setdefault(_find_end_of_batch(lines, numbers[breakage.offset], breakage), []).append(breakage)
        for at, breakages in places.items():
            following = lines[at] if at < len(lines) else None
            parent = _find_parent(lines, at, known.get(following.record.parent_uuid) if following else None)
            moment = parent.record.timestamp
            above = parent.record.uuid
            written = []
            for number, breakage in enumerate(breakages, 1):
                uuid = derive_uuid(self._ids.seed, f"result of {breakage.target} {breakage.offset}")
                written.append(self._write_result(breakage, uuid, above, _later(moment, number) or self._ids.now))
                above = uuid
            if following is not None:
                draft.change_value(following, ("parentUuid",), above)
                draft.insert_lines(following.offset, written)
            else:
                draft.insert_lines(len(self.text.data), written)
                draft.new_leaf = above

    def _write_result(self, breakage: Breakage, uuid: str, parent: str | None, moment: str) -> bytes:
        entry = breakage.entry
        assert entry is not None
        call = next((value for _, value in decode_plain(entry.raw) if isinstance(value, dict)), {})
        block: dict[str, Any] = {
            "tool_use_id": breakage.target, "type": "tool_result", "content": INTERRUPTED_CALL, "is_error": True
        }  # fmt: skip
        line = {
            "parentUuid": parent,
            **{name: call[name] for name in _ENVELOPE if name in call},
            "type": "user",
            "message": {"role": "user", "content": [block]},
            "uuid": uuid,
            "timestamp": moment,
            "toolUseResult": f"Error: {INTERRUPTED_CALL}",
            "sourceToolAssistantUUID": entry.record.uuid,
        }
        return encode_json(line) + b"\n"

    def remove_blocks(self, draft: EditDraft, found: Iterable[Breakage]) -> None:
        """Remove blocks, or whole lines where there is no block."""
        for one in found:
            _remove_block(draft, one)

    def replace_images(self, draft: EditDraft, found: Iterable[Breakage]) -> None:
        """Put a note in the place of images that the API refuses."""
        view = view_session(self.text)
        for one in found:
            entry = one.entry
            assert entry is not None
            assert one.block is not None
            block = entry.content_blocks[one.block]
            path: JsonPath = ("message", "content", one.block)
            if isinstance(block, ToolResult) and one.inner is not None:
                block, path = block.blocks[one.inner], (*path, "content", one.inner)
            data = block.source.data if isinstance(block, Image) else None
            hint = restore_hint(self.text.id, view.turn_number(entry), in_place=self._in_place)
            words = format_stub("image", len(data or ""), one.message, hint)
            draft.change_value(entry, path, {"type": "text", "text": words})
            raw = entry.record.tool_use_result if isinstance(entry.record, User) else None
            short = shorten_structured_result(raw) if raw is not None and memoryview(raw).nbytes else None
            if short is not None:
                draft.change_value(entry, ("toolUseResult",), short)

    def repeat_titles(self, draft: EditDraft, found: Iterable[Breakage]) -> None:
        """Write titles and the last prompt once more, at the end."""
        del found  # all of them are repeated together, as Claude Code does
        draft.insert_lines(len(self.text.data), repeat_metadata(self.text, resume_context(self.text).leaf))


def _pointers(entry: Entry) -> list[tuple[JsonPath, str]]:
    """Return the pointers of a line that name a line written before it."""
    record = entry.record
    found: list[tuple[JsonPath, str | None]] = [(("parentUuid",), record.parent_uuid)]
    if isinstance(record, User):
        found.append((("sourceToolAssistantUUID",), record.source_tool_assistant_uuid))
    elif isinstance(record, System):
        found.append((("logicalParentUuid",), record.logical_parent_uuid))
    return [(path, pointer) for path, pointer in found if pointer is not None]


def _move_result(draft: EditDraft, entry: Entry, call: str, known: Mapping[str, Entry]) -> None:
    """Move the line of a result up to its call, before what the conversation continued with meanwhile."""
    path = [entry]
    while path[-1].record.uuid != call:
        path.append(known[path[-1].record.parent_uuid or ""])
    path.reverse()
    batch = _message_id(path[0])
    calls = {id for line in path if _message_id(line) == batch for id in line.call_ids}
    at = 1
    while at < len(path) - 1 and (_message_id(path[at]) == batch or calls & {*path[at].answered_ids}):
        at += 1
    following = path[at]
    if following is entry or not (draft.is_untouched(entry) and draft.is_untouched(following)):
        return
    draft.removed_lines[entry.offset] = entry
    line = patch(entry.line.rstrip(b"\r\n") + b"\n", {("parentUuid",): path[at - 1].record.uuid})
    draft.insert_lines(following.offset, [line])
    draft.change_value(following, ("parentUuid",), entry.record.uuid)


def _rename_result(draft: EditDraft, lines: Sequence[Entry], call: Breakage, new: str) -> None:
    """Give the result that follows a call the new id of that call."""
    at = next((number for number, line in enumerate(lines) if line.offset == call.offset), len(lines))
    for line in lines[at + 1 :]:
        for index, block in enumerate(line.content_blocks):
            path: JsonPath = ("message", "content", index, "tool_use_id")
            is_taken = path in draft.changed_values(line)
            if isinstance(block, ToolResult) and block.tool_use_id == call.target and not is_taken:
                if _answers_earlier_call(lines, call, line):
                    continue
                draft.change_value(line, path, new)
                if isinstance(line.record, User) and line.record.source_tool_assistant_uuid and call.entry:
                    draft.change_value(line, ("sourceToolAssistantUUID",), call.entry.record.uuid)
                return


def _answers_earlier_call(lines: Sequence[Entry], call: Breakage, line: Entry) -> bool:
    """Tell whether a result hangs on the first call of an id, which has no other result."""
    source = line.record.source_tool_assistant_uuid if isinstance(line.record, User) else None
    if source is None or call.entry is None or source == call.entry.record.uuid:
        return False
    earlier = {entry.record.uuid for entry in lines if call.target in entry.call_ids and entry is not call.entry}
    return source in earlier


def _remove_block(draft: EditDraft, breakage: Breakage) -> None:
    assert breakage.entry is not None
    if breakage.block is None or not breakage.entry.content_blocks:
        draft.remove_line(breakage.entry, breakage.kind, breakage.message)
    else:
        draft.remove_block(breakage.entry, breakage.block, breakage.kind, breakage.message)


def _find_end_of_batch(lines: Sequence[Entry], at: int, call: Breakage) -> int:
    """Return the index of the first line after a call's message and the results of it."""
    assert call.entry is not None
    message_id = _message_id(call.entry)
    at = end = at + 1
    while at < len(lines):
        line = lines[at]
        if line.answered_ids or (message_id is not None and _message_id(line) == message_id):
            end = at + 1
        elif isinstance(line.record, User) or _message_id(line) is not None:
            break
        at += 1
    return end


def _message_id(entry: Entry) -> str | None:
    """Return the id of the answer that a line is a part of, or of the line itself; None if it is no answer."""
    message = getattr(entry.record, "message", None)
    if message is None or isinstance(entry.record, User):
        return None
    return message.id or entry.record.uuid or f"line {entry.offset}"


def _find_parent(lines: Sequence[Entry], at: int, above: Entry | None) -> Entry:
    """Return the line that a result is written below: what the next line hangs on, or the last of its own message."""
    return above if above is not None else next(line for line in reversed(lines[:at]) if line.record.uuid)


def _later(moment: str | None, number: int) -> str | None:
    """Return a time some milliseconds later: old versions continue from the newest."""
    parsed = parse_timestamp(moment) if moment else None
    return format_timestamp(parsed + timedelta(milliseconds=number)) if parsed else None


_STEPS: dict[str, Callable[[_Repair, EditDraft, Sequence[Breakage]], None]] = {
    "wrong-session": _Repair.rename_sessions,
    "doubled-line": _Repair.separate_lines,
    "broken-parent": _Repair.relink_lines,
    "dangling-pointer": _Repair.repair_pointers,
    "unfinished-compaction": _Repair.finish_compactions,
    "doubled-call": _Repair.separate_calls,
    "missing-result": _Repair.add_results,
    "orphan-result": _Repair.remove_blocks,
    "unsigned-thinking": _Repair.remove_blocks,
    "empty-content": _Repair.remove_blocks,
    "refused-image": _Repair.replace_images,
    "unpaired-server-tool": _Repair.remove_blocks,
    "far-title": _Repair.repeat_titles,
}
