"""`unspool edit repair`, and the two ways that `unspool doctor` leads to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.edit.broken_sessions import BROKEN, ID, BrokenSession
from tests.edit.sessions import work
from unspool.edit.rules import BREAKAGES
from unspool.paths import project_key, session_file


def save(config: Path, data: bytes) -> Path:
    path = session_file(config, project_key("/home/me/project"), ID)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_doctor_names_the_breakage_and_the_command_that_repairs_it(
    run: Run, tmp_path: Path, broken: BrokenSession
) -> None:
    save(tmp_path / "c", broken.data)
    done = run("--config-dir", tmp_path / "c", "doctor", "--session", ID)
    assert done.code == 0
    assert BREAKAGES[broken.kind] in done.out
    assert f"edit repair {ID}`" in done.out
    assert "follows every rule" not in done.out
    data = json.loads(run("--config-dir", tmp_path / "c", "doctor", "--session", ID, "--json").out)
    assert broken.kind in {one["breakage"] for one in data["breakages"]}
    assert data["command"].endswith(f"edit repair {ID}")


def test_a_repair_in_place_is_reported_and_undone(run: Run, tmp_path: Path) -> None:
    path = save(tmp_path / "c", BROKEN["a torn line"].data)
    planned = run("--config-dir", tmp_path / "c", "edit", "repair", ID, "--plan")
    assert "repaired, with reason" in planned.out
    assert "1 × missing-result  its result was never written" in planned.out
    assert path.read_bytes() == BROKEN["a torn line"].data
    done = run("--config-dir", tmp_path / "c", "edit", "repair", ID, "--in-place")
    assert done.code == 0
    assert "checked: rules kept, API takes it" in done.out
    shown = run("--config-dir", tmp_path / "c", "doctor", "--session", ID).out
    assert "follows every rule: it can be resumed" in shown
    assert run("--config-dir", tmp_path / "c", "edit", "undo", ID).code == 0
    assert path.read_bytes() == BROKEN["a torn line"].data


def test_a_repair_makes_a_new_session_unless_told_otherwise(run: Run, tmp_path: Path) -> None:
    path = save(tmp_path / "c", BROKEN["a missing result at the end"].data)
    data = json.loads(run("--config-dir", tmp_path / "c", "edit", "repair", ID, "--json").out)
    assert data["operation"] == "repair"
    assert data["removed"] == {"missing-result": 1}
    assert data["verified"] == {"invariants": True, "replay": True, "claude": None}
    assert path.read_bytes() == BROKEN["a missing result at the end"].data
    checked = json.loads(run("--config-dir", tmp_path / "c", "doctor", "--session", data["session_id"], "--json").out)
    assert (checked["violations"], checked["breakages"], checked["command"]) == ([], [], None)


def test_a_sound_session_is_not_repaired_and_the_exit_code_is_1(run: Run, tmp_path: Path) -> None:
    save(tmp_path / "c", work().data)
    done = run("--config-dir", tmp_path / "c", "edit", "repair", ID, "--in-place")
    assert (done.code, done.out) == (1, "")
    assert "nothing to repair" in done.err


def test_a_session_that_cannot_be_repaired_is_refused_with_the_reason(run: Run, tmp_path: Path) -> None:
    path = save(tmp_path / "c", b"".join(work().lines[1:]))
    before = path.read_bytes()
    done = run("--config-dir", tmp_path / "c", "edit", "repair", ID, "--in-place")
    assert done.code == 5
    assert "the session cannot be repaired: A1: first message must use the" in done.err
    assert path.read_bytes() == before


def test_an_error_text_of_the_api_leads_to_the_command(run: Run) -> None:
    error = "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1"
    done = run("doctor", "--error", error)
    assert done.code == 0
    assert done.out.split("\n")[0].split(maxsplit=1) == ["meaning", "tool calls without a result"]
    assert "unspool edit repair SESSION" in done.out
    assert "unspool edit repair 945090a1" in run("doctor", "--error", error, "--session", "945090a1").out
    data = json.loads(run("doctor", "--error", error, "--json").out)
    assert (data["breakage"], data["command"]) == ("missing-result", "unspool edit repair SESSION")


def test_an_unknown_error_text_is_said_to_be_unknown(run: Run) -> None:
    done = run("doctor", "--error", "the moon is too bright")
    assert (done.code, done.out) == (1, "")
    assert "unknown error text" in done.err
    shown = run("doctor", "--error", "the moon is too bright", "--json")
    assert shown.code == 1
    assert json.loads(shown.out)["command"] is None
