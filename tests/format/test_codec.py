"""From bytes to entries, whatever the bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import objects, written
from unspool.format.base import Unknown
from unspool.format.blocks import Fallback, Image, Other, Text, Thinking, ToolResult, ToolUse
from unspool.format.codec import HISTORY, decode
from unspool.format.meta_records import Mode, QueueOperation
from unspool.format.records import Assistant, Attachment, BadLine, Blank, Entry, Item, Progress, System, User
from unspool.format.side_files.json import HistoryEntry
from unspool.testing.build import assistant, image, result_block, session, thinking, tool_use, user

DEEP = b"[" * 100_000 + b"]" * 100_000


def spans(items: list[Item]) -> list[tuple[int, int]]:
    return [(item.offset, item.length) for item in items]


def only(line: bytes) -> Entry:
    (item,) = decode(line)
    assert isinstance(item, Entry), item
    return item


@given(objects)
def test_any_object_is_an_entry(value: dict[str, Any]) -> None:
    line = written(value) + b"\n"
    entry = only(line)
    assert entry.line == line
    kind = value.get("type")
    if isinstance(entry.record, Unknown):
        assert entry.record.type == (kind if isinstance(kind, str) else None)
    else:
        assert type(entry.record).__struct_config__.tag == kind


@given(st.binary(), st.integers(0, 1000))
def test_any_bytes_are_covered(data: bytes, offset: int) -> None:
    at = offset
    for item in decode(data, offset):
        assert item.offset == at
        at += item.length
    assert at == offset + len(data)


@given(st.lists(objects, min_size=1, max_size=4))
def test_documents_on_one_line_are_entries_of_their_own(values: list[dict[str, Any]]) -> None:
    documents = [written(value) for value in values]
    items = decode(b"".join(documents) + b"\n")
    assert all(isinstance(item, Entry) for item in items)
    assert [item.length for item in items] == [*map(len, documents[:-1]), len(documents[-1]) + 1]


@given(objects, objects, st.data())
def test_a_whole_document_after_a_torn_one_is_found(torn: Any, whole: Any, data: st.DataObject) -> None:
    head = written(torn)
    head = head[: data.draw(st.integers(1, len(head) - 1))] if len(head) > 1 else head
    tail = written({"type": "mode", "mode": "x", "rest": whole}) + b"\n"
    last = decode(head + tail)[-1]
    assert isinstance(last, Entry)
    assert last.line.endswith(tail) or isinstance(last.record, Unknown)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[1,2]\n", "not an object: a list"),
        (b"42\n", "not an object: a number"),
        (b'"words"\n', "not an object: a string"),
        (b"null\n", "not an object: null"),
        (b"true\n", "not an object: a boolean"),
        (DEEP, "not an object: a list"),
        (b"\0\0\0\n", "NUL padding"),
        (b"\xef\xbb\xbf\n", "byte order mark"),
        (b'{"type":"user","uuid":"a', "truncated JSON object"),
        (b'wrong"}\n', "truncated: not the start of a JSON object"),
        (b'{"a":NaN}\n', "malformed JSON: invalid character (byte 5)"),
        (b'{"a":"\x01"}\n', "malformed JSON: invalid character (byte 6)"),
        (b'{"type":"user","uuid":1,"a":tru}\n', "malformed JSON: invalid character (byte 32)"),
    ],
)
def test_what_is_no_object_is_a_bad_line_with_a_reason(line: bytes, reason: str) -> None:
    assert decode(line, 7) == [BadLine(7, len(line), reason)]


@pytest.mark.parametrize("line", [b"\n", b" \t\r\n", b""])
def test_white_space_is_blank(line: bytes) -> None:
    assert decode(line, 3) == ([Blank(3, len(line))] if line else [Blank(3, 0)])


@pytest.mark.parametrize(
    ("line", "flaws"),
    [
        (b'\xef\xbb\xbf{"type":"user"}\n', ("byte order mark",)),
        (b'\0\0{"type":"user"}\n', ("NUL padding",)),
        (b'{"type":"user"}\0\0\n', ("NUL padding",)),
        (b'{"type":"user","uuid":"\xff"}\n', ("invalid UTF-8",)),
        (rb'{"type":"user","uuid":"\ud800"}', ("lone surrogate",)),
        (rb'{"type":"user","uuid":"\ude00\ud83d"}', ("lone surrogate",)),
        (b'{"type":"user","cwd":"\xc3' + rb'","uuid":"\ud800"}', ("invalid UTF-8", "lone surrogate")),
        (b'{"type":"user","uuid":5}', ("unexpected type: uuid",)),
        (b'{"type":"user","deep":' + DEEP + b"}", ("nested too deeply: deep",)),
    ],
)
def test_what_can_be_mended_is_an_entry_with_a_flaw(line: bytes, flaws: tuple[str, ...]) -> None:
    entry = only(line)
    assert isinstance(entry.record, User)
    assert entry.flaws == flaws
    assert entry.line == line


def test_an_escaped_backslash_before_ud800_is_no_surrogate() -> None:
    entry = only(rb'{"type":"user","uuid":"\\ud800 \ud83d\ude00 \ud800"}')
    assert entry.record.uuid == "\\ud800 \U0001f600 \ufffd"


def test_carriage_returns_belong_to_the_line() -> None:
    assert spans(decode(b'{"type":"user"}\r\n')) == [(0, 17)]


def test_of_two_equal_keys_the_last_counts() -> None:
    assert only(b'{"type":"mode","mode":"a","mode":"b"}').record == Mode(mode="b")
    assert isinstance(only(b'{"type":"user","type":"assistant"}').record, Assistant)


def test_the_torn_end_of_a_record_costs_nothing_after_it() -> None:
    torn, whole = decode(b'ing"},"uuid":"x"}{"type":"mode"}\n')
    assert torn == BadLine(0, 17, "truncated: not the start of a JSON object")
    assert isinstance(whole, Entry)


def test_an_object_inside_a_torn_record_is_not_taken_for_a_line() -> None:
    assert decode(b'{"type":"user","message":{"role":"user"},"uu') == [BadLine(0, 44, "truncated JSON object")]


def test_what_is_left_of_a_torn_record_is_not_taken_for_a_line() -> None:
    line = b'{"type":"user","message":{"role":"user","content":[{"type":"text","text":"x"}{"type":"mode"}\n'
    torn, whole = decode(line)
    assert isinstance(torn, BadLine)
    assert isinstance(whole, Entry)
    assert whole.line == b'{"type":"mode"}\n'
    history = b'{"display":"a","pastedContents":{"1":{"id":1}{"display":"b","timestamp":5}\n'
    assert [item.length for item in decode(history, dialect=HISTORY)] == [45, 30]


def test_a_torn_line_full_of_braces_is_given_up_in_time() -> None:
    line = b'{"a":' * 20_000
    assert decode(line) == [BadLine(0, len(line), "truncated JSON object")]


def test_an_unknown_type_keeps_its_envelope() -> None:
    entry = only(b'{"type":"brand-new","uuid":"u","parentUuid":"p","payload":[1]}')
    assert entry.record == Unknown(type="brand-new", uuid="u", parent_uuid="p")
    assert entry.flaws == ()


def test_unknown_blocks_attachments_and_progress_are_kept_as_they_are() -> None:
    message = only(b'{"type":"user","message":{"content":[{"type":"new","x":1},"bare",{"type":"text","text":"t"}]}}')
    assert isinstance(message.record, User)
    assert message.record.message.blocks == (
        Other(type="new", value={"type": "new", "x": 1}),
        Other(value="bare"),
        Text(text="t"),
    )
    attached = only(b'{"type":"attachment","attachment":{"type":"new"}}').record
    assert isinstance(attached, Attachment)
    assert attached.attachment == Other(type="new", value={"type": "new"})
    moving = only(b'{"type":"progress","data":{"x":1},"toolUseID":"t"}').record
    assert isinstance(moving, Progress)
    assert (moving.data, moving.tool_use_id) == (Other(value={"x": 1}), "t")


def test_one_block_without_its_list_is_a_list_of_one() -> None:
    record = only(b'{"type":"user","message":{"content":{"type":"text","text":"t"}}}').record
    assert isinstance(record, User)
    assert record.message.blocks == (Text(text="t"),)


def test_a_misfit_costs_only_its_own_field() -> None:
    line = (
        b'{"type":"assistant","uuid":"u","message":{"id":"m","usage":{"input_tokens":3.0,"output_tokens":"9",'
        b'"cache_creation":{"ephemeral_5m_input_tokens":true},"iterations":[1,{"a":1}]},"content":[{"type":"text",'
        b'"text":null},{"type":"tool_use","id":7,"name":"Read"}]},"isApiErrorMessage":"yes","apiErrorStatus":{}}'
    )
    entry = only(line)
    assert isinstance(entry.record, Assistant)
    assert entry.record.uuid == "u"
    assert entry.record.message.usage is not None
    assert entry.record.message.usage.input_tokens == 3
    assert entry.record.message.blocks == (Text(), ToolUse(name="Read"))
    assert entry.flaws == tuple(
        f"unexpected type: {path}"
        for path in (
            "message.content[1].id",
            "message.usage.output_tokens",
            "message.usage.cache_creation.ephemeral_5m_input_tokens",
            "message.usage.iterations[0]",
            "isApiErrorMessage",
            "apiErrorStatus",
        )
    )


def test_encoded_fields_survive_the_slow_path() -> None:
    record = only(b'{"type":"user","uuid":5,"toolUseResult":{"stdout":"x"}}').record
    assert isinstance(record, User)
    assert bytes(record.tool_use_result) == b'{"stdout":"x"}'


def test_backups_that_do_not_fit_are_left_out_one_by_one() -> None:
    backups = b'{"a":{"version":1},"b":"text","c":{"version":"x"}}'
    line = b'{"type":"file-history-snapshot","snapshot":{"trackedFileBackups":' + backups + b"}}"
    entry = only(line)
    assert entry.flaws == (
        "unexpected type: snapshot.trackedFileBackups.c.version",
        "unexpected type: snapshot.trackedFileBackups.b",
    )


def test_null_is_the_same_as_absent() -> None:
    line = b'{"type":"system","subtype":null,"level":null,"isMeta":null,"hookInfos":null,"durationMs":5}'
    assert only(line).record == System(duration_ms=5)
    assert only(line).flaws == ()


def test_blocks_of_a_message_are_typed() -> None:
    made = session(
        user("look", image()),
        assistant(thinking("hm"), "words", tool_use("Read", id="t1", file_path="/a")),
        user(result_block("t1", [{"type": "text", "text": "x"}], error=True)),
    )
    kinds = [[type(b) for b in r.message.blocks] for r in made.records if isinstance(r, User | Assistant)]
    assert kinds == [[Text, Image], [Thinking], [Text], [ToolUse], [ToolResult]]
    answer = made.records[-1]
    assert isinstance(answer, User)
    (result,) = answer.message.blocks
    assert isinstance(result, ToolResult)
    assert result.blocks == (Text(text="x"),)
    assert result.is_error
    assert not result.is_text


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        (b'"a\xff"', (Text(text="a\ufffd"),)),
        (rb'"a\ud800"', (Text(text="a\ufffd"),)),
        (
            b'[{"type":"text","text":"a"},{"type":"new"},7]',
            (Text(text="a"), Other(type="new", value={"type": "new"}), Other(value=7)),
        ),
        (b'{"type":"text","text":"a"}', (Text(text="a"),)),
        (b"[" * 500 + b"]" * 500, None),
        (b"null", ()),
        (b'""', ()),
    ],
)
def test_any_content_of_a_result_gives_blocks(content: bytes, blocks: tuple[object, ...] | None) -> None:
    line = (
        b'{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":' + content + b"}]}}"
    )
    record = only(line).record
    assert isinstance(record, User)
    (result,) = record.message.blocks
    assert isinstance(result, ToolResult)
    assert blocks is None or result.blocks == blocks


def test_a_result_without_content_has_no_blocks() -> None:
    assert ToolResult().blocks == ()


def test_string_content_is_one_text_block_and_empty_content_none() -> None:
    first, second = session(user("hi"), user("")).records
    assert isinstance(first, User)
    assert isinstance(second, User)
    assert first.message.blocks == (Text(text="hi"),)
    assert second.message.blocks == ()


def test_a_keyword_as_key_has_a_name_of_its_own() -> None:
    record = only(b'{"type":"assistant","message":{"content":[{"type":"fallback","from":"a","to":"b"}]}}').record
    assert isinstance(record, Assistant)
    assert record.message.blocks == (Fallback(from_="a", to="b"),)


def test_queue_content_may_be_text_or_blocks_or_nothing() -> None:
    lines = [
        b'{"type":"queue-operation","content":"t"}',
        b'{"type":"queue-operation","content":[{"type":"text","text":"t"}]}',
    ]
    contents = [r.content for r in (only(line).record for line in lines) if isinstance(r, QueueOperation)]
    assert contents == ["t", (Text(text="t"),)]


def test_history_has_a_dialect_of_its_own() -> None:
    good, odd = (decode(line, dialect=HISTORY)[0] for line in (b'{"display":"x","timestamp":5}', b'{"display":7}'))
    assert isinstance(good, Entry)
    assert isinstance(odd, Entry)
    record: object = good.record
    assert isinstance(record, HistoryEntry)
    assert odd.flaws == ("unexpected type: display",)
