"""Checks how the lines of a session refer to each other (rules G1 to G6), and that usage is recorded (C1).

One pass over the lines collects what they say of each other; the rules are then checked on what was collected.
"""

from __future__ import annotations

from collections.abc import Iterator

from unspool.edit.rules.violation import Violation
from unspool.edit.session_text import SessionText
from unspool.format import Assistant, Entry, Progress, System, ToolResult, ToolUse, User
from unspool.format import meta_records as meta
from unspool.graph import is_message

_LISTED_BYTES = 64 * 1024
"""How many bytes at the beginning and the end of a file Claude Code looks at for its list of sessions."""
_MAX_STEPS_UP = 1000
_NO_LEAF = "00000000-0000-0000-0000-000000000000"
_LISTED = {
    meta.CustomTitle: "custom-title", meta.AiTitle: "ai-title", meta.Tag: "tag", meta.LastPrompt: "last-prompt",
}  # fmt: skip
_WITH_POINTERS = frozenset(
    {*_LISTED, meta.FileHistorySnapshot, meta.FileHistoryDelta, meta.ContentReplacement, Progress}
)


def check_graph_rules(text: SessionText) -> list[Violation]:
    """Return where a session's file breaks the rules of the graph and of usage."""
    lines = _CollectedLines(text)
    for entry in text.entries:
        lines.add(entry)
    return [
        *lines.violations,
        *lines.check_ids(),
        *lines.check_pointers(),
        *lines.check_parents(),
        *lines.check_results(),
        *lines.check_metadata(),
        *lines.check_usage(),
    ]


class _CollectedLines:
    """What the lines of a session say of each other."""

    def __init__(self, text: SessionText) -> None:
        self.violations: list[Violation] = []
        self._text = text
        self._lines: dict[str, Entry] = {}
        """The lines by their ids."""
        self._result_ids: dict[str, list[str]] = {}
        """Lines with results, and the calls that these are of."""
        self._call_messages: dict[str, str] = {}
        """Calls, and the message or line each is a part of."""
        self._pointers: list[tuple[str, str, Entry]] = []
        self._named_calls: list[tuple[str, Entry]] = []
        self._other_sessions: dict[str, tuple[int, int]] = {}
        self._listed: dict[str, Entry] = {}
        self._boundaries: dict[str, Entry] = {}
        self._summarised: set[str] = set()
        self._block_order: dict[str, int] = {}
        self._has_usage: dict[str, tuple[bool, Entry]] = {}
        self._has_leaf = False

    def add(self, entry: Entry) -> None:
        """Collect what a line says."""
        record = entry.record
        kind = type(record)
        if record.session_id is not None and record.session_id != self._text.id:
            first, count = self._other_sessions.get(record.session_id, (entry.offset, 0))
            self._other_sessions[record.session_id] = first, count + 1
        if record.uuid is not None:
            if record.uuid in self._lines:
                self.violations.append(Violation("G1", entry.offset, "duplicate line id", record.uuid))
                self._result_ids.pop(record.uuid, None)
            self._lines[record.uuid] = entry
            if type(record) is User or type(record) is Assistant:
                self._add_message(entry, record)
            elif isinstance(record, System):
                self._add_boundary(record, entry)
        if kind in _WITH_POINTERS:
            self._add_pointers(entry)
            if kind in _LISTED:
                self._listed[_LISTED[kind]] = entry

    def _add_message(self, entry: Entry, record: User | Assistant) -> None:
        self._has_leaf = self._has_leaf or not record.is_sidechain
        if isinstance(record, Assistant):
            self._add_response(entry, record)
        else:
            if record.is_compact_summary:
                self._summarised.add(record.parent_uuid or "")
            if source := record.source_tool_assistant_uuid:
                self._pointers.append(("sourceToolAssistantUUID", source, entry))
        for block in entry.content_blocks:
            if type(block) is ToolUse:
                self._call_messages.setdefault(block.id, _message_id(entry) or record.uuid or "")
            elif type(block) is ToolResult:
                self._result_ids.setdefault(record.uuid or "", []).append(block.tool_use_id)

    def _add_response(self, entry: Entry, record: Assistant) -> None:
        id = _message_id(entry) or ""
        if record.api_block_index is not None:
            if record.api_block_index < self._block_order.get(id, -1):
                words = "a block of a response is out of order"
                self.violations.append(Violation("G4", entry.offset, words, record.uuid or ""))
            self._block_order[id] = record.api_block_index
        if record.message.model != "<synthetic>":  # Claude Code's own words: nothing was billed for them
            known, _ = self._has_usage.get(id, (False, None))
            self._has_usage[id] = (known or record.message.usage is not None, entry)

    def _add_boundary(self, record: System, entry: Entry) -> None:
        if record.subtype != "compact_boundary":
            return
        self._boundaries[record.uuid or ""] = entry
        if record.logical_parent_uuid:
            self._pointers.append(("logicalParentUuid", record.logical_parent_uuid, entry))
        kept = record.compact_metadata.preserved_messages if record.compact_metadata else None
        for uuid in dict.fromkeys((*kept.uuids, *kept.all_uuids)) if kept else ():
            self._pointers.append(("preserved", uuid, entry))

    def _add_pointers(self, entry: Entry) -> None:
        match entry.record:
            case meta.LastPrompt(leaf_uuid=leaf) if leaf and leaf != _NO_LEAF:
                self._pointers.append(("leafUuid", leaf, entry))
            case meta.FileHistorySnapshot(message_id=message) | meta.FileHistoryDelta(message_id=message) if message:
                self._pointers.append(("messageId", message, entry))
            case meta.ContentReplacement(replacements=replacements):
                self._named_calls += [(one.tool_use_id, entry) for one in replacements if one.tool_use_id]
            case Progress(parent_tool_use_id=str(call)) if call.startswith("toolu_"):
                self._named_calls.append((call, entry))
            case _:
                pass

    def check_ids(self) -> Iterator[Violation]:
        """Check G1 and G3."""
        for session, (offset, count) in self._other_sessions.items():
            words = f"{count:,} lines name another session: `{session}`"
            yield Violation("G1", offset, words, f"session {session}")
        if not self._has_leaf:
            yield Violation("G3", 0, "no message to resume from", "leaf")

    def check_pointers(self) -> Iterator[Violation]:
        """Check G2 and G6: pointers that lead nowhere."""
        for name, target, entry in self._pointers:
            if target in self._lines:
                continue
            rule = "G6" if name == "preserved" else "G2"
            yield Violation(rule, entry.offset, f"`{name}` points to a missing line: `{target}`", f"{name} {target}")
        for call, entry in self._named_calls:
            if call not in self._call_messages:
                yield Violation("G2", entry.offset, f"it refers to a missing call: `{call}`", f"call {call}")

    def check_parents(self) -> Iterator[Violation]:
        """Check G2: parents that are not there, circles, more than one root."""
        roots = 0
        parents = {uuid: entry.record.parent_uuid for uuid, entry in self._lines.items()}
        for uuid, entry in self._lines.items():
            parent = parents[uuid]
            if parent is None:
                if uuid not in self._boundaries and not entry.record.is_sidechain:
                    roots += 1
                    if roots > 1:
                        yield Violation("G2", entry.offset, "a second line without a parent", f"root {roots}")
            elif parent not in parents:
                yield Violation("G2", entry.offset, f"missing parent: `{parent}`", uuid)
        cleared: set[str] = set()  # each line is walked once: a chain of n lines must not take n² steps
        for start in parents:
            path: dict[str, None] = {}
            at: str | None = start
            while at is not None and at in parents and at not in cleared and at not in path:
                path[at] = None
                at = parents[at]
            if at is not None and at in path:
                yield Violation("G2", self._lines[at].offset, "its parents form a cycle", f"circle {at}")
            cleared.update(path)

    def check_results(self) -> Iterator[Violation]:
        """Check G4: a result hangs on its own call, or on a result of the same message."""
        for uuid, ids in self._result_ids.items():
            entry = self._lines[uuid]
            if entry.record.is_sidechain:
                continue
            asking = {self._call_messages[id] for id in ids if id in self._call_messages}
            above = self._message_above(entry) if asking else None
            if above is None:
                continue
            beside = self._result_ids.get(above.record.uuid or "", ())
            near = {_message_id(above), *(self._call_messages.get(id) for id in beside)}
            if asking.isdisjoint(near):
                yield Violation("G4", entry.offset, "the parent of a result is not its call", uuid)

    def _message_above(self, entry: Entry) -> Entry | None:
        """Return the message that a line hangs on, past lines that are none."""
        above = self._lines.get(entry.record.parent_uuid or "")
        # A limit, because parents may lead in circles, and for linear time.
        for _ in range(_MAX_STEPS_UP):
            if above is None or is_message(above):
                break
            above = self._lines.get(above.record.parent_uuid or "")
        return above

    def check_metadata(self) -> Iterator[Violation]:
        """Check G5."""
        size = len(self._text.data)
        for name, entry in self._listed.items():
            if entry.offset > _LISTED_BYTES and entry.offset + entry.length < size - _LISTED_BYTES:
                words = f"the last `{name}` is too far from the end of the file to be listed"
                yield Violation("G5", entry.offset, words, name)
        for uuid, entry in self._boundaries.items():
            if uuid not in self._summarised:
                yield Violation("G5", entry.offset, "compaction without summary", f"boundary {uuid}")

    def check_usage(self) -> Iterator[Violation]:
        """Check C1."""
        for id, (known, entry) in self._has_usage.items():
            if not known:
                yield Violation("C1", entry.offset, "response without usage", f"usage {id}")


def _message_id(entry: Entry) -> str | None:
    """Return the id of the message that a line of the model is a part of."""
    record = entry.record
    return (record.message.id or record.uuid) if isinstance(record, Assistant) else None
