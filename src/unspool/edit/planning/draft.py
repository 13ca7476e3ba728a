"""Collects the changes of an edit (remove a line or block, change a value, insert lines) and then applies them at once.

| pointer to a removed line                      | becomes                                                        |
|------------------------------------------------|----------------------------------------------------------------|
| `parentUuid`                                   | the nearest line above that stays; none: a root                |
| `logicalParentUuid`                            | the same; none: null                                           |
| `leafUuid` of a last prompt                    | the same; none: the line is removed                            |
| `leafUuid` of a title                          | the same; none: the line to continue from                      |
| `messageId` of a snapshot or delta             | the nearest line above; removed with the prompt it is of       |
| `sourceToolAssistantUUID`                      | is removed                                                     |
| preserved lines of a compaction                | those that stay                                                |
| calls of a content replacement, of progress    | those that stay; without any, the line is removed              |

Rules
  1. A step only records what is to be done. `finish` does it, for all steps together.
  2. A pointer to a removed line is repaired as the table says: never to the previous line of the file, which may be on
     another branch.
  3. No root is added. A branch that began at a removed line, and would now begin at nothing, is removed with it.
  4. Lines that no step touched keep every byte.
  5. Where the session itself is edited, a message of which nothing is left keeps one line without content: its usage
     was billed. In a copy a message keeps such a line if no other of its lines has the usage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from unspool.edit.planning.ids import IdMap, LineCopier, rewrite_inserted_line, rewrite_line
from unspool.edit.planning.plan import PlannedChange
from unspool.edit.session_text import SessionText, parse_session_text
from unspool.errors import Refused
from unspool.format import (
    REMOVE,
    AiTitle,
    Assistant,
    CompactMetadata,
    ContentReplacement,
    CustomTitle,
    Entry,
    FileHistoryDelta,
    FileHistorySnapshot,
    Item,
    JsonPath,
    LastPrompt,
    PreservedSegment,
    Progress,
    Summary,
    System,
    Tag,
    ToolUse,
    User,
    decode,
    encode_json,
    patch,
)
from unspool.graph import is_boundary, is_message

Parents: TypeAlias = Mapping[str, str | None]
_LINE_END = ord("\n")
_SOUGHT_BYTES = 64
"""How much of a value is looked for before it is compared whole."""


class FinishedEdit(NamedTuple):
    """The bytes of the edited session, and what was changed to get them."""

    data: bytes
    changes: tuple[PlannedChange, ...]
    removed: dict[str, int]
    kept_ancestors: dict[str, str | None]
    leaf: str | None
    lines: int
    kept_in_context: tuple[str, ...]


class EditDraft:
    """Records the steps of one edit."""

    def __init__(self, text: SessionText, leaf: str | None, *, in_place: bool) -> None:
        self.text = text
        self.in_place = in_place
        self.changes: list[PlannedChange] = []
        self.removed_lines: dict[int, Entry] = {}
        """The lines to remove, by offset."""
        self.removed_calls: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.end: int | None = None
        """The offset of the last line of the new file; what lies after it is left out, also where it is no entry."""
        self.new_leaf: str | None = None
        """The line to continue from, if it is another than the session's own."""
        self.kept_in_context: tuple[str, ...] = ()
        """The lines that must still be in the context afterwards, where others leave it and stay in the file."""
        self.shortened = 0
        """By how many bytes the context became shorter."""
        self._leaf = leaf
        self._raw_values: dict[int, dict[JsonPath, memoryview]] = {}
        """The bytes that changed values have now, where they are known."""
        self._patches: dict[int, dict[JsonPath, object]] = {}
        self._removed_blocks: dict[int, set[int]] = {}
        self._inserted: dict[int, list[bytes]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no step was recorded."""
        return not (self.removed_lines or self._patches or self._removed_blocks or self._inserted)

    def remove_line(self, entry: Entry, kind: str, reason: str, *, counted: bool = True) -> None:
        """Record that a line is removed."""
        if entry.offset in self.removed_lines:
            return
        self.removed_lines[entry.offset] = entry
        self.report(entry, None, kind, reason, counted=counted)
        self.removed_calls.update(entry.call_ids)

    def remove_block(self, entry: Entry, index: int, kind: str, reason: str) -> None:
        """Record that a block of a line is removed; with the last block the line is."""
        removed = self._removed_blocks.setdefault(entry.offset, set())
        if index in removed or entry.offset in self.removed_lines:
            return
        removed.add(index)
        self.report(entry, index, kind, reason)
        blocks = entry.content_blocks
        if blocks and isinstance(block := blocks[index], ToolUse):
            self.removed_calls.add(block.id)

    def change_value(self, entry: Entry, path: JsonPath, value: object) -> None:
        """Record that a value of a line changes."""
        self._patches.setdefault(entry.offset, {})[path] = value

    def replace_value(self, entry: Entry, path: JsonPath, value: object, raw: memoryview) -> None:
        """Record that a value changes whose bytes are known: where they occur once, the line need not be parsed."""
        self._raw_values.setdefault(entry.offset, {})[path] = raw
        self.change_value(entry, path, value)

    def insert_lines(self, offset: int, lines: Iterable[bytes]) -> None:
        """Record new lines before the line at an offset; `len(data)` is the end of the file."""
        self._inserted.setdefault(offset, []).extend(lines)

    def keeps(self, entry: Entry, block: int | None = None) -> bool:
        """Return whether a line, or a block of it, stays."""
        return entry.offset not in self.removed_lines and block not in self._removed_blocks.get(entry.offset, ())

    def keep_line(self, entry: Entry) -> None:
        """Withdraw the removal of a line."""
        self.removed_lines.pop(entry.offset, None)
        self.changes = [change for change in self.changes if change.entry != entry.offset]

    def changed_values(self, entry: Entry) -> Mapping[JsonPath, object]:
        """Return the values of a line that change."""
        return self._patches.get(entry.offset, {})

    def is_untouched(self, entry: Entry) -> bool:
        """Return whether no step was recorded for a line."""
        offset = entry.offset
        return offset not in self.removed_lines and offset not in self._patches and offset not in self._removed_blocks

    def finish(self, id_map: IdMap | None = None) -> FinishedEdit:
        """Apply all steps, repair the pointers, and change ids if there are new ones."""
        self._remove_empty_lines()
        self._keep_usage()
        links = relink(self.text, self.removed_lines, self.removed_calls, self._leaf, keeps_branches=self.in_place)
        for entry, kind, reason in links.pruned:
            self.remove_line(entry, kind, reason, counted=kind != "note")
        for offset, values in links.patches.items():
            if offset not in self.removed_lines:
                self._patches.setdefault(offset, {}).update(values)
        data, lines = self._render(id_map)
        leaf = self.new_leaf or links.leaf
        if id_map is not None and leaf is not None:
            leaf = id_map.uuids.get(leaf, leaf)
        kept = self.kept_in_context
        if id_map is not None:
            kept = tuple(id_map.uuids.get(uuid, uuid) for uuid in kept)
        return FinishedEdit(data, tuple(self.changes), dict(self.counts), links.kept_ancestors, leaf, lines, kept)

    def report(self, entry: Entry, block: int | None, kind: str, reason: str, *, counted: bool = True) -> None:
        """Add a line or block to what is removed or changed, and count it among its kind."""
        self.changes.append(PlannedChange(entry.offset, entry.record.uuid, block, kind, reason))
        if counted:
            self.counts[kind] += 1

    def _remove_empty_lines(self) -> None:
        by_offset = {entry.offset: entry for entry in self.text.entries}
        for offset, indexes in self._removed_blocks.items():
            record = by_offset[offset].record
            count = len(record.message.blocks) if isinstance(record, User | Assistant) else 0
            if offset not in self.removed_lines and len(indexes) == count:
                self.removed_lines[offset] = by_offset[offset]

    def _keep_usage(self) -> None:
        """Keep one line of each message whose usage would be lost (rule 5)."""
        if not self.removed_lines:
            return
        removed: dict[str, Entry] = {}
        with_usage: set[str] = set()
        staying: set[str] = set()
        for entry in self.text.entries:
            record = entry.record
            if not isinstance(record, Assistant) or not record.message.id:
                continue
            is_removed = entry.offset in self.removed_lines
            if not is_removed:
                staying.add(record.message.id)
            if record.message.usage is not None:
                if is_removed:
                    removed[record.message.id] = entry
                else:
                    with_usage.add(record.message.id)
        for message_id, entry in removed.items():
            if message_id not in with_usage and (self.in_place or message_id in staying):
                del self.removed_lines[entry.offset]
                self._removed_blocks.pop(entry.offset, None)
                self._patches[entry.offset] = {("message", "content"): []}

    def _render(self, id_map: IdMap | None) -> tuple[bytes, int]:
        """Return the bytes of the new file and how many lines they are."""
        pieces: list[bytes | bytearray | memoryview] = []
        whole = memoryview(self.text.data)
        copier = LineCopier(id_map) if id_map is not None else None
        lines, ended = 0, True
        for item in self.text.items:
            start = item.offset
            if start in self._inserted:
                inserted = self._render_inserted(start, id_map)
                pieces += inserted
                lines += len(inserted)
            if start in self.removed_lines or (self.end is not None and start > self.end):
                continue
            if not ended:
                pieces.append(b"\n")
            if type(item) is Entry:
                lines += 1
                piece = self._render_line(item, id_map, copier)
            elif item is self.text.unfinished_line and id_map is not None:
                continue  # half a line of a session that may still be written
            else:
                piece = whole[start : start + item.length]
            pieces.append(piece)
            ended = piece[-1] == _LINE_END or self._shares_line(item)
        if pieces and pieces[-1][-1] != _LINE_END:
            pieces.append(b"\n")
        appended = self._render_inserted(len(self.text.data), id_map)
        return b"".join([*pieces, *appended]), lines + len(appended)

    def _render_inserted(self, offset: int, id_map: IdMap | None) -> list[bytes]:
        """Return the new lines before an offset."""
        return [_rewrite_inserted(line, id_map) for line in self._inserted.get(offset, ())]

    def _render_line(
        self, entry: Entry, id_map: IdMap | None, copier: LineCopier | None
    ) -> bytes | bytearray | memoryview:
        """Return a line as it becomes."""
        if entry.offset in self._patches or entry.offset in self._removed_blocks:
            return self._patch_entry(entry, id_map)
        return memoryview(entry.raw) if copier is None else copier.rewrite(entry)

    def _shares_line(self, item: Item) -> bool:
        """Return whether the next item stands on the same line and stays: then no line end belongs between them."""
        end = item.offset + item.length
        return end < len(self.text.data) and end not in self.removed_lines and end not in self._inserted

    def _patch_entry(self, entry: Entry, id_map: IdMap | None) -> bytes:
        values = self._patches.get(entry.offset, {})
        removed = self._removed_blocks.get(entry.offset, ())
        if values or removed:
            line, values = _replace_known(bytes(entry.raw), values, self._raw_values.get(entry.offset, {}))
            line = patch_line(line, values, removed)
            if id_map is None:
                return line
            (item,) = decode(line, entry.offset)
            assert isinstance(item, Entry)
            entry = item
        return rewrite_line(entry, id_map) if id_map is not None else bytes(entry.raw)


def patch_line(line: bytes, values: Mapping[JsonPath, object], removed_blocks: Iterable[int] = ()) -> bytes:
    """Return a line with values changed, and then without some of its blocks."""
    for path, value in values.items():
        try:
            line = patch(line, {path: value})
        except Refused:
            if value is not REMOVE:
                raise
    for index in sorted(removed_blocks, reverse=True):  # from the end, so that the other indexes stay valid
        line = patch(line, {("message", "content", index): REMOVE})
    return line


def _replace_known(
    line: bytes, values: Mapping[JsonPath, object], raw_values: Mapping[JsonPath, memoryview]
) -> tuple[bytes, dict[JsonPath, object]]:
    """Replace values whose bytes occur on a line exactly once; return the line, and the values still to be changed."""
    left = dict(values)
    for path, raw in raw_values.items():
        key = encode_json(path[-1]) + b":"
        old = key + raw
        # The same bytes twice: only parsing tells which of them the path means.
        if path in left and (at := _find_once(line, old)) is not None:
            line = b"".join([line[:at], key, encode_json(left.pop(path)), line[at + len(old) :]])
    return line, left


def _find_once(line: bytes, value: bytes) -> int | None:
    """Return where a value stands on a line; None if it does not, or more than once."""
    # By its beginning: `count`, and `replace` after it, each look at all of a long value before they begin.
    beginning, found = value[:_SOUGHT_BYTES], None
    at = line.find(beginning)
    while at >= 0:
        if line.startswith(value, at):
            if found is not None:
                return None
            found = at
        at = line.find(beginning, at + 1)
    return found


def _rewrite_inserted(line: bytes, id_map: IdMap | None) -> bytes:
    if id_map is None:
        return line
    (item,) = decode(line)
    assert isinstance(item, Entry)
    return rewrite_inserted_line(item, id_map)


class Relinking(NamedTuple):
    """How the lines that stay are linked."""

    patches: dict[int, dict[JsonPath, object]]
    """Values that change, by the offset of their line."""
    pruned: list[tuple[Entry, str, str]]
    """Lines that are removed as well: which, what kind, why."""
    kept_ancestors: dict[str, str | None]
    """Each removed line, with the nearest above it that stays."""
    leaf: str | None
    """The line to continue from."""


def relink(
    text: SessionText,
    removed: Mapping[int, Entry],
    removed_calls: set[str],
    leaf: str | None,
    *,
    keeps_branches: bool,
) -> Relinking:
    """Return how the lines that stay are linked when others are removed; `leaf` is the line to continue from.

    With `keeps_branches`, a branch that would begin at nothing hangs on the first line that is left instead.
    """
    pruned = [
        (entry, "progress", "progress of a removed call")
        for entry in text.entries
        if isinstance(entry.record, Progress)
        and entry.record.parent_tool_use_id in removed_calls
        and entry.offset not in removed
    ]
    all_removed = {**removed, **{entry.offset: entry for entry, _, _ in pruned}}
    if not all_removed:
        return Relinking({}, [], {}, leaf)
    parents = find_parents(text)
    ancestors = _find_kept_ancestors(text, all_removed, parents)
    orphans = _find_orphans(text, all_removed, ancestors, _ancestors(leaf, parents))
    rehung: dict[int, dict[JsonPath, object]] = {}
    if orphans and keeps_branches:
        rehung = {entry.offset: {("parentUuid",): orphans[0].record.uuid} for entry in orphans[1:]}
    elif orphans:
        lost = [*_subtrees(text, {entry.record.uuid for entry in orphans[1:]}, all_removed, parents)]
        pruned += [(entry, "branch", "it starts at a removed line") for entry in lost]
        all_removed |= {entry.offset: entry for entry in lost}
        ancestors = _find_kept_ancestors(text, all_removed, parents)
    if leaf in ancestors:
        leaf = _nearest_message(text, ancestors[leaf], parents)
    patches: dict[int, dict[JsonPath, object]] = {}
    for entry in text.entries:
        if entry.offset in all_removed:
            continue
        values = _repair_pointers(entry, ancestors, parents, removed_calls, leaf)
        if values is None:
            pruned.append((entry, "note", "it refers to removed lines"))
        elif values:
            patches[entry.offset] = {**values, **rehung.get(entry.offset, {})}
    return Relinking(patches, pruned, ancestors, leaf)


def relink_appended(data: bytes, kept_ancestors: Mapping[str, str | None]) -> bytes:
    """Return lines that were appended while a session was edited, linked to lines that are still there."""
    pieces = []
    for item in parse_session_text("", data).items:
        piece = data[item.offset : item.offset + item.length]
        if isinstance(item, Entry) and item.record.parent_uuid in kept_ancestors:
            piece = patch(piece, {("parentUuid",): kept_ancestors[item.record.parent_uuid or ""]})
        pieces.append(piece)
    return b"".join(pieces)


def relink_between(data: bytes, source: bytes, target: bytes) -> bytes:
    """Return lines that continue one version of a session, linked to continue another version of it.

    A parent that the other version does not have becomes the nearest line above it that it has.
    """
    parents = find_parents(parse_session_text("", source))
    known = {entry.record.uuid for entry in parse_session_text("", target + data).entries}
    moved = {
        uuid: next((above for above in _ancestors(uuid, parents) if above in known), None)
        for uuid in parents
        if uuid not in known
    }
    return relink_appended(data, moved)


def find_new_lines(content: bytes, before: bytes) -> bytes:
    """Return the lines of a session file that an older version of it has neither by their bytes nor by their uuid."""
    old = parse_session_text("", before)
    lines = set(before.splitlines())
    uuids = {entry.record.uuid for entry in old.entries if entry.record.uuid}
    new = [
        item
        for item in parse_session_text("", content).items
        if content[item.offset : item.offset + item.length].rstrip(b"\r\n") not in lines
        and not (isinstance(item, Entry) and item.record.uuid in uuids)
    ]
    return b"".join(content[item.offset : item.offset + item.length] for item in new)


def repeat_metadata(text: SessionText, leaf: str | None, *, end: int | None = None) -> list[bytes]:
    """Return the lines that lists of sessions look for at the end of a file, once more; with the new leaf.

    With `end`, the last prompt is the last one up to that offset, if there is one.
    """
    last: dict[type, Entry] = {}
    for entry in text.entries:
        if isinstance(entry.record, CustomTitle | AiTitle | Tag):
            last[type(entry.record)] = entry
        elif isinstance(entry.record, LastPrompt) and (LastPrompt not in last or end is None or entry.offset <= end):
            last[LastPrompt] = entry
    lines = []
    for kind, entry in last.items():
        line = bytes(entry.raw).rstrip(b"\r\n") + b"\n"
        if kind is LastPrompt:
            line = patch(line, {("leafUuid",): leaf})
        lines.append(line)
    return lines


def _nearest_message(text: SessionText, start: str | None, parents: Parents) -> str | None:
    """Return the nearest message at or above a line."""
    messages = {entry.record.uuid for entry in text.entries if is_message(entry)}
    return next((uuid for uuid in _ancestors(start, parents) if uuid in messages), None)


def find_parents(text: SessionText) -> dict[str, str | None]:
    """Return the parent of each line; one that was never written is the line before, as every reader heals it."""
    known = {entry.record.uuid for entry in text.entries if entry.record.uuid is not None}
    parents: dict[str, str | None] = {}
    before: dict[bool, str] = {}
    for entry in text.entries:
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
        parents[record.uuid] = parent if parent != record.uuid else None
        before[side] = record.uuid
    return parents


def _find_kept_ancestors(text: SessionText, removed: Mapping[int, Entry], parents: Parents) -> dict[str, str | None]:
    """Return the nearest ancestor that stays for each removed line."""
    going = {entry.record.uuid for entry in removed.values() if entry.record.uuid is not None}
    # A uuid may be on several lines: as long as one of them stays, pointers to it are right.
    going -= {entry.record.uuid for entry in text.entries if entry.record.uuid and entry.offset not in removed}
    found: dict[str, str | None] = {}
    for start in going:
        path: dict[str, None] = {}
        at: str | None = start
        while at is not None and at in going and at not in found and at not in path:
            path[at] = None
            at = parents.get(at)
        end = found[at] if at is not None and at in found else (None if at in path else at)
        found.update(dict.fromkeys(path, end))
    return found


def _find_orphans(
    text: SessionText, removed: Mapping[int, Entry], ancestors: Parents, to_leaf: Mapping[str, None]
) -> list[Entry]:
    """Return the lines that would be roots and may not, after the first one that is left (rule 3)."""
    orphans = [
        entry
        for entry in text.entries
        if entry.offset not in removed
        and entry.record.uuid is not None
        and not entry.record.is_sidechain
        and entry.record.parent_uuid is not None
        and entry.record.parent_uuid in ancestors
        and ancestors[entry.record.parent_uuid] is None
    ]
    roots = sum(1 for entry in removed.values() if _is_root(entry))
    if len(orphans) <= roots or not orphans:
        return []
    # The branch that the session continues on is the one to keep.
    orphans.sort(key=lambda entry: (entry.record.uuid not in to_leaf, entry.offset))
    return [orphans[0], *orphans[max(roots, 1) :]]


def _subtrees(
    text: SessionText, heads: set[str | None], removed: Mapping[int, Entry], parents: Parents
) -> Iterator[Entry]:
    lost = set(heads)
    for entry in text.entries:  # a parent may stand after its child, but those are not many
        record = entry.record
        if record.uuid is not None and (record.uuid in lost or parents.get(record.uuid) in lost):
            lost.add(record.uuid)
            if entry.offset not in removed:
                yield entry


def _is_root(entry: Entry) -> bool:
    record = entry.record
    return record.uuid is not None and record.parent_uuid is None and not record.is_sidechain and not is_boundary(entry)


def _ancestors(start: str | None, parents: Parents) -> dict[str, None]:
    """Return a line and all above it, nearest first; parents that lead back on themselves end it."""
    path: dict[str, None] = {}
    at = start
    while at is not None and at not in path:
        path[at] = None
        at = parents.get(at)
    return path


def _repair_pointers(
    entry: Entry, ancestors: Parents, parents: Parents, removed_calls: set[str], leaf: str | None
) -> dict[JsonPath, object] | None:
    """Return the values of a line that change; None if the line is removed."""
    record = entry.record
    values: dict[JsonPath, object] = {}
    if record.parent_uuid is not None and record.parent_uuid in ancestors:
        values[("parentUuid",)] = ancestors[record.parent_uuid]
    match record:
        case User(source_tool_assistant_uuid=str(source)) if source in ancestors:
            values[("sourceToolAssistantUUID",)] = REMOVE
        case System(logical_parent_uuid=logical, compact_metadata=metadata):
            if logical is not None and logical in ancestors:
                values[("logicalParentUuid",)] = ancestors[logical]
            if metadata is not None:
                values |= repair_preserved(metadata, ancestors, parents)
        case LastPrompt(leaf_uuid=str(target)) if target in ancestors:
            if ancestors[target] is None:
                return None
            values[("leafUuid",)] = ancestors[target]
        case Summary(leaf_uuid=str(target)) if target in ancestors:
            values[("leafUuid",)] = ancestors[target] or leaf
        case FileHistorySnapshot() | FileHistoryDelta():
            return _repair_snapshot(record, ancestors)
        case ContentReplacement(replacements=replacements) if removed_calls:
            gone = [at for at, one in enumerate(replacements) if one.tool_use_id in removed_calls]
            if replacements and len(gone) == len(replacements):
                return None
            # From the end, so that the indexes before it stay valid.
            values |= {("replacements", at): REMOVE for at in reversed(gone)}
        case _:
            pass
    return values


def _repair_snapshot(
    record: FileHistorySnapshot | FileHistoryDelta, ancestors: Parents
) -> dict[JsonPath, object] | None:
    prompt = record.snapshot.message_id if isinstance(record, FileHistorySnapshot) else record.snapshot_message_id
    if prompt in ancestors:
        return None
    if record.message_id is None or record.message_id not in ancestors:
        return {}
    left = ancestors[record.message_id]
    return {("messageId",): left} if left is not None else None


def repair_preserved(metadata: CompactMetadata, ancestors: Parents, parents: Parents) -> dict[JsonPath, object]:
    """Return the values of a compaction that change because lines it preserves are removed (`ancestors`)."""
    values: dict[JsonPath, object] = {}
    kept, segment = metadata.preserved_messages, metadata.preserved_segment
    left: list[str] = []
    if kept is not None:
        for name, uuids in (("uuids", kept.uuids), ("allUuids", kept.all_uuids)):
            staying = [uuid for uuid in uuids if uuid not in ancestors]
            left = left or staying
            if len(staying) < len(uuids):
                values[("compactMetadata", "preservedMessages", name)] = staying
    elif segment is not None:  # without a list, what is preserved is found by walking up from the tail to the head
        left = [uuid for uuid in preserved_by_segment(segment, parents) if uuid not in ancestors]
    if segment is not None and left:
        for name, uuid, end in (("headUuid", segment.head_uuid, left[0]), ("tailUuid", segment.tail_uuid, left[-1])):
            if uuid in ancestors:
                values[("compactMetadata", "preservedSegment", name)] = end
    elif segment is not None and {segment.head_uuid, segment.tail_uuid} & ancestors.keys():
        values[("compactMetadata", "preservedSegment")] = REMOVE
        values[("compactMetadata", "preservedMessages")] = REMOVE
    return values


def preserved_by_segment(segment: PreservedSegment, parents: Parents) -> list[str]:
    """Return the lines from the head of a preserved segment to its tail; none if the tail is not below the head."""
    path = [*_ancestors(segment.tail_uuid, parents)]
    return path[path.index(segment.head_uuid) :: -1] if segment.head_uuid in path else []


def preserved_lines(text: SessionText) -> set[str]:
    """Return the lines that compactions preserve."""
    found: set[str] = set()
    parents: Parents | None = None
    for entry in text.entries:
        metadata = entry.record.compact_metadata if isinstance(entry.record, System) else None
        if metadata is None:
            continue
        if (kept := metadata.preserved_messages) is not None:
            found.update(kept.uuids, kept.all_uuids)
        elif metadata.preserved_segment is not None:
            parents = find_parents(text) if parents is None else parents
            found.update(preserved_by_segment(metadata.preserved_segment, parents))
    return found
