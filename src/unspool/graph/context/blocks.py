"""A block as it is sent. What decides its place is read from the record; its JSON is made when asked for.

A block of a line keeps every field it has there, also those nobody has described: it is taken from the line's bytes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from unspool.format.blocks import AnyBlock, Other, Text, ToolResult, ToolUse
from unspool.format.entry import Entry
from unspool.format.records import Assistant, User
from unspool.format.repair_text import mend

Json: TypeAlias = dict[str, Any]


class ContextBlock(msgspec.Struct, frozen=True, gc=False):
    """A block, and the line it came from; None for what only the program adds."""

    kind: str
    entry: Entry | None = None
    id: str | None = None
    """Of a call, or the call that a result answers."""
    text: str | None = None
    """Of a text block, as it is sent."""
    index: int = 0
    """Which block of its line it is."""
    made: Json | None = None
    """The block itself, where it is not as on the line."""

    @property
    def value(self) -> Json:
        """The block as the API takes it."""
        if self.made is not None:
            return self.made
        if self.entry is None:
            return {"type": "text", "text": self.text or ""}
        block = _on_line(self.entry, self.index)
        if self.kind == "text" and block.get("text") != self.text:
            return {**block, "type": "text", "text": self.text or ""}
        if self.kind == "tool_use" and block.get("name") == "Task":
            return {**block, "name": "Agent"}  # its name since 2.1.63
        return block


def words(text: str, entry: Entry | None = None) -> ContextBlock:
    """Return a text that stands on no line as it is."""
    return ContextBlock("text", entry, text=text, made={"type": "text", "text": text})


def with_text(block: ContextBlock, text: str) -> ContextBlock:
    """Return a text block that says something else."""
    made = None if block.made is None else {**block.made, "text": text}
    return msgspec.structs.replace(block, text=text, made=made)


def as_json(block: msgspec.Struct) -> Json:
    """Return a block that stands on no line of its own, without what it does not have."""
    whole = msgspec.to_builtins(block)
    assert isinstance(whole, dict)
    return {
        key: {name: item for name, item in value.items() if item is not None} if isinstance(value, dict) else value
        for key, value in whole.items()
        if value is not None
    }


def of_line(entry: Entry) -> list[ContextBlock]:
    """Return the blocks of a message's line that say something."""
    record = entry.record
    if not isinstance(record, User | Assistant):
        return []
    if isinstance(record.message.content, str):
        content = record.message.content
        return [words(content, entry)] if content.strip() else []
    found = (_of_block(block, entry, index) for index, block in enumerate(record.message.content))
    return [block for block in found if block is not None]


def _of_block(block: AnyBlock, entry: Entry, index: int) -> ContextBlock | None:
    if isinstance(block, ToolUse):
        return ContextBlock("tool_use", entry, block.id, index=index)
    if isinstance(block, ToolResult):
        return ContextBlock("tool_result", entry, block.tool_use_id, index=index)
    match block:
        case Text(text=text):
            return ContextBlock("text", entry, text=text, index=index) if text.strip() else None
        case Other(type=kind, value=value):
            return ContextBlock(kind or "", entry, index=index) if isinstance(value, dict) else None
        case _:
            return ContextBlock(str(type(block).__struct_config__.tag), entry, index=index)


class _Message(msgspec.Struct):
    content: Any = None


class _Line(msgspec.Struct):
    """Of a line, only what is sent."""

    message: _Message = msgspec.field(default_factory=_Message)


_decode = msgspec.json.Decoder(_Line).decode


def _on_line(entry: Entry, index: int) -> Json:
    try:
        content = _decode(entry.raw).message.content
    except (msgspec.DecodeError, UnicodeDecodeError):
        content = _decode(mend(entry.line.strip(b"\0\xef\xbb\xbf \t\r\n"))[0]).message.content
    block = content[index] if isinstance(content, list) else content
    assert isinstance(block, dict)
    return block
