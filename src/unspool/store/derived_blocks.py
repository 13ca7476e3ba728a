"""A content block as a row: a block in; its type, words, call, picture out. Nothing raises, whatever the block is."""

from __future__ import annotations

from collections.abc import Iterable

from unspool.format import blocks as b
from unspool.format.patch import encode


def joined(blocks: Iterable[b.AnyBlock]) -> str:
    """Return the words of a line, joined by line ends."""
    return "\n".join(block.text for block in blocks if isinstance(block, b.Text))


def block_row(block: b.AnyBlock, text: str | None, input: str | None) -> tuple[object, ...]:
    """Return type, text, tool_use_id, tool_name, input, is_error, media_type and data_bytes.

    `text` is that of a result, `input` that of a call: they are not decoded again.
    """
    kind = _type(block)
    match block:
        case b.Text(text=words):
            return kind, words, None, None, None, None, None, None
        case b.Thinking(thinking=words, signature=signature):
            return kind, words, None, None, None, None, None, len(signature or "")
        case b.RedactedThinking(data=data):
            return kind, None, None, None, None, None, None, len(data)
        case b.ToolUse(id=id, name=name):
            return kind, None, id, name, input, None, None, None
        case b.ToolResult(tool_use_id=id, is_error=error):
            return kind, text, id, None, None, bool(error), None, None
        case b.Image(source=source) | b.Document(source=source):
            is_text = source.type == "text"
            length = 0 if is_text else len(source.data or "")
            return kind, source.data if is_text else source.url, None, None, None, None, source.media_type, length
        case b.ToolReference(tool_name=name):
            return kind, None, None, name, None, None, None, None
        case b.ServerToolUse(id=id, name=name) | b.McpToolUse(id=id, name=name):
            return kind, None, id, name, _json(block.input), None, None, None
        case b.ServerToolResult(tool_use_id=id, content=content, is_error=error):
            return kind, _words(content), id, None, None, error, None, None
        case b.SearchResult(content=content) | b.Compaction(content=content):
            return kind, _words(content), None, None, None, None, None, None
        case b.Other(value=value):
            return kind, _json(value), None, None, None, None, None, None
        case _:
            return kind, None, None, None, None, None, None, None


def _type(block: b.AnyBlock) -> str | None:
    tag = type(block).__struct_config__.tag
    return tag if isinstance(tag, str) else getattr(block, "type", None)


def _words(content: object) -> str | None:
    return content if content is None or isinstance(content, str) else _json(content)


def _json(value: object) -> str:
    return encode(value).decode()
