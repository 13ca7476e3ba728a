"""The processes that say they run a session, and whether they do."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from unspool.live.process_registry import ProcessRegistry
from unspool.live.state.model import Liveness
from unspool.processes import read_pid_domain, read_start_ticks

ID = "00000000-0000-4000-8000-000000000001"
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc here")


def entry(folder: Path, pid: int, **fields: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{pid}.json"
    value = {"pid": pid, "sessionId": ID, "cwd": "/home/me/shop", "startedAt": time.time() * 1000, "version": "2.1.325"}
    path.write_text(json.dumps({**value, **fields}))
    return path


def lives(folder: Path) -> list[Liveness]:
    return [running.life for running in ProcessRegistry(folder).read()]


def ticks(pid: int) -> str:
    born = read_start_ticks(pid)
    assert born is not None
    return born


def test_a_process_that_began_when_the_file_says_lives(tmp_path: Path) -> None:
    entry(tmp_path, os.getpid(), procStart=ticks(os.getpid()), status="waiting", waitingFor="permission prompt")
    (running,) = ProcessRegistry(tmp_path).read()
    assert (running.life, running.session_id, running.status) == (Liveness.LIVES, ID, "waiting")
    assert (running.waiting_for, running.cwd) == ("permission prompt", "/home/me/shop")


def test_a_reused_pid_is_not_believed(tmp_path: Path) -> None:
    entry(tmp_path, os.getpid(), procStart="1", status="waiting")
    assert lives(tmp_path) == [Liveness.DEAD]


def test_a_process_that_has_ended_is_dead_also_before_anybody_asked_how_it_ended(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    entry(tmp_path, child.pid, procStart=ticks(child.pid))
    assert lives(tmp_path) == [Liveness.LIVES]
    child.kill()
    deadline = time.monotonic() + 10
    while lives(tmp_path) != [Liveness.DEAD]:  # what is left of it still has a place in /proc
        assert time.monotonic() < deadline
    assert Path(f"/proc/{child.pid}").exists()
    child.communicate()
    assert lives(tmp_path) == [Liveness.DEAD]


def test_without_a_start_time_a_younger_process_is_another_one(tmp_path: Path) -> None:
    entry(tmp_path, os.getpid(), startedAt=(time.time() + 5) * 1000)
    assert lives(tmp_path) == [Liveness.LIKELY]
    entry(tmp_path, os.getpid(), startedAt=1000)
    assert lives(tmp_path) == [Liveness.DEAD]


def test_a_process_of_another_machine_cannot_be_checked(tmp_path: Path) -> None:
    entry(tmp_path, 4_000_000, procStart="5", pidDomain="linux:another:pid:[1]")
    if read_pid_domain() is not None:
        assert lives(tmp_path) == [Liveness.ELSEWHERE]
    entry(tmp_path, 4_000_000, procStart="5")
    assert lives(tmp_path) == [Liveness.DEAD]


def test_a_name_that_looks_like_a_process_table_fools_nobody(tmp_path: Path) -> None:
    name = tmp_path / "a) Z 1 (b"
    name.symlink_to(sys.executable)
    child = subprocess.Popen([name, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        assert read_start_ticks(child.pid) is not None
    finally:
        child.kill()
        child.communicate()


def test_of_two_entries_for_a_session_the_living_one_counts(tmp_path: Path) -> None:
    entry(tmp_path, os.getpid(), procStart=ticks(os.getpid()), updatedAt=1)
    entry(tmp_path, 4_000_000, procStart="5", updatedAt=time.time() * 1000)
    assert lives(tmp_path) == [Liveness.LIVES]


def test_key_files_are_never_opened_and_links_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    path = entry(folder, os.getpid(), procStart=ticks(os.getpid()))
    outside = path.rename(tmp_path / "outside.json")
    path.symlink_to(outside)
    os.mkfifo(folder / f"{os.getpid()}.abc.key")
    os.mkfifo(folder / "12.json")
    assert lives(folder) == []
    (tmp_path / "link").symlink_to(folder)
    assert not ProcessRegistry(tmp_path / "link").exists


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"pid":"x"}', b'{"pid":1}', b"\xff\xfe", b'{"sessionId":"../x"}'])
def test_damaged_entries_say_nothing(tmp_path: Path, data: bytes) -> None:
    (tmp_path / f"{os.getpid()}.json").write_bytes(data)
    assert lives(tmp_path) == []


def test_an_entry_for_another_pid_than_its_name_says_nothing(tmp_path: Path) -> None:
    entry(tmp_path, os.getpid(), procStart=ticks(os.getpid())).rename(tmp_path / "77.json")
    assert lives(tmp_path) == []


def test_an_entry_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    path = entry(tmp_path, os.getpid(), procStart=ticks(os.getpid()), status="busy")
    registry = ProcessRegistry(tmp_path)
    (first,) = registry.read()
    path.chmod(0)  # reading it again would tell nothing, unless we may read everything
    assert registry.read() == [first]
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    path.write_text(path.read_text().replace("busy", "idle"))
    assert [running.status for running in registry.read()] == ["idle"]


def test_a_folder_that_is_not_there_has_no_processes(tmp_path: Path) -> None:
    assert ProcessRegistry(tmp_path / "nowhere").read() == []
    assert not ProcessRegistry(tmp_path / "nowhere").exists
