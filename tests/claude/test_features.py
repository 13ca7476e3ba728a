"""The judge of single features: each is played by several versions, and resumed by them and by the newest.

So are edits of these sessions. Needs node, npm and once their registry; see `program.py`. Six versions take
minutes: they are asked with `UNSPOOL_CLAUDE=all` (`make claude`), else the newest alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest

import unspool
from tests.claude.differences import DIFFERENCES, REFUSED, Difference
from tests.claude.features import FEATURES, TOOLS, Feature, numbers, play
from tests.claude.program import Place, Program, all_of
from tests.claude.screens import SCREENS
from tests.claude.server import Json
from unspool.edit.api import plan_edit
from unspool.edit.planning.plan import Clone, Compress, Fork, Operation, Trim
from unspool.edit.verify.claude_code import RESUME_PROMPT, compare_with_claude_code
from unspool.edit.verify.versions import predict_messages, strip_unrecorded_text
from unspool.errors import Refused
from unspool.home import Session
from unspool.testing.api import scripted
from unspool.testing.comparison import difference

pytestmark = pytest.mark.claude

ALL = ("2.1.29", "2.1.100", "2.1.200", "2.1.290", "2.1.325", "newest")
VERSIONS = ALL if os.environ.get("UNSPOOL_CLAUDE") == "all" else ("newest",)
CORES = 2
EVERY = (*FEATURES, *SCREENS)
# Whoever allows TodoWrite is reminded of tasks with every model, also those that have no tools for them (2.1.325 to
# 2.1.327). No line of a session says what was allowed, so we predict a reader who allows nothing of the kind.
READER_TOOLS = tuple(tool for tool in TOOLS if tool != "TodoWrite")
EDITS: Mapping[str, Operation] = {
    "clone": Clone(),
    "fork": Fork("2"),
    "trim results": Trim(results=True, superseded_reads=True, larger_than=0),
    "trim calls": Trim(tools=(), thinking=True, images=True),
    "compress": Compress(keep_last=1),
}


class Played(NamedTuple):
    """A session that a version has written for a feature."""

    feature: Feature
    writer: str
    place: Place
    id: str

    @property
    def session(self) -> Session:
        return unspool.open(self.place.config).session(self.id)


Playing: TypeAlias = list[Future[Played]]


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    return all_of([*dict.fromkeys((*VERSIONS, "2.1.29", "newest"))])


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def playing(
    version: str, programs: Mapping[str, Program], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Playing]:
    """A version at work, two scenarios at a time."""
    root = tmp_path_factory.mktemp(version)

    def start(feature: Feature) -> Played:
        place = Place(root / feature.name / "home", root / feature.name / "work")
        return Played(feature, version, place, play(feature, version, programs, place))

    with ThreadPoolExecutor(CORES) as threads:
        suiting = [feature for feature in EVERY if feature.suits(programs[version].version)]
        yield [threads.submit(start, feature) for feature in suiting]


def test_each_feature_is_resumed_with_the_messages_predicted(
    version: str, programs: Mapping[str, Program], playing: Playing, tmp_path: Path
) -> None:
    played, words = _results(playing)
    readers = dict.fromkeys(("newest", version))
    tries = [(one, reader) for one in played for reader in readers]
    with ThreadPoolExecutor(CORES) as threads:
        found = [
            *threads.map(lambda one: _compare(one[0], programs[one[1]], tmp_path / one[1] / one[0].feature.name), tries)
        ]
    differing = {(one.feature.name, version, reader): words for (one, reader), words in zip(tries, found, strict=True)}
    words += _unexpected(differing, DIFFERENCES)
    assert len(tries) >= 20 * len(readers)
    assert not words, "\n".join([f"{len(words)} of {len(tries)} resumes are not as listed", *words])


def test_edits_of_each_feature_resume_as_planned_or_are_refused_for_a_listed_reason(
    version: str, programs: Mapping[str, Program], playing: Playing
) -> None:
    command = programs["newest"].command[-1]
    # A session that is resumed with more than its lines hold is so after an edit too.
    known = {one.feature for one in DIFFERENCES if one.suits(version, "newest")}
    played = [one for one in _results(playing)[0] if one.feature.name not in known]
    tries = [(one, title) for one in played for title in EDITS]
    with ThreadPoolExecutor(CORES) as threads:
        found = [*threads.map(lambda one: _edit(one[0].session, EDITS[one[1]], command), tries)]
    differing = {(one.feature.name, version, title): words for (one, title), words in zip(tries, found, strict=True)}
    words = [*_unexpected(differing, REFUSED)]
    assert not words, "\n".join([f"{len(words)} of {len(tries)} edits are not as listed", *words])


def test_every_difference_that_is_listed_is_of_a_scenario_and_has_a_reason() -> None:
    names = {feature.name for feature in EVERY}
    for one in (*DIFFERENCES, *REFUSED):
        assert one.feature in names
        assert len(one.reason.split()) > 5, one
    for feature in EVERY:
        assert all(map(feature.suits, ALL[:-1])) or feature.why, feature.name


def _results(playing: Playing) -> tuple[list[Played], list[str]]:
    """Return the sessions that were written, and why others were not."""
    played, words = [], []
    for future in playing:
        try:
            played.append(future.result())
        except (AssertionError, subprocess.TimeoutExpired) as error:
            words.append(f"not played: {error}")
    return played, words


def _compare(played: Played, reader: Program, root: Path) -> str | None:
    """Let a version resume a session in a copy of its config folder; return where it differs from what we predict."""
    copy = Place(root, played.place.work)
    shutil.copytree(played.place.config, copy.config, symlinks=True)
    with scripted({"default": "Much."}, strict=reader.version == played.writer) as api:
        reader.run(
            copy,
            api.url,
            "--resume",
            played.id,
            *played.feature.resume,
            "--allowedTools",
            *READER_TOOLS,
            "--",
            RESUME_PROMPT,
        )
        asked: list[list[Json]] = [
            body["messages"] for body in api.bodies if body.get("tools") and RESUME_PROMPT in str(body["messages"])
        ]
    assert asked, f"{played.feature.name}: {reader.version} has asked nothing"
    version = numbers(reader.version)
    ours = predict_messages(played.session.entries, version)
    return difference(strip_unrecorded_text(asked[0], version), ours, RESUME_PROMPT)


def _edit(session: Session, operation: Operation, command: str) -> str | None:
    """Return why an edit is refused, or where what is sent after it differs from the plan."""
    try:
        planned = plan_edit(session, operation)
    except Refused as refused:
        # Not every session has calls with results, or more turns than one.
        return None if str(refused).startswith("nothing to ") else str(refused)
    return "; ".join(planned.verified.faults) or compare_with_claude_code(planned.prepared, command)


def _unexpected(found: Mapping[tuple[str, str, str], str | None], listed: list[Difference]) -> Iterator[str]:
    """Yield what differs and is not listed, and what is listed and does not differ any more."""
    for (feature, writer, other), words in found.items():
        match = [one for one in listed if one.feature == feature and one.suits(writer, other)]
        if words and not any(one.words in words for one in match):
            yield f"{feature}, written by {writer}, {other}: {words}"
        if match and not words:
            yield f"{feature}, written by {writer}, {other}: is listed, and does not differ any more"
