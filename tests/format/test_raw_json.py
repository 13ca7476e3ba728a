"""Parts of a line as JSON text: as they are written, and as the codec reads them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from unspool.format.codec import decode
from unspool.format.raw_json import MAX_BASE64, cut_raw_json, structured_result_text
from unspool.format.records import Assistant, Entry

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def assistant(content: list[Any], usage: Any) -> Entry:
    message = {"id": "msg_1", "role": "assistant", "model": "m", "content": content, "usage": usage}
    (entry,) = decode(json.dumps({"type": "assistant", "uuid": "a", "message": message}).encode())
    assert isinstance(entry, Entry)
    assert isinstance(entry.record, Assistant)
    return entry


@given(st.lists(st.dictionaries(st.text(max_size=6), VALUES, max_size=3), max_size=3))
def test_calls_are_cut_out_as_they_are_written_with_fields_nobody_knows(inputs: list[dict[str, Any]]) -> None:
    uses = [{"type": "tool_use", "id": f"t{n}", "name": "X", "input": i, "new": n} for n, i in enumerate(inputs)]
    cut = cut_raw_json(assistant([{"type": "text", "text": "so"}, *uses], {"input_tokens": 1, "later": True}))
    assert [json.loads(block) for block, _ in cut.uses] == uses
    assert [json.loads(input or "null") for _, input in cut.uses] == inputs
    assert json.loads(cut.usage or "null") == {"input_tokens": 1, "later": True}


def test_a_prompt_has_nothing_to_cut_out() -> None:
    (entry,) = decode(b'{"type":"user","uuid":"a","message":{"role":"user","content":"hi"}}')
    assert isinstance(entry, Entry)
    assert cut_raw_json(entry) == (None, [])


def test_what_cannot_be_cut_out_is_encoded_from_the_record() -> None:
    use = b'{"type":"tool_use","id":"t","name":"X","input":{"a":"\\ud800"}}'
    (entry,) = decode(
        b'{"type":"assistant","uuid":"a","message":{"id":"m","content":[' + use + b'],"usage":{"input_tokens":3}}}'
    )
    assert isinstance(entry, Entry)
    cut = cut_raw_json(entry)
    assert len(cut.uses) == 1
    assert json.loads(cut.usage or "null")["input_tokens"] == 3


@given(VALUES)
def test_a_short_result_is_text_as_it_is_written(value: Any) -> None:
    raw = msgspec.Raw(json.dumps(value).encode())
    assert json.loads(structured_result_text(raw) or "null") == value


def test_a_long_result_comes_without_the_bytes_of_its_images() -> None:
    image = {"type": "image", "file": {"base64": "A" * (MAX_BASE64 + 1), "name": "a.png"}, "notes": ["B" * 9]}
    text = structured_result_text(msgspec.Raw(json.dumps(image).encode()))
    assert json.loads(text or "null") == {"type": "image", "file": {"base64": "", "name": "a.png"}, "notes": ["B" * 9]}


def test_a_long_result_that_is_no_json_is_left_out() -> None:
    assert structured_result_text(msgspec.Raw(b'{"base64": ' + b"x" * MAX_BASE64)) is None
