"""Changing a line and nothing else of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies import json_objects, json_values, scalars, texts
from unspool.errors import Refused
from unspool.format.base import encode_json
from unspool.format.codec import patched
from unspool.format.json_edit import REMOVE, JsonPath, patch
from unspool.format.records import Entry, User
from unspool.testing.build import session, user


def paths(value: Any, way: JsonPath = ()) -> list[JsonPath]:
    """Return the paths of all values inside a value."""
    found = [way] if way else []
    if isinstance(value, dict):
        return found + [path for key, item in value.items() for path in paths(item, (*way, key))]
    if isinstance(value, list):
        return found + [path for index, item in enumerate(value) for path in paths(item, (*way, index))]
    return found


def change(value: Any, path: JsonPath, new: object) -> None:
    """Do to a value what `patch` does to a line."""
    *way, last = path
    for step in way:
        value = value[step]
    if new is REMOVE:
        del value[last]
    else:
        value[last] = new


@given(json_objects, st.data(), st.booleans(), st.booleans())
def test_one_change_changes_one_value(value: Any, data: st.DataObject, spaced: bool, escaped: bool) -> None:
    assume(paths(value))
    path = data.draw(st.sampled_from(paths(value)))
    new = data.draw(json_values | st.just(REMOVE))
    text = json.dumps(value, ensure_ascii=escaped, separators=(" , ", ": ") if spaced else (",", ":"))
    line = patch(text.encode() + b"\r\n", {path: new})
    change(value, path, new)
    assert line.endswith(b"\r\n")
    assert json.loads(line) == value


@given(json_objects, texts, scalars)
def test_a_new_key_goes_to_the_end(value: dict[str, Any], key: str, new: object) -> None:
    assume(key not in value)
    line = json.dumps(value).encode()
    after = patch(line, {(key,): new})
    assert after.startswith(line.rstrip(b"}"))
    assert list(json.loads(after).items()) == [*value.items(), (key, new)]


def test_number_text_escapes_order_and_unknown_fields_stay() -> None:
    line = rb'{ "z":1.50e+3,"caf\u00e9":"\/\ud83d\ude00", "uuid" : "a" ,"big":12345678901234567890.10,"n":{"x":[ ]}}'
    assert patch(line, {("uuid",): "b"}) == line.replace(b'"a"', b'"b"')


def test_bytes_that_are_no_text_stay() -> None:
    line = b'{"a":"\xff\xfe","uuid":"a"}\n'
    assert patch(line, {("uuid",): "b"}) == b'{"a":"\xff\xfe","uuid":"b"}\n'


def test_what_stands_before_the_document_stays() -> None:
    assert patch(b'\xef\xbb\xbf\0 {"a":1}\n', {("a",): 2}) == b'\xef\xbb\xbf\0 {"a":2}\n'


def test_of_two_equal_keys_the_last_is_changed() -> None:
    assert patch(b'{"a":1,"a":2}', {("a",): 3}) == b'{"a":1,"a":3}'


def test_an_element_can_be_added_at_the_end_of_a_list() -> None:
    assert patch(b'{"a":[]}', {("a", 0): 1, ("a", 1): "x"}) == b'{"a":[1,"x"]}'


@pytest.mark.parametrize(
    ("before", "path", "after"),
    [
        (b'{"a":1,"b":2,"c":3}', ("a",), b'{"b":2,"c":3}'),
        (b'{"a":1,"b":2,"c":3}', ("b",), b'{"a":1,"c":3}'),
        (b'{"a":1,"b":2,"c":3}', ("c",), b'{"a":1,"b":2}'),
        (b'{"a":1}', ("a",), b"{}"),
        (b'{"a":[1, 2]}', ("a", 1), b'{"a":[1]}'),
    ],
)
def test_a_removed_value_takes_one_comma_with_it(before: bytes, path: JsonPath, after: bytes) -> None:
    assert patch(before, {path: REMOVE}) == after


@pytest.mark.parametrize("path", [("b", "c"), ("a", "c"), ("a", 5), ("l", 7), ("l", -1), ("l", "x"), ("l", 0, 0)])
def test_a_way_that_leads_nowhere_is_refused(path: JsonPath) -> None:
    with pytest.raises(Refused, match="has no value at"):
        patch(b'{"a":1,"l":[1]}', {path: 2})


def test_removing_what_is_not_there_is_refused() -> None:
    with pytest.raises(Refused):
        patch(b'{"a":1}', {("b",): REMOVE})


@pytest.mark.parametrize("line", [b"", b"\n", b"[1]", b'{"a":1'])
def test_a_line_without_a_whole_object_is_refused(line: bytes) -> None:
    with pytest.raises(Refused):
        patch(line, {("a",): 1})


def test_the_whole_line_cannot_be_replaced() -> None:
    with pytest.raises(Refused):
        patch(b"{}", {(): 1})


@given(st.text(st.characters(), max_size=8) | st.lists(st.text(st.characters(), max_size=3), max_size=2))
def test_lone_surrogates_are_written_as_escapes(value: object) -> None:
    assert json.loads(encode_json(value)) == value


def test_lone_surrogates_are_found_inside_objects() -> None:
    assert encode_json({"a\udc00": ["\ud800x", 1]}) == rb'{"a\udc00":["\ud800x",1]}'


def test_a_patched_entry_means_what_its_bytes_say() -> None:
    (entry,) = session(user("hi")).entries
    after = patched(entry, {("message", "content"): "ho"})
    assert isinstance(after.record, User)
    assert after.record.message.content == "ho"
    assert after.line == entry.line.replace(b'"hi"', b'"ho"')


def test_a_patch_that_breaks_the_line_is_refused() -> None:
    entry = Entry(0, b'{"type":"user"}{"type":"user"}', User())
    with pytest.raises(Refused):
        patched(entry, {("uuid",): "x"})
