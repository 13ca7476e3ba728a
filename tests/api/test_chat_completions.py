"""OpenAI's chat completions as a Messages API: requests, answers in chunks and whole, faults."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.completions_server import USAGE, CompletionServer, Manners, completing, find_problems, to_chunks
from tests.api.completions_server import to_completion as completion_of
from tests.api.raw import saying
from unspool.api import ApiResponse, Connection, ResponseAccumulator
from unspool.api.chat_completions import (
    ENDED_EARLY,
    NO_PICTURES,
    CompletionDecoder,
    CompletionDialect,
    learn_dialect,
    to_completion_request,
)
from unspool.api.connection import Timing
from unspool.api.endpoint import Endpoint
from unspool.api.retry import RetryPolicy
from unspool.errors import ApiFailed

Json = dict[str, Any]
TOOL = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}
BODY: Json = {"model": "tiny", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}], "tools": [TOOL]}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
READ = {"type": "tool_use", "id": "call_a", "name": "Read", "input": {"file_path": "/notes.md"}}
GREP = {"type": "tool_use", "id": "call_b", "name": "Grep", "input": {"pattern": "milk", "-n": True}}
WORDS = st.text(min_size=1, max_size=20)
CALLS = st.builds(
    lambda name, given: {"type": "tool_use", "name": name, "input": given},
    st.sampled_from(["Read", "Edit", "Bash"]),
    st.dictionaries(WORDS, st.one_of(WORDS, st.integers(-9, 9), st.booleans(), st.none(), st.lists(WORDS)), max_size=3),
)


def put_together(events: list[Any]) -> ApiResponse:
    accumulator = ResponseAccumulator()
    for event in events:
        accumulator.add(event)
    return accumulator.response()


def decoder() -> CompletionDecoder:
    numbers = iter(range(1000))
    return CompletionDecoder(lambda: f"{next(numbers)}")


def streamed(chunks: list[Any]) -> ApiResponse:
    reader = decoder()
    events = [event for chunk in chunks for event in reader.decode(json.dumps(chunk))]
    return put_together([*events, *reader.finish()])


def answered(server: CompletionServer | str, body: Json = BODY, **fields: Any) -> ApiResponse:
    url = server if isinstance(server, str) else server.url
    endpoint = Endpoint(base_url=url, **{"protocol": "any", **fields})

    async def no_sleep(seconds: float) -> None:
        pass

    async def ask() -> ApiResponse:
        timing = Timing(lambda: 0.0, no_sleep, lambda: 0.0)
        async with Connection(endpoint, retry=RetryPolicy(tries=3), timing=timing) as api:
            return await api.response(body)

    return asyncio.run(ask())


@given(st.lists(WORDS, max_size=1), st.lists(CALLS, max_size=4), st.integers(1, 9), st.booleans(), st.booleans())
def test_any_answer_is_the_same_in_chunks_and_whole(
    texts: list[str], calls: list[Json], size: int, has_ids: bool, usage: bool
) -> None:
    content = [*({"type": "text", "text": text} for text in texts), *calls]
    completion = completion_of(content, manners=Manners(ids=has_ids))
    whole = put_together(decoder().decode_whole(json.dumps(completion).encode()))
    chunked = streamed([*to_chunks(completion, size, usage=usage)])
    for response in (whole, chunked):
        assert response.broken is None
        assert [{**block, "id": ""} for block in response.content if block["type"] == "tool_use"] == [
            {**call, "id": ""} for call in calls
        ]
        assert response.text == "".join(texts)
        assert response.stop_reason == ("tool_use" if calls else "end_turn")
        ids = [block["id"] for block in response.content if block["type"] == "tool_use"]
        assert len({*ids}) == len(calls)
    assert chunked.usage["output_tokens"] == (7 if usage else 0)


@given(st.data())
def test_any_conversation_becomes_a_request_that_the_server_takes(data: st.DataObject) -> None:
    messages: list[Json] = []
    for turn in range(data.draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": [{"type": "text", "text": data.draw(WORDS)}]})
        calls = [
            {**call, "id": f"toolu_{turn}_{at}" * 9} for at, call in enumerate(data.draw(st.lists(CALLS, max_size=3)))
        ]
        thinking = {"type": "thinking", "thinking": "So.", "signature": "c2ln"}
        messages.append({"role": "assistant", "content": [thinking, {"type": "text", "text": "I look."}, *calls]})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call["id"],
                "content": data.draw(st.sampled_from(["", "x", [PICTURE]])),
            }
            for call in calls
        ]
        messages.append({"role": "user", "content": [*results, {"type": "text", "text": "go on"}]})
    request = to_completion_request({**BODY, "messages": messages}, CompletionDialect())
    assert find_problems(request) == []
    said = [call for message in request["messages"] for call in message.get("tool_calls", ())]
    meant = [block for message in messages for block in message["content"] if block["type"] == "tool_use"]
    assert [json.loads(call["function"]["arguments"]) for call in said] == [block["input"] for block in meant]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | WORDS,
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "id",
                        "choices",
                        "delta",
                        "message",
                        "content",
                        "tool_calls",
                        "function",
                        "name",
                        "arguments",
                        "index",
                        "finish_reason",
                        "usage",
                        "error",
                        "text",
                        "thinking",
                        "prompt_tokens_details",
                    ]
                ),
                inner,
            )
        ),
    )
)
def test_no_answer_of_any_shape_raises(value: Any) -> None:
    for chunk in (value, {"choices": [value]}, {"choices": [{"delta": value, "message": value}]}):
        assert streamed([chunk]) is not None
        put_together(decoder().decode_whole(json.dumps(chunk).encode()))


def test_a_request_has_everything_that_a_message_has() -> None:
    body = {
        **BODY,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tool_choice": {"type": "tool", "name": "Read", "disable_parallel_tool_use": True},
        "stop_sequences": ["END"],
        "output_config": {"effort": "max"},
        "thinking": {"type": "adaptive"},
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "What is this?"}, PICTURE]},
            {"role": "assistant", "content": [READ, GREP]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_a", "content": [PICTURE]},
                    {"type": "tool_result", "tool_use_id": "call_b", "content": "3: milk", "is_error": False},
                    {"type": "text", "text": "And now?"},
                ],
            },
        ],
    }
    request = to_completion_request(body, CompletionDialect())
    assert find_problems(request) == []
    url = {"url": "data:image/png;base64,aGk="}
    assert [message["role"] for message in request["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    assert request["messages"][1]["content"][1] == {"type": "image_url", "image_url": url}
    assert request["messages"][3]["content"] == "[see the next message]"
    assert request["messages"][5]["content"] == [
        {"type": "image_url", "image_url": url},
        {"type": "text", "text": "And now?"},
    ]
    assert request["tools"][0]["function"]["parameters"] == TOOL["input_schema"]
    assert request["tool_choice"] == {"type": "function", "function": {"name": "Read"}}
    assert (request["parallel_tool_calls"], request["stop"], request["reasoning_effort"]) == (False, ["END"], "high")


def test_a_server_without_the_messages_api_is_asked_for_completions() -> None:
    with completing([[{"type": "text", "text": "I look."}, READ, GREP]]) as server:
        response = answered(server)
    assert (server.problems, response.broken, response.stop_reason) == ([], None, "tool_use")
    assert [*response.content] == [{"type": "text", "text": "I look."}, READ, GREP]
    assert response.usage == {
        "input_tokens": 20, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 100, "output_tokens": 7
    }  # fmt: skip


@pytest.mark.parametrize(
    "manners",
    [
        Manners(streams=False),
        Manners(usage=False),
        Manners(ids=False),
        Manners(says_stop=True),
        Manners(done=False),
        Manners(alternates=False),
        Manners(refuses=("stream_options",)),
        Manners(refuses=("max_tokens",)),
    ],
)
def test_servers_with_other_manners_are_understood(manners: Manners) -> None:
    with completing([[READ, GREP]], manners) as server:
        response = answered(server)
    assert response.broken is None
    assert response.stop_reason == "tool_use"
    assert [block["input"] for block in response.content] == [READ["input"], GREP["input"]]
    assert len({block["id"] for block in response.content}) == 2


def test_what_a_server_refuses_is_left_out() -> None:
    dialect = CompletionDialect()
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    newer = learn_dialect(dialect, words)
    assert newer is not None
    assert "max_completion_tokens" in to_completion_request(BODY, newer)
    assert learn_dialect(newer, words) is None
    blind = learn_dialect(dialect, "image input is not supported - hint: provide the mmproj")
    assert blind is not None
    body = {**BODY, "messages": [{"role": "user", "content": [PICTURE]}]}
    assert to_completion_request(body, blind)["messages"] == [{"role": "user", "content": NO_PICTURES}]


def test_arguments_that_are_no_json_are_an_unfinished_call() -> None:
    with completing([[{"type": "tool_use", "name": "Read", "input": '{"file_path": '}]]) as server:
        response = answered(server)
    assert (response.broken, response.content) == (None, ())
    assert [(part.type, part.text) for part in response.unfinished] == [("tool_use", '{"file_path": ')]


def test_calls_that_all_have_the_index_0_are_told_apart() -> None:
    def piece(arguments: str, **more: Any) -> Json:
        call = {"index": 0, "function": {"name": "Read", "arguments": arguments}, **more}
        return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}

    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    for first, second in (({}, {}), ({"id": "a"}, {"id": "b"})):
        response = streamed([piece('{"a": 1}', **first), piece('{"a": 2}', **second), end])
        assert [block["input"] for block in response.content] == [{"a": 1}, {"a": 2}]


def test_thoughts_of_a_model_are_thinking() -> None:
    with completing([[{"type": "thinking", "thinking": "Let me see."}, {"type": "text", "text": "Yes."}]]) as server:
        response = answered(server)
    assert [*response.content] == [
        {"type": "thinking", "thinking": "Let me see.", "signature": ""},
        {"type": "text", "text": "Yes."},
    ]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, b"<!doctype html><title>Sign in</title>"), "answers with a web page: Sign in"),
        (
            (401, {"error": {"message": "Incorrect API key provided", "type": "x"}}),
            "the API says 401: Incorrect API key",
        ),
        ((404, {"error": "model 'tiny' not found"}), "the API says 404: model 'tiny' not found"),
        ((429, {"error": {"message": "Rate limit reached", "type": "tokens"}}), "the API says 429: Rate limit reached"),
        ((400, {"object": "error", "message": "This model's maximum context length is 8192 tokens"}), "8192"),
    ],
)
def test_a_refusal_is_one_line(answer: tuple[int, Any], words: str) -> None:
    with completing([answer] * 3) as server, pytest.raises(ApiFailed, match=words):
        answered(server, key_setting="OLLAMA_API_KEY", address_setting="--endpoint")


def test_a_busy_server_is_asked_again() -> None:
    with completing([(429, {"error": {"message": "slow down"}}), (503, {"error": "loading model"}), "Yes."]) as server:
        assert answered(server).text == "Yes."


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"choices": []}', "the response has no choices"),
        (b"not json", "the response is neither a stream nor JSON"),
        (b'{"error": {"message": "out of memory", "type": "server_error"}}', "out of memory"),
    ],
)
def test_a_whole_answer_that_is_none_is_broken(body: bytes, reason: str) -> None:
    assert put_together(decoder().decode_whole(body)).broken == reason


def test_a_stream_that_breaks_off_says_how() -> None:
    chunk = {"id": "1", "model": "tiny", "choices": [{"index": 0, "delta": {"content": "Hel"}}]}
    error = {"error": {"message": "out of memory", "type": "server_error"}}
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    for last, reason in ((b"", ENDED_EARLY), (b"data: {not json\n\n", "the stream contains a malformed event"),
                         (b"data: " + json.dumps(error).encode() + b"\n\n", "out of memory"),
                         (b"data: [DONE]\n\n", ENDED_EARLY)):  # fmt: skip
        with saying([head, b"data: " + json.dumps(chunk).encode() + b"\n\n", last]) as server:
            response = answered(server.url, protocol="completions")
        assert (response.text, response.broken) == ("Hel", reason)


def test_a_stream_without_choices_is_broken() -> None:
    assert streamed([{"choices": [], "usage": USAGE}]).broken == "the response has no choices"
    assert streamed([]).broken == "the response has no choices"


def test_a_tool_of_the_server_is_refused_before_it_is_asked() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    with completing(["x"]) as server, pytest.raises(ApiFailed, match="does not have the tool web_search"):
        answered(server, {**BODY, "tools": [search]}, protocol="completions")
