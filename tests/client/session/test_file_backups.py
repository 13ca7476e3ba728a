"""Files are backed up before they are changed, and none is read that is larger than a backup can be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unspool.client.session.file_backups import FileBackups
from unspool.errors import Unreadable

_ENDLESS = 100 << 30


def make_backups(folder: Path) -> FileBackups:
    """Return the backups of a session in a folder."""
    return FileBackups(folder / "history", folder, lambda: "2026-01-01T00:00:00.000Z")


def test_a_file_that_is_too_large_is_not_backed_up_and_so_not_changed(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    os.truncate(tmp_path / "a", _ENDLESS)
    backups = make_backups(tmp_path)
    with pytest.raises(Unreadable, match="too large to keep a backup of"):
        backups.back_up(tmp_path / "a")
    assert backups.files == {}


def test_a_file_that_became_too_large_keeps_its_backup(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")
    backups = make_backups(tmp_path)
    backups.back_up(tmp_path / "a")
    kept = backups.files["a"]
    os.truncate(tmp_path / "a", _ENDLESS)
    assert backups.differs("a", kept)
    assert backups.back_up_changes() == {"a": kept}
    assert backups.read_backup(kept.backup_file_name or "") == (b"before", 0o600)
