"""Parts of a line as JSON text, every field of them: what the typed record leaves out is still there.

In: an entry. Out: its usage and its tool calls, as they are written; if they cannot be cut out, as the record has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from unspool.format.blocks import ToolUse
from unspool.format.entry import Entry
from unspool.format.mend import mend
from unspool.format.patch import encode
from unspool.format.records import Assistant, User
from unspool.format.shape import ABSENT, UNDECODABLE, Buffer, Shape

BULKY = 4096
"""Characters of base64 after which a picture is left out."""


class Written(NamedTuple):
    """What is written on a line."""

    usage: str | None
    uses: list[tuple[str, str | None]]
    """Each `tool_use` block, and its input."""


class _Message(Shape, frozen=True):
    content: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT


class _Line(Shape, frozen=True):
    message: _Message = _Message()


class _Use(Shape, frozen=True):
    type: str | None = None
    input: msgspec.Raw = ABSENT


_line: Callable[[Buffer], _Line] = msgspec.json.Decoder(_Line).decode
_list: Callable[[Buffer], list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw]).decode
_use: Callable[[Buffer], _Use] = msgspec.json.Decoder(_Use).decode


def written(entry: Entry) -> Written:
    """Return the usage and the tool calls of an answer."""
    record = entry.record
    assert isinstance(record, User | Assistant)
    content = record.message.content
    uses = [] if isinstance(content, str) else [block for block in content if isinstance(block, ToolUse)]
    if not uses and record.message.usage is None and isinstance(record, User):
        return Written(None, [])
    try:
        message = _line(_text(entry)).message
        usage = _string(message.usage)
        cut = _cut(message.content) if uses else []
    except UNDECODABLE:
        usage, cut = None, []
    if usage is None or not usage.startswith("{"):
        usage = _json(record.message.usage) if record.message.usage is not None else None
    if len(cut) != len(uses):
        cut = [(_json(use), _json(use.input)) for use in uses]
    return Written(usage, cut)


def structured(raw: msgspec.Raw) -> str | None:
    """Return a structured result as text, without the bytes of pictures."""
    if not memoryview(raw).nbytes:
        return None
    text = _string(raw)
    if text is not None and len(text) > BULKY and ('"base64"' in text or '"image"' in text):
        try:
            return _json(_without_bytes(msgspec.json.decode(mend(bytes(raw))[0])))
        except UNDECODABLE:
            return None
    return text


def _without_bytes(value: object, key: str = "") -> object:
    match value:
        case dict():
            return {name: _without_bytes(one, name) for name, one in value.items()}
        case list():
            return [_without_bytes(one) for one in value]
        case str() if key in ("base64", "data") and len(value) > BULKY:
            return ""
        case _:
            return value


def _text(entry: Entry) -> bytes:
    text = bytes(entry.raw).strip(b"\0\xef\xbb\xbf \t\r\n")
    return mend(text)[0] if entry.flaws else text


def _cut(content: msgspec.Raw) -> list[tuple[str, str | None]]:
    found = []
    for block in _list(content):
        if bytes(memoryview(block)[:1]) == b"{" and (use := _use(block)).type == "tool_use":
            found.append((_string(block) or "null", _string(use.input)))
    return found


def _string(raw: msgspec.Raw) -> str | None:
    return bytes(raw).decode(errors="replace") or None


def _json(value: object) -> str:
    return encode(value).decode()
