"""Repaired sessions in the real Claude Code: each broken fixture, repaired, is resumed, and the API takes what is sent.

Needs node, npm and once their registry; see `program.py`. One version is asked, with `UNSPOOL_CLAUDE=all` three.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.claude.program import Program, all_of
from tests.edit.broken_sessions import BROKEN, ID, BrokenSession
from tests.edit.sessions import NEW, ids
from unspool.api.rules import find_problems
from unspool.edit.planning.plan import Repair
from unspool.edit.planning.planner import prepare_edit
from unspool.edit.session_text import parse_session_text
from unspool.edit.verify.claude_code import RESUME_PROMPT, request_of_claude_code
from unspool.edit.verify.request_diff import find_difference
from unspool.edit.verify.versions import predict_messages, strip_unrecorded_text

pytestmark = pytest.mark.claude

ALL = ("2.0.76", "2.1.200", "newest")
VERSIONS = ALL if os.environ.get("UNSPOOL_CLAUDE") == "all" else ("newest",)
CORES = 2


@pytest.fixture(scope="module", params=VERSIONS)
def program(request: pytest.FixtureRequest) -> Program:
    return all_of((request.param,))[request.param]


def test_every_repaired_session_is_resumed_and_the_api_takes_the_request(program: Program) -> None:
    with ThreadPoolExecutor(CORES) as threads:
        found = [*threads.map(lambda item: resume(program, *item), BROKEN.items())]
    wrong = [words for words in found if words]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(BROKEN)} are wrong in {program.version}", *wrong])


def resume(program: Program, name: str, broken: BrokenSession) -> str | None:
    """Let Claude Code resume a repaired session; return what is wrong with the request, None if nothing is."""
    prepared = prepare_edit(parse_session_text(ID, broken.data), Repair(), ids(NEW))
    version, sent = request_of_claude_code(program.command[-1], NEW, prepared.plan.data)
    problems = find_problems(sent, betas=["any"])
    predicted = predict_messages(prepared.result.entries, version, sent.get("model"))
    difference = find_difference(strip_unrecorded_text(sent["messages"], version), predicted, RESUME_PROMPT)
    words = [*(problem.message for problem in problems), *([difference] if difference else [])]
    return f"{name}: {'; '.join(words)}" if words else None
