"""What is indexed of a line: the quick way and the long way have one outcome."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.strategies import json_values, objects, texts, written
from unspool.format.plain_lines import decode_spoken_fields
from unspool.graph.search_text import extract_text_passages
from unspool.store.search import index_text as under_test
from unspool.store.search.index_text import HEAD, TAIL, IndexedRecord, extract_texts, is_cut

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
