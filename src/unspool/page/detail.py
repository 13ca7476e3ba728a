"""Everything about one step: a view and a place in, a `Detail` out.

Five faces: rendered, input, result (what the model saw), structured (`toolUseResult`), raw (the records themselves).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.errors import NotFound
from unspool.export import describe_lines
from unspool.export.json_data import original
from unspool.format.attachments import QueuedCommand
from unspool.format.blocks import RedactedThinking, Text, Thinking, ToolResult, as_blocks
from unspool.format.entry import BadLine, Entry, Item
from unspool.format.meta_records import QueueOperation
from unspool.format.records import Assistant, Attachment, System, User
from unspool.graph.tool_calls import ToolCall
from unspool.page import detail_parts
from unspool.page.detail_parts import Data, Piece, words
from unspool.page.index import Called, Index
from unspool.page.rows import INLINE, Row

if TYPE_CHECKING:
    from unspool.page.view import View

TABS = ("rendered", "input", "result", "structured", "raw")


class Raw(msgspec.Struct, frozen=True):
    """A record as it is written."""

    path: str
    offset: int
    length: int
    text: str
    size: int = 0
    """Characters of all of it."""

    @property
    def is_cut(self) -> bool:
        """Whether there is more."""
        return self.size > len(self.text)


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """A step, opened."""

    key: str
    turn: int
    row: Row
    rendered: tuple[Piece, ...] = ()
    input: Any = None
    result: tuple[Piece, ...] = ()
    structured: Any = None
    raw: tuple[Raw, ...] = ()
    same: tuple[str, ...] = ()
    """Other calls of the session that asked for the same."""
    previous: str | None = None
    """The last change of the same file before this one."""
    next: str | None = None
    agent: str | None = None

    @property
    def tabs(self) -> tuple[str, ...]:
        """The faces it has."""
        has = {"input": self.input is not None, "result": bool(self.result), "structured": self.structured is not None}
        return tuple(tab for tab in TABS if has.get(tab, True))


def detail(view: View, offset: int, block: int, *, whole: bool = False) -> Detail:
    """Return everything about the step at a place."""
    item = view.lines.at(offset)
    if item is None or not (0 <= offset < view.index.end):
        raise NotFound(f"no such step: `{offset}.{block}`", hint="the file may have changed: load the page again")
    key = f"{view.prefix}{offset}.{block}"
    turn = view.index.part_at(offset)
    row = _row(view, item, key)
    call = view.call_at(offset, block)
    if call is not None:
        return _of_call(view, call, row, key, whole=whole)
    shown = tuple(_shown(item, block, whole=whole))
    for piece in shown:
        if isinstance(piece, detail_parts.Pictures):
            for one in piece.pictures:
                view.remember_blob(one.digest, one.place)
    return Detail(key=key, turn=turn, row=row, rendered=shown, raw=(_raw(view, item, whole=whole),))


def _of_call(view: View, call: ToolCall, row: Row, key: str, *, whole: bool) -> Detail:
    index, called = view.index, view.index.calls[call.id]
    rendered, result = tuple(detail_parts.rendered(call, whole=whole)), tuple(detail_parts.result(call, whole=whole))
    for piece in (*rendered, *result):
        if isinstance(piece, detail_parts.Pictures):
            for one in piece.pictures:
                view.remember_blob(one.digest, one.place)
    entries = [call.use_entry, *([call.result_entry] if call.result_entry else [])]
    before, after = _changes(index, called)
    return Detail(
        key=key,
        turn=index.part_at(call.use_entry.offset),
        row=row,
        rendered=rendered,
        input=call.input,
        result=result,
        structured=original(call.result_entry).get("toolUseResult") if call.result_entry else None,
        raw=tuple(_raw(view, entry, whole=whole) for entry in entries),
        same=tuple(
            view.prefix + one.key
            for one in index.calls.values()
            if one.alike == called.alike and one is not called and one.use >= 0
        )[:50],
        previous=view.prefix + before.key if before else None,
        next=view.prefix + after.key if after else None,
        agent=view.agent_of(call.id),
    )


def _row(view: View, item: Item, key: str) -> Row:
    """Return the row that a step has on its page; a plain one for what has none."""
    found = view.rows_at(item)
    return next((row for row in found if row.key == key), found[0] if found else Row(key=key, kind="note", name="line"))


def _changes(index: Index, called: Called) -> tuple[Called | None, Called | None]:
    """Return the changes of the same file before and after one."""
    if called.path is None:
        return None, None
    among = [one for one in index.calls.values() if one.path == called.path and one.use >= 0]
    among.sort(key=lambda one: (one.use, one.block))
    at = among.index(called)
    return among[at - 1] if at else None, among[at + 1] if at + 1 < len(among) else None


def _shown(item: Item, block: int, *, whole: bool) -> Iterator[Piece]:
    if not isinstance(item, Entry):
        yield words(item.reason if isinstance(item, BadLine) else "blank", "error")
        return
    match item.record:
        case Assistant(message=message):
            among = message.blocks[block : block + 1]
            match among:
                case [Text(text=text)]:
                    yield words(text, "markdown", whole=whole)
                case [Thinking(thinking=text)]:
                    yield words(text or "withheld: only the API can read it", "markdown", whole=whole)
                case [RedactedThinking()]:
                    yield words("withheld: only the API can read it")
                case _:
                    yield Data(original(item).get("message"))
        case User(message=message) if any(isinstance(one, ToolResult) for one in message.blocks):
            for one in message.blocks:
                if isinstance(one, ToolResult):
                    yield from detail_parts.said(one.blocks, "plain", item.offset, whole=whole)
        case User(message=message):
            yield from detail_parts.said(message.blocks, "markdown", item.offset, whole=whole)
        case System(content=str(content)) if content:
            yield words(content, "terminal", whole=whole)
            yield Data(_rest(item))
        case Attachment(attachment=QueuedCommand(prompt=said)) | QueueOperation(content=str() | tuple() as said):
            yield from detail_parts.said(as_blocks(said), "markdown", item.offset, whole=whole)
        case Attachment():
            yield Data(original(item).get("attachment"))
        case _:
            yield words(describe_lines.noted(item).text, whole=whole)
            yield Data(_rest(item))


_ENVELOPE = frozenset(
    {"uuid", "parentUuid", "sessionId", "timestamp", "isSidechain", "userType", "cwd", "version", "gitBranch", "type",
     "content", "entrypoint", "slug"}
)  # fmt: skip


def _rest(entry: Entry) -> dict[str, Any]:
    """Return what a line says besides where it stands."""
    return {name: value for name, value in original(entry).items() if name not in _ENVELOPE}


def _raw(view: View, item: Item, *, whole: bool) -> Raw:
    if isinstance(item, Entry):
        text = item.line.decode(errors="replace").rstrip("\n")
        length = item.length
    else:
        length = item.length
        text = view.lines.reader.part(view.lines.path, item.offset, min(length, INLINE)).decode(errors="replace")
    size = max(len(text), length if not isinstance(item, Entry) else 0)
    return Raw(str(view.lines.path), item.offset, length, text if whole else text[:INLINE], size)
