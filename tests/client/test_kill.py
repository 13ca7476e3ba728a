"""`kill -9` after every line and every event: what was said is there, and the session can be gone on with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tests.client.talk import Place, all_lines, fitted, manuscript, place, talk
from tests.client.victim import PROMPT, Death
from unspool.client.config import SessionStart
from unspool.client.tools.task import TaskTool
from unspool.edit.rules import check
from unspool.testing.api import scripted

ROOT = Path(__file__).parents[2]
EVERY = 1 if os.environ.get("UNSPOOL_FAULTS") else 9
"""Short, every ninth place is tried; `UNSPOOL_FAULTS=1` tries all."""


def call(name: str, **input: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": input}


FIRST = [{"type": "thinking", "thinking": "First I think."}, "Then I say so.", call("Echo", text="an echo"),
         call("Put", path="a.txt", text="a file")]  # fmt: skip
ERRAND = [call("Task", description="Look", prompt="Look around.", subagent_type="general-purpose")]
SCRIPT = {
    "cues": {
        PROMPT: [{"content": FIRST, "chunk": 10}, {"content": ERRAND, "chunk": 200}, {"content": "Done, all of it."}],
        "Look around.": [{"content": [call("Echo", text="around")], "chunk": 200}, "I looked around."],
        "Well?": ["Here I am."],
    }
}


def killed(deaths: list[Death]) -> None:
    with scripted(SCRIPT) as api:
        done = subprocess.run(
            [sys.executable, "-m", "tests.client.victim", api.url],
            cwd=ROOT,
            input=msgspec.json.encode(deaths),
            timeout=300,
            check=False,
            capture_output=True,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert api.failures == []


def session_in(there: Place) -> Path | None:
    return next(iter(there.config.glob("projects/*/*.jsonl")), None)


def gone_on_with(folder: Path) -> Path | None:
    """Check that a session can be gone on with, and return its file."""
    there = place(folder)
    path = session_in(there)
    if path is not None:
        before = manuscript(path)
        assert len(before.items) == len(before.entries)
        assert [one for one in check.check_rules(before) if one.rule != "A2"] == []
        again, _ = talk(there, SCRIPT, "Well?", start=SessionStart(resume=path), fittings=fitted([TaskTool()]))
        assert PROMPT in str(again.model.requests[0])
    return path


def whole(tmp_path: Path) -> list[Any]:
    killed([Death(str(tmp_path / "whole"), "never")])
    path = session_in(place(tmp_path / "whole"))
    assert path is not None
    return all_lines(path)


def folders(tmp_path: Path, kind: Any, places: Iterable[int]) -> list[Death]:
    deaths = [Death(str(tmp_path / f"{kind}-{after}"), kind, after) for after in places]
    for death in deaths:
        Path(death.folder).mkdir()
    return deaths


def test_killed_after_any_line_a_session_has_all_lines_before_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    kinds = [line["type"] for line in whole(tmp_path)]
    deaths = folders(tmp_path, "line", range(1, len(kinds) + 5, EVERY))
    killed(deaths)
    for death in deaths:
        path = session_in(place(Path(death.folder)))
        assert path is not None
        agents = [*path.with_suffix("").glob("subagents/*.jsonl")]
        found = [line["type"] for line in all_lines(path)]
        assert len(found) + sum(len(all_lines(agent)) for agent in agents) == min(death.after, len(kinds) + 4)
        assert found == kinds[: len(found)]
        gone_on_with(Path(death.folder))


def test_killed_after_any_event_nothing_is_lost_but_the_unfinished_block(tmp_path: Path) -> None:
    deaths = folders(tmp_path, "event", range(1, 64, EVERY))
    killed(deaths)
    most = 0
    for death in deaths:
        path = session_in(place(Path(death.folder)))
        assert path is not None
        files = [path, *path.with_suffix("").glob("subagents/*.jsonl")]
        kept = [block for file in files for block in said(file)]
        heard = all_lines(Path(death.folder) / "heard") if (Path(death.folder) / "heard").exists() else []
        assert [block for block in heard if block not in kept] == []
        most = max(most, len(heard))
        gone_on_with(Path(death.folder))
    assert most == 8


def said(path: Path) -> list[Any]:
    """Return the blocks of all answers in a file."""
    return [block for line in all_lines(path) if line["type"] == "assistant" for block in line["message"]["content"]]
