"""Finds the breakages of a session that `unspool edit repair` can repair, and says each in plain words.

| breakage                | what is wrong                                       | the repair                        |
|-------------------------|-----------------------------------------------------|-----------------------------------|
| `torn-line`             | bytes that are no line: torn, glued, without an end | whole lines stay, each on its own |
| `wrong-session`         | lines name another session: the file was copied     | they name this one                |
| `doubled-line`          | two lines have one uuid                             | a repetition goes, else a new id  |
| `broken-parent`         | a parent is missing, parents form a circle          | the line before is the parent     |
| `dangling-pointer`      | a note refers to a line or call that is missing     | it refers to another, or goes     |
| `unfinished-compaction` | no summary; preserved lines are missing             | the boundary goes; the rest stays |
| `doubled-call`          | two calls have one id                               | a repetition goes, else a new id  |
| `missing-result`        | a call without a result                             | a result says: interrupted        |
| `orphan-result`         | a result without its call, or a second one          | it goes                           |
| `unsigned-thinking`     | no signature; or no text, in old versions           | the block goes                    |
| `empty-content`         | a message without content, a blank text             | it goes                           |
| `refused-image`         | an image that is too large, or is no image          | a note stands in its place        |
| `unpaired-server-tool`  | a call that the API runs, without its result        | it goes                           |
| `far-title`             | a title too far from the ends to be listed          | it is repeated at the end         |

Rules
  1. What is found is what a repair changes; a session without a breakage is left alone.
  2. Calls, results, texts, thinking and images are looked at where the session continues: in the lines that a resume
     sends. All else is looked at in the whole file.
  3. A second root is no breakage: a session that was rewound to before its first prompt has two. Nor is a response
     without usage, which nobody can know any more.
  4. Finding takes time linear in the bytes of the session.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from unspool.api.rules import find_problems
from unspool.edit.rules.check import check_api_rules, check_line_rules, resume_context, resume_request
from unspool.edit.rules.graph import check_graph_rules
from unspool.edit.rules.recorded_messages import RecordedMessage, as_context, group_turns, recorded_messages
from unspool.edit.rules.violation import Violation
from unspool.edit.session_text import SessionText
from unspool.format import (
    Assistant,
    BadLine,
    Blank,
    CompactMetadata,
    ContentReplacement,
    Entry,
    FileHistoryDelta,
    FileHistorySnapshot,
    Item,
    LastPrompt,
    Progress,
    RedactedThinking,
    System,
    Thinking,
    ToolUse,
    User,
    decode_plain,
    milliseconds,
    parse_version,
)
from unspool.graph import is_boundary, is_message
from unspool.graph.context import ContextBlock

BREAKAGES = {
    "torn-line": "bytes that are no complete line",
    "wrong-session": "lines that name another session, as after a copy of the file",
    "doubled-line": "two lines with the same uuid",
    "broken-parent": "lines whose parent is missing or leads in a circle",
    "dangling-pointer": "notes that refer to a missing line or call",
    "unfinished-compaction": "a compaction without its summary or its preserved lines",
    "doubled-call": "two tool calls with the same id",
    "missing-result": "tool calls without a result",
    "orphan-result": "tool results without their call, or a second one",
    "unsigned-thinking": "thinking that the API did not sign",
    "empty-content": "empty messages and blank texts",
    "refused-image": "images that the API refuses",
    "unpaired-server-tool": "calls that the API runs itself, without their result",
    "far-title": "a title or last prompt where session lists do not look",
}
"""Each breakage in plain words, in the order in which they are repaired."""

_FIRST_WITHHELD_THINKING = (2, 1, 64)
"""From this version on the text of thinking is often withheld, and a signature alone is sound."""
_MAX_GAP_MS = 5000
_MAX_STEPS_UP = 10_000
_MAX_LINES_BACK = 100
"""How many lines before a line are tried as its parent: the first nearly always does."""
_NO_LEAF = "00000000-0000-0000-0000-000000000000"
_IMAGE_PLACE = re.compile(
    r"messages\.(\d{1,9})\.content\.(\d{1,9})(?:\.tool_result\.content\.(\d{1,9}))?\.image\.source"
)
_SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
_ENVELOPE = frozenset(
    {"sessionId", "session_id", "parentUuid", "timestamp", "cwd", "version", "gitBranch", "slug", "userType",
     "entrypoint", "forkedFrom"}
)  # fmt: skip


class Breakage(NamedTuple):
    """One thing that is broken: which, where, and what the repair needs to know."""

    kind: str
    offset: int
    message: str
    entry: Entry | None = None
    block: int | None = None
    inner: int | None = None
    """The index of an image inside of a tool result."""
    target: str | None = None
    """The uuid that a pointer should have; of a call or result, the id of the call."""
    field: str = ""
    """The pointer that is broken."""


def find_breakages(text: SessionText) -> list[Breakage]:
    """Return everything in a session that a repair would change, in the order of repair and of place."""
    order = {kind: number for number, kind in enumerate(BREAKAGES)}
    found = [breakage for find in FINDERS for breakage in find(text)]
    return sorted(found, key=lambda one: (order[one.kind], one.offset))


def find_remaining_violations(text: SessionText) -> list[Violation]:
    """Return the rules that a repaired session breaks, but those that only compare two states (rule 3)."""
    context = resume_context(text)
    recorded = as_context(recorded_messages(context.lines))
    found = [*check_line_rules(text), *check_api_rules(context.messages)]
    # What a conversation begins with is in the context: attachments, which are not recorded as messages.
    found += [one for one in check_api_rules(recorded) if "first message" not in one.message]
    return [one for one in found if one.rule != "C1" and not (one.rule == "G2" and one.subject.startswith("root "))]


def find_torn_lines(text: SessionText) -> Iterator[Breakage]:
    """Yield bytes that are no line, and lines that do not stand alone."""
    for item in text.items:
        end = item.offset + item.length
        if isinstance(item, BadLine):
            yield Breakage("torn-line", item.offset, f"{item.length:,} bytes: {item.reason}")
        elif isinstance(item, Entry) and ("NUL padding" in item.flaws or "byte order mark" in item.flaws):
            yield Breakage("torn-line", item.offset, "padding around a line", item)
        elif not text.data.endswith(b"\n", 0, end) and not isinstance(item, Blank):
            words = "two lines written as one" if end < len(text.data) else "the last line has no line end"
            yield Breakage("torn-line", item.offset, words, item)
        elif isinstance(item, Blank) and end == len(text.data) and not text.data.endswith(b"\n"):
            yield Breakage("torn-line", item.offset, "white space after the last line end")


def standing_line(item: Item, data: bytes) -> bytes:
    """Return the bytes of an item as a line of its own; none of what is no line."""
    raw = data[item.offset : item.offset + item.length]
    if isinstance(item, BadLine) or (isinstance(item, Blank) and not raw.endswith(b"\n")):
        return b""
    if isinstance(item, Entry) and item.flaws:
        raw = raw.strip(b"\0\xef\xbb\xbf \t\r\n")
    return raw if raw.endswith(b"\n") else raw + b"\n"


def find_wrong_sessions(text: SessionText) -> Iterator[Breakage]:
    """Yield the lines that name another session than the file."""
    for entry in text.entries:
        if entry.record.session_id is not None and entry.record.session_id != text.id:
            words = f"it names session `{entry.record.session_id[:36]}`"
            yield Breakage("wrong-session", entry.offset, words, entry, target=text.id)


def find_doubled_lines(text: SessionText) -> Iterator[Breakage]:
    """Yield the earlier of two lines with one uuid; `target` is empty where it is the same line written again.

    Every reader takes the later one, so it is the earlier one that goes, or gets another id.
    """
    last: dict[str, Entry] = {}
    for entry in reversed(text.entries):
        uuid = entry.record.uuid
        if uuid is None:
            continue
        if uuid in last:
            is_same = _content(entry) == _content(last[uuid])
            words = "the same line is written again later" if is_same else "another line has its uuid"
            yield Breakage("doubled-line", entry.offset, words, entry, target=None if is_same else uuid)
        else:
            last[uuid] = entry


def _content(entry: Entry) -> object:
    """Return what a line says, apart from where and when it was written."""
    values = [value for _, value in decode_plain(entry.raw) if isinstance(value, dict)]
    return [{key: item for key, item in value.items() if key not in _ENVELOPE} for value in values]


def find_broken_parents(text: SessionText) -> Iterator[Breakage]:
    """Yield lines whose parent is not in the file, leads in a circle, or is not the call of a result."""
    known = {entry.record.uuid: entry for entry in text.entries if entry.record.uuid is not None}
    parents = {uuid: entry.record.parent_uuid for uuid, entry in known.items()}
    callers = _find_callers(text)
    if _find_circles(parents) or not {parent for parent in parents.values() if parent is not None} <= known.keys():
        found = _LostParents(known, callers, parents)
        found.walk_up(resume_context(text).leaf)
        found.find_others()
        yield from found.breakages
    yield from _find_misplaced_results(text, known, callers)


class _LostParents:
    """Finds lines without the parent that they should have, and the one that they get.

    A result gets its call, a summary its boundary. Any other line gets what Claude Code takes for its parent: the
    newest line that is not newer, if it is at most five seconds older; else the line before it in the file.
    """

    def __init__(self, known: dict[str, Entry], callers: dict[str, str], parents: dict[str, str | None]) -> None:
        self.breakages: list[Breakage] = []
        self._known, self._callers, self._parents = known, callers, parents
        self._by_time = sorted(
            (time, -number, uuid)
            for number, (uuid, entry) in enumerate(known.items())
            if not entry.record.is_sidechain and (time := milliseconds(entry.record.timestamp)) is not None
        )
        self._sides: dict[bool, list[str]] = {False: [], True: []}
        self._places: dict[str, int] = {}
        self._boundaries: dict[str, str | None] = {}
        boundary: str | None = None
        for uuid, entry in known.items():
            side = self._sides[bool(entry.record.is_sidechain)]
            self._places[uuid] = len(side)
            side.append(uuid)
            self._boundaries[uuid] = boundary
            boundary = uuid if is_boundary(entry) else boundary

    def walk_up(self, leaf: str | None) -> None:
        """Find them on the thread: from the leaf upwards, as Claude Code walks it, past each that is found."""
        path: dict[str, None] = {}
        at = leaf
        while at is not None and at in self._known:
            path[at] = None
            parent = self._parents[at]
            if parent is not None and (parent in path or parent not in self._known):
                parent = next((other for other in self._near(at) if other not in path), None)
                self._add(at, parent)
            at = parent

    def find_others(self) -> None:
        """Find those that are not on the thread; what they get is never a line below them."""
        circles = _find_circles(self._parents)
        topmost = _TopmostLines(self._parents, circles)
        for uuid in self._known:
            parent = self._parents[uuid]
            if uuid in circles or (parent is not None and parent not in self._known):
                target = next((other for other in self._near(uuid) if topmost.find(other) != uuid), None)
                if target is not None:
                    topmost.hang(uuid, target)
                self._add(uuid, target)

    def _add(self, uuid: str, target: str | None) -> None:
        entry, parent = self._known[uuid], self._parents[uuid]
        words = "its parents lead in a circle" if parent in self._known else f"missing parent: `{parent}`"
        self._parents[uuid] = target
        self.breakages.append(Breakage("broken-parent", entry.offset, words, entry, target=target, field="parentUuid"))

    def _near(self, uuid: str) -> Iterator[str]:
        """Yield the lines that may be the parent of a line, the best first."""
        entry = self._known[uuid]
        record = entry.record
        boundary = self._boundaries[uuid]
        if isinstance(record, User) and record.is_compact_summary and boundary is not None:
            yield boundary
        if (caller := _find_caller(entry, self._callers)) is not None:
            yield caller
        if not record.is_sidechain:
            yield from _find_newest_before(entry, self._by_time)
        place = self._places[uuid]
        yield from reversed(self._sides[bool(record.is_sidechain)][max(place - _MAX_LINES_BACK, 0) : place])


def _find_newest_before(entry: Entry, by_time: list[tuple[int, int, str]]) -> Iterator[str]:
    """Yield the lines that are not newer than a line and at most five seconds older, the newest first."""
    time = milliseconds(entry.record.timestamp)
    if time is None:
        return
    end = bisect_right(by_time, (time, 1))
    for at, _, uuid in reversed(by_time[max(end - _MAX_LINES_BACK, 0) : end]):
        if time - at > _MAX_GAP_MS:
            return
        if uuid != entry.record.uuid:
            yield uuid


class _TopmostLines:
    """The topmost line above each line, found in nearly linear time."""

    def __init__(self, parents: Mapping[str, str | None], circles: set[str]) -> None:
        self._above: dict[str, str] = {
            uuid: parent
            for uuid, parent in parents.items()
            if uuid not in circles and parent is not None and parent in parents
        }

    def find(self, uuid: str) -> str:
        """Return the topmost line above a line: itself where it has no parent."""
        path = []
        while uuid in self._above:
            path.append(uuid)
            uuid = self._above[uuid]
        for passed in path:  # so that the next walk is short
            self._above[passed] = uuid
        return uuid

    def hang(self, uuid: str, parent: str) -> None:
        """Hang a topmost line on another line."""
        self._above[uuid] = parent


def _find_misplaced_results(text: SessionText, known: dict[str, Entry], callers: dict[str, str]) -> Iterator[Breakage]:
    """Yield results that do not hang on their call: with the field `line` where the line itself must be moved.

    Between a call and its result on the thread stand lines that must stay on it. A result whose call is not above it is
    no result of it there: it is an orphan.
    """
    on_thread: set[str | None] | None = None
    for violation in check_graph_rules(text):
        if violation.rule != "G4" or violation.subject not in known or "parent of a result" not in violation.message:
            continue
        entry = known[violation.subject]
        target = _find_caller(entry, callers)
        if target is None or target == entry.record.parent_uuid or _is_above(entry, target, known):
            continue
        if on_thread is None:
            on_thread = {line.record.uuid for line in resume_context(text).lines}
        if entry.record.uuid not in on_thread:
            field = "parentUuid"
        elif _is_above(known[target], entry.record.uuid or "", known):
            field = "line"
        else:
            continue
        yield Breakage("broken-parent", entry.offset, violation.message, entry, target=target, field=field)


def _find_callers(text: SessionText) -> dict[str, str]:
    """Return the line of each call, by the id of the call."""
    return {id: entry.record.uuid for entry in text.entries if entry.record.uuid for id in entry.call_ids}


def _find_caller(entry: Entry, callers: dict[str, str]) -> str | None:
    found = next((callers[id] for id in entry.answered_ids if id in callers), None)
    return found if found != entry.record.uuid else None


def _find_circles(parents: dict[str, str | None]) -> set[str]:
    """Return the line of each circle of parents where a walk from the newest line upwards, as readers do it, ends."""
    found: set[str] = set()
    cleared: set[str] = set()  # each line is walked once: a chain of n lines must not take n² steps
    for start in reversed(parents):
        path: dict[str, None] = {}
        at: str | None = start
        while at is not None and at in parents and at not in cleared and at not in path:
            path[at] = None
            at = parents[at]
        if at is not None and at in path:
            found.add(next(reversed(path)))
        cleared.update(path)
    return found


def _is_above(entry: Entry, target: str, known: dict[str, Entry]) -> bool:
    """Tell whether a line is above another: then it cannot hang on it."""
    at: str | None = target
    # A limit, because parents may lead in circles, and for linear time.
    for _ in range(_MAX_STEPS_UP):
        if at is None or at not in known or at == entry.record.uuid:
            break
        at = known[at].record.parent_uuid
    return at == entry.record.uuid


def find_dangling_pointers(text: SessionText) -> Iterator[Breakage]:
    """Yield notes that refer to a line or call that is not in the file.

    They get a target; without one the pointer goes, or the note.
    """
    yield from _find_missing_lines(text)
    calls = {
        block.id
        for entry in text.entries
        if is_message(entry)
        for block in entry.content_blocks
        if type(block) is ToolUse
    }
    for entry in text.entries:
        for number, call, field in _named_calls(entry):
            if call not in calls:
                words = f"it refers to a missing call: `{call}`"
                yield Breakage("dangling-pointer", entry.offset, words, entry, block=number, field=field)


def _named_calls(entry: Entry) -> list[tuple[int, str, str]]:
    """Return the calls that a note refers to: the number of the reference, the id, the field."""
    match entry.record:
        case ContentReplacement(replacements=replacements):
            named = enumerate(one.tool_use_id for one in replacements)
            return [(number, id, "replacements") for number, id in named if id]
        case Progress(parent_tool_use_id=str(call)) if call.startswith("toolu_"):
            return [(0, call, "parentToolUseID")]
        case _:
            return []


def _find_missing_lines(text: SessionText) -> Iterator[Breakage]:
    known = {entry.record.uuid for entry in text.entries if entry.record.uuid is not None}
    hints = [entry.offset for entry in text.entries if isinstance(entry.record, LastPrompt) and entry.record.leaf_uuid]
    callers = _find_callers(text)
    leaf: str | None = None
    message: str | None = None
    before: str | None = None
    for entry in text.entries:
        field, pointer = _named_line(entry)
        if pointer and pointer not in known:
            target: str | None = None
            if field == "leafUuid":
                # The last of them chooses what is resumed: that must stay what it is now.
                leaf = leaf or resume_context(text).leaf
                target = leaf if message is None or entry.offset == hints[-1] else message
            elif field == "logicalParentUuid":
                target = before
            elif field == "sourceToolAssistantUUID":
                target = _find_caller(entry, callers)
            words = f"`{field}` points to a missing line: `{pointer}`"
            yield Breakage("dangling-pointer", entry.offset, words, entry, target=target, field=field)
        if entry.record.uuid is not None and not entry.record.is_sidechain:
            before = entry.record.uuid
            message = entry.record.uuid if is_message(entry) else message


def _named_line(entry: Entry) -> tuple[str, str | None]:
    """Return the pointer of a line to another that is not its parent, and the uuid that it has."""
    match entry.record:
        case LastPrompt(leaf_uuid=pointer) if pointer != _NO_LEAF:
            return "leafUuid", pointer
        case FileHistorySnapshot(message_id=pointer) | FileHistoryDelta(message_id=pointer):
            return "messageId", pointer
        case System(logical_parent_uuid=pointer) if is_boundary(entry):
            return "logicalParentUuid", pointer
        case User(source_tool_assistant_uuid=pointer):
            return "sourceToolAssistantUUID", pointer
        case _:
            return "", None


def find_unfinished_compactions(text: SessionText) -> Iterator[Breakage]:
    """Yield boundaries without a summary, and those that preserve lines which are not there."""
    known = {entry.record.uuid for entry in text.entries if entry.record.uuid is not None}
    summarised = {
        entry.record.parent_uuid
        for entry in text.entries
        if isinstance(entry.record, User) and entry.record.is_compact_summary and entry.record.uuid
    }
    for entry in text.entries:
        if not is_boundary(entry) or entry.record.uuid is None:
            continue
        if entry.record.uuid not in summarised:
            yield Breakage("unfinished-compaction", entry.offset, "its summary was never written", entry)
            continue
        metadata = entry.record.compact_metadata if isinstance(entry.record, System) else None
        missing = [uuid for uuid in preserved_uuids(metadata) if uuid not in known]
        if missing:
            words = f"it preserves {len(missing):,} lines that are not in the file"
            yield Breakage("unfinished-compaction", entry.offset, words, entry, field="compactMetadata")


def preserved_uuids(metadata: CompactMetadata | None) -> list[str]:
    """Return the lines that a compaction names as preserved."""
    if metadata is None:
        return []
    kept, segment = metadata.preserved_messages, metadata.preserved_segment
    listed = [*kept.uuids, *kept.all_uuids] if kept is not None else []
    ends = [segment.head_uuid, segment.tail_uuid] if segment is not None else []
    return [*dict.fromkeys([*listed, *(uuid for uuid in ends if uuid)])]


def find_broken_messages(text: SessionText) -> Iterator[Breakage]:
    """Yield what the API would refuse in the messages that a session continues with, as they are written."""
    messages = recorded_messages(resume_context(text).lines)
    turns = group_turns(messages)
    yield from _find_unpaired_calls(turns)
    for number, turn in enumerate(turns):
        for message in turn:
            yield from _find_empty_content(message)
            yield from _find_unsigned_thinking(message)
        if turn[0].role == "assistant":
            yield from _find_unpaired_server_tools(turn, is_last=number == len(turns) - 1)
    if any(block.kind in ("image", "tool_result") for message in messages for block in message.blocks):
        yield from _find_refused_images(messages)


def _find_unpaired_calls(turns: list[list[RecordedMessage]]) -> Iterator[Breakage]:
    seen: dict[str, ContextBlock] = {}
    calls: dict[str, ContextBlock] = {}
    for number, turn in enumerate(turns):
        blocks = [block for message in turn for block in message.blocks]
        if turn[0].role == "user":
            yield from _find_orphan_results(blocks, calls)
            continue
        calls = {}
        for block in blocks:
            if block.kind != "tool_use" or block.entry is None:
                continue
            id = block.id or ""
            if (first := seen.setdefault(id, block)) is not block:
                is_same = _is_same_call(first, block)
                words = "the same call is written again" if is_same else "another call has its id"
                target = None if is_same else id
                yield Breakage("doubled-call", block.entry.offset, words, block.entry, block.index, target=target)
            # A result answers the second call too, until that is gone or has an id of its own.
            calls.setdefault(id, block)
        following = turns[number + 1] if number + 1 < len(turns) else []
        results = {block.id for message in following for block in message.blocks if block.kind == "tool_result"}
        for id, block in calls.items():
            if id not in results and block.entry is not None and seen[id] is block:
                words = "its result was never written"
                yield Breakage("missing-result", block.entry.offset, words, block.entry, block.index, target=id)


def _find_orphan_results(blocks: list[ContextBlock], calls: dict[str, ContextBlock]) -> Iterator[Breakage]:
    """Yield the results of a turn that belong to no call of the turn before, or come second."""
    answered: set[str] = set()
    for block in blocks:
        if block.kind != "tool_result" or block.entry is None:
            continue
        id = block.id or ""
        if id not in calls or id in answered:
            words = "its call has a result already" if id in calls else "its call is not in the message before"
            yield Breakage("orphan-result", block.entry.offset, words, block.entry, block.index, target=id)
        answered.add(id)


def _is_same_call(first: ContextBlock, second: ContextBlock) -> bool:
    one, other = first.recorded, second.recorded
    return one.get("name") == other.get("name") and one.get("input") == other.get("input")


def _find_empty_content(message: RecordedMessage) -> Iterator[Breakage]:
    for block in message.blocks:
        if block.kind == "text" and block.entry is not None and not (block.text or "").strip():
            whole = block.override is not None
            words = "the message is empty" if whole else "a text is blank"
            yield Breakage("empty-content", block.entry.offset, words, block.entry, None if whole else block.index)
    if not message.blocks:
        for line in message.lines:
            yield Breakage("empty-content", line.offset, "the message has no content", line)


def _find_unsigned_thinking(message: RecordedMessage) -> Iterator[Breakage]:
    for block in message.blocks:
        entry = block.entry
        if (
            entry is None
            or not isinstance(entry.record, Assistant)
            or block.kind not in ("thinking", "redacted_thinking")
        ):
            continue
        match entry.record.message.blocks[block.index]:
            case Thinking(signature=signature, thinking=words):
                version = parse_version(entry.record.version)
                if not signature:
                    why = "thinking without a signature"
                elif not words.strip() and version and version < _FIRST_WITHHELD_THINKING:
                    why = "thinking without its text"
                else:
                    continue
            case RedactedThinking(data=data) if not data:
                why = "redacted thinking without its data"
            case _:
                continue
        yield Breakage("unsigned-thinking", entry.offset, why, entry, block.index)


def _find_unpaired_server_tools(turn: list[RecordedMessage], *, is_last: bool) -> Iterator[Breakage]:
    waiting: dict[str, ContextBlock] = {}
    called: set[str] = set()
    for block in (block for message in turn for block in message.blocks):
        if block.entry is None:
            continue
        if block.kind in _SERVER_CALLS:
            id = str(block.recorded.get("id"))
            waiting[id] = block
            called.add(id)
        elif block.kind.endswith("_tool_result"):
            id = str(block.recorded.get("tool_use_id"))
            waiting.pop(id, None)
            if id not in called:
                yield Breakage(
                    "unpaired-server-tool", block.entry.offset, "its call is missing", block.entry, block.index
                )
    for block in waiting.values() if not is_last else ():
        assert block.entry is not None
        yield Breakage("unpaired-server-tool", block.entry.offset, "its result is missing", block.entry, block.index)


def _find_refused_images(messages: list[RecordedMessage]) -> Iterator[Breakage]:
    seen: set[tuple[int, int, int | None]] = set()
    for problem in find_problems(resume_request(as_context(messages))):
        place = _IMAGE_PLACE.match(problem.path)
        if place is None:
            continue
        block = messages[int(place[1])].blocks[int(place[2])]
        inner = int(place[3]) if place[3] else None
        if block.entry is None or (block.entry.offset, block.index, inner) in seen:
            continue
        seen.add((block.entry.offset, block.index, inner))
        words = problem.message.removeprefix(f"{problem.path}: ")
        yield Breakage("refused-image", block.entry.offset, words, block.entry, block.index, inner)


def find_far_titles(text: SessionText) -> Iterator[Breakage]:
    """Yield titles and last prompts that session lists do not find."""
    by_offset = {entry.offset: entry for entry in text.entries}
    for violation in check_graph_rules(text):
        if violation.rule == "G5" and "too far" in violation.message:
            yield Breakage("far-title", violation.offset, violation.message, by_offset[violation.offset])


FINDERS: tuple[Callable[[SessionText], Iterator[Breakage]], ...] = (
    find_torn_lines,
    find_wrong_sessions,
    find_doubled_lines,
    find_broken_parents,
    find_dangling_pointers,
    find_unfinished_compactions,
    find_broken_messages,
    find_far_titles,
)
"""The finders, in the order in which what they find is repaired: each relies on the ones before it."""
