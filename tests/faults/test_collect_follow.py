"""A collector that goes on: new lines, a store that fails and comes back, its end."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.collect.machine import expected, folder_place, rows
from tests.faults.conftest import Program
from tests.faults.world import World
from unspool.collect.heartbeat import read_heartbeats

PATIENCE = 60.0


def until(is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait until something is so; a process that has ended will not bring it about."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "config")
    made.append(made.create(), 3)
    return made


@pytest.fixture
def follower(program: Program, world: World, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A collector that looks several times a second."""
    where = ("--to", f"file://{tmp_path}/lake", "--config-dir", world.root)
    process = program.start("collect", "--follow", "--every", "0.2", "--flush-age", "0.5", *where)
    yield process
    process.kill()
    process.communicate()


def test_what_is_written_is_sent_and_a_store_that_comes_back_misses_nothing(
    world: World, follower: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    place, (path,) = folder_place(tmp_path / "lake"), world.paths
    lake = tmp_path / "lake" / "segments"

    def is_all_there() -> bool:
        world.synced()
        return lake.is_dir() and rows(place) == expected(world)

    until(is_all_there, follower)
    until(lambda: any(True for _ in read_heartbeats(place)), follower)
    world.append(path, 2)
    until(is_all_there, follower)
    aside = lake.rename(tmp_path / "aside")
    lake.write_text("in the way")
    world.append(path, 2)
    assert follower.stderr is not None
    assert b"wait" in follower.stderr.readline()
    world.append(path, 1)
    lake.unlink()
    aside.rename(lake)
    until(is_all_there, follower)
    world.replace(path)
    until(is_all_there, follower)
    follower.send_signal(signal.SIGINT)
    out, err = follower.communicate(timeout=PATIENCE)
    assert (follower.returncode, err.strip()) == (130, b"")
    assert out.count(b"segment") >= 4
