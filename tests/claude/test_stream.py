"""What `unspool chat` prints for programs, beside what Claude Code prints for the same script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.claude.program import TIMEOUT, Place, environment, installed
from unspool.testing.api import scripted

pytestmark = pytest.mark.claude

VERSION = "2.1.29"
READ = {"type": "tool_use", "name": "Read", "input": {"file_path": "${work}/notes.md"}}
REFUSED = {"type": "tool_use", "name": "Bash", "input": {"command": "touch ${work}/../made"}}
CUES = {
    "Read the notes.": [{"content": [{"type": "thinking", "thinking": "Hm."}, "I look.", READ, REFUSED]}, "Milk."],
    "Say no.": [{"error": {"status": 400, "type": "invalid_request_error", "message": "That is no model."}}],
}
OURS_ALONE = {"total_cost_micros", "stop_reason", "errors", "terminal_reason"}
NOT_OURS = {"context_management", "service_tier", "cache_creation", "web_fetch_requests", "maxOutputTokens"}
"""What the program adds to every answer and sum, whatever the API said."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "home", tmp_path / "work")
    made.work.mkdir(parents=True)
    made.config.mkdir(parents=True)
    (made.work / "notes.md").write_text("Remember the milk\n")
    return made


def printed(command: list[str], place: Place, environment: dict[str, str]) -> list[dict[str, Any]]:
    done = subprocess.run(
        command, cwd=place.work, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def both(place: Place, *arguments: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what the program prints, and what we do."""
    program = installed(VERSION)
    with scripted({"cues": CUES, "default": "OK."}, variables={"work": str(place.work)}) as api:
        surroundings = environment(place, api.url)
        theirs = printed([*program.command, "-p", *arguments], place, surroundings)
    with scripted({"cues": CUES, "default": "OK."}, variables={"work": str(place.work)}) as api:
        mine = {**environment(place, api.url), "PATH": os.environ["PATH"], "UNSPOOL_HOME": str(place.root / "unspool")}
        ours = printed([sys.executable, "-m", "unspool", "chat", "-p", *arguments], place, mine)
    return theirs, ours


def names(value: object, path: str = "") -> Iterator[str]:
    """Yield the names of all fields, with those of the objects in them; what tools and models are called is theirs."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in NOT_OURS:
                yield f"{path}{name}"
                if name not in ("input", "tool_input", "tool_use_result"):
                    yield from names(inner, f"{path}{'*' if path.endswith('modelUsage.') else name}.")
    elif isinstance(value, list):
        for inner in value:
            yield from names(inner, path)


def shape(value: dict[str, Any]) -> set[str]:
    return {name for name in names(value) if not name.startswith("modelUsage.claude")}


def test_the_objects_are_the_same_and_in_the_same_order(place: Place) -> None:
    theirs, ours = both(place, "Read the notes.", "--output-format", "stream-json", "--verbose")
    kinds = [[(one["type"], one.get("subtype")) for one in printed] for printed in (theirs, ours)]
    assert kinds[0] == kinds[1]
    assert len(ours) == 9
    for their, our in zip(theirs, ours, strict=True):
        assert shape(their) - shape(our) == set(), their["type"]
    assert shape(ours[-1]) - shape(theirs[-1]) == OURS_ALONE - {"errors"}


@pytest.mark.parametrize("prompt", ["Read the notes.", "Say no."])
def test_the_one_object_has_the_same_fields(place: Place, prompt: str) -> None:
    (their,), (our,) = both(place, prompt, "--output-format", "json")
    assert shape(their) - shape(our) == set()
    assert shape(our) - shape(their) <= OURS_ALONE
    assert our["is_error"] == their["is_error"]
    assert [denied["tool_name"] for denied in our["permission_denials"]] == [
        denied["tool_name"] for denied in their["permission_denials"]
    ]
