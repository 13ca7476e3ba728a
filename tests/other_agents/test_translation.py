"""Translated lines keep every byte of the original, whatever it holds, and say no more than the original says."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.other_agents.agent_folders import WRITTEN, read_tables, session_files
from tests.profiles import examples
from unspool.format import Assistant, BadLine, Entry, System, Unknown, User, decode
from unspool.other_agents import read_originals
from unspool.other_agents.translate import (
    CodexTranslator,
    GeminiTranslator,
    OpenCodeTranslator,
    PiTranslator,
    Row,
    SessionTranslator,
    torn_line,
)

TRANSLATORS: list[type[SessionTranslator]] = [CodexTranslator, GeminiTranslator, PiTranslator]
FIXTURES = {
    translator: session_files(translator.program, WRITTEN / translator.program)[0].read_bytes()
    for translator in TRANSLATORS
}
EACH_TRANSLATOR = pytest.mark.parametrize("translator", TRANSLATORS, ids=lambda one: one.program)


def translate(translator: type[SessionTranslator], data: bytes) -> bytes:
    """Return the translated lines; between two of them the translator is stored and loaded, as between two readings."""
    *lines, torn = data.split(b"\n")
    state, written = translator(session_id="s"), b""
    for line in lines:
        written += state.translate(line + b"\n")
        state = msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(state))), translator)
    return written + torn_line(translator.program, torn)


def entries(lines: bytes) -> list[Entry]:
    """Return the entries of translated lines; there is nothing else."""
    items = [item for line in lines.splitlines() for item in decode(line)]
    assert not [item for item in items if isinstance(item, BadLine)]
    found = [item for item in items if isinstance(item, Entry)]
    assert not [entry.flaws for entry in found if entry.flaws]
    return found


def records(translator: type[SessionTranslator], *values: object) -> list[Any]:
    """Return the records of a file with a line for each value."""
    data = b"".join(json.dumps(value).encode() + b"\n" for value in values)
    return [entry.record for entry in entries(translate(translator, data))]


@EACH_TRANSLATOR
def test_what_the_agent_wrote_comes_back_byte_for_byte(translator: type[SessionTranslator]) -> None:
    data = FIXTURES[translator]
    written = translate(translator, data)
    assert read_originals(written) == data
    assert not [entry.record for entry in entries(written) if isinstance(entry.record, Unknown)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw a file of an agent with other values in its fields, other bytes in its lines, and an end anywhere."""
    lines = data.split(b"\n")
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.integers(0, 3)):
            case 0:
                lines[at] = draw(st.binary(max_size=40)).replace(b"\n", b"")
            case 1:
                lines[at] = lines[at][: draw(st.integers(0, len(lines[at])))]
            case 2:
                lines.insert(at, json.dumps(draw(json_values)).encode())
            case _:
                lines[at] = json.dumps(_change(draw, _loads(lines[at]))).encode()
    whole = b"\n".join(lines)
    return whole[: draw(st.integers(0, len(whole)))] if draw(st.booleans()) else whole


def _loads(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return {}


def _change(draw: st.DrawFn, value: Any) -> Any:
    """Replace a value somewhere in a value."""
    while isinstance(value, dict | list) and value and draw(st.integers(0, 4)):
        keys = sorted(value) if isinstance(value, dict) else range(len(value))
        key = draw(st.sampled_from(keys))
        value[key] = _change(draw, value[key])
        return value
    return draw(json_values)


@EACH_TRANSLATOR
@given(st.data())
@pytest.mark.parametrize("_", range(examples(3)))
def test_any_damage_gives_lines_with_the_same_bytes(
    translator: type[SessionTranslator], _: int, data: st.DataObject
) -> None:
    file = data.draw(damaged(FIXTURES[translator]))
    written = translate(translator, file)
    assert read_originals(written) == file
    entries(written[: written.rfind(b"\n") + 1])


@given(st.sampled_from(["session", "message", "part", "other"]), json_values)
def test_a_row_of_opencode_with_any_value_keeps_its_text(table: str, value: Any) -> None:
    translator, data = OpenCodeTranslator(session_id="s", role="user"), json.dumps(value).encode()
    written = translator.translate_row(Row(table, "id", data))
    assert read_originals(written) == data
    entries(written)


def test_the_text_of_each_row_of_opencode_comes_back() -> None:
    rows = [(table["table"], row) for table in read_tables() for row in table["rows"] if "data" in row]
    translator = OpenCodeTranslator(session_id="s")
    for table, row in rows:
        assert read_originals(translator.translate_row(Row(table, row["id"], row["data"].encode()))) == (
            row["data"].encode()
        )


@EACH_TRANSLATOR
def test_a_value_nested_without_end_is_kept(translator: type[SessionTranslator]) -> None:
    for line in (b"[" * 100_000, b'{"type":' * 100_000, b'{"type":"x","payload":' + b"[" * 600 + b"]" * 600 + b"}"):
        assert read_originals(translate(translator, line + b"\n")) == line + b"\n"


@EACH_TRANSLATOR
def test_a_line_of_an_unknown_type_is_kept_and_counted_as_unknown(translator: type[SessionTranslator]) -> None:
    (record,) = records(translator, {"type": "invented", "payload": {"text": "heron"}, "id": "1"})
    assert isinstance(record, Unknown)
    assert (record.type or "").startswith(f"{translator.program}/")


def usage_line(total: dict[str, int] | None, last: dict[str, int] | None = None) -> dict[str, Any]:
    info = {"total_token_usage": total, "last_token_usage": last}
    return {"type": "event_msg", "payload": {"type": "token_count", "info": info}}


def test_a_total_of_codex_that_is_repeated_counts_once() -> None:
    first, second = {"input_tokens": 100, "output_tokens": 10}, {"input_tokens": 250, "output_tokens": 30}
    lines = records(CodexTranslator, usage_line(first), usage_line(first), usage_line(second), usage_line(None))
    counted = [record.message.usage for record in lines if isinstance(record, Assistant)]
    assert [(usage.input_tokens, usage.output_tokens) for usage in counted if usage] == [(100, 10), (150, 20)]


def test_a_total_of_codex_that_falls_counts_as_its_last_request() -> None:
    high, low = {"input_tokens": 900, "output_tokens": 90}, {"input_tokens": 40, "output_tokens": 4}
    lines = records(CodexTranslator, usage_line(high, low), usage_line(low, low))
    counted = [record.message.usage for record in lines if isinstance(record, Assistant)]
    assert [(usage.input_tokens, usage.output_tokens) for usage in counted if usage] == [(40, 4), (40, 4)]


def test_what_a_sub_agent_of_codex_inherited_is_not_billed_to_it() -> None:
    meta = {"type": "session_meta", "ordinal": 0, "payload": {"id": "a", "subagent_history_start_ordinal": 3}}
    totals = [usage_line({"input_tokens": 100 * n, "output_tokens": n}) | {"ordinal": n} for n in (1, 2, 3)]
    lines = records(CodexTranslator, meta, *totals)
    counted = [record.message.usage for record in lines if isinstance(record, Assistant)]
    assert [usage.input_tokens for usage in counted if usage] == [100]


def test_a_fork_of_codex_repeats_a_response_under_the_same_id() -> None:
    answer = {"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": []}}
    one = records(CodexTranslator, {"type": "session_meta", "payload": {"id": "a"}}, answer)
    two = records(CodexTranslator, {"type": "session_meta", "payload": {"id": "b", "forked_from_id": "a"}}, answer)
    three = records(CodexTranslator, {"type": "session_meta", "payload": {"id": "c"}}, answer)
    assert one[1].message.id == two[1].message.id != three[1].message.id


def test_the_first_format_of_codex_has_items_without_an_envelope() -> None:
    head = {"id": "a", "timestamp": "2025-06-01T10:00:00.000Z", "instructions": None}
    prompt = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
    call = {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "c"}
    output = {"type": "function_call_output", "call_id": "c", "output": '{"output":"a","metadata":{"exit_code":2}}'}
    _, _, user, use, result = records(CodexTranslator, head, {"record_type": "state"}, prompt, call, output)
    assert isinstance(user, User)
    assert not user.is_meta
    assert use.message.content[0].input == {"command": ["ls"]}
    assert (result.message.content[0].content, result.message.content[0].is_error) == ("a", True)


def test_a_text_that_codex_writes_in_the_users_name_is_no_prompt() -> None:
    texts = ["<environment_context>x</environment_context>", "# AGENTS.md instructions for /x", "is a < b?"]
    lines = [
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"text": text}]}}
        for text in texts
    ]
    assert [bool(record.is_meta) for record in records(CodexTranslator, *lines)] == [True, True, False]


def test_a_compaction_is_a_boundary_and_a_summary() -> None:
    compacted = {"type": "compacted", "payload": {"message": "two herons"}}
    boundary, summary = records(CodexTranslator, compacted)
    assert isinstance(boundary, System)
    assert boundary.subtype == "compact_boundary"
    assert (summary.is_compact_summary, summary.parent_uuid) == (True, boundary.uuid)
    entry = {"type": "compaction", "id": "b", "parentId": "a", "summary": "two herons", "tokensBefore": 50}
    after = {"type": "message", "id": "c", "parentId": "b", "message": {"role": "user", "content": "go"}}
    boundary, summary, prompt = records(PiTranslator, entry, after)
    assert (boundary.compact_metadata.pre_tokens, prompt.parent_uuid) == (50, summary.uuid)


def test_a_branch_of_pi_is_a_branch() -> None:
    lines = [
        {"type": "message", "id": id, "parentId": parent, "message": {"role": "user", "content": id}}
        for id, parent in (("a", None), ("b", "a"), ("c", "a"))
    ]
    first, second, third = records(PiTranslator, *lines)
    assert first.parent_uuid is None
    assert second.parent_uuid == third.parent_uuid == first.uuid


def test_a_message_of_gemini_that_grows_is_translated_once() -> None:
    message = {"id": "m", "type": "gemini", "content": "yes", "model": "g", "tokens": {"input": 9, "output": 2}}
    call = {"id": "c", "name": "list_directory", "args": {}, "status": "executing"}
    done = call | {"status": "success", "result": [{"functionResponse": {"id": "c", "response": {"output": "a"}}}]}
    lines = [message, message, message | {"toolCalls": [call]}, message | {"toolCalls": [done]}]
    found = records(GeminiTranslator, *lines)
    blocks = [block for record in found if isinstance(record, Assistant | User) for block in record.message.content]
    assert [type(block).__name__ for block in blocks] == ["Text", "ToolUse", "ToolResult"]


def test_a_rewound_message_of_gemini_is_on_another_branch() -> None:
    lines = [{"id": id, "type": "user", "content": id} for id in "ab"]
    first, second, _, third = records(
        GeminiTranslator, *lines, {"$rewindTo": "b"}, {"id": "c", "type": "user", "content": "c"}
    )
    assert second.parent_uuid == third.parent_uuid == first.uuid


def test_a_document_of_gemini_is_translated_as_a_whole() -> None:
    messages = [{"id": "a", "type": "user", "content": "hello"}, {"id": "b", "type": "gemini", "content": "hi"}]
    data = json.dumps({"sessionId": "s", "projectHash": "p", "messages": messages}, indent=2).encode()
    written = GeminiTranslator(session_id="s").translate(data)
    assert read_originals(written) == data
    assert [type(entry.record).__name__ for entry in entries(written)] == ["OtherAgentLine", "User", "Assistant"]


def test_what_a_format_does_not_say_is_not_written() -> None:
    answer = {"type": "message", "id": "a", "message": {"role": "assistant", "content": []}}
    (record,) = records(PiTranslator, answer)
    assert (record.message.usage, record.message.model, record.message.stop_reason) == (None, None, None)
    assert (record.cwd, record.version, record.git_branch, record.timestamp) == (None, None, None, None)
