"""Extracts the texts of a line that go into the full-text index.

Rules
  1. Indexed is what people and models wrote, the input of tools, and of their results the head and the tail; of a text
     of more than `MAX_INDEXED` characters only its beginning. What is not indexed is scanned (`scan.py`).
  2. The parts of identifiers are indexed too, but not for the input and the results of tools (`WHOLE_NAMES`), which are
     most of the text: a search for a part of an identifier scans them instead (`scan.py`).
  3. An ordinary line of a conversation is decoded only as far as that needs (`TextLine`), with the same outcome as by
     way of `graph/search_text.py`; every other line is decoded in full.
  4. Of a line of many megabytes no text is decoded that is not indexed: beside the line itself hardly any memory is
     needed.
"""

from __future__ import annotations

import re
from string import ascii_letters, digits
from typing import Final, NamedTuple

import msgspec

from unspool.format import (
    DECODE_ERRORS,
    LONG_TEXT,
    Buffer,
    Json,
    LongTextBlock,
    LongTextLine,
    TextLine,
    TextMessage,
    decode_beginning,
    decode_long_text_blocks,
    decode_long_text_line,
    decode_spoken_fields,
    decode_text_line,
)
from unspool.graph import Passage, extract_text_passages, find_target_path, join_texts

WHOLE_NAMES: Final = frozenset({"tool_input", "tool_result"})
"""Kinds in which the index finds identifiers whole, but not by their parts."""

HEAD, TAIL = 300, 150
"""Characters of a tool's result that are indexed, from its beginning and its end."""

MAX_INDEXED = 262_144
"""Characters of a text that are indexed at most."""

_LETTERS: Final = ascii_letters + digits
_MAX_ESCAPED: Final = 12
"""Bytes that JSON takes for a character at most: two escapes."""
_LONG_LINE: Final = LONG_TEXT
"""Bytes of a line from which on its texts are decoded only as far as they are indexed."""
assert LONG_TEXT >= _MAX_ESCAPED * MAX_INDEXED
_MAX_SHORTENED_DEPTH: Final = 8
_LONG_RESULT: Final = 16 * (HEAD + TAIL)
"""Bytes of a result from which on only head and tail are decoded, whatever is in it: of `_MAX_ESCAPED` a character."""
_USUAL_RESULT: Final = 4 * (HEAD + TAIL)
"""The same for most results, whose characters are a byte or two each."""


class IndexedRecord(NamedTuple):
    """What is indexed of one JSON object of a line."""

    offset: int
    timestamp: str | None
    texts: list[Passage]
    """Its passages; of long results the head and the tail."""
    may_start_turn: bool
    """Whether a turn may begin with it: somebody writes, if only an image."""
    is_compaction: bool = False
    """Whether the conversation continues with a summary after it."""


_decode_text = msgspec.json.Decoder(str).decode
_decode_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_raw_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_SILENT: Final = frozenset({"progress", "file-history-snapshot", "mode", "permission-mode"})
"""Types of frequent lines without any text to index."""
_RARELY_INDEXED: Final = {
    "attachment": re.compile(b"queued_command"),
    "system": re.compile(b"away_summary|compact_boundary"),
}
"""Types of lines that are indexed only if they contain one of these."""


def extract_texts(line: Buffer, offset: int) -> list[IndexedRecord]:
    """Return the texts of a line that are indexed, for each JSON object in it."""
    try:
        decoded = decode_long_text_line(line) if len(line) > _LONG_LINE else decode_text_line(line)
        marks = _RARELY_INDEXED.get(decoded.type)
        if decoded.type in _SILENT or (marks and not marks.search(line)):
            return []
        if (texts := _extract_from_conversation(decoded)) is not None:
            if len(line) > MAX_INDEXED:
                texts = list(map(_cut_passage, texts))
            may_start_turn = decoded.type == "user" and _has_more_than_results(texts)
            return [IndexedRecord(offset, decoded.timestamp, texts, may_start_turn)]
    except DECODE_ERRORS:  # the line, or what was left encoded in it
        pass
    return _extract_decoding_all(shorten_line(line), offset)


def _extract_decoding_all(line: Buffer, offset: int) -> list[IndexedRecord]:
    records = []
    for at, value in decode_spoken_fields(line, offset):
        texts = list(map(_cut_passage, extract_text_passages(value)))
        is_compaction = value.get("type") == "system" and value.get("subtype") == "compact_boundary"
        stamp = value.get("timestamp")
        timestamp = stamp if isinstance(stamp, str) else None
        records.append(IndexedRecord(at, timestamp, texts, _may_start_turn(value, texts), is_compaction))
    return records


def _may_start_turn(value: Json, texts: list[Passage]) -> bool:
    kind = value.get("type")
    if kind == "attachment":
        attachment = value.get("attachment")
        return isinstance(attachment, dict) and attachment.get("type") == "queued_command"
    return kind == "queue-operation" or (kind == "user" and _has_more_than_results(texts))


def _has_more_than_results(texts: list[Passage]) -> bool:
    return not texts or any(text.kind != "tool_result" for text in texts)


def is_cut(passage: Passage) -> bool:
    """Whether only a part of a passage is indexed."""
    return len(passage.text) > (HEAD + TAIL if passage.kind == "tool_result" else MAX_INDEXED)


def _cut_passage(passage: Passage) -> Passage:
    """Return a passage with the text of it that is indexed."""
    if not is_cut(passage):
        return passage
    text = passage.text
    if passage.kind == "tool_result":
        return passage._replace(text=_head_and_tail(text, text))
    return passage._replace(text=_without_last_word(text[:MAX_INDEXED]))


def shorten_line(line: Buffer) -> Buffer:
    """Return a long line with only the beginnings of its texts, for those who need no more; any other as it is."""
    if len(line) <= _LONG_LINE:
        return line
    try:
        return msgspec.json.encode(_shorten(msgspec.Raw(line)))
    except DECODE_ERRORS:
        return line


def _shorten(raw: msgspec.Raw, depth: int = 0) -> object:
    view = memoryview(raw)
    if len(view) <= MAX_INDEXED:
        return raw
    match chr(view[0]):
        case '"':
            return decode_beginning(raw)[: MAX_INDEXED + 1]  # one more: that it is cut can be seen
        case "{" if depth < _MAX_SHORTENED_DEPTH:
            return {name: _shorten(value, depth + 1) for name, value in _decode_raw_object(raw).items()}
        case "[" if depth < _MAX_SHORTENED_DEPTH:
            return [_shorten(value, depth + 1) for value in _decode_raw_list(raw)]
        case _:
            return None


def _extract_from_conversation(line: TextLine | LongTextLine) -> list[Passage] | None:
    """Return the texts of an ordinary line of a conversation; null if it is another line."""
    message = line.message
    if message is None or line.type not in ("user", "assistant"):
        return None
    kind = "answer" if line.type == "assistant" else "summary" if line.is_compact_summary else "prompt"
    role, failed = line.type, line.is_api_error_message
    content = message.content if isinstance(message, TextMessage) else _decode_long_content(message.content)
    if isinstance(content, str):
        return [Passage(kind, role, content, failed=failed)] if content else []
    found: list[Passage] = []
    for block in content:
        type = block.type
        if type == "text":
            if text := _text_of(block.text):
                found.append(Passage(kind, role, text, failed=failed))
        elif type == "thinking":
            if text := _text_of(block.thinking):
                found.append(Passage("thinking", role, text))
        elif type == "tool_use":
            input = _decode_input(block.input) if block.input else None
            about = (block.id, block.name, find_target_path(input))
            found.append(Passage("tool_input", role, join_texts(input), *about))
        elif type == "tool_result":
            result = _decode_head_and_tail(block.content)
            if result is None:
                return None
            found.append(Passage("tool_result", role, result, block.tool_use_id, failed=block.is_error is True))
        else:
            return None
    return found


def _decode_long_content(content: msgspec.Raw) -> str | tuple[LongTextBlock, ...]:
    """Return the content of a message in a long line: the beginning of a text, or blocks."""
    return decode_beginning(content) if bytes(memoryview(content)[:1]) == b'"' else decode_long_text_blocks(content)


def _text_of(text: str | msgspec.Raw) -> str:
    return text if isinstance(text, str) else decode_beginning(text) if text else ""


def _decode_input(input: msgspec.Raw) -> object:
    """Return the input of a tool; of a long one only the beginnings of its texts."""
    if len(memoryview(input)) <= _LONG_LINE:
        return msgspec.json.decode(input)
    return {
        name: decode_beginning(value) if bytes(memoryview(value)[:1]) == b'"' else msgspec.json.decode(value)
        for name, value in _decode_raw_object(input).items()
    }


def _decode_head_and_tail(content: msgspec.Raw) -> str | None:
    """Return head and tail of a result that is a JSON string; null if it is something else."""
    raw = memoryview(content)
    if not raw:
        return ""
    if raw[0] != ord('"'):
        return None
    for least, bytes_each in ((_USUAL_RESULT, 2), (_LONG_RESULT, _MAX_ESCAPED)):
        if len(raw) > least and (cut := _decode_ends(raw, bytes_each)) is not None:
            return cut
    text = _decode_text(content)
    return text if len(text) <= HEAD + TAIL else _head_and_tail(text, text)


def _decode_ends(raw: memoryview, bytes_each: int) -> str | None:
    """Return head and tail of a JSON string, from so many bytes for each character; null if these are too few.

    There must be more bytes between the two.
    """
    head, tail = bytes(raw[1 : bytes_each * HEAD]), bytes(raw[-bytes_each * TAIL : -1])
    first, last = head.rfind(b" "), tail.find(b" ")  # no escape and no character contains a space
    if first <= 0 or last < 0:
        return None
    start, end = _decode_text(b'"%b"' % head[:first]), _decode_text(b'"%b"' % tail[last:])
    return _head_and_tail(start, end) if len(start) >= HEAD and len(end) >= TAIL else None


def _head_and_tail(start: str, end: str) -> str:
    """Return head and tail of a text without the words that were cut in two: nobody wrote what is left of them."""
    head, tail = _without_last_word(start[:HEAD]), end[-TAIL:].lstrip(_LETTERS)
    while tail and tail[0].isalnum():
        tail = tail[1:]
    return f"{head}\n{tail}"


def _without_last_word(text: str) -> str:
    text = text.rstrip(_LETTERS)
    while text and text[-1].isalnum():  # letters outside ASCII
        text = text[:-1]
    return text
