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


def test_an_object_with_a_high_number_makes_nothing_old(erasable: ErasableLake, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    machine = DatedMachine(tmp_path / "data", tmp_path / "config", erasable.place, trusted={erasable.key.public_key})
    for day, number in (("2026-01-05", 10), ("2026-02-05", 11)):
        machine.day = day
        write_session(machine.root, "app", number, f"planted-{day}")
        machine.collect()
    erasable.ingest()
    device = next(one.name for one in erasable.place.names("segments")).split("/")[1:3]
    folder = f"segments/{'/'.join(device)}/2000-01-01"
    erasable.place.put_new(f"{folder}/{10**11:012d}-0000000000000000.jsonl.zst", b"")
    assert erasable.forget(keep_since="2026-02-01").segments == 1
    assert erasable.find("planted-2026-02-05")
    assert erasable.find("planted-2026-01-05") == set()
