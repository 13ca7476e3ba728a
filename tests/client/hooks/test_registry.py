"""What hooks leave in a conversation: the session on disk and the messages in memory agree."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.client.talk import all_lines, converse, ending, fitted, place, talk
from unspool.client.hooks.answers import HookAnswer, HookCall, HookReply, parse_answer, parse_exit
from unspool.client.hooks.event_names import EVENTS
from unspool.client.hooks.registry import HookRegistry, RegisteredHook
from unspool.client.hooks.settings import HookServices, HookSource, load_hooks

Json = dict[str, Any]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


class Answers:
    """A hook that answers each event with what it was given."""

    label, timeout = "answers", 1.0

    def __init__(self, replies: dict[str, HookReply]) -> None:
        self._replies = replies

    async def call(self, call: HookCall) -> HookReply:
        return self._replies.get(call.event, HookReply(exit_code=0))


def registry(**replies: HookReply) -> HookRegistry:
    return HookRegistry([RegisteredHook(event, Answers(replies)) for event in EVENTS], lambda: "id")


def adds(event: str, **more: Any) -> HookReply:
    answer = parse_answer({"hookSpecificOutput": {"additionalContext": f"{event}!"}, **more}, event)
    assert isinstance(answer, HookAnswer)
    return HookReply(answer=answer, exit_code=0, stdout="{}")


CALL = {"type": "tool_use", "name": "Echo", "input": {"text": "hi"}}


@pytest.mark.parametrize(
    "replies",
    [
        {event: adds(event) for event in EVENTS},
        {"PreToolUse": HookReply(failure="gone")},
        {"PreToolUse": HookReply(blocked="no", exit_code=2), "PostToolUse": adds("PostToolUse")},
        {"PostToolUse": adds("PostToolUse", decision="block", reason="again")},
        {"PostToolUse": adds("PostToolUse", **{"continue": False})},
        {"SessionStart": HookReply(stdout="it began", exit_code=0), "Stop": HookReply(error="broken", exit_code=1)},
    ],
)
def test_disk_and_memory_agree_whatever_hooks_say(tmp_path: Path, replies: dict[str, HookReply]) -> None:
    script = {"cues": {"one": [{"content": [CALL, CALL]}, "Done."], "two": ["Again."]}}
    fittings = fitted()._replace(hooks=registry(**replies))
    session, found = talk(place(tmp_path), script, "one", "two", fittings=fittings)
    assert ending(found) == "end_turn"
    assert any(line["type"] == "attachment" for line in all_lines(session.chat.path))


def test_a_prompt_that_is_refused_leaves_nothing_in_memory(tmp_path: Path) -> None:
    fittings = fitted()._replace(hooks=registry(UserPromptSubmit=HookReply(blocked="no", exit_code=2)))
    session, found = converse(place(tmp_path), ["Never."], "one", fittings=fittings)
    assert (ending(found), session.chat.transcript.conversation.messages) == ("hook_stopped", [])
    assert not session.chat.path.exists()


@given(anything, st.sampled_from(EVENTS))
def test_whatever_settings_hold_no_hook_gets_lost_in_silence(value: Any, event: str) -> None:
    loaded = load_hooks([HookSource("user", {"hooks": {event: value}})], HookServices({}, Path("/")))
    assert (
        loaded.hooks or loaded.problems or value in ([], {}) or (isinstance(value, dict) and value.get("hooks") == [])
    )
    load_hooks([HookSource("user", {"hooks": value})], HookServices({}, Path("/")))


@given(anything, st.integers(-64, 255), st.text(max_size=20), st.text(max_size=20))
def test_whatever_a_hook_answers_it_is_an_answer_or_a_failure(value: Any, code: int, out: str, err: str) -> None:
    assert isinstance(parse_answer(value, "Stop"), HookAnswer | str)
    reply = parse_exit("Stop", code, out, err)
    assert (reply.failure is None) or reply.answer == HookAnswer()


@given(st.text(max_size=10), st.text(max_size=10))
def test_a_matcher_never_fails(matcher: str, subject: str) -> None:
    assert RegisteredHook("Stop", Answers({}), matcher).matches(subject) in (True, False)


def test_hooks_that_say_nothing_decide_nothing() -> None:
    verdict = asyncio.run(registry().run(HookCall("PreToolUse", {}), "Bash"))
    assert (verdict.permission, verdict.stops, verdict.contexts) == (None, None, ())
