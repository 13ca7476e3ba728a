"""The newest Claude Code and the scripted API: a session with tools, overloads and torn streams, and no rule broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.claude.program import Place, Program, installed, newest
from tests.claude.scenarios import TOOLS, furnish
from unspool.testing.api import scripted

pytestmark = pytest.mark.claude

READ = {"type": "tool_use", "name": "Read", "input": {"file_path": "${work}/notes.md"}}
SHELL = {"type": "tool_use", "name": "Bash", "input": {"command": "echo one; exit 3", "description": "Fail"}}
SCRIPT: dict[str, Any] = {
    "cues": {
        "Read the notes.": [
            {
                "content": [{"type": "thinking", "thinking": "Both at once."}, "I look.", READ, SHELL],
                "error": {"status": 529, "times": 2, "retry_after": 0.1},
                "expect": {"tools": ["Read", "Bash"], "header": {"anthropic-version": "2023-06-01"}},
                "chunk": 3,
            },
            {
                "content": [{"type": "thinking"}, {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}],
                "expect": {"result": ["Remember the milk", "one"]},
                "break": {"how": "cut", "after": 3, "times": 1},  # of a block that is whole it may send two copies
            },
            {"content": "About milk.", "expect": {"result": "notes.md", "is_error": False}},
        ],
    },
    "default": "OK.",
}


@pytest.fixture(scope="module")
def program() -> Program:
    return installed(newest())


def test_the_newest_program_keeps_every_rule_of_the_api(program: Program, tmp_path: Path) -> None:
    place = Place(tmp_path / "home", tmp_path / "work")
    furnish(place)
    with scripted(SCRIPT, variables={"work": str(place.work)}) as api:
        result = program.run(place, api.url, "--allowedTools", *TOOLS, "--", "Read the notes.")
    assert api.failures == []
    assert result["result"] == "About milk."
    steps = [asked.step for asked in api.requests if asked.step != "default"]
    assert steps.count("cues.Read the notes..0") == 3
    assert steps.count("cues.Read the notes..1") == 2
    assert steps[-1] == "cues.Read the notes..2"
    with scripted({"default": "Much."}) as api:
        result = program.run(place, api.url, "--continue", "--allowedTools", *TOOLS, "--", "What have we done?")
    assert (result["result"], api.failures) == ("Much.", [])
