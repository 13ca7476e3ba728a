"""Redactions that are killed at every step: the files are old or new, and the same command finishes the work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edit.planted_secrets import ID, build_config, find_secrets
from tests.faults.conftest import Program
from tests.faults.tally import Tally
from unspool.edit.apply.transaction import STEPS

OWN_STEPS = (
    "files written", "archive cleaned", "rows cleaned", "columns removed", "files cleaned", "synced", "shredding",
    "shredded", "compacted", "compacted:2",
)  # fmt: skip
"""Places where a redaction may be killed after all files of the session were changed."""


def tree(config: Path) -> dict[str, bytes]:
    return {str(path.relative_to(config)): path.read_bytes() for path in config.rglob("*") if path.is_file()}


@pytest.mark.parametrize("step", [*STEPS[: STEPS.index("recorded") + 1], *OWN_STEPS])
def test_a_killed_redaction_is_finished_by_the_same_command(
    *, step: str, tmp_path: Path, program: Program, tally: Tally
) -> None:
    config = tmp_path / ".claude"
    build_config(config)
    old = tree(config)
    assert program.run("--config-dir", config, "sync").code == 0
    command = ("--config-dir", config, "edit", "redact", ID, "--secrets", "--shred")
    code = program.run(*command, UNSPOOL_KILL_AT=step).code
    assert code == -9, "every step is passed"
    tally.steps[f"redact {step}"] += 1
    program.run("--config-dir", config, "edit", "log")  # looks after what was left
    assert tree(config) == old or find_secrets(config) == []
    assert program.run(*command).code in (0, 1)  # 1: all of it had been done
    assert find_secrets(config, program.folder) == []
    assert program.run("--config-dir", config, "doctor", "--session", ID).code == 0
