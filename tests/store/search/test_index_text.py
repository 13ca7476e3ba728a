"""What is indexed of a line: the quick way and the long way have one outcome."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.strategies import json_values, objects, texts, written
from unspool.format.codec import decode_spoken_fields
from unspool.graph.search_text import extract_text_passages
from unspool.store.search import index_text as under_test
from unspool.store.search.index_text import (
    _LONG_LINE,
    HEAD,
    MAX_INDEXED,
    TAIL,
    IndexedRecord,
    extract_texts,
    is_cut,
    shorten_line,
)

SESSION = "11111111-1111-4111-8111-111111111111"

WORDS = st.sampled_from(["", "a", "fooBar ☃", '\n\\ " \x00 \ud83d\ude00', "é" * 700, "word " * 900, "x" * 20_000])
long_texts = st.lists(WORDS, max_size=4).map("".join)
blocks: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": long_texts | json_values}),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": long_texts | st.none()}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["tool_use", "server_tool_use"]), "input": json_values},
        optional={"id": texts, "name": texts | st.none()},
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["tool_result", "web_search_tool_result"]), "content": long_texts | json_values},
        optional={"tool_use_id": texts, "is_error": st.booleans() | st.none()},
    ),
    objects,
    json_values,
)
lines = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant"])},
    optional={
        "message": st.fixed_dictionaries({"content": long_texts | st.lists(blocks, max_size=4)}) | json_values,
        "timestamp": texts | json_values,
        "isCompactSummary": st.booleans() | json_values,
        "isApiErrorMessage": st.booleans() | json_values,
        "toolUseResult": json_values,
    },
)


def the_long_way(line: bytes) -> list[IndexedRecord]:
    return under_test._extract_decoding_all(line, 7)


def spoken_of(found: list[IndexedRecord]) -> list[IndexedRecord]:
    return [one for one in found if one.texts or one.may_start_turn]


@settings(deadline=None)
@given(lines | objects, st.booleans())
@example({"type": "user", "message": {"content": [{"type": "tool_result", "content": "\\" * 9000 + " x"}]}}, True)
@example({"type": "user", "message": {"content": [{"type": "tool_result", "content": "☃ " * 9000}]}}, True)
def test_the_quick_way_finds_what_extract_decoding_all_does(line: dict[str, Any], escaped: bool) -> None:
    data = json.dumps(line).encode() if escaped else written(line)
    assert spoken_of(extract_texts(data, 7)) == spoken_of(the_long_way(data))


@settings(deadline=None)
@given(lines, st.data())
def test_damaged_bytes_are_read_extract_decoding_all(line: dict[str, Any], data: st.DataObject) -> None:
    damaged = bytearray(written(line))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    quick, long = (spoken_of(way) for way in (extract_texts(bytes(damaged), 7), the_long_way(bytes(damaged))))
    assert [(one.offset, one.timestamp, len(one.texts)) for one in quick] == [
        (one.offset, one.timestamp, len(one.texts)) for one in long
    ]


@settings(deadline=None)
@given(lines)
def test_an_excerpt_is_the_passage_or_its_ends(line: dict[str, Any]) -> None:
    data = json.dumps(line).encode()
    for one, (_, value) in zip(extract_texts(data, 0), decode_spoken_fields(data), strict=False):
        for excerpt, passage in zip(one.texts, extract_text_passages(value), strict=True):
            assert excerpt.kind == passage.kind
            if not is_cut(passage):
                assert excerpt.text == passage.text
                continue
            ends = [place for place, letter in enumerate(excerpt.text) if letter == "\n"]
            parts = [(excerpt.text[:place], excerpt.text[place + 1 :]) for place in ends]
            assert any(
                passage.text.startswith(head)
                and passage.text.endswith(tail)
                and len(head) <= HEAD
                and len(tail) <= TAIL
                for head, tail in parts
            )


@settings(deadline=None)
@given(st.text("ab ß数\n", min_size=HEAD + TAIL + 1, max_size=2 * (HEAD + TAIL)))
def test_no_word_is_cut_in_two(words: str) -> None:
    line = {"type": "user", "message": {"content": [{"type": "tool_result", "content": words}]}}
    ((one,),) = (said.texts for said in extract_texts(json.dumps(line).encode(), 0))
    assert set(one.text.split()) <= set(words.split())


def test_lines_that_are_no_lines_have_nothing_to_index() -> None:
    for data in (b"", b"\n", b"[1]", b'{"type":"user","message":{"content":"torn', b"\xff", b"null"):
        assert spoken_of(extract_texts(data, 0)) == []


def test_two_documents_on_a_line_have_their_own_places() -> None:
    one = {"type": "user", "message": {"content": "one"}, "uuid": "1"}
    two = {"type": "assistant", "message": {"content": [{"type": "text", "text": "two"}]}, "uuid": "2"}
    data = json.dumps(one).encode() + json.dumps(two).encode()
    found = extract_texts(data, 100)
    assert [(said.offset, [e.text for e in said.texts]) for said in found] == [
        (100, ["one"]),
        (100 + len(json.dumps(one)), ["two"]),
    ]


SENTENCE = "The lighthouse keeper wrote é ☃ down what he saw. "
LONG = SENTENCE * (14 * MAX_INDEXED // len(SENTENCE))
LONG_LINES: dict[str, dict[str, Any]] = {
    "prompt": {"type": "user", "message": {"content": LONG}},
    "summary": {"type": "user", "isCompactSummary": True, "message": {"content": [{"type": "text", "text": LONG}]}},
    "answer": {
        "type": "assistant",
        "message": {"content": [{"type": "text", "text": LONG}, {"type": "text", "text": "x"}]},
    },
    "thinking": {"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": LONG}]}},
    "input": {
        "type": "assistant",
        "message": {
            "content": [
                {"type": "tool_use", "id": "t1", "name": "Write", "input": {"file_path": "/a", "content": LONG}}
            ]
        },
    },
    "result": {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t1", "content": LONG}]}},
    "queued": {"type": "queue-operation", "operation": "enqueue", "content": LONG},
    "beside": {"type": "user", "message": {"content": "short"}, "toolUseResult": {"content": LONG}},
}  # fmt: skip


@pytest.mark.parametrize("name", LONG_LINES)
@pytest.mark.parametrize("escaped", [True, False])
def test_of_a_long_line_the_same_is_indexed_as_if_it_were_decoded_whole(name: str, escaped: bool) -> None:
    line = {**LONG_LINES[name], "timestamp": "2026-01-02T03:04:05.000Z", "uuid": "u"}
    data = json.dumps(line, ensure_ascii=escaped).encode()
    assert len(data) > _LONG_LINE
    assert spoken_of(extract_texts(data, 7)) == spoken_of(the_long_way(data))
    for record in extract_texts(data, 7):
        assert all(len(passage.text) <= MAX_INDEXED for passage in record.texts)
    for at, value in decode_spoken_fields(data, 7):
        cut = [passage for passage in extract_text_passages(value) if len(passage.text) > MAX_INDEXED]
        assert all(map(is_cut, cut)), at


def test_a_result_in_a_long_line_that_is_no_string_is_indexed_by_its_head() -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": LONG}]}
    data = json.dumps({"type": "user", "message": {"content": [result]}}).encode()
    (quick,), (long,) = extract_texts(data, 7), the_long_way(data)
    assert quick.texts[0].text[: HEAD - 20] == long.texts[0].text[: HEAD - 20]
    assert quick.texts[0].call == "t1"


def test_a_shortened_line_keeps_everything_but_the_ends_of_long_texts() -> None:
    line = {"type": "user", "message": {"content": [{"type": "text", "text": LONG}, 1.5, None]}, "uuid": "u", "n": [1]}
    short = json.loads(bytes(shorten_line(json.dumps(line).encode())))
    text = short["message"]["content"][0].pop("text")
    assert short == {"type": "user", "message": {"content": [{"type": "text"}, 1.5, None]}, "uuid": "u", "n": [1]}
    assert LONG.startswith(text)
    assert shorten_line(b'{"a": 1}') == b'{"a": 1}'
    broken = b'{"a": "' + LONG.encode()
    assert shorten_line(broken) is broken


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prompt", "input", "result"])
def test_lines_of_63_mb_are_indexed_in_little_memory(name: str, tmp_path: Path) -> None:
    line = json.dumps({**LONG_LINES[name], "uuid": "u", "sessionId": SESSION}, ensure_ascii=False).encode() + b"\n"
    line = line.replace(LONG.encode(), SENTENCE.encode() * (63_000_000 // len(SENTENCE.encode())))
    session = tmp_path / "config" / "projects" / "-home-me" / f"{SESSION}.jsonl"
    session.parent.mkdir(parents=True)
    session.write_bytes(line * 2)
    environment = {"HOME": str(tmp_path), "UNSPOOL_HOME": str(tmp_path / "own"), "PATH": os.environ["PATH"]}
    measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=sys.stderr); "
    measure += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"

    def run(*arguments: str) -> int:
        command = [sys.executable, "-c", measure, sys.executable, "-m", "unspool", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return int(done.stdout)

    run("config", "archive", "off")
    run("config", "indexing", "off")
    run("sync", "--config-dir", str(tmp_path / "config"))
    run("config", "indexing", "on")
    assert run("sync", "--config-dir", str(tmp_path / "config")) < 150_000, "kB"
    run("search", "lighthouse", "--limit", "1", "--config-dir", str(tmp_path / "config"))
