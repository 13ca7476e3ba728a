"""Narrow decoders say the same as the full codec."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import objects, written
from unspool.format.base import DECODE_ERRORS, BilledUsage, Usage
from unspool.format.blocks import Message, Text
from unspool.format.codec import decode, decode_plain, decode_spoken_fields
from unspool.format.projections import (
    LONG_TEXT,
    BilledMessage,
    FileChangeResult,
    GlanceBlock,
    GlanceMessage,
    RawMessage,
    TextMessage,
    decode_billed_line,
    decode_file_change,
    decode_glance,
    decode_long_glance,
    decode_raw_line,
    decode_text_line,
)
from unspool.format.records import BadLine, Blank, Entry
from unspool.format.tools.files import EditResult, Hunk, WriteResult

PLACES = {"message", "origin", "attachment", "data"}
"""Fields of a glance that are structs of their own."""

counts = st.integers(0, 10**9)
usages = st.fixed_dictionaries(
    {"input_tokens": counts, "output_tokens": counts},
    optional={"cache_creation": st.fixed_dictionaries({"ephemeral_5m_input_tokens": counts}), "speed": st.text()},
)
messages = st.fixed_dictionaries(
    {"content": st.text() | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}))},
    optional={"id": st.text(), "model": st.text(), "stop_reason": st.none() | st.text(), "usage": usages},
)
spoken = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant"]), "message": messages},
    optional={"uuid": st.text(), "timestamp": st.text(), "session_id": st.text(), "isSidechain": st.booleans()},
)
lines = (spoken | objects).map(written)
torn = st.builds(lambda line, junk, at: line[: at % (len(line) + 1)] + junk + line, lines, st.binary(), st.integers(0))


def assert_same_message(narrow: BilledMessage | TextMessage | RawMessage, message: Message) -> None:
    if isinstance(narrow, RawMessage):
        billed = msgspec.json.decode(narrow.usage, type=BilledUsage | None) if narrow.usage else None
        blocks = msgspec.json.decode(narrow.content, type=str | tuple[GlanceBlock, ...]) if narrow.content else ""
        about = {"id": message.id, "model": message.model, "stop_reason": message.stop_reason}
        narrow = GlanceMessage(**about, usage=billed, content=blocks)
    if isinstance(narrow, BilledMessage):
        assert (narrow.id, narrow.model, narrow.stop_reason) == (message.id, message.model, message.stop_reason)
        usage = message.usage or Usage()
        for name in narrow.usage.__struct_fields__ if narrow.usage else ():
            assert getattr(narrow.usage, name) == getattr(usage, name)
    content: Any = getattr(narrow, "content", message.content)
    if isinstance(message.content, str):
        assert content == message.content
    else:
        texts = [block.text for block in message.content if isinstance(block, Text)]
        kinds = [block for block in content if getattr(block, "type", "text") == "text"]
        assert [block.text for block in kinds if hasattr(block, "text")] == texts


NARROW: list[Callable[[bytes], Any]] = [
    decode_billed_line, decode_glance, decode_long_glance, decode_text_line, decode_raw_line,
]  # fmt: skip


@given(lines, st.sampled_from(NARROW))
def test_a_narrow_line_has_the_values_of_the_record(line: bytes, decode_narrow: Callable[[bytes], Any]) -> None:
    (entry,) = decode(line)
    assert isinstance(entry, Entry)
    try:
        narrow = decode_narrow(line)
    except DECODE_ERRORS:
        return
    for name in set(narrow.__struct_fields__) - PLACES - {"type"}:
        if hasattr(entry.record, name):
            assert getattr(narrow, name) == getattr(entry.record, name), name
    if isinstance(message := getattr(entry.record, "message", None), Message) and narrow.message:
        with suppress(*DECODE_ERRORS):  # what a raw line leaves encoded may be anything
            assert_same_message(narrow.message, message)


@given(lines | torn)
def test_a_long_line_is_glanced_at_as_a_short_one(line: bytes) -> None:
    found = []
    for decode_narrow in (decode_glance, decode_long_glance):
        try:
            found.append(msgspec.structs.asdict(decode_narrow(line)))
        except DECODE_ERRORS:
            found.append({})
    assert found[0] == found[1]


@given(st.sampled_from(["word ", "Wörter ", '\\ "']), st.booleans())
def test_of_a_long_text_only_the_beginning_is_decoded(word: str, is_block: bool) -> None:
    text = word * (LONG_TEXT // len(word) + 1000)
    content = [{"type": "text", "text": text}, {"type": "text", "text": "short"}] if is_block else text
    glance = decode_long_glance(msgspec.json.encode({"type": "user", "message": {"content": content}}))
    blocks = glance.message.content
    beginning = blocks if isinstance(blocks, str) else blocks[0].text
    assert text.startswith(beginning)
    assert LONG_TEXT // 4 < len(beginning) < len(text)
    assert isinstance(blocks, str) or blocks[1].text == "short"


@given(st.binary() | lines | torn, st.integers(0, 1000))
def test_plain_lines_are_the_items_of_the_codec(line: bytes, offset: int) -> None:
    items = [item for item in decode(line, offset) if not isinstance(item, Blank)]
    plain = list(decode_plain(line, offset))
    assert [(item.offset, isinstance(item, BadLine)) for item in items] == [
        (at, isinstance(value, BadLine)) for at, value in plain
    ]


@given(lines | torn)
def test_spoken_fields_are_those_of_the_whole_object(line: bytes) -> None:
    whole = [(at, value) for at, value in decode_plain(line) if isinstance(value, dict)]
    fields = list(decode_spoken_fields(line))
    assert [at for at, _ in fields] == [at for at, _ in whole]
    for (_, some), (_, every) in zip(fields, whole, strict=True):
        assert some == {key: every[key] for key in some}


patches = st.lists(st.builds(Hunk, lines=st.lists(st.text(max_size=5)).map(tuple)), max_size=3).map(tuple)
results = st.builds(EditResult, structured_patch=patches) | st.builds(
    WriteResult, type=st.sampled_from([None, "create", "update"]), content=st.text(), structured_patch=patches
)


@given(results)
def test_lines_that_a_tool_changed_are_counted_as_in_its_whole_result(result: EditResult | WriteResult) -> None:
    changed = [line for hunk in result.structured_patch for line in hunk.lines]
    counted: Any = tuple(sum(line.startswith(sign) for line in changed) for sign in "+-") if changed else None
    if not changed and isinstance(result, WriteResult) and result.type == "create":
        counted = len(result.content.splitlines()), 0
    narrow = decode_file_change(msgspec.json.encode(result))
    assert isinstance(narrow, FileChangeResult)
    assert narrow.count_changed_lines() == counted
