"""Groups the lines of one API response into whole messages.

Rules
  1. An answer is all lines with one `message.id`, wherever they are in the file: a tool result is between them in
     7,221 messages of the files examined. Without an id, a line is a message of its own. A user line always is.
  2. Blocks are in file order. A line that was written again (same message, same moment, same content: history that
     was appended once more) is left out.
  3. Usage is that of the line with the most output tokens: all lines repeat the input, and early ones may hold the
     count from the start of the stream. `final` tells whether a stop reason was written; without one the count may be
     such an early value (2.0.50 to 2.1.70).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from unspool.format import AnyBlock, Assistant, Entry, Usage, User


class PlacedBlock(NamedTuple):
    """A block and its line."""

    block: AnyBlock
    entry: Entry


class WholeMessage(msgspec.Struct, frozen=True):
    """A user line, or all lines of one API response."""

    id: str
    role: str
    entries: tuple[Entry, ...]
    blocks: tuple[PlacedBlock, ...]
    model: str | None = None
    usage: Usage | None = None
    stop_reason: str | None = None
    final: bool = False
    """Whether a stop reason was written, so that the usage is complete."""

    @property
    def timestamp(self) -> str | None:
        """When its first line was written."""
        return self.entries[0].record.timestamp


def group_messages(entries: Iterable[Entry]) -> list[WholeMessage]:
    """Return the messages of a file in the order of their first lines."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        record = entry.record
        if isinstance(record, Assistant):
            groups.setdefault(record.message.id or f"line {entry.offset}", []).append(entry)
        elif isinstance(record, User):
            groups[f"line {entry.offset}"] = [entry]
    return [_join_lines(group) for group in groups.values()]


def _join_lines(group: list[Entry]) -> WholeMessage:
    lines = _drop_repeated(group) if len(group) > 1 else group
    parts = [_message_record(line).message for line in lines]
    blocks = tuple(PlacedBlock(block, line) for line, part in zip(lines, parts, strict=True) for block in part.blocks)
    first, part = _message_record(lines[0]), parts[0]
    if isinstance(first, User):
        return WholeMessage(first.uuid or f"line {lines[0].offset}", "user", tuple(lines), blocks, final=True)
    reasons = [part.stop_reason for part in parts if part.stop_reason]
    return WholeMessage(
        id=part.id or first.uuid or f"line {lines[0].offset}",
        role="assistant",
        entries=tuple(lines),
        blocks=blocks,
        model=part.model,
        # Early lines may hold the count from the start of the stream (2.0.50 to 2.1.70).
        usage=max((p.usage for p in parts if p.usage), key=lambda usage: usage.output_tokens, default=None),
        stop_reason=reasons[-1] if reasons else None,
        final=bool(reasons),
    )


def _drop_repeated(group: list[Entry]) -> list[Entry]:
    """Leave out lines that repeat an earlier one of the same message."""
    if len({entry.record.timestamp for entry in group}) == len(group):
        return group  # nearly always, and contents need not be compared
    kept: list[Entry] = []
    for entry in group:
        record = _message_record(entry)
        twins = [other for other in map(_message_record, kept) if other.timestamp == record.timestamp is not None]
        if not any(record.message.content == twin.message.content for twin in twins):
            kept.append(entry)
    return kept


def _message_record(entry: Entry) -> User | Assistant:
    record = entry.record
    assert isinstance(record, User | Assistant)
    return record
