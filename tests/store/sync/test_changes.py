"""Whether a store is up to date: found without reading a file."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.world import World, synced
from unspool.store.database import folder_parameters, open_store
from unspool.store.sync.changes import (
    FolderChanges,
    HomeRow,
    compare_with_disk,
    data_version,
    find_home,
    is_synced,
    read_homes,
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two sessions that were synced."""
    made = World(tmp_path / "config")
    for _ in range(2):
        made.create()
    synced(tmp_path / "own", made.root)
    return made


def compared(tmp_path: Path, root: Path) -> FolderChanges:
    with closing(open_store(tmp_path / "own")) as database:
        return compare_with_disk(database, root)


def test_a_store_is_fresh_until_a_file_changes(world: World, tmp_path: Path) -> None:
    assert compared(tmp_path, world.root).is_fresh
    world.append(world.paths[0], 1)
    found = compared(tmp_path, world.root)
    assert not found.is_fresh
    assert [source.path for source in found.look.changed] == [world.paths[0]]
    assert (found.look.unchanged, list(found.look.missing)) == (1, [])


def test_a_file_that_is_missing_is_gone_and_one_in_another_folder_is_not(world: World, tmp_path: Path) -> None:
    path = world.paths[0]
    world.delete(path)
    assert compared(tmp_path, world.root).gone == [str(path)]
    (tmp_path / "config-2").mkdir()
    assert compared(tmp_path, tmp_path / "config-2").gone == []


def stamped(tmp_path: Path) -> tuple[int, int]:
    """Return how many files are known by their folder, and how many one by one."""
    with closing(open_store(tmp_path / "own")) as database:
        together = sum(names.count("/") + 1 for (names,) in database.execute("SELECT names FROM stamps"))
        return together, *database.execute("SELECT count(*) FROM unstamped").fetchone()


def test_many_files_are_known_by_their_folder_and_those_that_change_one_by_one(world: World, tmp_path: Path) -> None:
    for _ in range(58):
        world.create()
    synced(tmp_path / "own", world.root)
    assert stamped(tmp_path) == (60, 0)
    first, second, *_ = world.paths
    world.append(first, 1)
    world.delete(second)
    for root in (world.root, world.root / "projects", first.parent):
        found = compared(tmp_path, root)
        assert [source.path for source in found.look.changed] == [first]
        assert (found.gone, found.look.unchanged) == ([str(second)], 58)
    assert [source.path for source in compared(tmp_path, first).look.changed] == [first]
    synced(tmp_path / "own", world.root)
    assert stamped(tmp_path) == (60, 2)
    for root, unchanged in ((world.root, 59), (first.parent, 59), (first, 1)):
        found = compared(tmp_path, root)
        assert (found.is_fresh, found.look.unchanged) == (True, unchanged)
    for _ in range(3):
        world.create()
    synced(tmp_path / "own", world.root)
    assert stamped(tmp_path) == (62, 0)
    assert compared(tmp_path, world.root).is_fresh


def test_stamps_that_are_damaged_are_made_again(world: World, tmp_path: Path) -> None:
    for _ in range(4):
        world.create()
    synced(tmp_path / "own", world.root)
    with closing(open_store(tmp_path / "own")) as database:
        database.execute("UPDATE stamps SET stamps = substr(stamps, 2)")
    assert len(compared(tmp_path, world.root).look.changed) == 6
    assert synced(tmp_path / "own", world.root).lines_parsed == 0
    assert compared(tmp_path, world.root).is_fresh
    assert stamped(tmp_path) == (6, 0)


def test_a_folder_that_has_gone_takes_its_files_with_it(world: World, tmp_path: Path) -> None:
    paths = list(map(str, world.paths))
    world.root.rename(tmp_path / "moved")
    assert compared(tmp_path, world.root).gone == paths
    world.root.touch()
    assert compared(tmp_path, world.root / "projects").gone == paths


def test_a_file_of_the_same_size_and_time_but_another_inode_has_changed(world: World, tmp_path: Path) -> None:
    path = world.paths[0]
    before = path.stat()
    beside = path.with_suffix(".new")
    beside.write_bytes(path.read_bytes())
    os.utime(beside, ns=(before.st_atime_ns, before.st_mtime_ns))
    beside.replace(path)
    assert [source.path for source in compared(tmp_path, world.root).look.changed] == [path]


def test_what_is_within_a_folder_is_not_what_begins_with_its_name(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "own")) as database:
        database.execute("INSERT INTO homes (id, path) VALUES (1, '/a')")
        insert = """INSERT INTO sources (home_id, path, kind, generation, size, modified, device, inode)
            VALUES (1, ?, 'session', 1, 0, 0, 0, 0)"""
        for path in ("/a", "/a/b", "/a/b/c", "/a-b", "/a0", "/a.b", "/A/b"):
            database.execute(insert, (path,))
        query = "SELECT path FROM sources WHERE (path = :root OR (path >= :first AND path < :after)) ORDER BY path"
        found = [path for (path,) in database.execute(query, folder_parameters(Path("/a")))]
        everything = [path for (path,) in database.execute(query, folder_parameters(Path("/")))]
    assert found == ["/a", "/a/b", "/a/b/c"]
    assert len(everything) == 7


def test_the_innermost_folder_around_a_path_is_its_home() -> None:
    rows = [HomeRow(2, "/a/b", None), HomeRow(1, "/a", 5)]
    assert find_home(rows, "/a/b/c") == rows[0]
    assert find_home(rows, "/a/b") == rows[0]
    assert find_home(rows, "/a/bc") == rows[1]
    assert find_home(rows, "/ab") is None
    assert find_home([HomeRow(3, "/", None)], "/x") == HomeRow(3, "/", None)


def test_homes_come_with_the_innermost_first_and_know_whether_they_were_read(world: World, tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "own")) as database:
        database.execute("INSERT INTO homes (path) VALUES (?)", (str(world.root / "inner"),))
        assert [row.path for row in read_homes(database)] == [str(world.root / "inner"), str(world.root)]
        assert is_synced(database, world.root / "projects")
        assert not is_synced(database, world.root / "inner")
        assert not is_synced(database, tmp_path)


def test_the_edition_changes_when_another_process_writes(world: World, tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "own")) as database, closing(open_store(tmp_path / "own")) as other:
        before = data_version(database)
        assert data_version(database) == before
        other.execute("UPDATE homes SET synced = 1")
        assert data_version(database) != before
