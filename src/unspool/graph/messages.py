"""Groups the lines of one API response into whole messages.

Rules
  1. An answer is all lines with one `message.id`, wherever they are in the file: a tool result is between them in
     7,221 messages of the files examined. Without an id, a line is a message of its own. A user line always is.
  2. Blocks are in file order, each once. History that was appended once more repeats them under new uuids, sometimes
     divided into other lines. A tool call is a repetition if its message has one with its id; any other block if its
     message has an equal one, and its line is of the same moment as one before or has a repeated call. A line that only
     repeats is left out.
  3. Usage is that of the line with the most output tokens: all lines repeat the input, and early ones may hold the
     count from the start of the stream. `final` tells whether a stop reason was written; without one the count may be
     such an early value (2.0.50 to 2.1.70).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from unspool.format import AnyBlock, Assistant, Entry, ToolUse, Usage, User, encode_json


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

    def __repr__(self) -> str:
        return f"<WholeMessage {self.id} of {self.role}, {len(self.blocks)} blocks on {len(self.entries)} lines>"

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


class RepeatedBlocks:
    """Finds the blocks of answers that repeat an earlier one of the same message (rule 2), line by line."""

    def __init__(self, seen: set[int] | None = None) -> None:
        self.seen: set[int] = set() if seen is None else seen
        """Hashes of the moments, calls and blocks of the messages so far."""

    def add(self, record: Assistant) -> frozenset[int]:
        """Add the next line; return the indexes of its blocks that are repetitions."""
        message = record.message
        if message.id is None:
            return _NONE
        seen, blocks = self.seen, message.blocks
        moment = _hash(message.id, b"at", (record.timestamp or "").encode("utf-8", "surrogatepass"))
        keys = [_hash(message.id, *_block_key(block)) for block in blocks]
        known = [index for index, key in enumerate(keys) if key in seen]
        if known:
            is_copy = (record.timestamp is not None and moment in seen) or any(
                isinstance(blocks[index], ToolUse) for index in known
            )
            known = known if is_copy else []
        seen.update(keys)
        seen.add(moment)
        return frozenset(known)


_NONE: frozenset[int] = frozenset()


def _block_key(block: AnyBlock) -> tuple[bytes, bytes]:
    """Return what equal blocks have in common: of calls their id."""
    if isinstance(block, ToolUse):
        return b"call", block.id.encode("utf-8", "surrogatepass")
    try:
        return b"block", encode_json(block)
    except (UnicodeEncodeError, RecursionError, TypeError, msgspec.MsgspecError):  # lone surrogates, endless nesting
        return b"block", repr(block).encode(errors="backslashreplace")


def _hash(id: str, kind: bytes, value: bytes) -> int:
    digest = blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8, person=kind)
    digest.update(b"\0" + value)
    return int.from_bytes(digest.digest(), "little")


def find_repeated_blocks(entries: Iterable[Entry]) -> dict[int, frozenset[int]]:
    """Return the indexes of repeated blocks by the offset of their line; lines without one are left out."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        if isinstance(entry.record, Assistant) and entry.record.message.id is not None:
            groups.setdefault(entry.record.message.id, []).append(entry)
    found: dict[int, frozenset[int]] = {}
    for group in groups.values():
        if len(group) > 1 and _may_repeat(group):
            blocks = RepeatedBlocks()
            for entry in group:
                if repeated := blocks.add(_answer(entry)):
                    found[entry.offset] = repeated
    return found


def _may_repeat(group: list[Entry]) -> bool:
    """Tell whether lines of a message may hold repetitions: nearly never, and blocks need not be compared."""
    if len({entry.record.timestamp for entry in group}) < len(group):
        return True
    calls = [id for entry in group for id in entry.call_ids]
    return len(set(calls)) < len(calls)


def _answer(entry: Entry) -> Assistant:
    assert isinstance(entry.record, Assistant)
    return entry.record


def _join_lines(group: list[Entry]) -> WholeMessage:
    lines, blocks = _drop_repeated(group)
    parts = [_message_record(line).message for line in lines]
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


def _drop_repeated(group: list[Entry]) -> tuple[list[Entry], tuple[PlacedBlock, ...]]:
    """Return the lines and blocks of a message without those that repeat earlier ones."""
    repeated = find_repeated_blocks(group) if len(group) > 1 else {}
    lines, placed = [], []
    for entry in group:
        blocks, dropped = _message_record(entry).message.blocks, repeated.get(entry.offset, _NONE)
        if not dropped or len(dropped) < len(blocks):
            lines.append(entry)
            placed += [PlacedBlock(block, entry) for index, block in enumerate(blocks) if index not in dropped]
    return lines, tuple(placed)


def _message_record(entry: Entry) -> User | Assistant:
    record = entry.record
    assert isinstance(record, User | Assistant)
    return record
