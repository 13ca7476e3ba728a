"""Conversations that flood their window: every request fits, nothing that was asked for is lost, and it goes on."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from tests.client.talk import (
    MODEL,
    Echo,
    Session,
    accepted,
    converse,
    ending,
    fitted,
    manuscript,
    of,
    opened,
    place,
    records,
    talk,
)
from unspool.client import events
from unspool.client.chat import Chat
from unspool.client.compaction.token_window import TokenWindow
from unspool.client.config import SessionStart
from unspool.client.loop.agent import Services
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import ToolOutcome
from unspool.edit.planning.compress import SUMMARY_BEGINNING
from unspool.edit.rules import check
from unspool.graph.context.build import build_context
from unspool.testing.strict import count_tokens

Json = dict[str, Any]
WINDOW = 8000
SUMMING = "<conversation>"
"""What only a request for a summary holds."""
SUMMARIES: dict[str, Json] = {
    "tells": {"content": "<summary>" + "A good deal was done, and more is to do. " * 12 + "</summary>"},
    "floods": {"content": "Once upon a time. " * 2000},
    "is empty": {"content": "", "stop_reason": "end_turn"},
    "refuses": {"content": "No.", "stop_reason": "refusal"},
    "fails": {"error": {"status": 400, "message": "not today"}},
    "breaks off": {"content": "So it was that", "chunk": 3, "break": {"how": "cut", "after": 4}},
}


class Flood(Echo):
    """Says a lot."""

    name = "Flood"

    def __init__(self) -> None:
        self.input_schema = {
            "type": "object",
            "properties": {"size": {"type": "integer", "description": "How much. " * 700}},
        }

    def check(self, input: Json) -> None:
        """Accept any input."""

    async def run(self, input: Json, desk: ToolContext, call_id: str) -> ToolOutcome:
        text = "water is wet, " * int(input.get("size", 0))
        return ToolOutcome(content=text, result={"text": text})


def roomy(window: int | None = WINDOW) -> Services:
    system = [{"type": "text", "text": "You help with the work at hand. " * 90}]
    return fitted([Flood()])._replace(
        make_window=lambda model, _: TokenWindow(model, window), system_prompt=lambda desk, model, agent_prompt: system
    )


def flooding(summary: str, steps: int = 2000) -> Json:
    """Return a script whose model calls for floods, and talks without end."""
    chance = random.Random(7)
    kinds: list[Any] = [
        {"content": ["I look.", _flood(300)]},
        {"content": [_flood(40), _flood(2500)]},
        {"content": [{"type": "thinking", "thinking": "Well. " * 60}, _flood(100)]},
        "It is as it was. " * 40,
        "And so on and so forth. " * 700,
        "Done.",
    ]
    return {
        "window": WINDOW,
        "cues": {SUMMING: [SUMMARIES[summary]]},
        "steps": [chance.choice(kinds) for _ in range(steps)],
        "default": "OK.",
    }


def _flood(size: int) -> Json:
    return {"type": "tool_use", "name": "Flood", "input": {"size": size}}


def prompt(turn: int) -> str:
    if turn <= 10:
        return f"Turn {turn}: remember that the code of door {turn} is {turn * 7919}-{turn}, and never tell anybody."
    return f"Turn {turn}: go on with part {turn} of the work."


async def _flooded(folder: Path, summary: str, turns: int) -> tuple[Session, list[Any]]:
    session = await opened(place(folder), flooding(summary), fittings=roomy())
    found: list[Any] = []
    for turn in range(1, turns + 1):
        happened = await session.say(prompt(turn))
        assert ending(happened) in ("end_turn", "max_tokens"), (turn, happened[-3:])
        found += happened
    await session.chat.close()
    return session, found


@pytest.mark.parametrize(("summary", "turns"), [("tells", 200), *((name, 30) for name in SUMMARIES if name != "tells")])
def test_a_flooded_window_is_no_dead_end_and_what_was_asked_first_is_still_sent(
    tmp_path: Path, summary: str, turns: int
) -> None:
    session, found = asyncio.run(_flooded(tmp_path, summary, turns))
    assert session.model.failures == []
    for request in session.model.requests:
        assert count_tokens(request) + request["max_tokens"] <= WINDOW
    last = next(str(one["messages"]) for one in reversed(session.model.requests) if SUMMING not in str(one["messages"]))
    assert [turn for turn in range(1, 11) if prompt(turn) not in last] == []
    assert {event.how for event in of(events.ContextCompacted, found)} >= {"thinned", "summarized", "cut"}
    assert check.check_rules(manuscript(session.chat.path)) == []
    assert accepted(session.chat.path) == []


def test_a_compaction_is_written_as_the_program_does_and_read_back(tmp_path: Path) -> None:
    script = {"cues": {SUMMING: [SUMMARIES["tells"]]}, "default": "word " * 1000, "window": WINDOW}
    session, found = talk(place(tmp_path), script, *(f"Tell me of {n}." for n in range(9)), fittings=roomy())
    compacted = [event for event in of(events.ContextCompacted, found) if event.how == "summarized"]
    boundaries = [line for line in records(session.chat.path, "system") if line["subtype"] == "compact_boundary"]
    summaries = [line for line in records(session.chat.path, "user") if line.get("isCompactSummary")]
    assert len(compacted) == len(boundaries) == len(summaries) > 0
    for event, boundary, summary in zip(compacted, boundaries, summaries, strict=True):
        assert (boundary["parentUuid"], summary["parentUuid"]) == (None, boundary["uuid"])
        assert boundary["logicalParentUuid"]
        assert boundary["compactMetadata"] == {"trigger": "auto", "preTokens": event.before}
        assert summary["isVisibleInTranscriptOnly"] is True
        assert summary["message"]["content"].startswith(SUMMARY_BEGINNING)
    sent = [message.json for message in build_context(manuscript(session.chat.path).entries, model=MODEL)]
    assert sent[0]["content"][0]["text"].startswith(SUMMARY_BEGINNING)


def test_a_prompt_comes_after_what_the_rest_became(tmp_path: Path) -> None:
    script = {"cues": {SUMMING: [SUMMARIES["tells"]]}, "default": "word " * 1000, "window": WINDOW}
    _, found = talk(place(tmp_path), script, *(f"Tell me of {n}." for n in range(9)), fittings=roomy())
    at = next(place for place, event in enumerate(found) if isinstance(event, events.ContextCompacted))
    assert isinstance(found[at - 1], events.TurnBegan)


def test_a_persons_own_compaction_has_their_hint(tmp_path: Path) -> None:
    async def go() -> tuple[Session, list[Any]]:
        summary = {**SUMMARIES["tells"], "expect": {"text": "mind the doors"}}
        script = {"cues": {SUMMING: [summary]}, "default": "word " * 100}
        session = await opened(place(tmp_path), script, fittings=roomy())
        await session.say("Tell me.")
        before = session.chat.totals.tokens
        found: list[Any] = []
        await session.chat.compact(found.append, "mind the doors")
        assert session.chat.totals.tokens > before + 100
        await session.say("And now?")
        await session.chat.close()
        return session, found

    session, found = asyncio.run(go())
    assert session.model.failures == []
    assert [(event.trigger, event.how) for event in found] == [("manual", "summarized")]
    texts = [block["text"] for block in session.model.requests[-1]["messages"][0]["content"]]
    assert texts[0].startswith(SUMMARY_BEGINNING)
    assert texts[-1] == "And now?"


def test_the_window_of_an_unknown_model_is_learnt_from_its_refusal(tmp_path: Path) -> None:
    script = {"cues": {SUMMING: [SUMMARIES["tells"]]}, "default": "word " * 300, "window": WINDOW}
    prompts = ["Hello.", "What is this? " * 4000, *(f"Tell me of {n}." for n in range(20))]
    session, found = converse(place(tmp_path), script, *prompts, fittings=roomy(None), model="some-model")
    assert {event.ending for event in of(events.TurnEnded, found)} == {"end_turn"}
    assert session.chat.window_state[1] == WINDOW
    assert sum(1 for request in session.model.requests if count_tokens(request) > WINDOW) == 1


def test_the_window_of_an_unknown_model_is_learnt_from_an_answer_that_filled_it(tmp_path: Path) -> None:
    script = {"cues": {SUMMING: [SUMMARIES["tells"]]}, "default": "word " * 900, "window": WINDOW}
    prompts = [f"Tell me of {n}." for n in range(9)]
    session, found = converse(place(tmp_path), script, *prompts, fittings=roomy(None), model="some-model")
    assert {event.ending for event in of(events.TurnEnded, found)} == {"end_turn"}
    assert all(count_tokens(request) <= WINDOW for request in session.model.requests)


def test_an_interrupt_while_a_summary_is_written_leaves_everything_as_it_was(tmp_path: Path) -> None:
    async def go() -> tuple[Session, list[Any], int]:
        slow = {**SUMMARIES["tells"], "pause": 30}
        script = {"cues": {SUMMING: [slow]}, "default": "word " * 1000, "window": WINDOW}
        session = await opened(place(tmp_path), script, fittings=roomy())
        await session.say("Tell me of this.")
        await session.say("Tell me of that.")
        await session.say("And of that.")
        before = len(session.chat.transcript.conversation.messages)

        async def stop() -> None:
            while SUMMING not in str(session.model.requests[-1]["messages"]):
                await asyncio.sleep(0)
            session.chat.interrupt()

        stopping = asyncio.create_task(stop())
        found = await session.say("And the rest?")
        stopping.cancel()
        await session.chat.close()
        return session, found, before

    session, found, before = asyncio.run(go())
    assert ending(found) == "interrupted"
    assert of(events.ContextCompacted, found) == []
    messages = session.chat.transcript.conversation.messages
    assert len(messages) == before + 1
    assert [block["text"] for block in messages[-1]["content"]] == ["And the rest?\n", "[Request interrupted by user]"]
    assert accepted(session.chat.path) == []


def test_what_was_thinned_in_memory_is_whole_on_disk_and_thinned_again_when_resumed(tmp_path: Path) -> None:
    flood = {"content": [_flood(1300)]}
    script = {"cues": {SUMMING: [SUMMARIES["tells"]]}, "steps": [flood, "Much."] * 4, "window": WINDOW}
    there = place(tmp_path)
    prompts = [f"Look at {n}." for n in range(4)]

    def is_whole(chat: Chat) -> None:
        assert str(chat.transcript.conversation.messages).count("water is wet, " * 1300) == 4

    session, found = converse(there, script, *prompts, fittings=roomy())
    assert {event.how for event in of(events.ContextCompacted, found)} == {"thinned", "cut"}
    start, again = SessionStart(resume=session.chat.path), {"default": "Yes.", "window": WINDOW}
    resumed, happened = converse(there, again, is_whole, "What did you see?", start=start, fittings=roomy())
    assert ending(happened) == "end_turn"
    assert of(events.ContextCompacted, happened)
    assert all(count_tokens(request) <= WINDOW for request in resumed.model.requests)


def test_a_window_too_small_for_tools_and_system_prompt_ends_the_turn_and_says_so(tmp_path: Path) -> None:
    _, found = talk(place(tmp_path), {"default": "Hi.", "window": 900}, "Hello.", fittings=roomy(900))
    assert ending(found) == "context_full"


def test_thinking_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    session, _ = talk(place(tmp_path), {"default": "Hi."}, "Hello.", fittings=roomy(3600), thinking=30_000)
    (request,) = session.model.requests
    assert "thinking" not in request
    assert request["max_tokens"] < 1024
