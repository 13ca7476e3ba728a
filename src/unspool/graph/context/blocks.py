"""Represents a block of a message as it is sent to the API, with the line it comes from.

What decides the order of blocks is read from the record; the JSON of a block is decoded only when it is needed. It is
taken from the bytes of the line, so that it keeps every field, also unknown ones.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

import msgspec

from unspool.format import (
    AnyBlock,
    Assistant,
    Buffer,
    Entry,
    Other,
    Text,
    ToolResult,
    ToolUse,
    User,
    decode_raw_line,
    repair_text,
)

Json: TypeAlias = dict[str, Any]


_RENAMED_TOOLS = {"Task": "Agent", "ListPeers": "ListAgents"}
"""Tools that are sent under their new names, in old calls too: Claude Code 2.1.325 does so if it offers the new one."""
_SEND_MESSAGE_FIELDS = ("type", "recipient", "recipient_kind", "content", "request_id", "approve")
"""What the input of `SendMessage` has on disk besides what the model wrote."""
_EDIT_FIELDS = ("old_string", "new_string", "replace_all")


class ContextBlock(msgspec.Struct, frozen=True, gc=False):
    """A block and the line it came from; no line for what Claude Code adds when it resumes."""

    kind: str
    entry: Entry | None = None
    id: str | None = None
    """The id of a tool call; of a result, that of its call."""
    text: str | None = None
    """The text of a text block, as it is sent."""
    index: int = 0
    """The index of the block in its line."""
    override: Json | None = None
    """The JSON of the block, if it differs from that on the line."""

    @property
    def value(self) -> Json:
        """The JSON of the block, as the API takes it."""
        if self.override is not None:
            return self.override
        if self.entry is None:
            return {"type": "text", "text": self.text or ""}
        block = _decode_block(self.entry, self.index)
        if self.kind == "text" and block.get("text") != self.text:
            return {**block, "type": "text", "text": self.text or ""}
        return _prepare_call(block) if self.kind == "tool_use" else block

    @property
    def recorded(self) -> Json:
        """The JSON of the block as the line has it, without what Claude Code changes when it sends it."""
        return self.value if self.override is not None or self.entry is None else _decode_block(self.entry, self.index)


def _prepare_call(block: Json) -> Json:
    """Return a tool call as it is sent: by its new name, without fields that are only for the disk."""
    name, given = block.get("name"), block.get("input")
    if isinstance(name, str) and name in _RENAMED_TOOLS:
        block = {**block, "name": _RENAMED_TOOLS[name]}
    if not isinstance(given, dict):
        return block
    if name == "SendMessage" and "to" in given and ("message" in given or "notify_when_idle" in given):
        return {**block, "input": without_fields(given, _SEND_MESSAGE_FIELDS)}
    return without_single_edit(block)


def without_single_edit(block: Json) -> Json:
    """Return a call without the first of its edits in a form of its own: only the list of edits is sent."""
    given = block.get("input")
    if block.get("name") == "Edit" and isinstance(given, dict) and "edits" in given:
        return {**block, "input": without_fields(given, _EDIT_FIELDS)}
    return block


def without_fields(given: Json, names: Collection[str]) -> Json:
    """Return a JSON object without some of its fields."""
    return {key: value for key, value in given.items() if key not in names}


def text_block(text: str, entry: Entry | None = None) -> ContextBlock:
    """Return a text block that is not on a line in this form."""
    return ContextBlock("text", entry, text=text, override={"type": "text", "text": text})


def with_text(block: ContextBlock, text: str) -> ContextBlock:
    """Return a text block with another text."""
    override = None if block.override is None else {**block.override, "text": text}
    return msgspec.structs.replace(block, text=text, override=override)


def block_to_json(block: msgspec.Struct) -> Json:
    """Return the JSON of a block without the fields that are not set."""
    whole = msgspec.to_builtins(block)
    assert isinstance(whole, dict)
    return {
        key: {name: item for name, item in value.items() if item is not None} if isinstance(value, dict) else value
        for key, value in whole.items()
        if value is not None
    }


def entry_blocks(entry: Entry) -> list[ContextBlock]:
    """Return the blocks of a line that are sent: blank texts are not."""
    record = entry.record
    if not isinstance(record, User | Assistant):
        return []
    if isinstance(record.message.content, str):
        content = record.message.content
        return [text_block(content, entry)] if content.strip() else []
    blocks = (_convert_block(block, entry, index) for index, block in enumerate(record.message.content))
    return [block for block in blocks if block is not None]


def _convert_block(block: AnyBlock, entry: Entry, index: int) -> ContextBlock | None:
    # The two most frequent types first: `match` tries its cases one after the other.
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


def _decode_block(entry: Entry, index: int) -> Json:
    try:
        content = _decode_content(entry.raw)
    except (msgspec.DecodeError, UnicodeDecodeError):  # lone surrogates and the like: the line was read after a repair
        content = _decode_content(repair_text(entry.line.strip(b"\0\xef\xbb\xbf \t\r\n"))[0])
    block = content[index] if isinstance(content, list) else content
    assert isinstance(block, dict)
    return block


def _decode_content(line: Buffer) -> Any:
    return msgspec.json.decode(decode_raw_line(line).message.content)
