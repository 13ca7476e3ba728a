"""`lake forget` that is killed: the same command finishes it, and no byte is left."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.collect.lake.lifecycle.erasing import ErasableLake, session_id, write_session
from tests.faults.conftest import Program
from tests.faults.tally import Tally

KILLED_AT = ("listed", "rewritten:2", "replaced", "cleaned:9")


@pytest.mark.slow
def test_no_byte_is_left_wherever_it_was_killed(program: Program, tmp_path: Path, tally: Tally) -> None:
    lake = ErasableLake(tmp_path)
    device = lake.device(is_chained=True)
    for number in range(len(KILLED_AT) + 1):
        write_session(tmp_path / "config", "app", number, f"planted-{number}-text")
    device.send(tmp_path / "config", size=400)
    lake.ingest()
    key = (tmp_path / "administrator" / "administrator-acme.json").read_bytes()
    program.folder.mkdir(mode=0o700)
    (program.folder / "administrator-acme.json").write_bytes(key)
    (program.folder / "administrator-acme.json").chmod(0o600)
    for number, step in enumerate(KILLED_AT):
        command = (
            "lake",
            "forget",
            "--lake",
            lake.folder,
            "--from",
            lake.url,
            "--session",
            session_id(number),
            "--yes",
        )
        killed = program.run(*command, UNSPOOL_KILL_AT=step)
        assert (killed.code, killed.err) == (-signal.SIGKILL, "")
        tally.steps[f"forget {step.partition(':')[0]}"] += 1
        assert lake.ingest().bad == ()
        done = program.run(*command)
        assert (done.code, done.err) == (0, "")
        assert lake.find(f"planted-{number}-text", session_id(number)) == set()
        assert lake.problems() == []
    assert lake.rows("SELECT DISTINCT session FROM entries") == [(session_id(len(KILLED_AT)),)]
