"""The judge: sessions that the real program wrote, and what the newest one sends when they are resumed.

Needs node, npm and once their registry; see `program.py`. `$UNSPOOL_CLAUDE_VERSIONS` adds versions: `2.1.100,2.1.200`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

import unspool
from tests.claude.chats import CHAT
from tests.claude.program import Place, Program, installed, newest
from tests.claude.scenarios import MARKER, SCENARIOS, TOOLS, furnish, play, script
from tests.claude.server import Json, Server
from unspool.testing.comparison import difference

pytestmark = pytest.mark.claude

MORE = [version for version in os.environ.get("UNSPOOL_CLAUDE_VERSIONS", "").split(",") if version]
VERSIONS = ("2.0.76", "2.1.29", "newest", *MORE)
SESSIONS = sum(1 + scenario.forks for scenario in SCENARIOS)
CORES = 2


class Written(NamedTuple):
    """What a version left: where, and which scenario each session is of."""

    place: Place
    sessions: Mapping[str, str]


Writing: TypeAlias = Mapping[str, Future[Written]]


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return {version: installed(newest() if version == "newest" else version) for version in VERSIONS}


@pytest.fixture(scope="module")
def writing(programs: Mapping[str, Program], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writing]:
    """The versions at work: each plays one scenario after another, two versions at a time."""
    roots = {version: tmp_path_factory.mktemp(program.version) for version, program in programs.items()}
    with ThreadPoolExecutor(CORES) as threads:
        yield {version: threads.submit(write, program, roots[version]) for version, program in programs.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_context_is_what_the_newest_program_sends_on_resume(
    version: str, programs: Mapping[str, Program], writing: Writing, tmp_path: Path
) -> None:
    place, sessions = writing[version].result()
    home = unspool.open(place.config)
    assert {session.id for session in home.sessions() if session.entries} == set(sessions)
    with ThreadPoolExecutor(CORES) as threads:
        sent = [*threads.map(lambda id: resumed(id, programs["newest"], place, tmp_path / id), sessions)]
    ours = [[message.json for message in home.session(id).context()] for id in sessions]
    found = [difference(*messages, prompt=MARKER) for messages in zip(sent, ours, strict=True)]
    assert len(found) == SESSIONS
    words = [
        f"{place.root.name}, {name}: {words}" for name, words in zip(sessions.values(), found, strict=True) if words
    ]
    assert not words, "\n".join([f"{len(words)} of {SESSIONS} sessions differ", *words])


@pytest.mark.parametrize("version", VERSIONS)
def test_chat_goes_on_with_the_messages_the_newest_program_sends(
    version: str, writing: Writing, tmp_path: Path
) -> None:
    place, sessions = writing[version].result()
    home = unspool.open(place.config)
    with ThreadPoolExecutor(CORES) as threads:
        sent = [*threads.map(lambda id: resumed(id, CHAT, place, tmp_path / id), sessions)]
    ours = [[message.json for message in home.session(id).context()] for id in sessions]
    found = [difference(*messages, prompt=MARKER) for messages in zip(sent, ours, strict=True)]
    assert len(found) == SESSIONS
    words = [f"{name}: {words}" for name, words in zip(sessions.values(), found, strict=True) if words]
    assert not words, "\n".join([f"{len(words)} of {SESSIONS} sessions differ", *words])


def write(program: Program, root: Path) -> Written:
    """Play all scenarios with a version."""
    place = Place(root / program.version, root / "work")
    furnish(place)
    return Written(place, {id: scenario.name for scenario in SCENARIOS for id in play(scenario, program, place)})


def resumed(id: str, judge: Program, place: Place, root: Path) -> list[Json]:
    """Resume a session in a copy of its config folder and return the messages of the request this makes."""
    copy = Place(root, place.work)
    shutil.copytree(place.config, copy.config)
    with Server(script(place.work, "Agent")) as server:
        judge.run(copy, server.url, "--resume", id, "--allowedTools", *TOOLS, "--", MARKER)
    asked: list[list[Json]] = [request["messages"] for request in server.requests if request.get("tools")]
    assert len(asked) == 1, f"{len(asked)} requests"
    return asked[0]
