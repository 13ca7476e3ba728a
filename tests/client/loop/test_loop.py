"""`client/loop/loop.py`: turns, their steps and their ends."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.client.talk import (
    Allow,
    Session,
    accepted,
    all_lines,
    ending,
    fitted,
    of,
    opened,
    place,
    records,
    sound,
    talk,
)
from unspool.client import events
from unspool.client.chat import Chat
from unspool.client.protocols import PermissionAnswer, PermissionRequest, UserQuestion
from unspool.permissions import RuleDecision


def call(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": "Echo", "input": {"text": text, **more}}


HELLO: list[Any] = [
    {"content": [{"type": "thinking", "thinking": "Hm."}, "I ask.", call("hello")]},
    {"content": "It said hello.", "expect": {"result": "hello"}},
]


def test_a_prompt_a_call_its_result_and_the_end(tmp_path: Path) -> None:
    session, found = talk(place(tmp_path), HELLO, "Say hello.")
    assert ending(found) == "end_turn"
    assert found[-1].text == "It said hello."
    assert [type(event).__name__ for event in found if not type(event).__name__.endswith("Grown")] == [
        "TurnBegan", "StepBegan", "ResponseBegan", "BlockDone", "BlockDone", "BlockDone", "ResponseDone", "CallBegan",
        "CallEnded", "StepBegan", "ResponseBegan", "BlockDone", "ResponseDone", "TurnEnded",
    ]  # fmt: skip
    assert [line["type"] for line in all_lines(session.chat.path)] == [
        "user", "file-history-snapshot", "assistant", "assistant", "assistant", "user", "assistant", "system",
        "last-prompt",
    ]  # fmt: skip
    assert of(events.CallEnded, found)[0].result == {"text": "hello"}


def test_the_last_line_of_an_answer_says_why_it_ended_and_all_it_used(tmp_path: Path) -> None:
    session, _ = talk(place(tmp_path), HELLO, "Say hello.")
    said = [line["message"] for line in records(session.chat.path, "assistant")]
    assert [message["stop_reason"] for message in said] == [None, None, "tool_use", "end_turn"]
    assert len({message["id"] for message in said[:3]}) == 1
    assert said[2]["usage"]["output_tokens"] > said[0]["usage"]["output_tokens"] == 1


def test_what_an_answer_used_is_written_also_if_it_is_known_late(tmp_path: Path) -> None:
    session, _ = talk(place(tmp_path), [{"content": "Slow.", "pause": 0.07}], "Go.")
    said = [line["message"] for line in records(session.chat.path, "assistant")]
    assert [(len(message["content"]), message["stop_reason"]) for message in said] == [(1, None), (0, "end_turn")]
    assert said[1]["id"] == said[0]["id"]
    assert said[1]["usage"]["output_tokens"] > 1


def test_parallel_results_are_a_chain_in_the_order_of_the_calls(tmp_path: Path) -> None:
    calls = [call("a", turns=9), call("b"), {"type": "tool_use", "name": "Put", "input": {"path": "x", "text": "y"}}]
    session, found = talk(place(tmp_path), [{"content": [*calls, call("c")]}, "Done."], "Go.")
    results = [line for line in records(session.chat.path, "user") if "toolUseResult" in line]
    assert [line["message"]["content"][0]["content"] for line in results] == ["a", "b", "written", "c"]
    assert [line["parentUuid"] for line in results[1:]] == [line["uuid"] for line in results[:-1]]
    begun = [event.input["text"] for event in of(events.CallBegan, found)]
    assert begun == ["a", "b", "y", "c"]
    ended = [type(event).__name__ for event in found if type(event) in (events.CallBegan, events.CallEnded)]
    assert ended[:4] == ["CallBegan", "CallBegan", "CallEnded", "CallEnded"]


def test_every_result_names_the_line_of_its_call(tmp_path: Path) -> None:
    session, _ = talk(place(tmp_path), [{"content": [call("a"), call("b")]}, "Done."], "Go.")
    calls = {
        line["message"]["content"][0]["id"]: line["uuid"]
        for line in records(session.chat.path, "assistant")
        if line["message"]["content"][0]["type"] == "tool_use"
    }
    for line in records(session.chat.path, "user"):
        if "toolUseResult" in line:
            assert line["sourceToolAssistantUUID"] == calls[line["message"]["content"][0]["tool_use_id"]]


@pytest.mark.parametrize(
    ("script", "expected", "steps"),
    [
        (["Hello."], "end_turn", 1),
        ([{"content": "Hello.", "stop_reason": "stop_sequence"}], "stop_sequence", 1),
        ([{"content": "Hel", "stop_reason": "max_tokens"}, "lo."], "end_turn", 2),
        ([{"content": "Hel", "stop_reason": "max_tokens"}] * 4, "max_tokens", 4),
        ([{"content": [{"type": "thinking", "thinking": "Long."}], "stop_reason": "max_tokens"}, "Ok."], "end_turn", 2),
        ([{"content": "Hel", "stop_reason": "pause_turn"}, "lo."], "end_turn", 2),
        ([{"content": "I won't", "stop_reason": "refusal"}], "refusal", 1),
        ([{"content": "", "stop_reason": "refusal"}], "refusal", 1),
        ([{"content": "Full.", "stop_reason": "model_context_window_exceeded"}] * 4, "context_full", 4),
        ([{"content": "New.", "stop_reason": "something_new"}], "end_turn", 1),
        ([{"content": "", "stop_reason": "end_turn"}], "end_turn", 1),
        ([{"content": [call("a")], "stop_reason": "end_turn"}, "Done."], "end_turn", 2),
    ],
)
def test_every_reason_to_stop_has_its_end(tmp_path: Path, script: list[Any], expected: str, steps: int) -> None:
    _, found = talk(place(tmp_path), [*script, "And more."], "Go.", "And then?", model="claude-sonnet-4-5")
    turns = of(events.TurnEnded, found)
    assert (turns[0].ending, turns[0].steps) == (expected, steps)
    assert (turns[1].ending, turns[1].text) == ("end_turn", "And more.")


def test_a_call_that_the_limit_cut_off_is_dropped_and_the_model_is_told(tmp_path: Path) -> None:
    cut = {"type": "tool_use", "name": "Echo", "input": '{"text": "a long te'}
    script = [
        {"content": ["I begin.", call("a"), cut], "stop_reason": "max_tokens"},
        {"content": "Again.", "expect": {"result": "a", "text": "was cut off before its input was complete"}},
    ]
    _, found = talk(place(tmp_path), script, "Go.")
    assert [event.input for event in of(events.CallEnded, found)] == [{"text": "a"}]


def test_a_call_whose_input_is_no_object_gets_an_error_it_can_be_learned_from(tmp_path: Path) -> None:
    wrong = {"type": "tool_use", "name": "Echo", "input": ["not", "an object"]}
    script = [{"content": [wrong, call("a")]}, {"content": "I see.", "expect": {"result": ["not a JSON object", "a"]}}]
    _, found = talk(place(tmp_path), script, "Go.")
    assert [event.is_error for event in of(events.CallEnded, found)] == [False, True]


def test_a_tool_that_is_not_there_is_an_error_and_the_turn_goes_on(tmp_path: Path) -> None:
    script = [
        {"content": [{"type": "tool_use", "name": "Fly", "input": {}}]},
        {"content": "No.", "expect": {"result": "No such tool available: Fly", "is_error": True}},
    ]
    _, found = talk(place(tmp_path), script, "Go.")
    assert ending(found) == "end_turn"


def test_what_was_refused_is_not_sent_again(tmp_path: Path) -> None:
    script = [
        "Hello.",
        {"content": "I can", "stop_reason": "refusal"},
        {
            "content": "Fine.",
            "expect": {"absent": ["Something bad", "I can"], "anywhere": ["Hello.", "Something good"]},
        },
    ]
    _, found = talk(place(tmp_path), script, "Hi.", "Something bad", "Something good")
    assert [turn.ending for turn in of(events.TurnEnded, found)] == ["end_turn", "refusal", "end_turn"]


def test_a_first_prompt_that_was_refused_is_not_sent_again(tmp_path: Path) -> None:
    script = [
        {"content": "I can", "stop_reason": "refusal"},
        {"content": "Fine.", "expect": {"absent": ["Something bad", "I can"], "anywhere": "Something good"}},
    ]
    talk(place(tmp_path), script, "Something bad", "Something good")


def test_too_many_requests_are_waited_for_and_written_down(tmp_path: Path) -> None:
    script = [{"content": "Hello.", "error": {"status": 429, "retry_after": 0, "times": 2}}]
    session, found = talk(place(tmp_path), script, "Go.")
    assert ending(found) == "end_turn"
    assert [(event.attempt, event.status) for event in of(events.RetryScheduled, found)] == [(1, 429), (2, 429)]
    errors = [line for line in records(session.chat.path, "system") if line["subtype"] == "api_error"]
    assert [(line["retryAttempt"], line["error"]["status"]) for line in errors] == [(1, 429), (2, 429)]


def test_what_the_api_refuses_ends_the_turn_and_not_the_session(tmp_path: Path) -> None:
    script = [{"error": {"status": 403, "message": "not you"}}, {"content": "Hello.", "expect": {"absent": "not you"}}]
    session, found = talk(place(tmp_path), script, "Go.", "Again.")
    failed = of(events.TurnFailed, found)
    assert [(event.exit_code, event.status) for event in failed] == [(6, 403)]
    assert "not you" in failed[0].message
    assert [turn.ending for turn in of(events.TurnEnded, found)] == ["failed", "end_turn"]
    (line,) = [line for line in records(session.chat.path, "assistant") if line.get("isApiErrorMessage")]
    assert line["message"]["model"] == "<synthetic>"


@pytest.mark.parametrize("how", ["cut", "error", "malformed"])
@pytest.mark.parametrize("after", range(14))
def test_an_answer_that_breaks_off_anywhere_is_gone_on_with(tmp_path: Path, how: str, after: int) -> None:
    broken = {"content": ["I say a few words.", call("a")], "chunk": 9, "break": {"how": how, "after": after}}
    _, found = talk(place(tmp_path), {"steps": [broken], "default": "Done."}, "Go.")
    assert ending(found) == "end_turn"
    assert found[-1].text == "Done."


def test_an_answer_that_breaks_off_again_and_again_fails(tmp_path: Path) -> None:
    broken = {"content": "Hello there.", "break": {"how": "cut", "after": 2}}
    _, found = talk(place(tmp_path), {"steps": [broken] * 4, "default": "Done."}, "Go.", "Again.")
    assert [turn.ending for turn in of(events.TurnEnded, found)] == ["failed", "end_turn"]
    assert len(of(events.RetryScheduled, found)) == 3
    assert of(events.TurnFailed, found)[0].message == (
        "the response broke off 4 times: the response ended before it was complete"
    )


def test_an_answer_that_breaks_off_is_given_again_and_replaces_the_first(tmp_path: Path) -> None:
    long = "A long story about a ship."
    broken = {"content": long, "chunk": 6, "break": {"how": "cut", "after": 4}}
    session, found = talk(place(tmp_path), {"steps": [broken], "default": long}, "Go.")
    assert session.chat.transcript.conversation.messages[-1]["content"] == [{"type": "text", "text": long}]
    assert [done.block["text"] for done in of(events.BlockDone, found)] == [long]
    assert (len(of(events.ResponseBegan, found)), len(session.chat.transcript.conversation.messages)) == (2, 2)


def test_answers_that_break_off_after_calls_are_bounded_too(tmp_path: Path) -> None:
    broken = {"content": [call("a"), "And so on."], "chunk": 4, "break": {"how": "cut", "after": 5}}
    session, found = talk(place(tmp_path), {"steps": [broken] * 20}, "Go.")
    assert (ending(found), len(session.model.requests)) == ("failed", 4)


def test_every_request_counts_as_a_step(tmp_path: Path) -> None:
    broken = {"content": "Hello there.", "break": {"how": "cut", "after": 2}}
    steps = [broken, broken, {"content": [call("a")]}, broken, broken, "Done."]
    session, found = talk(place(tmp_path), steps, "Go.", max_steps=5)
    assert (ending(found), found[-1].steps, len(session.model.requests)) == ("max_steps", 5, 5)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [({"max_steps": 1}, "max_steps"), ({"max_total_tokens": 5}, "max_total_tokens"),
     ({"max_cost_micros": 1}, "max_cost"), ({"max_seconds": 0.2}, "max_seconds")],
)  # fmt: skip
def test_a_limit_ends_a_turn_with_its_results(tmp_path: Path, limit: dict[str, Any], expected: str) -> None:
    words = "never" if "max_seconds" in limit else "a"
    _, found = talk(place(tmp_path), [{"content": [call(words)]}, "Done."], "Go.", **limit)
    assert ending(found) == expected
    assert len(of(events.CallEnded, found)) == 1


def test_words_typed_meanwhile_are_taken_at_the_next_step(tmp_path: Path) -> None:
    script = [
        {"content": [call("a")]},
        {"content": "Ok.", "expect": {"result": "a", "text": "Use b, please."}},
    ]

    def steer(event: Any, chat: Chat) -> None:
        if isinstance(event, events.CallBegan):
            chat.steer("Use b, please.")

    session, found = talk(place(tmp_path), script, "Go.", at=steer)
    assert session.chat.next_prompt() is None
    assert [event.text for event in of(events.InputTaken, found)] == ["Use b, please."]
    queue = [line["operation"] for line in records(session.chat.path, "queue-operation")]
    assert queue == ["enqueue", "remove"]


def test_words_that_come_too_late_are_the_next_prompt(tmp_path: Path) -> None:
    def steer(event: Any, chat: Chat) -> None:
        if isinstance(event, events.ResponseDone):
            chat.steer("Wait.")

    session, _ = talk(place(tmp_path), ["Done.", "Waiting."], "Go.", at=steer)
    assert session.chat.next_prompt() == "Wait."


LONG: list[Any] = [
    {"content": [{"type": "thinking", "thinking": "Hm, hm."}, "I ask twice.", call("a"), call("never")], "chunk": 4},
    {"content": "It said a.", "chunk": 4},
]


@pytest.mark.parametrize("at", range(30))
def test_an_interrupt_at_any_moment_leaves_a_sound_session(tmp_path: Path, at: int) -> None:
    seen: list[Any] = []

    def stop(event: Any, chat: Chat) -> None:
        seen.append(event)
        if not of(events.TurnEnded, seen) and (len(seen) == at + 1 or isinstance(event, events.CallProgressed)):
            chat.interrupt()

    script = {"cues": {"Go.": LONG, "And now?": ["Gone on."]}}
    session, found = talk(place(tmp_path), script, "Go.", sound, "And now?", at=stop)
    assert [turn.ending for turn in of(events.TurnEnded, found)] == ["interrupted", "end_turn"]
    marks = [line for line in records(session.chat.path, "user") if "interrupted by user" in str(line["message"])]
    assert len(marks) == 1
    grown = "".join(event.text for event in of(events.TextGrown, found[: found.index(of(events.TurnEnded, found)[0])]))
    assert grown.strip() in str(session.chat.path.read_text())


def test_an_interrupt_while_tools_run_has_the_program_s_own_words(tmp_path: Path) -> None:
    def stop(event: Any, chat: Chat) -> None:
        if isinstance(event, events.CallProgressed):
            chat.interrupt()

    session, _ = talk(place(tmp_path), LONG, "Go.", at=stop)
    said = [line["message"]["content"] for line in records(session.chat.path, "user")][1:]
    assert said[0][0]["content"] == "a"
    assert said[1][0]["content"].startswith("The user doesn't want to proceed with this tool use.")
    assert said[2] == [{"type": "text", "text": "[Request interrupted by user for tool use]"}]


def test_who_stops_listening_leaves_a_sound_session(tmp_path: Path) -> None:
    async def go(kind: type) -> Session:
        session = await opened(place(tmp_path), {"steps": LONG, "default": "On."})
        await session.stop_listening("Go.", lambda event: isinstance(event, kind))
        await session.chat.close()
        return session

    for kind in (events.TextGrown, events.BlockDone, events.CallProgressed):
        sound(asyncio.run(go(kind)).chat)


def test_a_task_that_is_cancelled_leaves_a_sound_session(tmp_path: Path) -> None:
    async def go() -> Session:
        session = await opened(place(tmp_path), LONG)
        reached = asyncio.Event()

        def at(event: Any, chat: Chat) -> None:
            if isinstance(event, events.CallProgressed):
                reached.set()

        job = asyncio.ensure_future(session.say("Go.", at))
        await reached.wait()
        job.cancel()
        await asyncio.wait({job})
        assert job.cancelled()
        await session.chat.close()
        return session

    sound(asyncio.run(go()).chat)


class Someone:
    """A person with one answer."""

    def __init__(self, permit: PermissionAnswer) -> None:
        self._permit = permit
        self.asked: list[PermissionRequest] = []

    async def ask_permission(self, wish: PermissionRequest, ruling: RuleDecision) -> PermissionAnswer:
        self.asked.append(wish)
        return self._permit

    async def ask_questions(self, choices: tuple[UserQuestion, ...]) -> dict[str, str] | None:
        return None

    async def approve_plan(self, plan: str) -> PermissionAnswer:
        return self._permit


def test_a_refusal_with_words_is_told_and_the_turn_goes_on(tmp_path: Path) -> None:
    person = Someone(PermissionAnswer(allowed=False, words="use b"))
    script = [{"content": [call("a")]}, {"content": "b then.", "expect": {"result": "the user said:\nuse b"}}]
    _, found = talk(place(tmp_path), script, "Go.", person=person, fittings=fitted(judge=Allow("ask")))
    assert [denied["tool_name"] for denied in found[-1].denials] == ["Echo"]


def test_a_refusal_without_words_ends_the_turn(tmp_path: Path) -> None:
    person = Someone(PermissionAnswer(allowed=False, stops=True))
    script = [{"content": [call("a"), call("b")]}]
    session, found = talk(place(tmp_path), script, "Go.", person=person, fittings=fitted(judge=Allow("ask")))
    assert ending(found) == "interrupted"
    assert len(of(events.CallEnded, found)) == 2
    assert "[Request interrupted by user for tool use]" in session.chat.path.read_text()


def test_where_nobody_can_be_asked_the_model_is_told_and_goes_on(tmp_path: Path) -> None:
    script = [{"content": [call("a")]}, {"content": "Ok.", "expect": {"result": "was not granted", "is_error": True}}]
    _, found = talk(place(tmp_path), script, "Go.", fittings=fitted(judge=Allow("ask")))
    assert ending(found) == "end_turn"
    assert of(events.CallEnded, found)[0].denied == "the test says so"


def test_a_rule_that_is_given_once_holds_for_the_calls_beside_it(tmp_path: Path) -> None:
    person = Someone(PermissionAnswer(allowed=True, rule="Echo", keep="session"))
    judge = Allow("ask")
    script = [{"content": [call("a"), call("b")]}, "Done."]
    talk(place(tmp_path), script, "Go.", person=person, fittings=fitted(judge=judge))
    assert [wish.tool for wish in person.asked] == ["Echo"]
    assert judge.kept == [("Echo", "session")]


@pytest.mark.parametrize(
    ("words", "what"),
    [("messages.0.content.0.text.cache_control: Extra inputs are not permitted", "caching"),
     ("thinking: Extra inputs are not permitted", "thinking"),
     ("Unexpected value(s) `interleaved-thinking-2025-05-14` for the `anthropic-beta` header", "betas")],
)  # fmt: skip
def test_what_an_endpoint_does_not_know_is_done_without(tmp_path: Path, words: str, what: str) -> None:
    script = [{"error": {"status": 400, "message": words}}, "Hello."]
    session, found = talk(place(tmp_path), script, "Go on. " * 5000)
    (degraded,) = of(events.FeatureDisabled, found)
    assert degraded.what.startswith(what)
    assert ending(found) == "end_turn"
    assert ("cache_control" in str(session.model.requests[-1])) is (what != "caching")


def test_ids_that_a_server_uses_again_are_made_new(tmp_path: Path) -> None:
    again = {"content": [{**call("a"), "id": "toolu_1"}], "id": "msg_1"}
    session, found = talk(place(tmp_path), [again, again, {"content": "Done.", "id": "msg_1"}], "Go.")
    assert ending(found) == "end_turn"
    assert len({line["message"]["id"] for line in records(session.chat.path, "assistant")}) == 3
    assert accepted(session.chat.path) == []


def test_a_refusal_after_a_compaction_in_the_same_turn_keeps_the_summary(tmp_path: Path) -> None:
    script = [
        "Hello.",
        {"content": [call("a")]},
        {"content": "I can", "stop_reason": "refusal"},
        {"content": "Fine.", "expect": {"anywhere": "A summary.", "absent": "Hello."}},
    ]

    def shorten(event: Any, chat: Chat) -> None:
        if isinstance(event, events.CallEnded):
            chat.transcript.write_boundary("A summary.", "auto", 1)

    talk(place(tmp_path), script, "Hi.", "Something bad", "Something good", at=shorten)
