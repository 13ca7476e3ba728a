r"""Narrow decoders: a few fields of a line or of a tool result, decoded without the rest.

Loads no typed records: a cold `unspool usage` decodes every line with `Glance` and most commands need no more.

Rules
  1. A field that is here has the name and the type it has in `records.py`, so that a line which both decoders take
     gives the same values. What a narrow decoder refuses is decoded in full by the caller.
  2. A field of an unexpected type that is not here goes unnoticed. The full decoder would leave that field out, and no
     other.
  3. Only what the type of a line decides alone is decided from a `Glance`: who needs more of a line decodes it whole.
  4. How much a tool changed a file is counted by the patch: each of its lines begins with a space, `+`, `-` or `\`. The
     result of creating a file has no patch: all its lines were added.
"""

from collections.abc import Callable

import msgspec

from unspool.format.base import ABSENT, BilledUsage, Buffer, CamelShape, Shape


class _Hunk(CamelShape, frozen=True):
    lines: tuple[str, ...] = ()


class FileChangeResult(CamelShape, frozen=True):
    """The fields of a tool's structured result that say how much it changed a file."""

    type: str | None = None
    content: str | None = None
    structured_patch: tuple[_Hunk, ...] = ()

    def count_changed_lines(self) -> tuple[int, int] | None:
        """Return how many lines were added and removed, None if the result does not say."""
        lines = [line for hunk in self.structured_patch for line in hunk.lines]
        if not lines:
            is_new_file = self.type == "create" and self.content is not None
            return (len((self.content or "").splitlines()), 0) if is_new_file else None
        return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


decode_file_change: Callable[[Buffer | str], FileChangeResult] = msgspec.json.Decoder(FileChangeResult).decode


class BilledMessage(Shape, frozen=True):
    """The fields of a message that a bill needs."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    usage: BilledUsage | None = None


class BilledLine(CamelShape, frozen=True):
    """The fields of an assistant line that a bill needs, named as in `Assistant`."""

    # In the order in which Claude Code writes them: the decoder looks for the next key where it found the last.
    is_sidechain: bool | None = None
    cwd: str | None = None
    session_id: str | None = None
    version: str | None = None
    git_branch: str | None = None
    agent_id: str | None = None
    type: str | None = None
    message: BilledMessage = BilledMessage()
    request_id: str | None = None
    uuid: str | None = None
    timestamp: str | None = None
    forked_from: object = None
    session_id_again: str | None = msgspec.field(default=None, name="session_id")


class GlanceBlock(Shape, frozen=True):
    """A content block: its type, its ids and its text."""

    type: str | None = None
    id: str = ""
    tool_use_id: str = ""
    is_error: bool | None = None
    text: str = ""


class GlanceMessage(BilledMessage, frozen=True):
    """The Messages API's part of a line."""

    content: str | tuple[GlanceBlock, ...] = ""


class GlanceLabel(CamelShape, frozen=True):
    """The `type` of an attachment or of progress, the `kind` of an origin."""

    type: str | None = None
    kind: str | None = None


# A decoder for these fields takes a fraction of the time of the full one, because it skips content, results and the
# rest without building objects.
class Glance(BilledLine, frozen=True):
    """The fields of a line that say what a session is about and what was billed."""

    message: GlanceMessage = GlanceMessage()
    is_meta: bool | None = None
    slug: str | None = None
    is_api_error_message: bool = False
    is_compact_summary: bool = False
    origin: GlanceLabel | None = None
    subtype: str | None = None
    operation: str | None = None
    source_tool_use_id: str | None = msgspec.field(default=None, name="sourceToolUseID")
    prompt_id: str | None = None
    prompt_source: str | None = None
    turn_origin: str | None = None
    plan_content: str | None = None
    attachment: GlanceLabel | None = None
    data: GlanceLabel | None = None


class _LongGlanceBlock(Shape, frozen=True):
    """A `GlanceBlock` of a long line: its text is not decoded."""

    type: str | None = None
    id: str = ""
    tool_use_id: str = ""
    is_error: bool | None = None
    text: msgspec.Raw = ABSENT


class _LongGlanceMessage(BilledMessage, frozen=True):
    content: msgspec.Raw = ABSENT


class _LongGlance(Glance, frozen=True):
    message: _LongGlanceMessage = _LongGlanceMessage()  # type: ignore[assignment]


class BlockParts(Shape, frozen=True):
    """The fields of a content block besides its own text; what tools were given and returned is left encoded."""

    type: str
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = ABSENT
    content: msgspec.Raw = ABSENT
    tool_use_id: str | None = None
    is_error: bool | None = None


class TextBlock(BlockParts, frozen=True):
    """The fields of a content block that hold text."""

    text: str = ""
    thinking: str = ""


class TextMessage(Shape, frozen=True):
    """The content of a message."""

    content: str | tuple[TextBlock, ...]


class TextLine(CamelShape, frozen=True):
    """The fields of a line of a conversation that hold text, and whose text it is."""

    type: str
    message: TextMessage | None = None
    timestamp: str | None = None
    is_compact_summary: bool = False
    is_api_error_message: bool = False


class LongTextBlock(BlockParts, frozen=True):
    """A `TextBlock` of a long line: no text is decoded."""

    text: msgspec.Raw = ABSENT
    thinking: msgspec.Raw = ABSENT


class LongTextMessage(Shape, frozen=True):
    """The content of a message in a long line, left encoded."""

    content: msgspec.Raw


class LongTextLine(CamelShape, frozen=True):
    """A `TextLine` that is so long that its text is not decoded whole."""

    type: str
    message: LongTextMessage | None = None
    timestamp: str | None = None
    is_compact_summary: bool = False
    is_api_error_message: bool = False


class RawMessage(Shape, frozen=True):
    """The content and the usage of a message, left encoded."""

    content: msgspec.Raw = ABSENT
    usage: msgspec.Raw = ABSENT


class RawLine(Shape, frozen=True):
    """The part of a line that is sent to the API, left encoded."""

    message: RawMessage = RawMessage()


decode_billed_line: Callable[[Buffer], BilledLine] = msgspec.json.Decoder(BilledLine).decode
decode_glance: Callable[[Buffer], Glance] = msgspec.json.Decoder(Glance).decode
decode_text_line: Callable[[Buffer], TextLine] = msgspec.json.Decoder(TextLine).decode
decode_long_text_line: Callable[[Buffer], LongTextLine] = msgspec.json.Decoder(LongTextLine).decode
decode_long_text_blocks: Callable[[Buffer], tuple[LongTextBlock, ...]] = msgspec.json.Decoder(
    tuple[LongTextBlock, ...]
).decode
decode_raw_line: Callable[[Buffer], RawLine] = msgspec.json.Decoder(RawLine).decode

LONG_TEXT = 3 * 1024 * 1024
"""Bytes of a text from which on only its beginning is decoded where the rest is not needed."""

_decode_text: Callable[[Buffer], str] = msgspec.json.Decoder(str).decode
_decode_long_glance: Callable[[Buffer], _LongGlance] = msgspec.json.Decoder(_LongGlance).decode
_decode_long_glance_blocks: Callable[[Buffer], tuple[_LongGlanceBlock, ...]] = msgspec.json.Decoder(
    tuple[_LongGlanceBlock, ...]
).decode


def decode_beginning(text: msgspec.Raw) -> str:
    """Decode a JSON string, of one of more than `LONG_TEXT` bytes only so many, if there are spaces in them."""
    raw = memoryview(text)
    if len(raw) > LONG_TEXT:
        head = bytes(raw[1:LONG_TEXT])
        end = head.rfind(b" ")  # no escape and no character contains a space
        if end > 0:
            return _decode_text(b'"%b"' % head[:end])
    return _decode_text(text)


def decode_long_glance(line: Buffer) -> Glance:
    """Decode a line as `decode_glance` does, but only the beginnings of long texts.

    A prompt of 63 MB is not held a second time, as a string: `unspool sync` took 213 MB for it.
    """
    glance = _decode_long_glance(line)
    message = glance.message
    assert isinstance(message, _LongGlanceMessage)
    content = memoryview(message.content)
    blocks: str | tuple[GlanceBlock, ...] = ""
    if content and content[0] == ord('"'):
        blocks = decode_beginning(message.content)
    elif content:
        blocks = tuple(
            GlanceBlock(
                block.type,
                block.id,
                block.tool_use_id,
                block.is_error,
                decode_beginning(block.text) if memoryview(block.text) else "",
            )
            for block in _decode_long_glance_blocks(message.content)
        )
    short = GlanceMessage(message.id, message.model, message.stop_reason, message.usage, blocks)
    return msgspec.structs.replace(glance, message=short)
