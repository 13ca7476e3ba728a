"""The rules of the graph, and of what was used: G1 to G6 and C1. One pass over the lines, one over what it gathered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unspool.edit.rules.violation import Violation
from unspool.edit.session_view import Manuscript
from unspool.format.blocks import ToolResult, ToolUse
from unspool.format.entry import Entry
from unspool.format.meta_records import (
    AiTitle,
    ContentReplacement,
    CustomTitle,
    FileHistoryDelta,
    FileHistorySnapshot,
    LastPrompt,
    Tag,
)
from unspool.format.records import Assistant, Progress, System, User

LISTED = 64 * 1024
"""How many bytes at the beginning and the end of a file the program looks at for its list of sessions."""

_ZEROS = "00000000-0000-0000-0000-000000000000"
_SHOWN = {CustomTitle: "custom-title", AiTitle: "ai-title", Tag: "tag", LastPrompt: "last-prompt"}


def check(manuscript: Manuscript) -> list[Violation]:
    """Return what does not hold in a session's file."""
    gathered = _Gathered(manuscript)
    for entry in manuscript.entries:
        gathered.take(entry)
    return [
        *gathered.found,
        *gathered.ids(),
        *gathered.pointers(),
        *gathered.ways(),
        *gathered.results(),
        *gathered.metadata(),
        *gathered.usage(),
    ]


class _Node:
    """A line of the graph: what is asked of it later."""

    __slots__ = ("calls", "entry", "is_message", "message", "parent", "results")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.parent = entry.record.parent_uuid
        self.is_message = False
        self.message: str | None = None
        """The id of the answer it is a part of."""
        self.calls: list[str] = []
        self.results: list[str] = []


class _Gathered:
    """What the lines say of each other."""

    def __init__(self, manuscript: Manuscript) -> None:
        self.found: list[Violation] = []
        self.nodes: dict[str, _Node] = {}
        self.call_messages: dict[str, str] = {}
        """Calls, and the answer or line each is a part of."""
        self._manuscript = manuscript
        self._pointers: list[tuple[str, str, Entry]] = []
        self._replaced: list[tuple[str, Entry]] = []
        self._strangers: dict[str, tuple[int, int]] = {}
        self._roots: list[Entry] = []
        self._shown: dict[str, Entry] = {}
        self._boundaries: dict[str, Entry] = {}
        self._summarised: set[str] = set()
        self._block_order: dict[str, int] = {}
        self._used: dict[str, tuple[bool, Entry]] = {}
        self._has_leaf = False

    def take(self, entry: Entry) -> None:
        """Look at a line."""
        record = entry.record
        kind = type(record)
        if record.session_id is not None and record.session_id != self._manuscript.id:
            first, count = self._strangers.get(record.session_id, (entry.offset, 0))
            self._strangers[record.session_id] = first, count + 1
        if record.uuid is not None:
            node = self._node(entry, record.uuid)
            if kind is User or kind is Assistant:
                self._message(node, record)
            elif kind is System:
                self._system(record, entry)
        if kind in _NOTED:
            self._note(entry, kind)

    def _node(self, entry: Entry, uuid: str) -> _Node:
        if uuid in self.nodes:
            self.found.append(Violation("G1", entry.offset, "a line's id is used again", uuid))
        node = self.nodes[uuid] = _Node(entry)
        return node

    def _message(self, node: _Node, record: Any) -> None:
        node.is_message = True
        self._has_leaf = self._has_leaf or not record.is_sidechain
        if type(record) is Assistant:
            node.message = record.message.id or record.uuid
            self._answer(node, record)
        else:
            if record.is_compact_summary:
                self._summarised.add(record.parent_uuid or "")
            if source := record.source_tool_assistant_uuid:
                self._pointers.append(("sourceToolAssistantUUID", source, node.entry))
        if not isinstance(record.message.content, str):
            for block in record.message.content:
                if type(block) is ToolUse:
                    node.calls.append(block.id)
                    self.call_messages.setdefault(block.id, node.message or record.uuid)
                elif type(block) is ToolResult:
                    node.results.append(block.tool_use_id)

    def _answer(self, node: _Node, record: Assistant) -> None:
        id = node.message or ""
        if record.api_block_index is not None:
            if record.api_block_index < self._block_order.get(id, -1):
                words = "a block of an answer stands after a later one"
                self.found.append(Violation("G4", node.entry.offset, words, record.uuid or ""))
            self._block_order[id] = record.api_block_index
        if record.message.model != "<synthetic>":
            known = self._used.get(id)
            self._used[id] = ((known[0] if known else False) or record.message.usage is not None, node.entry)

    def _system(self, record: Any, entry: Entry) -> None:
        if record.subtype != "compact_boundary":
            return
        self._boundaries[record.uuid] = entry
        if record.logical_parent_uuid:
            self._pointers.append(("logicalParentUuid", record.logical_parent_uuid, entry))
        kept = record.compact_metadata.preserved_messages if record.compact_metadata else None
        for uuid in dict.fromkeys((*kept.uuids, *kept.all_uuids)) if kept else ():
            self._pointers.append(("preserved", uuid, entry))

    def _note(self, entry: Entry, kind: type) -> None:
        match entry.record:
            case LastPrompt(leaf_uuid=leaf) if leaf and leaf != _ZEROS:
                self._pointers.append(("leafUuid", leaf, entry))
            case FileHistorySnapshot(message_id=message) if message:
                self._pointers.append(("messageId", message, entry))
            case FileHistoryDelta(message_id=message) if message:
                self._pointers.append(("messageId", message, entry))
            case ContentReplacement(replacements=replacements):
                self._replaced += [(one.tool_use_id, entry) for one in replacements if one.tool_use_id]
            case Progress(parent_tool_use_id=str(call)) if call.startswith("toolu_"):
                self._replaced.append((call, entry))
            case _:
                pass
        if kind in _SHOWN:
            self._shown[_SHOWN[kind]] = entry

    def ids(self) -> Iterator[Violation]:
        """G1, G3."""
        for stranger, (offset, count) in self._strangers.items():
            words = f"another session is named, on {count:,} of its lines: `{stranger}`"
            yield Violation("G1", offset, words, f"session {stranger}")
        if not self._has_leaf:
            yield Violation("G3", 0, "there is no message to go on from", "leaf")

    def pointers(self) -> Iterator[Violation]:
        """G2, G6: what leads nowhere."""
        for name, target, entry in self._pointers:
            if target in self.nodes:
                continue
            rule = "G6" if name == "preserved" else "G2"
            yield Violation(rule, entry.offset, f"`{name}` leads to no line: `{target}`", f"{name} {target}")
        for call, entry in self._replaced:
            if call not in self.call_messages:
                yield Violation("G2", entry.offset, f"it speaks of a call that is not there: `{call}`", f"call {call}")

    def ways(self) -> Iterator[Violation]:
        """G2: parents that are not there, circles, more than one root."""
        roots = 0
        for uuid, node in self.nodes.items():
            if node.parent is None:
                if uuid not in self._boundaries and not node.entry.record.is_sidechain:
                    roots += 1
                    if roots > 1:
                        yield Violation("G2", node.entry.offset, "one more line without a parent", f"root {roots}")
            elif node.parent not in self.nodes:
                yield Violation("G2", node.entry.offset, f"its parent is not there: `{node.parent}`", uuid)
        yield from self._circles()

    def _circles(self) -> Iterator[Violation]:
        cleared: set[str] = set()
        for start in self.nodes:
            way: dict[str, None] = {}
            at: str | None = start
            while at is not None and at in self.nodes and at not in cleared and at not in way:
                way[at] = None
                at = self.nodes[at].parent
            if at is not None and at in way:
                yield Violation("G2", self.nodes[at].entry.offset, "its parents lead back to it", f"circle {at}")
            cleared.update(way)

    def results(self) -> Iterator[Violation]:
        """G4: a result hangs on its own call, or on a result of the same answer."""
        for uuid, node in self.nodes.items():
            if not node.results or not node.is_message or node.entry.record.is_sidechain:
                continue
            asked = {self.call_messages[id] for id in node.results if id in self.call_messages}
            above = self._message_above(node)
            if not asked or above is None:
                continue
            near = {above.message, *(self.call_messages.get(id) for id in above.results)}
            if asked.isdisjoint(near):
                yield Violation("G4", node.entry.offset, "a result hangs on something else than its call", uuid)

    def _message_above(self, node: _Node) -> _Node | None:
        """Return the message a line hangs on, past what is none."""
        seen = 0
        above = self.nodes.get(node.parent or "")
        while above is not None and not above.is_message and seen < 1000:
            above = self.nodes.get(above.parent or "")
            seen += 1
        return above

    def metadata(self) -> Iterator[Violation]:
        """G5."""
        size = len(self._manuscript.data)
        for name, entry in self._shown.items():
            if entry.offset > LISTED and entry.offset + entry.length < size - LISTED:
                words = f"the last `{name}` lies where no list of sessions looks"
                yield Violation("G5", entry.offset, words, name)
        for uuid, entry in self._boundaries.items():
            if uuid not in self._summarised:
                yield Violation("G5", entry.offset, "a compaction without its summary", f"boundary {uuid}")

    def usage(self) -> Iterator[Violation]:
        """C1."""
        for id, (known, entry) in self._used.items():
            if not known:
                yield Violation("C1", entry.offset, "an answer without what it used", f"usage {id}")


_NOTED = frozenset({*_SHOWN, FileHistorySnapshot, FileHistoryDelta, ContentReplacement, Progress})
