"""Files written into a config folder: whole, new, and nowhere else."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.errors import Refused, Unreadable, Unwritable
from unspool.files.atomic import read_current, remove_file, replace_file, write_atomically, write_new
from unspool.files.open import make_data_folder


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
    with pytest.raises(Refused, match="already exists"):
        write_new(tmp_path / "a", [b"yours"], within=tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refused, match="already exists"):
        write_new(tmp_path / "link", [b"yours"], within=tmp_path)
    assert (tmp_path / "a").read_bytes() == b"mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_file_that_comes_to_be_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"yours"
        (tmp_path / "a").write_bytes(b"mine")

    with pytest.raises(Refused, match="another process created"):
        write_new(tmp_path / "a", pieces(), within=tmp_path)
    assert (tmp_path / "a").read_bytes() == b"mine"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    with pytest.raises(Refused, match="is outside"):
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
from unspool.files.atomic import write_new
def pieces():
    yield b"half"
    os.kill(os.getpid(), signal.SIGKILL)
write_new(Path(sys.argv[1]) / "a.jsonl", pieces(), within=Path(sys.argv[1]))
"""
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=os.environ, check=False)
    assert killed.returncode == -9
    assert not (tmp_path / "a.jsonl").exists()
    assert list(tmp_path.glob("*.jsonl")) == []


def test_a_file_is_replaced_whole_and_keeps_its_rights_and_its_past(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"old")
    path.chmod(0o640)
    before = read_current(path, within=tmp_path)
    replace_file(before, b"new", backup=tmp_path / "kept")
    assert (path.read_bytes(), (tmp_path / "kept").read_bytes()) == (b"new", b"old")
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("settings.json", "kept")] == [0o640, 0o640]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kept", "settings.json"]


def test_a_past_that_is_kept_already_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    replace_file(read_current(path, within=tmp_path), b"two", backup=tmp_path / "kept")
    replace_file(read_current(path, within=tmp_path), b"three", backup=tmp_path / "kept")
    assert (path.read_bytes(), (tmp_path / "kept").read_bytes()) == (b"three", b"one")


def test_a_file_that_has_changed_meanwhile_is_neither_replaced_nor_removed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    before = read_current(path, within=tmp_path)
    path.write_bytes(b"mine")
    with pytest.raises(Refused, match="changed during the write"):
        replace_file(before, b"yours")
    with pytest.raises(Refused, match="changed during the write"):
        remove_file(before)
    assert path.read_bytes() == b"mine"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_file_that_was_not_there_is_made_unless_it_has_come_to_be(tmp_path: Path) -> None:
    path = tmp_path / "a"
    before = read_current(path, within=tmp_path)
    assert before.data is None
    replace_file(before, b"new", backup=tmp_path / "kept")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", 0o600)
    assert not (tmp_path / "kept").exists()
    with pytest.raises(Refused, match="another process created"):
        replace_file(before, b"newer")
    assert path.read_bytes() == b"new"


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "settings.json").write_bytes(b"old")
    (tmp_path / "claude").mkdir()
    path = tmp_path / "claude" / "settings.json"
    path.symlink_to(tmp_path / "dotfiles" / "settings.json")
    before = read_current(path, within=tmp_path / "claude")
    assert before.is_link
    replace_file(before, b"new")
    assert path.is_symlink()
    assert (tmp_path / "dotfiles" / "settings.json").read_bytes() == b"new"


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("fifo", "link"):
        with pytest.raises(Unreadable):
            read_current(tmp_path / name, within=tmp_path)
    (tmp_path / "large").write_bytes(b"x" * 100)
    with pytest.raises(Unreadable, match="too large"):
        read_current(tmp_path / "large", within=tmp_path, limit=99)


def test_a_file_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    remove_file(read_current(tmp_path / "a", within=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_file_and_its_name_are_flushed_before_the_writer_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    write_atomically(tmp_path / "a", b"new")
    assert flushed == [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino]


def test_a_folder_that_cannot_be_flushed_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_a_name_as_long_as_the_system_allows_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / ("€" * 85)
    write_atomically(path, b"old")
    write_atomically(path, b"new", 0o640)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_has_grown_meanwhile_has_changed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"mine")
    before = read_current(tmp_path / "a", within=tmp_path)
    (tmp_path / "a").write_bytes(b"mine, and much more")
    with pytest.raises(Refused, match="changed during the write"):
        replace_file(before, b"yours")
    assert (tmp_path / "a").read_bytes() == b"mine, and much more"


def test_a_data_folder_is_for_the_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_data_folder(tmp_path / "a" / "unspool")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a", tmp_path / "a" / "unspool")] == [0o700] * 2


def test_a_data_folder_that_others_can_enter_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    make_data_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
