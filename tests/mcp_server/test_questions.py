"""Ten questions about the demo's history, answered through MCP by a scripted agent in at most three calls each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp.client.session import ClientSession

from tests.mcp_server.asking import Told, call, run_client

MAX_CALLS = 3
MAX_TOKENS = 3_000


class Question(NamedTuple):
    """A question, the calls that an agent makes, and words that its last answer must have.

    `ID` and `TURN` in an argument are the first session and turn that the answer before named.
    """

    question: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    words: tuple[str, ...]


QUESTIONS = (
    Question(
        "Why was printing tides slow, and what was done?",
        (("recall_decisions", {"topic": "why was printing a week of tides slow"}),),
        ("reads them once", "0.02 s instead of 4 s"),
    ),
    Question(
        "What is the plan for the offline mode?",
        (
            ("search_sessions", {"query": "offline mode", "kinds": "plan"}),
            ("recall_decisions", {"topic": "offline mode"}),
        ),
        ("Phase 2: corrections", "Fetch gauge corrections"),
    ),
    Question(
        "Who added the sentence about memory to the README of tidewatch, and after which prompt?",
        (("find_file_history", {"path": "tidewatch/README.md"}),),
        ("+The last 64 stations stay in memory.", "Mention the cache"),
    ),
    Question(
        "Why does the table read the station before the loop?",
        (("find_file_history", {"path": "table.py"}),),
        ("-        station = load(name)", "takes four seconds"),
    ),
    Question(
        "Which tests failed while the tide table was made faster?",
        (
            ("search_sessions", {"errors": True, "query": "FAILURES"}),
            ("read_session", {"session": "ID", "turn": "TURN"}),
        ),
        ("test_the_station_is_read_for_each_day", "1 failed, 1 passed"),
    ),
    Question(
        "Do we round before we print in the ledger?",
        (("recall_decisions", {"topic": "rounding of sums", "project": "ledger"}),),
        ("only the printing rounds",),
    ),
    Question(
        "Which date format does the bank use?",
        (
            ("search_sessions", {"query": "bank date format"}),
            ("read_session", {"session": "ID"}),
            ("find_file_history", {"path": "ledger/bank.py"}),
        ),
        ('+DATE = "%d.%m.%Y"',),
    ),
    Question(
        "What did we do this month in the ledger, and what did it cost?",
        (("search_sessions", {"project": "ledger"}), ("usage", {"period": "project"})),
        ("ledger", "$"),
    ),
    Question(
        "Which tool is called most?",
        (
            (
                "sql",
                {"query": "SELECT name, count(*) AS calls FROM tool_calls GROUP BY name ORDER BY calls DESC LIMIT 3"},
            ),
        ),
        ("Edit | ",),
    ),
    Question("Does a session need me now?", (("list_running", {}),), ("Needs you", "git push origin publish")),
)


async def answer_question(session: ClientSession, question: Question) -> list[Told]:
    """Make the calls of a question, each with what the one before has found."""
    answers: list[Told] = []
    for tool, arguments in question.calls:
        before = answers[-1].text if answers else ""
        found = {"ID": re.search(r"session ([0-9a-f]{8})", before), "TURN": re.search(r"turn (\d+)", before)}
        filled = {
            name: match[1] if isinstance(value, str) and (match := found.get(value)) else value
            for name, value in arguments.items()
        }
        if "turn" in filled:
            filled["turn"] = int(filled["turn"])
        answers.append(await call(session, tool, **filled))
    return answers


def test_ten_questions_take_at_most_three_calls_and_three_thousand_tokens_each(demo: Path, own: Path) -> None:
    async def use(session: ClientSession) -> list[list[Told]]:
        return [await answer_question(session, question) for question in QUESTIONS]

    assert len(QUESTIONS) == 10
    for question, answers in zip(QUESTIONS, run_client(demo, own, use), strict=True):
        assert not any(answer.failed for answer in answers), (question.question, answers)
        assert len(answers) <= MAX_CALLS
        assert sum(answer.tokens for answer in answers) <= MAX_TOKENS, question.question
        for word in question.words:
            assert word in answers[-1].inside, (question.question, answers[-1].text)


@pytest.mark.parametrize("budget", [200, 300, 1_000, 5_000])
def test_every_answer_keeps_to_its_budget_and_says_how_to_read_on(demo: Path, own: Path, budget: int) -> None:
    async def use(session: ClientSession) -> None:
        for question in QUESTIONS:
            for tool, arguments in question.calls:
                if "ID" in arguments.values():
                    arguments = {"session": "tide-cache", "turn": 1}
                told = await call(session, tool, **arguments, token_budget=budget)
                assert told.tokens <= budget, (tool, arguments, told)
        told = await call(session, "read_session", session="tide-cache", turn=1, token_budget=budget)
        assert ("More steps: read_session" in told.text) is (budget < 5_000)

    run_client(demo, own, use)


def test_a_session_is_read_from_its_outline_to_the_last_character_of_a_step(demo: Path, own: Path) -> None:
    async def use(session: ClientSession) -> None:
        outline = await call(session, "read_session", session="tide-cache")
        assert "turn 1 " in outline.inside
        assert "takes four seconds" in outline.inside
        place = {"session": "Round only when printing", "turn": 1}
        turn = await call(session, "read_session", **place)
        number = re.search(r"step (\d+) · call · Bash python bench/books.py", turn.inside)
        assert number
        pieces, start = [], 0
        for _ in range(200):
            told = await call(session, "read_session", **place, step=int(number[1]), start=start, token_budget=200)
            pieces.append(told.inside.split("\n", 1)[1].removesuffix("\n"))
            following = re.search(r'To read on: .*"start": (\d+)', told.text)
            if following is None:
                break
            pieces[-1] = pieces[-1].removesuffix("…")
            start = int(following[1])
        whole = await call(session, "read_session", **place, step=int(number[1]), token_budget=20_000)
        assert len(pieces) > 2
        assert "".join(pieces) == whole.inside.split("\n", 1)[1].removesuffix("\n")

    run_client(demo, own, use)


def test_lists_and_hits_are_read_on_without_a_gap(demo: Path, own: Path) -> None:
    async def use(session: ClientSession) -> None:
        whole = await call(session, "search_sessions", token_budget=5_000)
        lines: list[str] = []
        for _ in range(50):
            told = await call(session, "search_sessions", offset=len(lines), token_budget=300)
            lines += [line for line in told.inside.splitlines() if line.startswith("- session")]
            if "More: search_sessions" not in told.text:
                break
        assert lines == [line for line in whole.inside.splitlines() if line.startswith("- session")]
        assert len(lines) > 10

    run_client(demo, own, use)


def test_sessions_and_plans_are_resources_and_there_are_prompts(demo: Path, own: Path) -> None:
    async def use(session: ClientSession) -> None:
        await call(session, "search_sessions")
        resources = (await session.list_resources()).resources
        titles = {resource.title: resource.uri for resource in resources}
        (content,) = (await session.read_resource(titles["Plan: Offline mode"])).contents
        assert "Phase 2: corrections" in Told(getattr(content, "text", "")).inside
        (content,) = (await session.read_resource(titles["tide-cache"])).contents
        assert "takes four seconds" in Told(getattr(content, "text", "")).inside
        prompts = {prompt.name for prompt in (await session.list_prompts()).prompts}
        assert prompts == {"what_did_we_do", "why_is_this_code_so"}
        prompt = await session.get_prompt("why_is_this_code_so", {"path": "table.py"})
        assert 'find_file_history (path: "table.py")' in getattr(prompt.messages[0].content, "text", "")
        templates = await session.list_resource_templates()
        assert {each.uri_template for each in templates.resource_templates} == {
            "unspool://session/{id}",
            "unspool://plan/{slug}",
        }

    run_client(demo, own, use)
