"""Locks between processes and threads."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from unspool.files import LockTaken, hold_lock


def test_a_lock_has_one_holder_or_many_readers(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with hold_lock(lock), pytest.raises(LockTaken), hold_lock(lock, shared=True, timeout=0):
        pass
    with (
        hold_lock(lock, shared=True),
        hold_lock(lock, shared=True),
        pytest.raises(LockTaken),
        hold_lock(lock, timeout=0),
    ):
        pass
    with hold_lock(lock, timeout=0):
        assert lock.stat().st_mode & 0o777 == 0o600


def test_a_folder_is_locked_without_a_file_in_it(tmp_path: Path) -> None:
    with hold_lock(tmp_path), pytest.raises(LockTaken), hold_lock(tmp_path, timeout=0.01):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_released_also_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), hold_lock(tmp_path):
        raise KeyError
    with hold_lock(tmp_path, timeout=0):
        pass


def test_a_process_that_was_forked_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    with hold_lock(tmp_path):
        child = os.fork()
        if not child:
            signal.pause()
            os._exit(0)
    try:
        with hold_lock(tmp_path, timeout=0.5):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
