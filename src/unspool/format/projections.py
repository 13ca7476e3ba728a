r"""Parts of a line as JSON text, every field of them: what the typed record leaves out is still there.

In: an entry. Out: its usage and its tool calls, as they are written; if they cannot be cut out, as the record has them.

[merged: changes.py] How much a tool changed a file: its structured result in, lines added and removed out.

Rules
  1. What counts is the patch: each of its lines begins with a space, `+`, `-` or `\`.
  2. The result of creating a file has no patch: all its lines were added.

[merged: glance.py] A line at a glance: the few fields that say what a session is about and what was billed, decoded without the rest.

Rules
  1. A field that is here has the name and the type it has in `records.py`, so that a line which both decoders take says
     the same to both. What this one refuses goes the long way.
  2. A misfit in a field that is not here goes unnoticed. On the long way it would leave that field out, and no other.
  3. Only what need not be asked further is told from the type: who wants more of a line decodes it whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from unspool.format.base import ABSENT, UNDECODABLE, BilledUsage, Buffer, CamelShape, Shape
from unspool.format.blocks import ToolUse
from unspool.format.entry import Entry
from unspool.format.json_edit import encode
from unspool.format.records import Assistant, User
from unspool.format.repair_text import mend

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


class _Hunk(CamelShape, frozen=True):
    lines: tuple[str, ...] = ()


class Outcome(CamelShape, frozen=True):
    """As much of the result of a tool that changes files as tells how much it changed."""

    type: str | None = None
    content: str | None = None
    structured_patch: tuple[_Hunk, ...] = ()

    def lines(self) -> tuple[int, int] | None:
        """Return how many lines were added and removed; nothing if the result does not tell."""
        lines = [line for hunk in self.structured_patch for line in hunk.lines]
        if not lines and self.type == "create" and self.content is not None:
            return len(self.content.splitlines()), 0
        if not lines:
            return None
        return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


outcome: Callable[[Buffer | str], Outcome] = msgspec.json.Decoder(Outcome).decode


class GlanceBlock(Shape, frozen=True):
    """A content block: what kind it is, what it is known by, its words."""

    type: str | None = None
    id: str = ""
    tool_use_id: str = ""
    is_error: bool | None = None
    text: str = ""


class GlanceMessage(Shape, frozen=True):
    """The Messages API's part."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: BilledUsage | None = None
    content: str | tuple[GlanceBlock, ...] = ""


class Label(CamelShape, frozen=True):
    """What kind of thing something is: an attachment or progress by its type, an origin by its kind."""

    type: str | None = None
    kind: str | None = None


class Glance(CamelShape, frozen=True):
    """A line."""

    type: str | None = None
    message: GlanceMessage = GlanceMessage()
    uuid: str | None = None
    request_id: str | None = None
    timestamp: str | None = None
    session_id: str | None = None
    session_id_again: str | None = msgspec.field(default=None, name="session_id")
    agent_id: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    slug: str | None = None
    forked_from: object = None
    is_api_error_message: bool = False
    is_compact_summary: bool = False
    origin: Label | None = None
    subtype: str | None = None
    operation: str | None = None
    attachment: Label | None = None
    data: Label | None = None


glance: Callable[[Buffer], Glance] = msgspec.json.Decoder(Glance).decode
