"""What is known of processes, on every system: whether they run, since when, and what they have open."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unspool.processes import find_descendants, find_opener, is_registered_process, read_start_ticks

WAITING = "import sys; file = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has a file open, and waits."""
    (tmp_path / "file").touch()
    command = [sys.executable, "-c", WAITING, str(tmp_path / "file")]
    environment = {**os.environ, "UNSPOOL_TEST_MARK": str(tmp_path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout
        assert process.stdout.readline() == b"open\n"
        yield process
        process.kill()


def test_without_its_start_a_process_is_only_probably_the_one(child: subprocess.Popen[bytes]) -> None:
    assert is_registered_process(child.pid, None, time.time()) is None
    assert is_registered_process(child.pid, None, None) is None


def test_a_process_that_began_after_the_registration_is_another_one(child: subprocess.Popen[bytes]) -> None:
    assert is_registered_process(child.pid, None, time.time() - 60) is False


def test_a_zombie_does_not_run(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_registered_process(child.pid, None, None) is False
    assert read_start_ticks(child.pid) is None


@pytest.mark.parametrize("pid", [-5, 0, 4_000_000, 2**40, 2**63])
def test_a_pid_that_nobody_has_does_not_run(pid: int) -> None:
    assert not is_registered_process(pid, None, time.time())
    assert read_start_ticks(pid) is None


def test_whoever_has_a_file_open_is_found(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert find_opener(tmp_path / "file") == child.pid
    (tmp_path / "other").touch()
    assert find_opener(tmp_path / "other") is None
    assert find_opener(tmp_path / "nowhere") is None


def test_a_process_with_a_mark_in_its_environment_is_found(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    (found,) = find_descendants(-1, "UNSPOOL_TEST_MARK", str(tmp_path))
    assert found == (child.pid, False, True)
    group = find_descendants(os.getpgid(child.pid), "UNSPOOL_TEST_MARK", "another")
    assert child.pid in {process.pid for process in group if process.in_group and not process.is_marked}
