"""A glance at a line says what the whole line says, or that it is not enough."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiles import examples
from unspool.format.base import DECODE_ERRORS
from unspool.format.codec import decode
from unspool.format.projections import decode_glance
from unspool.format.records import BadLine, Entry
from unspool.graph.session_facts import FactsCollector
from unspool.graph.session_facts_from_entries import add_entry_facts
from unspool.prices.from_entries import response_of_entry
from unspool.prices.responses import Response, count_once
from unspool.store.sync.read_file import ReadTask, read_batches

TIMES = ["2026-01-05T09:00:00.000Z", "2026-01-05T09:00:01.000Z", "2026-01-05T10:00:00Z"]
TOLD = {
    "type": "agent_progress",
    "agentId": "a1",
    "message": {"type": "assistant", "message": {"id": "m9", "model": "claude-opus-5", "usage": {"output_tokens": 4}}},
}

odd: st.SearchStrategy[Any] = st.sampled_from([None, 7, 1.5, "", "x", True, [], {}, [{}], {"type": "text"}, 10**30])
words = st.sampled_from(
    [
        "",
        "hi",
        "Warmup",
        "[Request interrupted by user]",
        "<command-name>/x</command-name>",
        "<ide_selection>y",
        '"usage"',
    ]
)
blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("text")}, optional={"text": words | odd, "citations": odd}),
    st.fixed_dictionaries(
        {"type": st.just("tool_use")}, optional={"id": st.sampled_from(["t1", "t2"]) | odd, "input": odd}
    ),
    st.fixed_dictionaries(
        {"type": st.just("tool_result")},
        optional={"tool_use_id": st.sampled_from(["t1", "t2"]) | odd, "is_error": st.booleans() | odd, "content": odd},
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["image", "document", "thinking", "new-block", None, 7])},
        optional={"source": odd, "text": odd, "id": odd},
    ),
    odd,
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["m1", "m2"]) | odd,
        "model": st.sampled_from(["claude-opus-5", "<synthetic>"]) | odd,
        "role": odd,
        "content": words | st.lists(blocks, max_size=3) | odd,
        "usage": st.fixed_dictionaries({}, optional={"input_tokens": st.integers(0, 3) | odd, "output_tokens": odd})
        | odd,
        "stop_reason": st.sampled_from([None, "end_turn"]) | odd,
        "container": odd,
    },
)
types = st.sampled_from(
    ["user", "user", "assistant", "assistant", "system", "attachment", "progress", "queue-operation", "custom-title",
     "ai-title", "summary", "pr-link", "file-history-snapshot", "mode", "new-type", "", None, 7]
)  # fmt: skip
records = st.fixed_dictionaries(
    {"type": types},
    optional={
        "message": messages | odd,
        "uuid": st.sampled_from(["u1", "u2", "u3"]) | odd,
        "timestamp": st.sampled_from(TIMES) | odd,
        "sessionId": st.just("s1") | odd,
        "cwd": st.sampled_from(["/w", "/v"]) | odd,
        "gitBranch": st.sampled_from(["main", "side"]) | odd,
        "version": st.just("2.1.1") | odd,
        "slug": st.just("a-slug") | odd,
        "agentId": st.just("a1") | odd,
        "isSidechain": st.booleans() | odd,
        "isMeta": st.booleans() | odd,
        "isCompactSummary": st.booleans() | odd,
        "isApiErrorMessage": st.booleans() | odd,
        "origin": st.sampled_from([{"kind": "system"}, {"kind": "human"}]) | odd,
        "subtype": st.sampled_from(["compact_boundary", "info"]) | odd,
        "compactMetadata": st.just({"postTokens": 5}) | odd,
        "attachment": st.sampled_from([{"type": "queued_command", "prompt": "hi"}, {"type": "new"}]) | odd,
        "operation": st.sampled_from(["enqueue", "remove"]) | odd,
        "content": words | odd,
        "customTitle": words | odd,
        "aiTitle": words | odd,
        "summary": words | odd,
        "leafUuid": st.sampled_from(["u1", "u9"]) | odd,
        "prUrl": st.just("https://x/1") | odd,
        "todos": odd,
        "toolUseResult": odd,
        "error": odd,
        "data": st.just(TOLD) | odd,
    },
)


def written(record: dict[str, Any], style: str) -> bytes:
    text = json.dumps(record, separators=(", ", ": ") if style == "spaced" else (",", ":")).encode()
    cases = {
        "reversed": json.dumps(dict(reversed(record.items()))).encode(),
        "escaped": text.replace(b'"message"', b'"m\\u0065ssage"').replace(b'"user"', b'"\\u0075ser"'),
        "twice": text[:-1] + b',"type":"user","uuid":"u7"}',
        "two": b'{"type":"user","message":{"role":"user","content":"before"}}' + text,
        "torn": text[: len(text) // 2],
        "mark": b"\xef\xbb\xbf" + text,
        "nul": b"\0\0" + text + b"\0",
        "return": text + b"\r",
        "utf-8": text.replace(b"hi", b"h\xff"),
        "surrogate": text.replace(b"hi", b"\\ud800"),
        "blank": b"  ",
        "list": b"[" + text + b"]",
    }
    return cases.get(style, text)


DAMAGE = ["spaced", "reversed", "escaped", "twice", "two", "torn",
          "mark", "nul", "return", "utf-8", "surrogate", "blank", "list"]  # fmt: skip
styles = st.sampled_from(["plain"] * 12 + DAMAGE)
texts = st.lists(st.builds(written, records, styles), max_size=6).map(
    lambda lines: b"".join(line + b"\n" for line in lines)
)


@given(texts)
@settings(max_examples=examples(400), deadline=None)
def test_glances_gather_what_entries_do(text: bytes) -> None:
    glanced, whole = FactsCollector(), FactsCollector()
    offset = 0
    for line in text.splitlines(keepends=True) if b"\r" not in text else _lines(text):
        entries = [item for item in decode(line, offset) if isinstance(item, Entry)]
        for entry in entries:
            add_entry_facts(whole, entry)
        try:
            is_enough = glanced.add_glance(offset, decode_glance(line))
        except DECODE_ERRORS:
            is_enough = False
        if not is_enough:
            for entry in entries:
                add_entry_facts(glanced, entry)
        offset += len(line)
    assert msgspec.to_builtins(glanced.without_uuids(), order="sorted") == msgspec.to_builtins(
        whole.without_uuids(), order="sorted"
    )
    assert glanced.facts() == whole.facts()


@given(texts, st.sampled_from(["session", "agent"]))
@settings(max_examples=examples(200), deadline=None)
def test_a_batch_has_what_the_entries_of_its_lines_say(text: bytes, kind: str) -> None:
    with TemporaryDirectory() as place:
        path = Path(place) / "s1.jsonl"
        path.write_bytes(text)
        (batch,) = read_batches(ReadTask(str(path), kind, archived=False))
    items, offset = [], 0
    for line in _lines(text):
        items += decode(line, offset)
        offset += len(line)
    found = [response_of_entry(item, str(path)) for item in items if isinstance(item, Entry)]
    billed = count_once((0, one) for one in found if isinstance(one, Response))
    assert sorted(batch.responses, key=lambda one: one.id) == sorted(
        (one.response for one in billed), key=lambda one: one.id
    )
    assert batch.bad_lines == [(one.offset, one.length, one.reason) for one in items if isinstance(one, BadLine)]
    assert batch.lines == sum(isinstance(item, Entry | BadLine) for item in items)


@pytest.mark.parametrize("type", ["custom-title", "ai-title", "summary", "pr-link"])
def test_a_note_wants_more_than_a_glance(type: str) -> None:
    gathering = FactsCollector()
    assert not gathering.add_glance(0, decode_glance(json.dumps({"type": type, "uuid": "u1"}).encode()))
    assert gathering == FactsCollector()


def _lines(text: bytes) -> list[bytes]:
    *lines, rest = text.split(b"\n")
    return [line + b"\n" for line in lines] + ([rest] if rest else [])
