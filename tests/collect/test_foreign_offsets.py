"""Another collector's offsets: read as they are, written only as far as they are ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unspool.collect.foreign_offsets import read_offsets, write_offsets
from unspool.collect.selection import CollectCandidate
from unspool.errors import Unreadable


def candidate(path: Path, kind: str = "session") -> CollectCandidate:
    return CollectCandidate(
        path=str(path), kind=kind, project="-p", session_id="s", agent_id=None, generation=1, size=9,
        modified=1_768_263_841_305_000_000, inode=1, device=1, offset=9, head=b"", boundary=b"", archived=1, gone=None,
        home=str(path.parent),
    )  # fmt: skip


def test_a_name_with_a_tilde_is_of_the_home_folder(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert read_offsets(path, tmp_path) == {}
    entry = {"offset": 5, "mtime": 1}
    path.write_text(json.dumps({"claude_code": {"files": {"~/a.jsonl": entry, "/b": entry, "/c": 1, "/d": {}}}}))
    assert read_offsets(path, tmp_path) == {str(tmp_path / "a.jsonl"): 5, "/b": 5}


def test_what_was_confirmed_is_written_and_the_rest_stays(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state.json"
    files = [candidate(tmp_path / "a.jsonl"), candidate(Path("/b.jsonl")), candidate(tmp_path / "c.md", "plan")]
    write_offsets(path, tmp_path, files, {str(tmp_path / "a.jsonl"): 9, str(tmp_path / "c.md"): 9})
    assert json.loads(path.read_text()) == {
        "claude_code": {"files": {"~/a.jsonl": {"offset": 9, "mtime": 1_768_263_841_305}}}
    }
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["state.json"]


@pytest.mark.parametrize("words", ["", "[]", '{"claude_code": 1}', '{"claude_code": {"files": []}}', "\xff"])
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, words: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(words, encoding="latin-1")
    with pytest.raises(Unreadable, match="invalid offsets file"):
        read_offsets(path, tmp_path)
    with pytest.raises(Unreadable, match="invalid offsets file"):
        write_offsets(path, tmp_path, [], {})
    assert path.read_text(encoding="latin-1") == words
