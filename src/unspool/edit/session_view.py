"""What an edit looks at: the lines of the context, their turns, calls with results, and what must not be touched.

Rules
  1. Edits work on the context: the lines from the last compaction to the line a resumed session goes on from. What
     lies outside of it costs no tokens; only `--outside` touches it.
  2. A group is a prompt of a person's and all up to the next one, with prompts that were typed meanwhile: between
     groups a conversation can be cut, within one it cannot.
  3. The open end is what the model has not answered yet. The last group is also left alone where thinking is concerned:
     the API wants it back as it was.

[merged: manuscript.py] A session file as an editor sees it: its bytes, and the lines they are.

Rules
  1. The items cover the bytes without gap or overlap, so that what is left alone is written back as it was.
  2. Lines of any length are held: an editor that dropped one would lose it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from unspool.format.attachments import QueuedCommand
from unspool.format.base import UNDECODABLE
from unspool.format.blocks import AnyBlock, ToolResult, ToolUse
from unspool.format.codec import SESSION, decode
from unspool.format.entry import BadLine, Entry, Item
from unspool.format.records import Assistant, Attachment, User
from unspool.graph.threads import is_boundary, thread_lines
from unspool.graph.turns import Speaker, Turn, speaker, turns
from unspool.read.lines import Line, LineBuffer

_ANY_LENGTH = 1 << 62


class Manuscript(msgspec.Struct, frozen=True):
    """A session's file, read."""

    id: str
    """The session's id: the name of its file."""
    data: bytes
    items: tuple[Item, ...]
    entries: tuple[Entry, ...]

    @property
    def torn(self) -> BadLine | None:
        """The unfinished line at the end, if there is one: no line end, and no whole document."""
        last = self.items[-1] if self.items else None
        return last if isinstance(last, BadLine) and not self.data.endswith(b"\n") else None


def read(id: str, data: bytes) -> Manuscript:
    """Return what a file holds."""
    buffer = LineBuffer(max_line=_ANY_LENGTH)
    items: list[Item] = []
    add, typed = items.append, SESSION.decode
    for line in (*buffer.feed(data), *buffer.finish()):
        assert isinstance(line, Line)
        try:
            add(Entry(line.offset, line.data, typed(line.data)))
        except UNDECODABLE:
            items += decode(bytes(line.data), line.offset)
    entries = tuple(item for item in items if type(item) is Entry)
    return Manuscript(id, data, tuple(items), entries)


class Call(msgspec.Struct, frozen=True):
    """A call on the thread, and its result there."""

    use: ToolUse
    entry: Entry
    index: int
    """Which block of its line it is."""
    result: ToolResult | None = None
    result_entry: Entry | None = None
    result_index: int = 0

    @property
    def answer(self) -> str:
        """The answer it is a part of."""
        record = self.entry.record
        assert isinstance(record, Assistant)
        return record.message.id or record.uuid or f"line {self.entry.offset}"


class Group(msgspec.Struct, frozen=True):
    """A prompt and all up to the next one (rule 2)."""

    numbers: range
    """Which turns of the session it has."""
    start: int
    end: int
    """Offsets: of the first line, and of the first line after it."""
    on_thread: bool


class View(msgspec.Struct, frozen=True):
    """What an edit looks at."""

    manuscript: Manuscript
    lines: list[Entry]
    turns: list[Turn]
    groups: list[Group]
    calls: list[Call]
    open_from: int
    """Lines from this offset on are not answered yet."""
    last_from: int
    """Where the last group of the thread begins."""
    loop_from: int
    """Where the group begins that ends within a tool loop; without one, the end of the file."""

    starts: list[int]
    """Where the groups of the thread begin."""

    @property
    def thread_groups(self) -> list[Group]:
        """The groups of the context, oldest first."""
        return [group for group in self.groups if group.on_thread]

    def age(self, entry: Entry) -> int:
        """Return how many prompts came after a line."""
        return len(self.starts) - bisect_right(self.starts, entry.offset)

    def turn_of(self, entry: Entry) -> int:
        """Return the number of the turn that a line lies in, 0 before the first."""
        return bisect_right(self.turns, entry.offset, key=lambda turn: turn.prompt.offset)


def view(manuscript: Manuscript, lines: list[Entry] | None = None) -> View:
    """Look at a session; `lines` are those of its thread, if they are known."""
    lines = thread_lines(manuscript.entries) if lines is None else lines
    told = turns(manuscript.entries)
    here = {entry.offset for entry in lines}
    groups = _groups(told, here, len(manuscript.data))
    starts = [group.start for group in groups if group.on_thread]
    loop = _open_line(lines)
    before = bisect_right(starts, loop.offset) if loop else 0
    return View(
        manuscript=manuscript,
        lines=lines,
        turns=told,
        groups=groups,
        calls=_calls(lines),
        open_from=_open_from(lines, len(manuscript.data)),
        last_from=starts[-1] if starts else 0,
        loop_from=len(manuscript.data) if loop is None else (starts[before - 1] if before else 0),
        starts=starts,
    )


def blocks_of(entry: Entry) -> tuple[AnyBlock, ...]:
    """Return the blocks of a message's line; none if it is a plain string."""
    record = entry.record
    if isinstance(record, User | Assistant) and not isinstance(record.message.content, str):
        return record.message.content
    return ()


def is_queued(entry: Entry) -> bool:
    """Tell whether an attachment is a prompt that was typed while the model worked."""
    record = entry.record
    return isinstance(record, Attachment) and isinstance(record.attachment, QueuedCommand)


def boundary(lines: Sequence[Entry]) -> Entry | None:
    """Return the compaction that a context begins with."""
    return next((entry for entry in lines if is_boundary(entry)), None)


def _groups(told: list[Turn], here: set[int], end: int) -> list[Group]:
    found: list[Group] = []
    for number, turn in enumerate(told, 1):
        if turn.speaker is Speaker.QUEUED and found:
            found[-1] = msgspec.structs.replace(found[-1], numbers=range(found[-1].numbers.start, number + 1))
            continue
        start = turn.prompt.offset
        if found:
            found[-1] = msgspec.structs.replace(found[-1], end=start)
        found.append(Group(range(number, number + 1), start, end, start in here))
    return found


def _calls(lines: Sequence[Entry]) -> list[Call]:
    given: dict[str, tuple[ToolResult, Entry, int]] = {}
    for entry in lines:
        if isinstance(entry.record, User):
            for index, block in enumerate(blocks_of(entry)):
                if isinstance(block, ToolResult):
                    given.setdefault(block.tool_use_id, (block, entry, index))
    found: dict[str, Call] = {}
    for entry in lines:
        if isinstance(entry.record, Assistant):
            for index, block in enumerate(blocks_of(entry)):
                if isinstance(block, ToolUse) and block.id not in found:
                    found[block.id] = Call(block, entry, index, *given.get(block.id, (None, None, 0)))
    return list(found.values())


def _messages(lines: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in lines if isinstance(entry.record, User | Assistant)]


def _open_from(lines: Sequence[Entry], end: int) -> int:
    """Return where what was not answered yet begins: after the last line of an answer."""
    after: list[int] = []
    for entry in reversed(_messages(lines)):
        if isinstance(entry.record, Assistant):
            break
        after.append(entry.offset)
    return min(after, default=end)


def _open_line(lines: Sequence[Entry]) -> Entry | None:
    """Return the line that a thread's end leaves a tool loop open with: a call, or results that nobody answered."""
    for entry in reversed(_messages(lines)):
        record = entry.record
        if isinstance(record, User):
            if speaker(record) is Speaker.RESULT:
                return entry
        elif blocks := blocks_of(entry):
            return entry if any(isinstance(block, ToolUse) for block in blocks) else None
    return None
