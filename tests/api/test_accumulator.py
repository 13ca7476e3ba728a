"""Events put together: whole answers, broken ones, and such as make no sense."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.api.accumulator import ENDED_EARLY, ApiResponse, ResponseAccumulator, UnfinishedBlock
from unspool.api.events import (
    AnyEvent,
    BlockDelta,
    MessageFinished,
    Ping,
    StreamBroken,
    UnknownDelta,
    UnknownEvent,
    decode_event,
    message_to_events,
)
from unspool.api.scripted.responder import build_message, message_events
from unspool.api.scripted.script import ScriptStep

Json = dict[str, Any]
CONTENT: list[str | Json] = [
    {"type": "thinking", "thinking": "Let me see.", "signature": "c2ln"},
    "I look.",
    {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/é"}},
    {"type": "redacted_thinking", "data": "eA=="},
    "And then some more.",
]
WHOLE = build_message(ScriptStep(content=CONTENT), {"model": "m", "messages": []})


def decoded(values: Any) -> list[AnyEvent]:
    return [decode_event(json.dumps(value)) for value in values]


STREAM = decoded(message_events(WHOLE, 4))


def assembled(stream: list[AnyEvent]) -> ApiResponse:
    assembly = ResponseAccumulator()
    for event in stream:
        assembly.add(event)
    return assembly.response()


def test_a_stream_becomes_its_message() -> None:
    answer = assembled(STREAM)
    assert (answer.broken, answer.unfinished) == (None, ())
    assert list(answer.content) == WHOLE["content"]
    assert (answer.id, answer.model, answer.stop_reason, answer.usage) == (
        WHOLE["id"],
        "m",
        "tool_use",
        WHOLE["usage"],
    )
    assert answer.text == "I look.And then some more."


@given(st.integers(0, len(STREAM) - 1))
def test_a_stream_that_is_cut_keeps_what_was_finished_and_the_words_of_the_rest(at: int) -> None:
    answer = assembled(STREAM[:at])
    assert answer.broken == ENDED_EARLY
    whole = len(answer.content)
    assert list(answer.content) == WHOLE["content"][:whole]
    assert len(answer.unfinished) <= 1
    for part in answer.unfinished:
        block = WHOLE["content"][whole]
        full = (
            block.get("text")
            or block.get("thinking")
            or json.dumps(block.get("input"), separators=(",", ":"), ensure_ascii=False)
        )
        assert part.type == block["type"]
        assert str(full).startswith(part.text)


def test_an_error_on_the_way_says_its_kind() -> None:
    error = decode_event('{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}')
    answer = assembled([*STREAM[:4], error, *STREAM[4:]])
    assert (answer.broken, answer.kind, answer.unfinished[0].text) == ("Overloaded", "overloaded_error", "Let ")


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", "null"])
def test_a_call_whose_input_is_no_object_is_unfinished(arguments: str) -> None:
    stream = decoded(
        [
            {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 3}}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "tool_use", "id": "t", "name": "T", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": arguments},
            },
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
    )
    answer = assembled(stream)
    assert (answer.broken, answer.content, answer.stop_reason) == (None, (), "max_tokens")
    assert answer.usage == {"input_tokens": 3, "output_tokens": 5}
    assert answer.unfinished == (
        UnfinishedBlock("tool_use", arguments, {"type": "tool_use", "id": "t", "name": "T", "input": {}}),
    )


def test_citations_are_kept() -> None:
    stream = decoded(
        [
            {"type": "message_start", "message": {}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": "", "citations": None},
            },
            {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"url": "u"}}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
            {"type": "content_block_stop", "index": 0},
        ]
    )
    assert assembled(stream).content == ({"type": "text", "text": "a", "citations": [{"url": "u"}]},)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"type": "content_block_stop", "index": 5}, "the stream ends a block that it did not start"),
        (
            {"type": "content_block_delta", "index": 5, "delta": {"type": "text_delta", "text": "a"}},
            "the stream continues a block that it did not start",
        ),
        ({"type": "message_stop"}, ENDED_EARLY),
        ({"type": "content_block_start", "index": "0"}, "the stream contains a malformed event"),
        (
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}},
            "the stream contains a malformed event",
        ),
        ([], "the stream contains a malformed event"),
        ({"type": "error"}, "api_error"),
    ],
)
def test_what_does_not_fit_breaks_an_answer(value: Any, reason: str) -> None:
    answer = assembled([decode_event(json.dumps(value)), *STREAM])
    assert (answer.broken, answer.content) == (reason, ())


def test_what_is_new_is_let_through() -> None:
    delta = decode_event('{"type":"content_block_delta","index":0,"delta":{"type":"smell_delta","smell":"rose"}}')
    assert decode_event('{"type":"song"}') == UnknownEvent(json={"type": "song"})
    assert isinstance(delta, BlockDelta)
    assert delta.delta == UnknownDelta(json={"type": "smell_delta", "smell": "rose"})
    assert assembled([*STREAM[:2], delta, decode_event('{"type":"song"}'), *STREAM[2:]]) == assembled(STREAM)
    assert Ping() in STREAM


@given(st.text(max_size=20))
def test_any_data_is_an_event(data: str) -> None:
    assert isinstance(decode_event(data), StreamBroken | UnknownEvent)


@given(st.lists(st.sampled_from([*STREAM, StreamBroken(reason="x"), UnknownEvent(json={})]), max_size=30))
def test_any_events_are_an_answer(stream: list[AnyEvent]) -> None:
    answer = assembled(stream)
    assert (answer.broken is None) <= any(isinstance(event, MessageFinished) for event in stream)


def test_a_message_that_came_whole_is_the_same_answer() -> None:
    assert assembled([*message_to_events(json.dumps(WHOLE).encode())]) == assembled(STREAM)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<html>", "the response is neither a stream nor JSON"),
        (b"{}", "the response is not a message"),
        (b'{"type":"error","error":{"type":"api_error","message":"No."}}', "No."),
    ],
)
def test_what_is_no_message_is_broken(data: bytes, reason: str) -> None:
    assert assembled([*message_to_events(data)]).broken == reason
