"""The judge of edits: sessions of six versions, edited, resumed by the newest version and by the one that wrote them.

Needs node, npm and once their registry; see `program.py`. Fewer versions than listed is a failure, not a skip. All six
take minutes: they are asked with `UNSPOOL_CLAUDE=all` (`make claude`), else an old one and the newest.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest

import unspool
from tests.claude.program import Place, Program, all_of
from tests.claude.scenarios import Run, Scenario, furnish, play
from unspool.api.rules import find_problems
from unspool.edit.api import Planned, apply_edit, plan_edit
from unspool.edit.planning.plan import Clone, Compress, Fork, Operation, Trim, TrimTo
from unspool.edit.redaction import RedactionRequest, apply_redaction, plan_redaction
from unspool.edit.verify.claude_code import compare_with_claude_code, request_of_claude_code, resume_with_claude_code
from unspool.home import Session

pytestmark = pytest.mark.claude

ALL = ("2.0.50", "2.0.76", "2.1.29", "2.1.100", "2.1.200", "newest")
VERSIONS = ALL if os.environ.get("UNSPOOL_CLAUDE") == "all" else ("2.0.76", "newest")
CORES = 2
LONG = Scenario(
    "long",
    (
        Run("Read the notes."),
        Run("Do three things."),
        Run("Count far."),
        Run("Look at the dot."),
        Run("Read the notes."),
    ),
    ("About milk.", "Done.", "That was far.", "A dot."),
)
COMPACTED = Scenario(
    "compacted",
    (Run("Read the notes."), Run("/compact keep it short"), Run("Do three things."), Run("Say hello.")),
    ('"isCompactSummary":true', "Hello to you."),
)
AGENT = Scenario("agent", (Run("Send an agent."), Run("Say hello.")), ("The agent is back.", "Hello to you."))
EDITS: Mapping[str, tuple[tuple[str, Operation], ...]] = {
    "long": (
        ("clone", Clone()),
        ("results", Trim(results=True, superseded_reads=True)),
        ("tools", Trim(tools=())),
        ("some tools", Trim(tools=("Bash",))),
        ("thinking", Trim(thinking=True)),
        ("images", Trim(images=True)),
        ("turns", Trim(turns=range(2, 4))),
        ("the last turns", Trim(keep_last=2)),
        ("to a third", TrimTo(percent=33)),
        ("fork", Fork("2")),
        ("compress", Compress(keep_last=2, keep_calls=True)),
        ("compress all", Compress(keep_last=0)),
    ),
    "compacted": (
        ("clone", Clone()),
        ("outside", Trim(outside=True)),
        ("tools", Trim(tools=())),
        ("compress", Compress(keep_last=1)),
    ),
    "agent": (("clone", Clone()), ("tools", Trim(tools=()))),
}

Written: TypeAlias = Mapping[str, Session]


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return all_of(VERSIONS)


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def sessions(version: str, programs: Mapping[str, Program], tmp_path_factory: pytest.TempPathFactory) -> Written:
    """What a version has written."""
    root = tmp_path_factory.mktemp(version)
    with ThreadPoolExecutor(CORES) as threads:
        written = [*threads.map(lambda scenario: write(scenario, programs[version], root), (LONG, COMPACTED, AGENT))]
    return dict(written)


def write(scenario: Scenario, program: Program, root: Path) -> tuple[str, Session]:
    place = Place(root / scenario.name, root / f"{scenario.name} work")
    furnish(place)
    (id,) = play(scenario, program, place)
    return scenario.name, unspool.open(place.config).session(id)


def test_edits_resume_in_the_newest_version_and_in_the_one_that_wrote_them(
    version: str, programs: Mapping[str, Program], sessions: Written
) -> None:
    planned = [
        (f"{name}, {title}", plan_edit(sessions[name], operation))
        for name, edits in EDITS.items()
        for title, operation in edits
    ]
    judges = dict.fromkeys(programs[name].command[-1] for name in ("newest", version))
    tries = [(title, one, judge) for title, one in planned for judge in judges]
    with ThreadPoolExecutor(CORES) as threads:
        found = [*threads.map(lambda tried: ask(*tried), tries)]
    differing = [words for words in found if words]
    assert not differing, "\n".join([f"{len(differing)} of {len(tries)} differ", *differing])


def ask(title: str, planned: Planned, judge: str) -> str | None:
    words = ", ".join(planned.verified.faults) or compare_with_claude_code(planned.prepared, judge)
    return f"{title}, asked {judge[-60:]}: {words}" if words else None


def test_a_clone_makes_the_request_that_its_original_makes(
    version: str, programs: Mapping[str, Program], sessions: Written, tmp_path: Path
) -> None:
    session = sessions["long"]
    edited = apply_edit(plan_edit(session, Clone()), folder=tmp_path)
    for name in dict.fromkeys(("newest", version)):
        command = programs[name].command[-1]
        _, ours = resume_with_claude_code(command, edited.path.stem, edited.path.read_bytes())
        _, theirs = resume_with_claude_code(command, session.id, session.path.read_bytes())
        assert placeless(ours) == placeless(theirs)


def test_a_redacted_session_resumes_without_what_was_removed(
    version: str, programs: Mapping[str, Program], sessions: Written, tmp_path: Path
) -> None:
    for number, request in enumerate((RedactionRequest(texts=("milk",)), RedactionRequest(turns=range(2, 3)))):
        original = sessions["long"]
        config = tmp_path / str(number)
        path = config / original.path.relative_to(original.path.parents[2])
        path.parent.mkdir(parents=True)
        shutil.copy(original.path, path)
        plan = plan_redaction(unspool.open(config).session(original.id), request)
        assert not plan.planned.verified.faults
        assert apply_redaction(plan, folder=tmp_path / "own") is not None
        data = path.read_bytes()
        assert data != original.path.read_bytes()
        for name in dict.fromkeys(("newest", version)):
            command = programs[name].command[-1]
            differs = compare_with_claude_code(plan.planned.prepared, command)
            assert differs is None, (name, differs)
            _, sent = request_of_claude_code(command, original.id, data)
            assert not find_problems(sent, betas=["any"]), name
            assert "[redacted]" in json.dumps(sent["messages"])
            assert number or "milk" not in json.dumps(sent["messages"])


def placeless(messages: object) -> object:
    """Return what was sent without the name of the folder it was sent from, which is new each time."""
    return json.loads(re.sub(r"/unspool-\w+/", "/PLACE/", json.dumps(messages)))
