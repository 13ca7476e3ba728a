"""The detail of one step: everything that the drawer of a session page shows about it.

Five tabs: rendered, input, result (what the model saw), structured (`toolUseResult`), raw (the records themselves).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from unspool.errors import NotFound
from unspool.export import decode_line, describe_lines
from unspool.format import (
    Assistant,
    Attachment,
    BadLine,
    Entry,
    Item,
    QueuedCommand,
    QueueOperation,
    RedactedThinking,
    System,
    Text,
    Thinking,
    ToolResult,
    User,
)
from unspool.graph import ToolCall
from unspool.page import detail_parts
from unspool.page.detail_parts import DataPart, DetailPart, cut_part, text_part
from unspool.page.images import written_blocks
from unspool.page.index import IndexedCall, RelatedCalls
from unspool.page.rows import MAX_INLINE_CHARACTERS, TranscriptRow
from unspool.page.view import PageView

TABS = ("rendered", "input", "result", "structured", "raw")
_MAX_SAME_CALLS = 50
_UUID = re.compile(r"[0-9A-Za-z-]{8,64}")
_ENVELOPE = frozenset(
    {"uuid", "parentUuid", "sessionId", "timestamp", "isSidechain", "userType", "cwd", "version", "gitBranch", "type",
     "content", "entrypoint", "slug", "originalLine", "originalBytes"}
)  # fmt: skip


class RawRecord(msgspec.Struct, frozen=True):
    """A record as it is written in the file."""

    path: str
    offset: int
    length: int
    text: str
    size: int = 0
    """Characters of all of it."""


class StepDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one step."""

    key: str
    turn: int
    row: TranscriptRow
    tool: str = ""
    """The tool's name as it was called; empty for what is no call."""
    rendered: tuple[DetailPart, ...] = ()
    input: Any = None
    result: tuple[DetailPart, ...] = ()
    structured: Any = None
    raw: tuple[RawRecord, ...] = ()
    same: tuple[str, ...] = ()
    """Keys of other calls of the session with the same tool and input."""
    same_turns: tuple[int, ...] = ()
    """The turn of each of them."""
    previous: str | None = None
    """The last change of the same file before this one."""
    next: str | None = None
    agent: str | None = None
    uuid: str | None = None
    """Of its line, to fork the session there; nothing for an agent's step."""

    @property
    def tabs(self) -> tuple[str, ...]:
        """The tabs that have something to show."""
        has = {"input": self.input is not None, "result": bool(self.result), "structured": self.structured is not None}
        return tuple(tab for tab in TABS if has.get(tab, True))


def read_detail(page: PageView, key: str, *, whole: bool = False, row: TranscriptRow | None = None) -> StepDetail:
    """Return everything about a step of a session or its agents; `whole`: also what is too long for a first look.

    A caller that has the row of the step gives it; else it is built again from the line.
    """
    view, offset, number = page.locate(key)
    item = view.lines.read_item(offset)
    if item is None or not (0 <= offset < view.index.end):
        raise NotFound(f"no step matches `{offset}.{number}`", hint="reload the page; the file may have changed")
    key = f"{view.prefix}{offset}.{number}"
    row = row or _find_row(view, item, key)
    call = view.sections.read_call(offset, number)
    if call is not None:
        detail = _call_detail(view, call, row, key)
    else:
        parts, raw = tuple(_item_parts(item, number)), _raw_record(view, item)
        detail = StepDetail(key=key, turn=view.index.turn_at(offset), row=row, rendered=parts, raw=(raw,))
    if isinstance(item, Entry) and not view.agent_id:
        uuid = getattr(item.record, "uuid", None)
        detail = replace(detail, uuid=uuid if isinstance(uuid, str) and _UUID.fullmatch(uuid) else None)
    for part in (*detail.rendered, *detail.result):
        if isinstance(part, detail_parts.ImagesPart):
            view.sections.remember_images(part.pictures)
    if whole:
        return detail
    return replace(
        detail,
        rendered=tuple(map(cut_part, detail.rendered)),
        result=tuple(map(cut_part, detail.result)),
        raw=tuple(replace(raw, text=raw.text[:MAX_INLINE_CHARACTERS]) for raw in detail.raw),
    )


def _find_row(view: PageView, item: Item, key: str) -> TranscriptRow:
    rows = view.sections.rows_of(item)
    found = next((row for row in rows if row.key == key), None)
    return found or (rows[0] if rows else TranscriptRow(key=key, kind="note", name="line"))


def _call_detail(view: PageView, call: ToolCall, row: TranscriptRow, key: str) -> StepDetail:
    # A file that was replaced since it was indexed may have calls that the index does not know.
    index, indexed = view.index, view.index.calls.get(call.id) or IndexedCall(call.name, call.use_entry.offset)
    answer = call.result_entry
    entries = [call.use_entry, answer] if answer else [call.use_entry]
    before, after = _neighbour_changes(view.related_calls, indexed)
    alike = view.related_calls.by_input.get(indexed.alike, [])
    others = list(islice((other for other in alike if other is not indexed), _MAX_SAME_CALLS))
    return StepDetail(
        key=key,
        turn=index.turn_at(call.use_entry.offset),
        row=row,
        tool=call.name,
        rendered=tuple(detail_parts.call_parts(call)),
        input=call.input,
        result=tuple(detail_parts.result_parts(call)),
        structured=decode_line(answer).get("toolUseResult") if answer else None,
        raw=tuple(_raw_record(view, entry) for entry in entries),
        same=tuple(view.prefix + other.key for other in others),
        same_turns=tuple(index.turn_at(other.use) for other in others),
        previous=view.prefix + before.key if before else None,
        next=view.prefix + after.key if after else None,
        agent=view.agent_of(call.id),
    )


def _neighbour_changes(related: RelatedCalls, call: IndexedCall) -> tuple[IndexedCall | None, IndexedCall | None]:
    """Return the changes of the same file before and after one."""
    changes = related.by_path.get(call.path, []) if call.path is not None else []
    if not changes:
        return None, None
    at = bisect_left(changes, (call.use, call.block), key=lambda other: (other.use, other.block))
    return changes[at - 1] if at else None, changes[at + 1] if at + 1 < len(changes) else None


def _item_parts(item: Item, number: int) -> Iterator[DetailPart]:
    """Yield what is rendered of a line that is no tool call."""
    if not isinstance(item, Entry):
        yield text_part(item.reason if isinstance(item, BadLine) else "blank", "error")
        return
    match item.record:
        case Assistant(message=message):
            match message.blocks[number : number + 1]:
                case [Text(text=text)]:
                    yield text_part(text, "markdown")
                case [Thinking(thinking=text)]:
                    yield text_part(text or "encrypted by the API", "markdown")
                case [RedactedThinking()]:
                    yield text_part("encrypted by the API")
                case _:
                    yield DataPart(decode_line(item).get("message"))
        case User(message=message) if any(isinstance(block, ToolResult) for block in message.blocks):
            for block in message.blocks:
                if isinstance(block, ToolResult):
                    yield from detail_parts.block_parts(block.blocks, "plain", item.offset)
        case User(message=message):
            yield from detail_parts.block_parts(message.blocks, "markdown", item.offset)
        case System(content=str(content)) if content:
            yield text_part(content, "terminal")
            yield DataPart(_without_envelope(item))
        case Attachment(attachment=QueuedCommand()) | QueueOperation(content=str() | tuple()):
            yield from detail_parts.block_parts(written_blocks(item), "markdown", item.offset)
        case Attachment():
            yield DataPart(decode_line(item).get("attachment"))
        case _:
            yield text_part(describe_lines.describe_line(item).text)
            yield DataPart(_without_envelope(item))


def _without_envelope(entry: Entry) -> dict[str, Any]:
    return {name: value for name, value in decode_line(entry).items() if name not in _ENVELOPE}


def _raw_record(view: PageView, item: Item) -> RawRecord:
    path, offset, length = view.lines.path, item.offset, item.length
    if isinstance(item, Entry):
        text = item.line.decode(errors="replace").rstrip("\n")
        size = len(text)
    else:
        # A bad line may be too long to be held: no more of it is read than is shown.
        text = view.lines.reader.part(path, offset, min(length, MAX_INLINE_CHARACTERS)).decode(errors="replace")
        size = max(len(text), length)
    return RawRecord(str(path), offset, length, text, size)
