"""What was seen stays seen until the session goes on."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from unspool.web.serving.seen import FILE_NAME, SeenFile


def test_all_is_seen_until_a_time_and_some_until_later(tmp_path: Path) -> None:
    seen = SeenFile(tmp_path / "data")
    assert not seen.read().has_seen("a", 1)
    seen.mark_all(10)
    seen.mark(["a"], 20)
    known = SeenFile(tmp_path / "data").read()
    assert known.has_seen("a", 20)
    assert known.has_seen("b", 10)
    assert not known.has_seen("a", 21)
    assert not known.has_seen("b", 11)
    seen.mark_all(5)  # an older page does not take back what a newer one has marked
    assert seen.read().seen_until == 10
    assert stat.S_IMODE((tmp_path / "data" / FILE_NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize("damaged", [b"", b"[]", b"{", b'{"seen_until": "x"}', b"\xff"])
def test_a_damaged_file_is_as_none(damaged: bytes, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(damaged)
    seen = SeenFile(tmp_path)
    assert not seen.read().has_seen("a", 1)
    seen.mark_all(10)
    assert seen.read().seen_until == 10
