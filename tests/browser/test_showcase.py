"""The showcase is what it says it is: what was added up by hand is what the program's own data has."""

from __future__ import annotations

import itertools
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

import unspool
from tests.browser import showcase, showcase_beside
from tests.browser.showcase import EXPECTED
from unspool.export.describe_calls import diff_lines
from unspool.graph.prompts import Speaker
from unspool.graph.turns import find_prompts
from unspool.home import Session


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("showcase")
    showcase.build(folder)
    return folder


@pytest.fixture(scope="module")
def session(config: Path) -> Session:
    return unspool.open(config).session(showcase.ID)


def test_prompts_calls_errors_and_agents_are_as_many_as_said(session: Session) -> None:
    asked = Counter(who for _, who, _ in find_prompts(session.entries))
    assert asked == {Speaker.HUMAN: EXPECTED.prompts + EXPECTED.abandoned - 1, Speaker.QUEUED: 1}
    assert len(session.tool_calls) == EXPECTED.calls
    assert sum(call.failed for call in session.tool_calls) == EXPECTED.failed
    assert len(session.agents) == EXPECTED.agents
    assert len(session.bad_lines) == 1
    assert session.title == showcase.TITLE


def test_the_lines_changed_are_as_many_as_said(session: Session) -> None:
    lines = [line for call in session.tool_calls for line in diff_lines(call)]
    assert sum(line.startswith("+") for line in lines) == EXPECTED.added
    assert sum(line.startswith("-") for line in lines) == EXPECTED.removed


def test_the_tokens_and_the_cost_are_those_of_the_lines(session: Session) -> None:
    made = showcase.ledger()
    assert len(made.requests) == EXPECTED.requests
    extra = showcase_beside.AGENT_REQUESTS
    usage = session.usage
    assert usage.responses == EXPECTED.requests + extra
    assert usage.input == sum(one.fresh for one in made.requests) + 4 * extra
    assert usage.output == sum(one.output for one in made.requests) + 120 * extra
    assert usage.cache_read == sum(one.read for one in made.requests) + 12_000 * extra
    assert usage.cost_micros == made.cost_micros + showcase_beside.AGENT_REQUEST_MICROS * extra


def test_every_request_has_more_context_than_the_one_before_until_the_compaction(session: Session) -> None:
    sizes = [
        message.usage.input_tokens + message.usage.cache_read_input_tokens + message.usage.cache_creation_input_tokens
        for message in session.messages
        if message.usage is not None and message.model == showcase.OPUS
    ]
    drops = [after - before for before, after in itertools.pairwise(sizes) if after <= before]
    assert len(drops) == EXPECTED.compactions
    assert max(sizes) == showcase.COMPACTED[0] + 5


def test_a_call_lasts_as_long_as_said(session: Session) -> None:
    took = {call.input.get("command", call.name): call.duration for call in session.tool_calls}
    assert took["uv run pytest -q --color=yes"] == timedelta(seconds=EXPECTED.failing_bash_seconds)
    assert took["AskUserQuestion"] == timedelta(seconds=EXPECTED.question_seconds)


def test_an_agent_was_started_by_an_agent(session: Session) -> None:
    nested = [agent for agent in session.agents if agent.id == showcase_beside.NESTED.agent]
    assert len(nested) == 1
    assert {agent.id for agent in session.agents} == {
        *(order.agent for order in showcase_beside.ORDERS),
        showcase_beside.NESTED.agent,
    }
