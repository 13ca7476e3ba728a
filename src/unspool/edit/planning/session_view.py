"""Finds what an edit may touch in a session: the lines of the context, their turns, and tool calls with results.

Rules
  1. Edits work on the context: the lines from the last compaction to the line that a resumed session continues from.
     What lies outside of it costs no tokens; only `--outside` touches it.
  2. A group is a prompt that a person typed and all lines up to the next one, with the prompts that were queued
     meanwhile: a conversation can be cut between groups, but not within one.
  3. Lines that the model has not answered yet are never changed. In the last group thinking stays too: the API wants it
     back as it was.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from unspool.edit.session_text import SessionText
from unspool.format import Assistant, Attachment, Entry, QueuedCommand, ToolUse, User
from unspool.graph import (
    Speaker,
    ToolCall,
    Turn,
    classify_user_record,
    find_thread_entries,
    find_tool_calls,
    split_turns,
)


class TurnGroup(msgspec.Struct, frozen=True):
    """A prompt and all lines up to the next one that was not queued (rule 2)."""

    numbers: range
    """The numbers of its turns in the session."""
    start: int
    """The offset of its first line."""
    end: int
    """The offset of the first line after it."""
    on_thread: bool


class SessionView(msgspec.Struct, frozen=True):
    """A session as the operations see it: its context, divided into groups of turns and tool calls."""

    text: SessionText
    lines: list[Entry]
    turns: list[Turn]
    groups: list[TurnGroup]
    calls: list[ToolCall]
    """The calls in the answers of the context, each with its result there."""
    unanswered_from: int
    """Lines from this offset on are not answered yet."""
    open_loop_from: int
    """Where the group begins that ends within a tool loop; without one, the end of the file."""
    group_starts: list[int]
    """Where the groups of the thread begin."""

    @property
    def thread_groups(self) -> list[TurnGroup]:
        """The groups of the context, oldest first."""
        return [group for group in self.groups if group.on_thread]

    @property
    def last_group_from(self) -> int:
        """Where the last group of the thread begins."""
        return self.group_starts[-1] if self.group_starts else 0

    def count_prompts_after(self, entry: Entry) -> int:
        """Return how many prompts came after a line."""
        return len(self.group_starts) - bisect_right(self.group_starts, entry.offset)

    def turn_number(self, entry: Entry) -> int:
        """Return the number of the turn that a line lies in, 0 before the first."""
        return bisect_right(self.turns, entry.offset, key=lambda turn: turn.prompt.offset)


def view_session(text: SessionText, lines: list[Entry] | None = None) -> SessionView:
    """Divide a session into groups and calls; `lines` are those of its thread, if they are known."""
    lines = find_thread_entries(text.entries) if lines is None else lines
    session_turns = split_turns(text.entries)
    groups = _group_turns(session_turns, {entry.offset for entry in lines}, len(text.data))
    starts = [group.start for group in groups if group.on_thread]
    messages = [entry for entry in lines if isinstance(entry.record, User | Assistant)]
    open_line = _find_open_loop(messages)
    before = bisect_right(starts, open_line.offset) if open_line else 0
    return SessionView(
        text=text,
        lines=lines,
        turns=session_turns,
        groups=groups,
        calls=[call for call in find_tool_calls(lines) if isinstance(call.use_entry.record, Assistant)],
        unanswered_from=_find_unanswered(messages, len(text.data)),
        open_loop_from=len(text.data) if open_line is None else (starts[before - 1] if before else 0),
        group_starts=starts,
    )


def has_succeeded(call: ToolCall) -> bool:
    """Return whether a call has a result that is no error."""
    return call.result is not None and not call.failed


def is_queued_prompt(entry: Entry) -> bool:
    """Return whether an attachment is a prompt that was typed while the model worked."""
    record = entry.record
    return isinstance(record, Attachment) and isinstance(record.attachment, QueuedCommand)


def _group_turns(session_turns: list[Turn], thread_offsets: set[int], end: int) -> list[TurnGroup]:
    groups: list[TurnGroup] = []
    for number, turn in enumerate(session_turns, 1):
        if turn.speaker is Speaker.QUEUED and groups:
            # A queued prompt hangs on results of the turn under way: neither can be cut from the other.
            groups[-1] = msgspec.structs.replace(groups[-1], numbers=range(groups[-1].numbers.start, number + 1))
            continue
        start = turn.prompt.offset
        if groups:
            groups[-1] = msgspec.structs.replace(groups[-1], end=start)
        groups.append(TurnGroup(range(number, number + 1), start, end, start in thread_offsets))
    return groups


def _find_unanswered(messages: Sequence[Entry], end: int) -> int:
    """Return the offset of the first message after the last line of an answer."""
    after: list[int] = []
    for entry in reversed(messages):
        if isinstance(entry.record, Assistant):
            break
        after.append(entry.offset)
    return min(after, default=end)


def _find_open_loop(messages: Sequence[Entry]) -> Entry | None:
    """Return the line that leaves a tool loop open at the end: a call, or results without an answer."""
    for entry in reversed(messages):
        record = entry.record
        if isinstance(record, User):
            if classify_user_record(record) is Speaker.RESULT:
                return entry
        elif blocks := entry.content_blocks:
            return entry if any(isinstance(block, ToolUse) for block in blocks) else None
    return None
