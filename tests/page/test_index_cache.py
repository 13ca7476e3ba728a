"""What is kept of long sessions."""

from __future__ import annotations

import stat
from pathlib import Path

from unspool.page.index_cache import IndexCache


def test_what_was_kept_of_a_file_is_there_again_for_nobody_else(tmp_path: Path) -> None:
    memory = IndexCache(tmp_path)
    assert memory.get(Path("/a/b.jsonl")) is None
    memory.put(Path("/a/b.jsonl"), b"one")
    memory.put(Path("/a/c.jsonl"), b"two")
    memory.put(Path("/a/b.jsonl"), b"three")
    assert (memory.get(Path("/a/b.jsonl")), memory.get(Path("/a/c.jsonl"))) == (b"three", b"two")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "pages").iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "pages").stat().st_mode) == 0o700


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    memory = IndexCache(tmp_path)
    for number in range(60):
        memory.put(Path(f"/a/{number}.jsonl"), b"x")
    assert len(list((tmp_path / "pages").iterdir())) == 40


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "pages").write_text("in the way")
    memory = IndexCache(tmp_path)
    memory.put(Path("/a/b.jsonl"), b"one")
    assert memory.get(Path("/a/b.jsonl")) is None
