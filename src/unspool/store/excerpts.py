"""What is indexed of a line: its bytes in, excerpts out.

Rules
  1. Indexed is what people and models said, what went into tools, and of what came out the head and the tail.
  2. The parts of identifiers are indexed too, but not those in what came out of tools, which is half of all text: who
     looks for a part of a name in it has `scanning.py` look through it.
  3. An ordinary line of a conversation is decoded only as far as that takes (`_Line`), with the same outcome as by way
     of `passages.said`; every other line takes that way.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from unspool.format.plain import spoken
from unspool.format.shape import ABSENT, UNDECODABLE, Buffer
from unspool.graph.passages import Passage, joined, said, target_of

HEAD, TAIL = 400, 200
"""Characters of a tool's result that are indexed."""

_LONG: Final = 16 * (HEAD + TAIL)
"""Bytes of a result of which head and tail are decoded by themselves; a character is at most 12 of them."""


class Excerpt(NamedTuple):
    """What is indexed of a passage."""

    number: int
    """Of the passage in its line."""
    kind: str
    text: str
    call: str | None
    tool: str | None
    target: str | None
    failed: bool


class Said(NamedTuple):
    """What is indexed of one object of a line."""

    offset: int
    timestamp: str | None
    excerpts: list[Excerpt]


class _Block(msgspec.Struct, gc=False):
    type: str
    text: str = ""
    thinking: str = ""
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = ABSENT
    content: msgspec.Raw = ABSENT
    tool_use_id: str | None = None
    is_error: bool | None = None


class _Message(msgspec.Struct, gc=False):
    content: str | list[_Block]


class _Line(msgspec.Struct, gc=False, rename="camel"):
    type: str
    message: _Message | None = None
    timestamp: str | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_text = msgspec.json.Decoder(str).decode
_SILENT: Final = frozenset({"progress", "file-history-snapshot", "mode", "permission-mode"})
"""Lines that are frequent and in which nobody speaks."""


_RARE: Final = {"attachment": b"queued_command", "system": b"away_summary"}
"""Lines in which somebody may speak, and what they have then."""


def excerpts(line: Buffer, offset: int) -> list[Said]:
    """Return what is indexed of a line."""
    try:
        found = _decode_line(line)
    except UNDECODABLE:
        return _the_long_way(line, offset)
    if found.type in _SILENT or (found.type in _RARE and _RARE[found.type] not in bytes(line)):
        return []
    quickly = _conversation(found)
    return [Said(offset, found.timestamp, quickly)] if quickly is not None else _the_long_way(line, offset)


def _the_long_way(line: Buffer, offset: int) -> list[Said]:
    found = []
    for at, value in spoken(line, offset):
        stamp = value.get("timestamp")
        taken = [_of(number, passage) for number, passage in enumerate(said(value))]
        found.append(Said(at, stamp if isinstance(stamp, str) else None, taken))
    return found


def is_cut(passage: Passage) -> bool:
    """Tell whether only head and tail of a passage are indexed."""
    return passage.kind == "tool_result" and len(passage.text) > HEAD + TAIL


def _of(number: int, passage: Passage) -> Excerpt:
    text = f"{passage.text[:HEAD]}\n{passage.text[-TAIL:]}" if is_cut(passage) else passage.text
    return Excerpt(number, passage.kind, text, passage.call, passage.tool, passage.target, passage.failed)


def _conversation(line: _Line) -> list[Excerpt] | None:
    """Return what is indexed of an ordinary line of a conversation; nothing if it is none."""
    message = line.message
    if message is None or line.type not in ("user", "assistant"):
        return None
    kind = "answer" if line.type == "assistant" else "summary" if line.is_compact_summary else "prompt"
    failed, content = bool(line.is_api_error_message), message.content
    if isinstance(content, str):
        return [Excerpt(0, kind, content, None, None, None, failed)] if content else []
    found: list[Excerpt] = []
    for block in content:
        type, number = block.type, len(found)
        if type == "text":
            if block.text:
                found.append(Excerpt(number, kind, block.text, None, None, None, failed))
        elif type == "thinking":
            if block.thinking:
                found.append(Excerpt(number, "thinking", block.thinking, None, None, None, False))
        elif type == "tool_use":
            input = msgspec.json.decode(block.input) if block.input else None
            found.append(
                Excerpt(number, "tool_input", joined(input), block.id, block.name, target_of(input), failed=False)
            )
        elif type == "tool_result":
            text = _ends(block.content)
            if text is None:
                return None
            failed_call = block.is_error is True
            found.append(Excerpt(number, "tool_result", text, block.tool_use_id, None, None, failed_call))
        else:
            return None
    return found


def _ends(content: msgspec.Raw) -> str | None:
    """Return head and tail of a result that is a text, as JSON has it; nothing if it is something else."""
    raw = memoryview(content)
    if not raw:
        return ""
    if raw[0] != ord('"'):
        return None
    if len(raw) > _LONG:
        head, tail = bytes(raw[1 : 12 * HEAD]), bytes(raw[-12 * TAIL : -1])
        first, last = head.rfind(b" "), tail.find(b" ")  # no escape and no character has a blank inside
        if first > 0 and last >= 0:
            begins, ends = _decode_text(b'"%b"' % head[:first]), _decode_text(b'"%b"' % tail[last:])
            if len(begins) >= HEAD and len(ends) >= TAIL:
                return f"{begins[:HEAD]}\n{ends[-TAIL:]}"
    text = _decode_text(content)
    return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]}\n{text[-TAIL:]}"
