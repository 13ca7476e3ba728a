"""The judge of chat: its sessions, resumed by three versions of the program; `test_resume.py` has the reverse.

Needs node, npm and once their registry; see `program.py`. Fewer versions than listed is a failure, not a skip.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

import unspool
from tests.claude import chats
from tests.claude.program import Place, Program, all_of, installed
from tests.claude.scenarios import MARKER, Scenario
from unspool.edit import session_text
from unspool.edit.rules import check
from unspool.edit.verify.claude_code import resume_with_claude_code
from unspool.edit.verify.versions import predict_messages, strip_unrecorded_text
from unspool.home import Session
from unspool.testing.comparison import difference

pytestmark = pytest.mark.claude

VERSIONS = ("2.0.76", "2.1.29", "newest")
CORES = 2
ASKED = sum(1 + scenario.forks for scenario in chats.SCENARIOS)


class Written(NamedTuple):
    """A session that chat wrote."""

    name: str
    place: Place
    session: Session


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return all_of(VERSIONS)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[Written]:
    """What chat has written: a config folder and a project for each scenario."""
    root = tmp_path_factory.mktemp("chat")
    with ThreadPoolExecutor(CORES) as threads:
        found = [*threads.map(lambda scenario: write(scenario, root), chats.SCENARIOS)]
    return [one for some in found for one in some]


def write(scenario: Scenario, root: Path) -> list[Written]:
    place = Place(root / scenario.name, root / f"{scenario.name} work")
    ids = chats.play(scenario, place)
    home = unspool.open(place.config)
    return [Written(scenario.name, place, home.session(id)) for id in ids]


def test_what_chat_writes_breaks_no_rule_and_is_read_whole(written: list[Written]) -> None:
    assert len(written) == ASKED
    for name, _, session in written:
        assert not session.bad_lines, name
        broken = check.check_rules(session_text.parse_session_text(session.id, session.path.read_bytes()))
        assert not broken, f"{name}: {broken}"


@pytest.mark.parametrize("version", VERSIONS)
def test_what_chat_writes_is_resumed_with_the_messages_predicted(
    version: str, programs: Mapping[str, Program], written: list[Written]
) -> None:
    command = programs[version].command[-1]
    with ThreadPoolExecutor(CORES) as threads:
        found = [*threads.map(lambda one: ask(one, command), written)]
    assert len(found) == ASKED
    words = [one for one in found if one]
    assert not words, "\n".join([f"{len(words)} of {ASKED} sessions differ", *words])


def test_sessions_with_hooks_are_resumed_by_a_version_in_between_too(written: list[Written]) -> None:
    command = installed("2.1.200").command[-1]
    hooked = [one for one in written if one.name.startswith("hooks")]
    assert len(hooked) == 4
    assert [words for words in (ask(one, command) for one in hooked) if words] == []


def ask(one: Written, command: str) -> str | None:
    version, sent = resume_with_claude_code(command, one.session.id, one.session.path.read_bytes())
    words = difference(strip_unrecorded_text(sent, version), predict_messages(one.session.entries, version), MARKER)
    return f"{one.name}: {words}" if words else None


def test_the_agent_sdk_reads_the_same_messages(written: list[Written], monkeypatch: pytest.MonkeyPatch) -> None:
    from claude_agent_sdk import get_session_messages

    for name, place, session in written:
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(place.config))
        theirs = [(one.uuid, one.message) for one in get_session_messages(session.id, str(place.work))]
        assert theirs == told(session), name


def told(session: Session) -> list[tuple[str, object]]:
    """Return what the lines of a conversation say since it was last compacted, but for what the program adds to it."""
    thread = session.thread
    assert thread is not None
    lines = [json.loads(bytes(entry.raw)) for entry in thread.entries]
    start = max((number for number, line in enumerate(lines) if line.get("subtype") == "compact_boundary"), default=0)
    return [
        (line["uuid"], line["message"])
        for line in lines[start:]
        if line["type"] in ("user", "assistant") and not line.get("isMeta")
    ]
