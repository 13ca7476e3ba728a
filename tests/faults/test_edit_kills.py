"""Edits that are killed at every step: afterwards there is the old state or the new, never anything between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.conftest import Program
from tests.faults.tally import Tally
from unspool.edit.apply.transaction import STEPS
from unspool.testing.build import assistant, session, tool_result, tool_use, user

ID = "00000000-0000-4000-8000-000000000001"
APPLYING = STEPS[: STEPS.index("recorded") + 1]
UNDOING = STEPS[STEPS.index("undoing") :]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A session with an agent, a long result, a todo list and an entry in the index."""
    config = tmp_path / ".claude"
    built = session(
        user("Go."),
        assistant(tool_use("Bash", id="toolu_1", command="ls"), tool_use("Agent", id="toolu_2", prompt="Look.")),
        tool_result("long " * 400, id="toolu_1"),
        tool_result("Seen.", id="toolu_2", structured={"status": "completed", "agentId": "a1b2c3d"}),
        assistant("Done."),
        user("Thanks."),
        assistant("You are welcome."),
    )
    path = built.save(config)
    inside = path.with_suffix("")
    files = {
        inside / "subagents" / "agent-a1b2c3d.jsonl": session(user("Look."), agent="a1b2c3d", id=ID).data,
        inside / "tool-results" / "toolu_1.txt": b"long",
        config / "todos" / f"{ID}-agent-{ID}.json": b"[]",
        path.parent / "sessions-index.json": json.dumps({"version": 1, "entries": [{"sessionId": ID}]}).encode(),
    }
    for name, data in files.items():
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(data)
    return config


def edits(place: Path) -> dict[str, tuple[str, ...]]:
    there = place / "there"
    there.mkdir(exist_ok=True)
    return {
        "clone": ("clone", ID),
        "trim": ("trim", ID, "--results", "--in-place"),
        "move": ("move", ID, "--to", str(there), "--in-place"),
    }


def tree(config: Path) -> dict[str, bytes]:
    return {str(path.relative_to(config)): path.read_bytes() for path in config.rglob("*") if path.is_file()}


def sessions(config: Path) -> set[str]:
    return {path.stem for path in config.glob("projects/*/*.jsonl")}


@pytest.mark.parametrize("edit", ["clone", "trim", "move"])
@pytest.mark.parametrize("step", APPLYING)
def test_an_edit_that_is_killed_has_happened_or_has_not(
    *, edit: str, step: str, config: Path, program: Program, tmp_path: Path, tally: Tally
) -> None:
    old = tree(config)
    command: tuple[str | Path, ...] = ("--config-dir", config, "edit", *edits(tmp_path)[edit])
    code = program.run(*command, UNSPOOL_KILL_AT=step).code
    assert code in (0, -9)
    tally.steps[f"edit {step}"] += code == -9
    seen = sessions(config)
    assert program.run("edit", "log").code in (0, 1)  # looks after what was left
    now = tree(config)
    assert sessions(config) == seen, "what people see does not change when it is looked after"
    if now != old:
        assert program.run("edit", "undo").code == 0
        assert tree(config) == old
    assert program.run(*command).code == 0
    assert program.run("edit", "undo").code == 0
    assert tree(config) == old


@pytest.mark.parametrize("edit", ["clone", "trim", "move"])
@pytest.mark.parametrize("step", UNDOING)
def test_an_undo_that_is_killed_has_happened_or_has_not(
    *, edit: str, step: str, config: Path, program: Program, tmp_path: Path, tally: Tally
) -> None:
    old = tree(config)
    assert program.run("--config-dir", config, "edit", *edits(tmp_path)[edit]).code == 0
    new = tree(config)
    code = program.run("edit", "undo", UNSPOOL_KILL_AT=step).code
    assert code in (0, -9)
    tally.steps[f"edit {step}"] += code == -9
    assert program.run("edit", "log").code == 0
    assert tree(config) in (old, new)
    if tree(config) == new:
        assert program.run("edit", "undo").code == 0
    assert tree(config) == old


def test_every_step_is_passed(config: Path, program: Program, tmp_path: Path) -> None:
    """A step that nobody comes by proves nothing."""
    killed = set()
    for name, arguments in edits(tmp_path).items():
        for step in APPLYING:
            code = program.run("--config-dir", config, "edit", *arguments, UNSPOOL_KILL_AT=step).code
            killed |= {step} if code == -9 else set()
            program.run("edit", "log")
            while program.run("edit", "undo").code == 0:
                pass
        assert name
    assert killed == set(APPLYING)


def test_of_two_processes_one_is_refused(config: Path, program: Program) -> None:
    import fcntl

    (program.folder / "edits").mkdir(parents=True)
    with (program.folder / "edits" / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        before = tree(config)
        done = program.run("--config-dir", config, "edit", "clone", ID)
    assert done.code == 5
    assert "another edit is under way" in done.err
    assert tree(config) == before
