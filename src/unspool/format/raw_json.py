"""Cuts the usage, the tool calls and the structured result of an entry out of its line, as JSON text.

The text has every field, also those that the typed record leaves out. What cannot be cut out
is encoded from the record.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from unspool.format.base import ABSENT, DECODE_ERRORS, Buffer, Shape, encode_json
from unspool.format.blocks import ToolUse
from unspool.format.json_edit import repair_text
from unspool.format.projections import decode_raw_line
from unspool.format.records import Assistant, Entry, User

MAX_BASE64 = 4096
"""Characters of base64 above which the bytes of an image are left out of a structured result."""


class RawJson(NamedTuple):
    """JSON text of parts of a line."""

    usage: str | None
    uses: list[tuple[str, str | None]]
    """Each `tool_use` block, and its input."""


class _RawBlock(Shape, frozen=True):
    type: str | None = None
    input: msgspec.Raw = ABSENT


_decode_list: Callable[[Buffer], list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_block: Callable[[Buffer], _RawBlock] = msgspec.json.Decoder(_RawBlock).decode


def cut_raw_json(entry: Entry) -> RawJson:
    """Return the usage and the tool calls of a user or assistant line as they are written."""
    record = entry.record
    assert isinstance(record, User | Assistant)
    content = record.message.content
    uses = [] if isinstance(content, str) else [block for block in content if isinstance(block, ToolUse)]
    if not uses and record.message.usage is None and isinstance(record, User):
        return RawJson(None, [])
    try:
        line = bytes(entry.raw).strip(b"\0\xef\xbb\xbf \t\r\n")
        message = decode_raw_line(repair_text(line)[0] if entry.flaws else line).message
        usage = _to_text(message.usage)
        cut = _cut_tool_uses(message.content) if uses else []
    except DECODE_ERRORS:
        usage, cut = None, []
    if usage is None or not usage.startswith("{"):
        usage = encode_json(record.message.usage).decode() if record.message.usage is not None else None
    if len(cut) != len(uses):
        cut = [(encode_json(use).decode(), encode_json(use.input).decode()) for use in uses]
    return RawJson(usage, cut)


def _cut_tool_uses(content: msgspec.Raw) -> list[tuple[str, str | None]]:
    uses = []
    for block in _decode_list(content):
        # Content may hold strings between its blocks; the decoder of a block would refuse them.
        if bytes(memoryview(block)[:1]) == b"{" and (use := _decode_block(block)).type == "tool_use":
            uses.append((_to_text(block) or "null", _to_text(use.input)))
    return uses


def structured_result_text(raw: msgspec.Raw) -> str | None:
    """Return a structured tool result as JSON text, without the bytes of images."""
    text = _to_text(raw)
    if text is not None and len(text) > MAX_BASE64 and ('"base64"' in text or '"image"' in text):
        try:
            return encode_json(_without_image_bytes(msgspec.json.decode(repair_text(bytes(raw))[0]))).decode()
        except DECODE_ERRORS:
            return None
    return text


def _without_image_bytes(value: object, key: str = "") -> object:
    match value:
        case dict():
            return {name: _without_image_bytes(member, name) for name, member in value.items()}
        case list():
            return [_without_image_bytes(element) for element in value]
        case str() if key in ("base64", "data") and len(value) > MAX_BASE64:
            return ""
        case _:
            return value


def _to_text(raw: msgspec.Raw) -> str | None:
    return bytes(raw).decode(errors="replace") or None
