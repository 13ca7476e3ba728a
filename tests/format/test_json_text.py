"""Where JSON begins and ends."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import json_objects, json_values
from unspool.format.json_edit import container_end, iter_slots, nesting_depth, value_end


@given(json_values, st.booleans())
def test_a_value_ends_where_it_was_written_to_end(value: object, spaced: bool) -> None:
    text = json.dumps(value, separators=(", ", " : ") if spaced else (",", ":")).encode()
    assert value_end(text + b",1]", 0) == len(text)


@given(json_objects)
def test_the_members_of_an_object_are_its_keys_and_values(value: dict[str, object]) -> None:
    text = json.dumps(value).encode()
    found = {slot.key: json.loads(text[slot.value_start : slot.end]) for slot in iter_slots(text, 0)}
    assert found == value


@given(st.binary())
def test_any_bytes_have_an_end_or_none(data: bytes) -> None:
    end = container_end(b"{" + data, 0)
    assert end is None or 0 < end <= len(data) + 1
    assert nesting_depth(data) >= 0
    assert list(iter_slots(b"{" + data, 0)) is not None


def test_depth_is_counted_without_recursion() -> None:
    assert nesting_depth(b"[" * 100_000 + b"]" * 100_000) == 100_000
    assert nesting_depth(b'{"a":"[[[","b":{"c":[1]}}') == 3


def test_a_string_that_never_ends_has_no_end() -> None:
    assert container_end(b'{"a":"b}', 0) is None
    assert value_end(b'"abc', 0) is None


def test_an_escaped_key_is_read_as_the_key_it_means() -> None:
    (slot,) = iter_slots(rb'{"a\u0062\"": 1}', 0)
    assert slot.key == 'ab"'


def test_a_key_that_is_no_text_is_still_a_key() -> None:
    (broken,) = iter_slots(rb'{"\ud800": 1}', 0)
    assert broken.key == r"\ud800"


def test_a_long_string_of_escapes_takes_no_memory_to_pass() -> None:
    text = b'{"a":"' + b'\\"' * 2_000_000 + b'"}'
    assert container_end(text, 0) == len(text)
