"""Edits that are killed at every step: afterwards there is the old state or the new, never anything between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
        "compress": ("compress", ID, "--keep-last", "1", "--no-model", "--in-place"),
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
    assert program.run("--config-dir", config, "edit", "log").code in (0, 1)  # looks after what was left
    now = tree(config)
    assert sessions(config) == seen, "what people see does not change when it is looked after"
    if now != old:
        assert program.run("--config-dir", config, "edit", "undo").code == 0
        assert tree(config) == old
    assert program.run(*command).code == 0
    assert program.run("--config-dir", config, "edit", "undo").code == 0
    assert tree(config) == old


@pytest.mark.parametrize("edit", ["clone", "trim", "move"])
@pytest.mark.parametrize("step", UNDOING)
def test_an_undo_that_is_killed_has_happened_or_has_not(
    *, edit: str, step: str, config: Path, program: Program, tmp_path: Path, tally: Tally
) -> None:
    old = tree(config)
    assert program.run("--config-dir", config, "edit", *edits(tmp_path)[edit]).code == 0
    new = tree(config)
    code = program.run("--config-dir", config, "edit", "undo", UNSPOOL_KILL_AT=step).code
    assert code in (0, -9)
    tally.steps[f"edit {step}"] += code == -9
    assert program.run("--config-dir", config, "edit", "log").code == 0
    assert tree(config) in (old, new)
    if tree(config) == new:
        assert program.run("--config-dir", config, "edit", "undo").code == 0
    assert tree(config) == old


def test_every_step_is_passed(config: Path, program: Program, tmp_path: Path) -> None:
    """A step that nobody comes by proves nothing."""
    killed = set()
    for name, arguments in edits(tmp_path).items():
        for step in APPLYING:
            code = program.run("--config-dir", config, "edit", *arguments, UNSPOOL_KILL_AT=step).code
            killed |= {step} if code == -9 else set()
            program.run("--config-dir", config, "edit", "log")
            while program.run("--config-dir", config, "edit", "undo").code == 0:
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
    assert "another edit is running" in done.err
    assert tree(config) == before


def session_file(config: Path) -> Path:
    (path,) = config.glob(f"projects/*/{ID}.jsonl")
    return path


def new_line(session: bytes) -> str:
    """A line that continues a session, with a place for a number in its uuid."""
    last = json.loads(session.splitlines()[-1])
    message = {"role": "user", "content": "More."}
    kept = {name: last[name] for name in ("sessionId", "timestamp", "cwd", "version", "isSidechain")}
    line = {
        **kept,
        "type": "user",
        "uuid": "99999999-0000-4000-8000-%012d",
        "parentUuid": last["uuid"],
        "message": message,
    }
    return json.dumps(line) + "\n"


def uuids(data: bytes) -> list[str]:
    return [json.loads(line)["uuid"] for line in data.splitlines()]


@pytest.mark.parametrize("edit", ["trim", "compress", "move"])
@pytest.mark.parametrize("step", APPLYING)
def test_a_line_appended_after_a_kill_costs_neither_itself_nor_the_backup(
    *, edit: str, step: str, config: Path, program: Program, tmp_path: Path
) -> None:
    old = session_file(config).read_bytes()
    command: tuple[str | Path, ...] = ("--config-dir", config, "edit", *edits(tmp_path)[edit])
    assert program.run(*command, UNSPOOL_KILL_AT=step).code in (0, -9)
    line = (new_line(old) % 0).encode()
    with session_file(config).open("ab") as file:
        file.write(line)
    shown = program.run("--config-dir", config, "edit", "log", "--json")
    now = session_file(config).read_bytes()
    assert now.endswith(line)
    if now == old + line:
        return  # the edit has not happened
    (entry,) = json.loads(shown.out)["items"]
    assert entry["state"] == "done"
    assert program.run("--config-dir", config, "edit", "undo").code == 5
    assert session_file(config).read_bytes() == now
    assert program.run("--config-dir", config, "edit", "undo", "--merge").code == 0
    assert session_file(config).read_bytes() == old + line


def test_what_cannot_be_decided_is_kept_and_listed_until_it_is_merged(config: Path, program: Program) -> None:
    old = session_file(config).read_bytes()
    command = ("--config-dir", config, "edit", "trim", ID, "--results", "--in-place")
    assert program.run(*command, UNSPOOL_KILL_AT="decided").code == -9
    path = session_file(config)
    lines = path.read_bytes().splitlines(keepends=True)
    line = (new_line(old) % 0).encode()
    path.write_bytes(b"".join([lines[0], line, *lines[2:]]))  # somebody else has rewritten it
    changed = path.read_bytes()
    (entry,) = json.loads(program.run("--config-dir", config, "edit", "log", "--json").out)["items"]
    assert (entry["state"], path.read_bytes()) == ("unresolved", changed)
    assert "--merge" in program.run("--config-dir", config, "edit", "log").out
    assert json.loads(program.run("--config-dir", config, "doctor", "--json").out)["unresolved_edits"] == [
        entry["undo_id"]
    ]
    assert program.run("--config-dir", config, "edit", "undo", entry["undo_id"]).code == 5
    assert path.read_bytes() == changed
    assert program.run("--config-dir", config, "edit", "undo", entry["undo_id"], "--merge").code == 0
    assert path.read_bytes() == old + line
    assert json.loads(program.run("--config-dir", config, "doctor", "--json").out)["unresolved_edits"] == []


class Appender:
    """A process that appends a line every millisecond, each time opening the file anew, as Claude Code does."""

    CODE = """
import pathlib, sys, time
path, template, stop = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
number = 0
while not stop.exists():
    with path.open("ab") as file:
        file.write((template % number).encode())
    number += 1
    time.sleep(0.001)
print(number)
"""

    def __init__(self, path: Path, stop: Path) -> None:
        self.line, self._stop = new_line(path.read_bytes()), stop
        command = [sys.executable, "-c", self.CODE, str(path), self.line, str(stop)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def end(self) -> set[str]:
        """Stop it and return the uuids of all lines that it has written."""
        self._stop.touch()
        count = int(self._process.communicate(timeout=60)[0])
        return {json.loads(self.line % number)["uuid"] for number in range(count)}


ROUNDS = int(os.environ.get("UNSPOOL_EDIT_KILLS", "1"))
"""How often each step is tried; `make faults` sets more."""


@pytest.mark.parametrize("step", [*APPLYING, *UNDOING, ""])
@pytest.mark.parametrize("turn", range(ROUNDS))
def test_no_line_is_lost_when_others_append_while_an_edit_is_killed(
    *, step: str, turn: int, config: Path, program: Program, tmp_path: Path, tally: Tally
) -> None:
    path = session_file(config)
    old = path.read_bytes()
    appender = Appender(path, tmp_path / f"stop {turn}")
    in_folder = ("--config-dir", config, "edit")
    edited = program.run(*in_folder, "trim", ID, "--results", "--in-place", UNSPOOL_KILL_AT=step)
    undone = program.run(*in_folder, "undo", "--merge", UNSPOOL_KILL_AT=step)
    recovered = program.run(*in_folder, "log", UNSPOOL_KILL_AT=step)
    tally.steps[f"edit with appends {step or 'to its end'}"] += -9 in (edited.code, undone.code, recovered.code)
    written = appender.end()
    program.run(*in_folder, "log")
    found = uuids(path.read_bytes())
    assert sorted(uuid for uuid in found if uuid in written) == sorted(written), "each appended line is there once"
    assert {*uuids(old)} <= {*found}
    program.run(*in_folder, "undo", "--merge")
    assert path.read_bytes().startswith(old), "every removed byte can be brought back"
    assert {*uuids(path.read_bytes())} == written | {*uuids(old)}
