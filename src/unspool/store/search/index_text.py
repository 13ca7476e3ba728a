"""What is indexed of a line: its bytes in, excerpts out.

Rules
  1. Indexed is what people and models said, what went into tools, and of what came out the head and the tail.
  2. The parts of names are indexed too, but not in what went into tools and came out of them (`WHOLE_NAMES`), which is
     most of the text: who looks for a part of a name there has `scanning.py` look through it.
  3. An ordinary line of a conversation is decoded only as far as that takes (`_Line`), with the same outcome as by way
     of `passages.said`; every other line takes that way.
"""

from __future__ import annotations

from string import ascii_letters, digits
from typing import Final, NamedTuple

import msgspec

from unspool.format.base import ABSENT, UNDECODABLE, Buffer
from unspool.format.plain_lines import Json, spoken
from unspool.graph.search_text import Passage, joined, said, target_of

WHOLE_NAMES: Final = frozenset({"tool_input", "tool_result"})
"""Kinds in which names are found whole by the index, and not by their parts."""

HEAD, TAIL = 300, 150
"""Characters of a tool's result that are indexed."""

_LETTERS: Final = ascii_letters + digits
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
    may_begin: bool
    """Whether a turn may begin with it: somebody speaks, if only by a picture."""
    compacts: bool = False
    """Whether the conversation goes on with a summary after it."""


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


_RARE: Final = {"attachment": (b"queued_command",), "system": (b"away_summary", b"compact_boundary")}
"""Lines that may be worth a look, and what they have then."""


def excerpts(line: Buffer, offset: int) -> list[Said]:
    """Return what is indexed of a line."""
    try:
        found = _decode_line(line)
        if found.type in _SILENT or (found.type in _RARE and not _is_rare(line, found.type)):
            return []
        if (quickly := _conversation(found)) is not None:
            may_begin = found.type == "user" and _is_more_than_results(quickly)
            return [Said(offset, found.timestamp, quickly, may_begin)]
    except UNDECODABLE:  # the line, or what was left encoded in it
        pass
    return _the_long_way(line, offset)


def _is_rare(line: Buffer, type: str) -> bool:
    data = bytes(line)
    return any(mark in data for mark in _RARE[type])


def _the_long_way(line: Buffer, offset: int) -> list[Said]:
    found = []
    for at, value in spoken(line, offset):
        stamp = value.get("timestamp")
        taken = [_of(number, passage) for number, passage in enumerate(said(value))]
        compacts = value.get("type") == "system" and value.get("subtype") == "compact_boundary"
        timestamp = stamp if isinstance(stamp, str) else None
        found.append(Said(at, timestamp, taken, _may_begin(value, taken), compacts))
    return found


def _may_begin(value: Json, taken: list[Excerpt]) -> bool:
    kind = value.get("type")
    if kind == "attachment":
        attachment = value.get("attachment")
        return isinstance(attachment, dict) and attachment.get("type") == "queued_command"
    return kind == "queue-operation" or (kind == "user" and _is_more_than_results(taken))


def _is_more_than_results(found: list[Excerpt]) -> bool:
    return not found or any(one.kind != "tool_result" for one in found)


def is_cut(passage: Passage) -> bool:
    """Tell whether only head and tail of a passage are indexed."""
    return passage.kind == "tool_result" and len(passage.text) > HEAD + TAIL


def _of(number: int, passage: Passage) -> Excerpt:
    text = _joined(passage.text, passage.text) if is_cut(passage) else passage.text
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
                return _joined(begins, ends)
    text = _decode_text(content)
    return text if len(text) <= HEAD + TAIL else _joined(text, text)


def _joined(begins: str, ends: str) -> str:
    """Return head and tail of a text, without the words that were cut in two: nobody wrote what is left of them."""
    head, tail = begins[:HEAD].rstrip(_LETTERS), ends[-TAIL:].lstrip(_LETTERS)
    while head and head[-1].isalnum():
        head = head[:-1]
    while tail and tail[0].isalnum():
        tail = tail[1:]
    return f"{head}\n{tail}"
