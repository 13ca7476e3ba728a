from __future__ import annotations

import json
from typing import Any

import pytest

from unspool.client.events import (
    BlockDone,
    CallBegan,
    CallEnded,
    ChatEvent,
    ContextCompacted,
    Ending,
    ResponseDone,
    RetryScheduled,
    StepBegan,
    SubagentEvent,
    TextGrown,
    ThinkingGrown,
    TurnBegan,
    TurnEnded,
    TurnFailed,
)
from unspool.client.headless.stream_json import StreamJsonEncoder, encode_line, exit_code

MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": {"input_tokens": 3}}
USAGE = {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 1}


def told(*events: ChatEvent, partial: bool = False) -> list[dict[str, Any]]:
    stream = StreamJsonEncoder("s", lambda: "new", partial=partial)
    return [one for event in events for one in stream.objects(event)]


def text(words: str) -> BlockDone:
    return BlockDone(block={"type": "text", "text": words}, uuid="u", message=MESSAGE)


def ended(ending: Ending = "end_turn") -> TurnEnded:
    return TurnEnded(
        ending=ending,
        text="Done.",
        steps=2,
        usage=USAGE,
        models={"m": {**USAGE, "cost_micros": 1500}},
        cost_micros=1500,
        duration_ms=12,
        api_ms=10,
        denials=({"tool_name": "Bash", "tool_use_id": "t", "tool_input": {}},),
    )


CALL = CallEnded(id="t", name="Read", input={}, content="1\tx", result={"type": "text"}, is_error=False, uuid="r")


def test_a_block_is_an_assistant_message_of_its_own() -> None:
    (said,) = told(text("Hi"))
    assert said == {
        "type": "assistant",
        "message": {**MESSAGE, "stop_reason": None, "content": [{"type": "text", "text": "Hi"}]},
        "parent_tool_use_id": None,
        "session_id": "s",
        "uuid": "u",
    }


def test_a_result_is_a_user_message_with_what_the_tool_left() -> None:
    (said,) = told(CALL)
    assert said["message"]["content"] == [{"tool_use_id": "t", "type": "tool_result", "content": "1\tx"}]
    assert said["tool_use_result"] == {"type": "text"}
    assert said["uuid"] == "r"


def test_what_an_agent_says_names_the_call_that_sent_it() -> None:
    (said,) = told(SubagentEvent(agent_id="a1", call_id="task", kind="Explore", event=text("Found.")))
    assert said["parent_tool_use_id"] == "task"


def test_a_turn_ends_with_a_result() -> None:
    (result,) = told(ended())
    assert (result["type"], result["subtype"], result["is_error"]) == ("result", "success", False)
    assert (result["result"], result["num_turns"], result["session_id"]) == ("Done.", 2, "s")
    assert (result["total_cost_micros"], result["total_cost_usd"]) == (1500, 0.0015)
    assert (result["duration_ms"], result["duration_api_ms"]) == (12, 10)
    assert result["usage"] == USAGE
    assert result["modelUsage"]["m"]["costUSD"] == 0.0015
    assert result["permission_denials"][0]["tool_name"] == "Bash"


@pytest.mark.parametrize(
    ("ending", "subtype", "code"),
    [
        ("end_turn", "success", 0),
        ("max_tokens", "success", 0),
        ("refusal", "success", 0),
        ("max_steps", "error_max_turns", 1),
        ("max_cost", "error_max_budget_usd", 1),
        ("context_full", "error_during_execution", 1),
        ("interrupted", "error_during_execution", 130),
    ],
)
def test_each_ending_has_a_subtype_and_an_exit_code(ending: Ending, subtype: str, code: int) -> None:
    assert told(ended(ending))[-1]["subtype"] == subtype
    assert exit_code(ended(ending), None) == code


def test_what_failed_is_the_result() -> None:
    failed = TurnFailed(message="the API said no", exit_code=6, status=400)
    (result,) = told(failed, ended("failed"))
    assert (result["is_error"], result["result"], result["errors"]) == (True, "the API said no", ["the API said no"])
    assert exit_code(ended("failed"), failed) == 6


def test_a_failure_is_forgotten_when_the_next_turn_begins() -> None:
    failed = TurnFailed(message="no", exit_code=6)
    assert told(failed, TurnBegan(text="again", uuid="p"), ended())[-1]["is_error"] is False


@pytest.mark.parametrize("in_call", [False, True])
def test_an_interrupt_is_said_in_the_programs_own_words(in_call: bool) -> None:
    begun = [CallBegan(id="t", name="Bash", input={}, target="sleep")] if in_call else []
    marker, _ = told(*begun, ended("interrupted"))
    words = "[Request interrupted by user for tool use]" if in_call else "[Request interrupted by user]"
    assert marker["message"]["content"] == [{"type": "text", "text": words}]


def test_the_frames_of_an_answer_make_up_its_messages() -> None:
    use = {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "/x"}}
    frames = [
        one["event"]
        for one in told(
            StepBegan(number=1, input_tokens=3),
            ThinkingGrown(text="Hm"),
            ThinkingGrown(text="m."),
            BlockDone(block={"type": "thinking", "thinking": "Hmm.", "signature": "sig"}, uuid="1", message=MESSAGE),
            TextGrown(text="I look."),
            text("I look."),
            BlockDone(block=use, uuid="3", message=MESSAGE),
            ResponseDone(id="msg_1", model="m", content=(), stop_reason="tool_use", usage=USAGE, cost_micros=1),
            partial=True,
        )
        if one["type"] == "stream_event"
    ]
    assert [frame["type"] for frame in frames] == [
        "message_start",
        *["content_block_start", *["content_block_delta"] * 3, "content_block_stop"],
        *["content_block_start", "content_block_delta", "content_block_stop"],
        *["content_block_start", "content_block_delta", "content_block_stop"],
        *["message_delta", "message_stop"],
    ]
    assert [frame["index"] for frame in frames if frame["type"] == "content_block_stop"] == [0, 1, 2]
    assert json.loads(frames[-4]["delta"]["partial_json"]) == {"file_path": "/x"}
    assert frames[-2]["delta"]["stop_reason"] == "tool_use"


def test_what_happens_beside_the_conversation_is_told() -> None:
    waiting = RetryScheduled(seconds=1.5, attempt=1, reason="Overloaded", status=529)
    compacted = ContextCompacted(trigger="auto", how="summarized", before=900, after=100)
    retry, boundary = told(waiting, compacted, ContextCompacted(trigger="auto", how="thinned", before=9, after=8))
    assert (retry["subtype"], retry["retry_delay_ms"], retry["error_status"]) == ("api_retry", 1500, 529)
    assert boundary["compact_metadata"] == {"trigger": "auto", "pre_tokens": 900, "post_tokens": 100}


def test_a_line_is_safe_to_print_and_means_the_same() -> None:
    value = {"text": "a\x1b]0;title\x07\x9b31m\u202e\nb"}
    printed = encode_line(value)
    assert printed.isprintable()
    assert json.loads(printed) == value
    assert json.loads(encode_line({"text": "\ud800"})) == {"text": "\ud800"}
