"""`client/loop/request.py`: what is sent, and what is done without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.talk import Json, ending, place, talk
from unspool.client.config import ChatSettings
from unspool.client.loop.request import INTERLEAVED, EndpointFeatures, EndpointKnowledge, build_request
from unspool.errors import ApiFailed
from unspool.testing.strict import problems

SYSTEM = [{"type": "text", "text": "You help."}, {"type": "text", "text": "You are here."}]
TOOLS = [{"name": name, "description": "It does.", "input_schema": {"type": "object"}} for name in ("A", "B")]
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def turn(number: int, *, thinks: bool = False) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "A", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "it did"}
    return [
        {"role": "user", "content": [said(f"prompt {number}")]},
        {"role": "assistant", "content": [*([THOUGHT] if thinks else []), call]},
        {"role": "user", "content": [result]},
        {"role": "assistant", "content": [said("done")]},
    ]


def marks(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(marks, value))
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(map(marks, value.values()))
    return 0


capabilities = st.builds(
    EndpointFeatures,
    caching=st.booleans(),
    signatures=st.booleans(),
    thinking=st.booleans(),
    betas=st.booleans(),
    system_blocks=st.booleans(),
    tools=st.booleans(),
)
models = st.sampled_from(
    ["claude-3-5-haiku-20241022", "claude-3-7-sonnet-20250219", "claude-sonnet-4-5-20250929", "claude-opus-4-6",
     "claude-opus-5-5", "claude-sonnet-4-5[1m]", "glm-4.7", "some-model"]
)  # fmt: skip


manners = st.builds(ChatSettings, model=models, thinking=st.none() | st.integers(0, 40_000))


@given(manners, capabilities, st.integers(0, 6), st.booleans(), st.booleans())
def test_the_api_takes_every_request(
    manner: ChatSettings, can: EndpointFeatures, turns: int, thinks: bool, is_open: bool
) -> None:
    messages = [message for number in range(turns) for message in turn(number, thinks=thinks)]
    messages += turn(turns, thinks=thinks)[: 3 if is_open else 1]
    before = repr(messages)
    body, betas = build_request(manner, can, SYSTEM, TOOLS, messages)
    assert problems(body, betas=betas) == []
    assert marks(body) <= (4 if can.caching else 0)
    assert repr(messages) == before


def test_what_is_sent_is_found_in_the_cache_the_next_time() -> None:
    messages = [*turn(1), *turn(2)[:3]]
    system = [*SYSTEM, said("Do it well. " * 2000)]
    body, _ = build_request(ChatSettings(model="claude-opus-4-5"), EndpointFeatures(), system, TOOLS, messages)
    assert [marks(message) for message in body["messages"]] == [0, 0, 0, 0, 1, 0, 1]
    assert [marks(tool) for tool in body["tools"]] == [0, 0]
    assert [marks(block) for block in body["system"]] == [0, 0, 1]


@pytest.mark.parametrize(
    ("model", "thinking"),
    [("claude-opus-5-5", "adaptive"), ("claude-opus-4-6", "adaptive"), ("claude-sonnet-4-5-20250929", "enabled"),
     ("claude-3-7-sonnet-20250219", None), ("claude-3-5-haiku-20241022", None), ("glm-4.7", None)],
)  # fmt: skip
def test_a_model_thinks_as_it_can(model: str, thinking: str | None) -> None:
    body, betas = build_request(ChatSettings(model=model), EndpointFeatures(), SYSTEM, TOOLS, turn(1)[:1])
    assert body.get("thinking", {}).get("type") == thinking
    assert (INTERLEAVED in betas) is (thinking == "enabled")


def test_a_loop_that_began_without_thinking_goes_on_without() -> None:
    manner = ChatSettings(model="claude-sonnet-4-5")
    assert "thinking" not in build_request(manner, EndpointFeatures(), SYSTEM, TOOLS, turn(1)[:3])[0]
    assert "thinking" in build_request(manner, EndpointFeatures(), SYSTEM, TOOLS, turn(1, thinks=True)[:3])[0]
    assert "thinking" in build_request(manner, EndpointFeatures(), SYSTEM, TOOLS, [*turn(1), *turn(2)[:1]])[0]


def test_a_small_window_leaves_room_for_the_question() -> None:
    body, _ = build_request(
        ChatSettings(model="claude-sonnet-4-5", window=8000), EndpointFeatures(), [], [], turn(1)[:1]
    )
    assert body["max_tokens"] == 2000


def refused(words: str, status: int = 400) -> ApiFailed:
    return ApiFailed(f"the API says {status}: {words}", status=status)


@pytest.mark.parametrize(
    ("words", "what"),
    [("messages.0.content.0.cache_control: Extra inputs are not permitted", "caching"),
     ("thinking.type: Input should be 'enabled'", "thinking"),
     ("messages.1.content.0: Invalid `signature` in `thinking` block", "signatures"),
     ("Unexpected value(s) `context-1m-2025-08-07` for the `anthropic-beta` header", "betas"),
     ("system: Input should be a valid string", "system_blocks"),
     ("this model does not support tools", "tools"),
     ("prompt is too long", None)],
)  # fmt: skip
def test_what_is_refused_by_name_is_done_without(words: str, what: str | None) -> None:
    learned = EndpointKnowledge()
    found = learned.learn_refusal(refused(words))
    assert (found and found.what.partition(":")[0]) == what
    assert what is None or not getattr(learned.features, what)


def test_what_was_given_up_is_not_given_up_again() -> None:
    learned = EndpointKnowledge()
    assert learned.learn_refusal(refused("cache_control is not known")) is not None
    assert learned.learn_refusal(refused("cache_control is not known")) is None


@pytest.mark.parametrize("status", [401, 403, 429, 500, 529])
def test_only_a_refusal_of_the_request_itself_teaches(status: int) -> None:
    assert EndpointKnowledge().learn_refusal(refused("cache_control", status)) is None


def test_the_fallback_model_answers_when_the_first_is_overloaded_or_not_offered(tmp_path: Path) -> None:
    for status, words, tries in ((529, "Overloaded", 3), (404, "model: claude-x", 1)):
        refusal = {"error": {"status": status, "type": "error", "message": words, "retry_after": 0}}
        script = [*[refusal] * tries, {"content": "Hi.", "expect": {"body": {"model": "claude-haiku-5-5"}}}]
        session, found = talk(place(tmp_path), script, "go", fallback_model="claude-haiku-5-5")
        assert (ending(found), session.chat.model) == ("end_turn", "claude-haiku-5-5")


def test_a_refused_effort_is_left_out_of_the_next_request(tmp_path: Path) -> None:
    refusal = {"error": {"status": 400, "type": "e", "message": "output_config: Extra inputs are not permitted"}}
    script = [
        {**refusal, "expect": {"body": {"output_config": {"effort": "low"}}}},
        {"content": "Hi.", "expect": {"body": {"output_config": None}}},
    ]
    talk(place(tmp_path), script, "go", effort="low")


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        # As Claude Code 2.1.325 asks, measured.
        ("claude-opus-4-5-20251101", {"type": "enabled", "budget_tokens": 31_999}),
        ("claude-haiku-4-5-20251001", {"type": "enabled", "budget_tokens": 31_999}),
        ("claude-sonnet-4-20250514", {"type": "enabled", "budget_tokens": 31_999}),
        ("claude-opus-5-5", {"type": "adaptive"}),
        ("claude-3-7-sonnet-20250219", None),
        ("qwen3", None),
    ],
)
def test_thinking_is_asked_for_as_claude_code_does(model: str, thinking: Json | None) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    body, _ = build_request(ChatSettings(model=model), EndpointFeatures(), [], [], messages)
    assert body.get("thinking") == thinking


@pytest.mark.parametrize(
    ("model", "words", "marked"),
    [
        ("claude-opus-4-5-20251101", 2000, {"messages": 1}),
        ("claude-opus-4-5-20251101", 9000, {"system": 1, "messages": 1}),
        ("claude-sonnet-4-5-20250929", 2000, {"system": 1, "messages": 1}),
        ("claude-sonnet-4-5-20250929", 10, {"messages": 1}),
    ],
)
def test_nothing_is_marked_that_is_too_short_to_be_cached(model: str, words: int, marked: dict[str, int]) -> None:
    system, prompt = [said("word " * words)], {"role": "user", "content": [said("word " * 5000)]}
    body, _ = build_request(ChatSettings(model=model), EndpointFeatures(), system, TOOLS, [prompt])
    assert {name: count for name in ("tools", "system", "messages") if (count := marks(body[name]))} == marked
    body, _ = build_request(ChatSettings(model=model), EndpointFeatures(), SYSTEM, TOOLS, turn(1)[:1])
    assert marks(body) == 0


def test_an_endpoint_that_refuses_streaming_is_asked_for_whole_answers(tmp_path: Path) -> None:
    refusal = {"error": {"status": 400, "type": "e", "message": "streaming is not supported by this model"}}
    call = {"type": "tool_use", "name": "Echo", "input": {"text": "hi"}}
    whole = {"expect": {"body": {"stream": False}}}
    script = [refusal, {"content": ["I look.", call], **whole}, {"content": "Done.", **whole}]
    _, found = talk(place(tmp_path), script, "go")
    assert (ending(found), found[-1].text, found[-1].steps) == ("end_turn", "Done.", 2)
