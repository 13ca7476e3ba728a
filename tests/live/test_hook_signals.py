"""What hooks write, by the shell that would run them, and what is read of it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.live.hook_signals import HOOK_EVENTS, HookSignals, hook_command

ID = "00000000-0000-4000-8000-000000000001"
SHELLS = [shell for shell in ("sh", "dash", "bash") if shutil.which(shell)]


def hand(words: str, data: bytes, shell: str = "sh") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([shell, "-c", words], input=data, capture_output=True, check=False, timeout=20)


def told(event: str, **fields: Any) -> bytes:
    value = {"session_id": ID, "transcript_path": "/x", "cwd": "/x", "hook_event_name": event, **fields}
    return json.dumps(value, separators=(",", ":")).encode()


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("event", HOOK_EVENTS)
def test_what_a_hook_is_told_is_found_again(tmp_path: Path, event: str, shell: str) -> None:
    folder = tmp_path / "a folder with 'quotes'"
    folder.mkdir()
    done = hand(hook_command(event, folder), told(event, tool_name="Bash", tool_input={"command": "ls"}), shell)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    signal = HookSignals(folder).by_session()[ID][event]
    assert (signal.event, signal.tool, signal.input) == (event, "Bash", {"command": "ls"})
    assert abs(datetime.now(UTC) - signal.at) < timedelta(seconds=20)
    (path,) = folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_hook_takes_much_input_keeps_little_of_it_and_what_is_whole_of_that_is_read(tmp_path: Path) -> None:
    data = told("PreToolUse", tool_name="Write", tool_input={"file_path": "/a", "content": "x" * 3_000_000}, last=1)
    assert hand(hook_command("PreToolUse", tmp_path), data).returncode == 0
    (path,) = tmp_path.iterdir()
    assert path.stat().st_size <= 8192
    signal = HookSignals(tmp_path).by_session()[ID]["PreToolUse"]
    assert (signal.tool, signal.input) == ("Write", {"file_path": "/a"})


@pytest.mark.parametrize("data", [b"", b"nonsense", b'{"session_id":"../../../etc/passwd"}', b"\xff" * 100, b"{}"])
def test_a_hook_that_is_told_nonsense_leaves_nothing_and_does_not_fail(tmp_path: Path, data: bytes) -> None:
    done = hand(hook_command("Stop", tmp_path), data)
    assert (done.returncode, done.stdout, done.stderr, list(tmp_path.iterdir())) == (0, b"", b"", [])


def test_a_hook_without_its_folder_does_nothing_and_does_not_fail(tmp_path: Path) -> None:
    done = hand(hook_command("Stop", tmp_path / "gone"), told("Stop"))
    assert (done.returncode, done.stdout, done.stderr, list(tmp_path.iterdir())) == (0, b"", b"", [])


def test_a_hook_in_a_folder_that_cannot_be_written_does_not_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = hand(hook_command("Stop", tmp_path / "file"), told("Stop"))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_session_id_elsewhere_in_the_text_is_not_taken(tmp_path: Path) -> None:
    other = "99999999-0000-4000-8000-000000000009"
    hand(hook_command("PreToolUse", tmp_path), told("PreToolUse", tool_input={"session_id": other}))
    assert list(HookSignals(tmp_path).by_session()) == [ID]


def test_the_last_signal_of_each_event_is_kept(tmp_path: Path) -> None:
    for words in ("one", "two"):
        hand(hook_command("Notification", tmp_path), told("Notification", message=words))
    hand(hook_command("Stop", tmp_path), told("Stop", background_tasks=[{"status": "running"}, {"status": "done"}, 7]))
    found = HookSignals(tmp_path).by_session()[ID]
    assert (found["Notification"].message, found["Stop"].agents, found["Stop"].commands) == ("two", 1, 0)


def test_commands_in_the_background_are_counted_apart_from_agents(tmp_path: Path) -> None:
    tasks = [{"type": "shell", "status": "running"}, {"type": "shell", "status": "completed"}, {"status": "running"}]
    hand(hook_command("Stop", tmp_path), told("Stop", background_tasks=tasks))
    hand(hook_command("SessionStart", tmp_path), told("SessionStart"))
    found = HookSignals(tmp_path).by_session()[ID]
    assert (found["Stop"].agents, found["Stop"].commands) == (1, 1)
    assert found["SessionStart"].commands is None


def test_a_file_that_claims_another_session_or_event_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / f"{ID}.Stop.json").write_bytes(told("PreToolUse"))
    (tmp_path / f"{ID}.SessionEnd.json").write_bytes(told("SessionEnd").replace(b"0001", b"0002"))
    (tmp_path / "..Stop.json").write_bytes(told("Stop"))
    (tmp_path / f"{ID}.Other.json").write_bytes(told("Other"))
    (tmp_path / "outside").write_bytes(told("UserPromptSubmit"))
    (tmp_path / f"{ID}.UserPromptSubmit.json").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / f"{ID}.PreCompact.json")
    assert HookSignals(tmp_path).by_session() == {}


def test_a_change_is_seen_although_the_folder_was_just_read(tmp_path: Path) -> None:
    signals = HookSignals(tmp_path)
    hand(hook_command("Stop", tmp_path), told("Stop"))
    assert list(signals.by_session()[ID]) == ["Stop"]
    hand(hook_command("SessionEnd", tmp_path), told("SessionEnd"))
    assert sorted(signals.by_session()[ID]) == ["SessionEnd", "Stop"]


def test_old_signals_are_removed_and_other_files_are_not(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    files = {f"{ID}.Stop.json": 3, f"{ID}.SessionEnd.json": 1, ".Stop.123": 1, "notes.txt": 900}
    for name, days in files.items():
        path = tmp_path / name
        path.write_bytes(b"")
        os.utime(path, (now.timestamp() - 86_400 * days,) * 2)
    assert HookSignals(tmp_path).remove_old(now) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{ID}.SessionEnd.json", "notes.txt"]


@given(st.binary(max_size=300), st.integers(0, 400))
def test_any_bytes_and_any_cut_are_read_without_complaint(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("signals")
    whole = told("PreToolUse", tool_name="Bash", tool_input={"command": ["a", {"b": "c"}]})
    (folder / f"{ID}.PreToolUse.json").write_bytes(whole[:cut] + (data if cut < len(whole) else b""))
    found = HookSignals(folder).by_session()
    assert set(found) <= {ID}
