"""What can be searched for in a line."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from tests.strategies import json_values, objects
from unspool.graph.search_text import PASSAGE_KINDS, Passage, extract_passages, extract_text_passages, join_texts


def texts(value: Any) -> set[str]:
    """Return every text in a value."""
    match value:
        case str():
            return {value}
        case list():
            return {text for one in value for text in texts(one)}
        case dict():
            return {text for one in value.values() for text in texts(one)}
        case _:
            return set()


@settings(deadline=None)
@given(objects)
def test_any_object_has_passages_and_the_last_may_be_structured(line: dict[str, Any]) -> None:
    found = extract_passages(line)
    assert {passage.kind for passage in found} <= set(PASSAGE_KINDS)
    assert [passage.kind for passage in found[:-1]].count("structured") == 0
    assert found[: len(extract_text_passages(line))] == extract_text_passages(line)


@settings(deadline=None)
@given(json_values)
def test_every_text_of_an_input_is_in_its_passage(value: Any) -> None:
    block = {"type": "tool_use", "id": "a", "name": "Any", "input": {"value": value}}
    (passage,) = extract_text_passages({"type": "assistant", "message": {"content": [block]}})
    assert all(text in passage.text for text in texts(value))


@settings(deadline=None)
@given(json_values)
def test_every_text_of_a_structured_result_is_in_its_passage(value: Any) -> None:
    found = extract_passages({"type": "user", "toolUseResult": {"value": value}, "uuid": "u", "sessionId": "s"})
    text = "\n".join(passage.text for passage in found)
    assert all(one in text for one in texts(value) if not has_marks(value))
    assert "u" not in text.split("\n") or "u" in texts(value)


def has_marks(value: Any) -> bool:
    match value:
        case dict():
            marks = {"type", "media_type", "mimeType", "tool_use_id", "signature", "base64", "data"}
            return bool(marks & value.keys()) or any(map(has_marks, value.values()))
        case list():
            return any(map(has_marks, value))
        case _:
            return False


def test_what_cannot_be_read_is_left_out() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2lnbmF0dXJl"}
    assert extract_text_passages({"type": "user", "message": {"content": [picture]}}) == []
    assert extract_text_passages({"type": "assistant", "message": {"content": [thinking]}}) == [
        Passage("thinking", "assistant", "hm")
    ]
    assert join_texts({"file": {"base64": "aGk=", "name": "a.png"}}) == "a.png"


def test_deep_data_ends_somewhere() -> None:
    value: Any = "deep"
    for _ in range(5000):
        value = [value]
    assert extract_passages({"type": "user", "toolUseResult": value}) == []
