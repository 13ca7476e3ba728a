"""Files written into a config folder: whole, new, and nowhere else."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.edit.commit import write_new
from unspool.errors import Refused, Unwritable


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_what_is_written_is_what_was_given(pieces: list[bytes]) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as place:
        path = Path(place) / "a" / "b" / "c.jsonl"
        assert write_new(path, pieces, within=Path(place)) == len(b"".join(pieces))
        assert path.read_bytes() == b"".join(pieces)
        assert list(path.parent.iterdir()) == [path]


def test_files_and_folders_are_for_the_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.jsonl"
    write_new(path, [b"x"], within=tmp_path)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, path.parent, path.parent.parent)] == [
        0o600,
        0o700,
        0o700,
    ]


def test_a_file_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"mine")
    with pytest.raises(Refused, match="is there already"):
        write_new(tmp_path / "a", [b"yours"], within=tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refused, match="is there already"):
        write_new(tmp_path / "link", [b"yours"], within=tmp_path)
    assert (tmp_path / "a").read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_file_that_comes_to_be_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"yours"
        (tmp_path / "a").write_bytes(b"mine")

    with pytest.raises(Refused, match="has come to be meanwhile"):
        write_new(tmp_path / "a", pieces(), within=tmp_path)
    assert (tmp_path / "a").read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    with pytest.raises(Refused, match="would lie outside"):
        write_new(tmp_path / "in" / "link" / "folder" / "a", [b"x"], within=tmp_path / "in")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x"
        raise KeyError

    with pytest.raises(KeyError):
        write_new(tmp_path / "a", pieces(), within=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unwritable, match=r"cannot write `.*/file/a`: file exists"):
        write_new(tmp_path / "file" / "a", [b"x"], within=tmp_path)


def test_a_writer_that_is_killed_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from unspool.edit.commit import write_new
def pieces():
    yield b"half"
    os.kill(os.getpid(), signal.SIGKILL)
write_new(Path(sys.argv[1]) / "a.jsonl", pieces(), within=Path(sys.argv[1]))
"""
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=os.environ, check=False)
    assert killed.returncode == -9
    assert not (tmp_path / "a.jsonl").exists()
    assert list(tmp_path.glob("*.jsonl")) == []
