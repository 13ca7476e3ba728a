"""A full disk, a limit, a folder that may not be written or read, a clock that was moved: nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import Program, Ran
from tests.faults.world import World, check, rows, synced, tables

DAY = 24 * 60 * 60 * 10**9


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A few sessions."""
    made = World(tmp_path / "config")
    for _ in range(4):
        made.append(made.create(), 30)
    return made


@pytest.fixture
def small_disk(program: Program) -> Iterator[Path]:
    """A disk of a megabyte under the data folder."""
    program.folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(program.folder)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield program.folder
    subprocess.run(["umount", str(program.folder)], check=True)


def sizes(listed: Ran) -> list[int]:
    """Return the sizes of the sessions that `ls --json` lists."""
    return [row["bytes"] for row in json.loads(listed.out)["items"]]


def test_a_full_disk_is_named_and_once_there_is_room_nothing_is_missing(
    program: Program, world: World, small_disk: Path, tmp_path: Path
) -> None:
    assert program.run("sync", "--config-dir", world.root).code == 0
    world.synced()
    before = tables(small_disk)
    for path in world.paths:
        world.append(path, 12)
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "filler").write_bytes(bytes(2**20))
    full = program.run("sync", "--config-dir", world.root)
    assert (full.code, full.out) == (4, "")
    assert full.err.startswith("unspool: no space left for the store in ")
    assert full.err.count("\n") == 2
    listed = program.run("ls", "--json", "--config-dir", world.root)
    assert listed.code == 0
    assert listed.err.endswith("; reading the files instead\n")
    assert sizes(listed) == [path.stat().st_size for path in reversed(world.paths)]
    (small_disk / "filler").unlink()
    assert tables(small_disk) == before
    subprocess.run(["mount", "-o", "remount,size=32m", str(small_disk)], check=True)
    assert program.run("sync", "--config-dir", world.root).code == 0
    world.synced()
    check(world, small_disk, tmp_path / "fresh")


@pytest.mark.parametrize("limit", [20_000, 150_000, 400_000, 700_000])
def test_a_file_that_may_not_grow_is_named_and_nothing_is_lost(
    program: Program, world: World, tmp_path: Path, limit: int
) -> None:
    bound = program.under("prlimit", f"--fsize={limit}")
    done = bound.run("sync", "--config-dir", world.root)
    assert done.code in (0, 4), done.err
    if done.code:
        assert done.err.startswith("unspool: cannot write the store in ")
        assert "Traceback" not in done.err
    listed = bound.run("ls", "--json", "--config-dir", world.root)
    assert listed.code == 0
    assert len(sizes(listed)) == 4
    assert program.run("sync", "--config-dir", world.root).code == 0
    world.synced()
    check(world, program.folder, tmp_path / "fresh")


def test_a_store_that_may_not_grow_is_named_and_the_files_answer(
    program: Program, world: World, tmp_path: Path
) -> None:
    assert program.run("sync", "--config-dir", world.root).code == 0
    world.synced()
    for path in world.paths:
        world.append(path, 20)
    bound = program.under("prlimit", "--fsize=33000")
    done = bound.run("sync", "--config-dir", world.root)
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("unspool: cannot write the store in ")
    listed = bound.run("ls", "--json", "--config-dir", world.root)
    assert listed.code == 0
    assert listed.err.endswith("; reading the files instead\n")
    assert sizes(listed) == [path.stat().st_size for path in reversed(world.paths)]
    assert program.run("sync", "--config-dir", world.root).code == 0
    world.synced()
    check(world, program.folder, tmp_path / "fresh")


def test_a_data_folder_that_may_not_be_written_is_named_and_the_files_answer(
    unprivileged: Program, world: World, tmp_path: Path
) -> None:
    assert unprivileged.run("sync", "--config-dir", world.root).code == 0
    world.synced()
    world.append(world.paths[0], 1)
    unprivileged.folder.chmod(0o500)
    done = unprivileged.run("sync", "--config-dir", world.root)
    listed = unprivileged.run("ls", "--json", "--config-dir", world.root)
    unprivileged.folder.chmod(0o700)
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("unspool: cannot write the store in ")
    assert listed.code == 0
    assert listed.err.endswith("; reading the files instead\n")
    assert max(sizes(listed)) == max(path.stat().st_size for path in world.paths)
    assert unprivileged.run("sync", "--config-dir", world.root).code == 0
    world.synced()
    check(world, unprivileged.folder, tmp_path / "fresh")


@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_data_folder_that_may_not_be_entered_is_named(unprivileged: Program, world: World, mode: int) -> None:
    assert unprivileged.run("sync", "--config-dir", world.root).code == 0
    unprivileged.folder.chmod(mode)
    done = unprivileged.run("sync", "--config-dir", world.root)
    unprivileged.folder.chmod(0o700)
    assert (done.code, done.out) == (4, "")
    assert "permission denied" in done.err
    assert done.err.startswith("unspool: ")


def test_a_data_folder_below_a_file_is_named_and_the_files_answer(program: Program, world: World) -> None:
    (program.folder.parent / "file").touch()
    below = str(program.folder.parent / "file" / "own")
    done = program.run("sync", "--config-dir", world.root, UNSPOOL_HOME=below)
    assert done.code == 4
    assert done.err.startswith(("unspool: cannot create the store folder", "unspool: cannot read"))
    assert "Traceback" not in done.err


def test_a_folder_that_may_not_be_read_does_not_make_its_sessions_gone(unprivileged: Program, world: World) -> None:
    assert unprivileged.run("sync", "--config-dir", world.root).code == 0
    before = rows(unprivileged.folder, world.root)
    for closed in (world.paths[0].parent, world.root):
        closed.chmod(0o000)
        done = unprivileged.run("sync", "--json", "--config-dir", world.root)
        closed.chmod(0o700)
        assert done.code == 0, done.err
        report = json.loads(done.out)
        assert report["gone"] == 0
        assert [one["reason"] for one in report["failed"]] == ["permission denied"]
        assert rows(unprivileged.folder, world.root) == before
    again = json.loads(unprivileged.run("sync", "--json", "--config-dir", world.root).out)
    assert (again["bytes_read"], again["lines_parsed"]) == (0, 0)


@pytest.mark.parametrize("days", [-1, 1, -20_000, 20_000])
def test_a_clock_that_was_moved_changes_nothing(world: World, tmp_path: Path, days: int) -> None:
    synced(tmp_path / "own", world.root)
    before = tables(tmp_path / "own")
    for path in world.paths:
        os.utime(path, ns=(path.stat().st_mtime_ns + days * DAY,) * 2)
    report = synced(tmp_path / "own", world.root)
    assert (report.lines_parsed, report.generations, report.rows_added, report.gone) == (0, 0, 4, 0)
    assert tables(tmp_path / "own") == before
    assert synced(tmp_path / "own", world.root).bytes_read == 0
    world.append(world.paths[0], 2)
    os.utime(world.paths[0], ns=(0, 0))
    assert synced(tmp_path / "own", world.root).lines_parsed == 2


def test_a_config_folder_that_cannot_be_reached_does_not_make_its_sessions_gone(
    unprivileged: Program, tmp_path: Path
) -> None:
    world = World(tmp_path / "closed" / "config")
    world.create()
    assert unprivileged.run("ls", "--config-dir", world.root).code == 0
    before = rows(unprivileged.folder, world.root)
    (tmp_path / "closed").chmod(0o000)
    done = unprivileged.run("ls", "--json", "--config-dir", world.root)
    (tmp_path / "closed").chmod(0o700)
    assert (done.code, done.err) == (0, f"unspool: skipped `{world.root}`: permission denied\n")
    assert rows(unprivileged.folder, world.root) == before
    assert not json.loads(done.out)["items"][0]["gone"]
