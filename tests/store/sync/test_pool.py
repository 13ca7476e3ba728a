"""Files read by several processes: the same as by one, and no process is left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.world import World, synced, tables
from unspool.demo.write import write_demo
from unspool.errors import Unreadable
from unspool.store.sync.read_file import Batch, FailedRead, ReadTask
from unspool.store.sync.sync import SyncOptions, read_files


@pytest.fixture
def tasks(tmp_path: Path) -> list[tuple[int, ReadTask]]:
    """A dozen files; the sizes make each a bundle of its own."""
    world = World(tmp_path / "config")
    for _ in range(12):
        world.append(world.create(), 10)
    return [(3_000_000, ReadTask(str(path), "session")) for path in world.paths]


def test_several_processes_find_what_one_does(tmp_path: Path) -> None:
    write_demo(tmp_path / "config")
    for workers in (1, 2, 3):
        synced(tmp_path / str(workers), tmp_path / "config", SyncOptions(workers=workers))
    assert tables(tmp_path / "1") == tables(tmp_path / "2") == tables(tmp_path / "3")
    assert multiprocessing.active_children() == []


def test_a_file_that_cannot_be_read_is_named_and_costs_no_other(tasks: list[tuple[int, ReadTask]]) -> None:
    tasks.insert(5, (10, ReadTask("/nowhere/a.jsonl", "session")))
    found = list(read_files(tasks, 2))
    assert [one for one in found if isinstance(one, FailedRead)] == [FailedRead("/nowhere/a.jsonl", "no such file")]
    assert len({one.path for one in found if isinstance(one, Batch)}) == 12


def test_a_worker_that_is_killed_is_an_error_and_no_process_is_left(tasks: list[tuple[int, ReadTask]]) -> None:
    found = read_files(tasks, 2)
    next(found)
    for child in multiprocessing.active_children():
        assert child.pid
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    with pytest.raises(Unreadable, match="was killed"):
        list(found)
    assert multiprocessing.active_children() == []


def test_whoever_stops_listening_leaves_no_process_behind(tasks: list[tuple[int, ReadTask]]) -> None:
    found = read_files(tasks, 2)
    next(found)
    assert len(multiprocessing.active_children()) == 2
    found.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


ASKER = """
import os, sys
from pathlib import Path
from unspool.store.sync.read_file import ReadTask
from unspool.store.sync.sync import read_files
tasks = [(3_000_000, ReadTask(str(path), "session")) for path in sorted(Path(sys.argv[1]).rglob("*.jsonl"))]
found = read_files(tasks, 2)
next(found)
print("reading", flush=True)
sys.stdin.read()
"""


def test_workers_end_when_the_asker_is_killed(tasks: list[tuple[int, ReadTask]], tmp_path: Path) -> None:
    """They hold the other end of a pipe: it is at its end when the last of them has gone."""
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", ASKER, str(tmp_path / "config")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[write],
    )
    os.close(write)
    assert process.stdout
    assert process.stdout.readline() == b"reading\n"
    process.kill()
    process.communicate()
    assert os.read(read, 1) == b""
    os.close(read)


@pytest.mark.slow
def test_a_large_bundle_does_not_stop_a_worker_that_has_much_to_say(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(os.urandom(3000).hex().encode() + b"\n" for _ in range(300)))
    heavy = [(1, ReadTask(str(path), "session", state=bytes(300_000))) for _ in range(12)]
    light = [(0, ReadTask(str(path), "session")) for _ in range(200)]
    found = [one for one in read_files([*heavy, *light], 2) if isinstance(one, Batch)]
    assert len(found) == 212
