"""What was sent before a day goes, what was sent later stays, and collectors send nothing again."""

from __future__ import annotations

from pathlib import Path

from tests.collect.lake.lifecycle.erasing import ErasableLake, session_id, write_history, write_session
from tests.collect.machine import Machine


class DatedMachine(Machine):
    """A machine whose clock says a day that is set."""

    day = "2026-01-05"

    def _clock(self) -> str:
        return f"{self.day}T12:00:00Z"


def test_old_days_go_and_what_continues_is_not_sent_again(erasable: ErasableLake, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    machine = DatedMachine(tmp_path / "data", tmp_path / "config", erasable.place, trusted={erasable.key.public_key})
    write_session(machine.root, "app", 10, "planted-old")
    write_session(machine.root, "app", 11, "planted-gone")
    write_history(machine.root, 10, "app", "planted-old")
    machine.collect()
    machine.day = "2026-02-05"
    write_session(machine.root, "app", 10, "planted-new", ["msg_new"])
    write_history(machine.root, 10, "app", "planted-new")
    machine.collect()
    erasable.ingest()
    report = erasable.forget(keep_since="2026-02-01")
    assert (report.devices, report.segments, report.lines) == (1, 1, 9)
    assert erasable.find("planted-old", "planted-gone", session_id(11)) == set()
    assert erasable.find("planted-new")
    assert erasable.problems() == []
    assert erasable.rows("SELECT response_id FROM org_responses") == [("msg_new",)]
    assert erasable.rows("SELECT count(*) FROM history") == [(1,)]
    # Also not by a collector that lost its state: the numbers and keyed hashes of old parts are left.
    for name in ("collect.db", "collect.db-wal", "collect.db-shm"):
        (machine.folder / name).unlink(missing_ok=True)
    machine.day = "2026-02-06"
    write_session(machine.root, "app", 10, "planted-new", ["msg_newer"])
    assert machine.collect().lines == 2
    erasable.ingest()
    assert erasable.problems() == []
    assert erasable.find("planted-old", "planted-gone", session_id(11)) == set()
    # The same again finds nothing.
    assert erasable.forget(keep_since="2026-02-01").segments == 0
