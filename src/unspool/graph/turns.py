"""Finds the prompts of a session and splits it into turns, of a whole file or while it grows.

`prompts.py` tells prompts from the other user lines, and which lines begin a turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from unspool.format import AnyBlock, Attachment, Entry, QueuedCommand, QueueOperation, Text, ToolResult, User, as_blocks
from unspool.graph.prompts import (
    HUMAN_TURNS,
    MACHINE_ORIGINS,
    NO_CHANGE,
    Speaker,
    TurnChange,
    TurnStart,
    TurnStarts,
    classify_user_line,
    is_typed_prompt,
    join_typed_texts,
)


class Turn(msgspec.Struct, frozen=True):
    """A line that begins a turn (`prompts.py`) and the lines after it, up to the next such line."""

    prompt: Entry
    speaker: Speaker
    """`HUMAN` or `QUEUED`, `PLAN`, or `COMMAND`."""
    text: str
    entries: tuple[Entry, ...]
    """The lines after the prompt."""

    def __repr__(self) -> str:
        return f"<Turn {self.text[:60]!r}, {len(self.entries)} lines>"

    @property
    def is_human(self) -> bool:
        """Whether it begins with words that a person typed: not with a command, nor with a plan that was accepted."""
        return self.speaker in HUMAN_TURNS


def classify_user_record(record: User) -> Speaker:
    """Return what a user line is."""
    blocks = record.message.blocks
    has_result = any(isinstance(block, ToolResult) for block in blocks)
    return classify_user_line(record, _texts(blocks), has_result=has_result)


def find_turn_change(starts: TurnStarts, entry: Entry) -> TurnChange:
    """Add a line to the search for turns; return what it changes."""
    record = entry.record
    if type(record) not in _WITH_PROMPTS:  # most lines: `match` would try its cases one after the other
        return NO_CHANGE
    match record:
        case User(message=message):
            texts = _texts(message.blocks)
            speaker = classify_user_record(record)
            return starts.add_user(entry.offset, record, speaker, ("\n".join(texts), join_typed_texts(texts)))
        case Attachment(attachment=QueuedCommand() as queued):
            text = join_text(as_blocks(queued.prompt))
            return starts.add_attachment(entry.offset, text, record.timestamp, is_prompt=is_queued_prompt(queued))
        case QueueOperation(operation=operation, content=content):
            return starts.add_operation(entry.offset, operation, join_text(as_blocks(content or "")), record.timestamp)
        case _:
            return NO_CHANGE


_WITH_PROMPTS = frozenset({User, Attachment, QueueOperation})


def find_turn_starts(entries: Iterable[Entry]) -> list[TurnStart]:
    """Return where the turns of a file begin, in file order."""
    starts, found = TurnStarts(), dict[int, TurnStart]()
    for entry in entries:
        change = find_turn_change(starts, entry)
        if change is NO_CHANGE:
            continue
        if change.began is not None:
            found[change.began.offset] = change.began
        for offset in change.dropped:
            found.pop(offset, None)
    return [found[offset] for offset in sorted(found)]


def find_prompts(entries: Sequence[Entry]) -> list[tuple[Entry, Speaker, str]]:
    """Return every prompt of a person in file order: the line, whether it was queued, its text."""
    typed = {start.offset: start for start in find_turn_starts(entries) if start.kind in HUMAN_TURNS}
    found = [(entry, typed[entry.offset]) for entry in entries if entry.offset in typed]
    return [(entry, start.kind, start.text) for entry, start in found]


def split_turns(entries: Sequence[Entry]) -> list[Turn]:
    """Return the turns of a conversation in file order; what comes before the first belongs to none."""
    starts = {start.offset: (start.kind, start.text) for start in find_turn_starts(entries)}
    groups: list[tuple[Entry, list[Entry]]] = []
    for entry in entries:
        if entry.offset in starts:
            groups.append((entry, []))
        elif groups:
            groups[-1][1].append(entry)
    return [Turn(prompt, *starts[prompt.offset], tuple(following)) for prompt, following in groups]


def is_queued_prompt(queued: QueuedCommand) -> bool:
    """Tell whether a person typed a queued command."""
    machine = isinstance(queued.origin, dict) and queued.origin.get("kind") in MACHINE_ORIGINS
    if machine or queued.is_meta or queued.command_mode not in (None, "prompt"):
        return False
    text = join_text(as_blocks(queued.prompt))
    # Blocks without text are a prompt too: a person may send nothing but an image.
    return is_typed_prompt(text) if text.strip() else bool(queued.prompt) and not isinstance(queued.prompt, str)


def join_text(blocks: Sequence[AnyBlock]) -> str:
    """Return the texts of blocks, one after the other."""
    return "\n".join(_texts(blocks))


def typed_text(blocks: Sequence[AnyBlock]) -> str:
    """Return the text of a prompt without what the editor or Claude Code put beside it."""
    return join_typed_texts(_texts(blocks))


def first_text(blocks: Sequence[AnyBlock]) -> str:
    """Return the text of the first text block."""
    return next((block.text for block in blocks if isinstance(block, Text)), "")


def _texts(blocks: Sequence[AnyBlock]) -> list[str]:
    return [block.text for block in blocks if isinstance(block, Text)]


class PromptTracker(msgspec.Struct):
    """Where the turns of a file begin so far, and which of them are new.

    The search index stores it as MessagePack by the names of its fields.
    """

    starts: TurnStarts = msgspec.field(default_factory=TurnStarts)
    found: list[tuple[int, str | None]] = []
    """The offsets of such lines since the owner last cleared this list, with the time of the lines."""
    taken_back: list[int] = []
    """The offsets of prompts that turned out to be none."""

    def add(self, entry: Entry) -> None:
        """Add a user line, an attachment or a queue operation; other lines change nothing."""
        change = find_turn_change(self.starts, entry)
        if change.began is not None:
            self.found.append((change.began.offset, change.began.time))
        if change.dropped:
            self.found = [start for start in self.found if start[0] not in change.dropped]
            self.taken_back += change.dropped
