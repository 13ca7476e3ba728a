"""The store made again: from archive and files, without losing what either still has."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.world import World, archived, billed, check, counted, rows, synced, tables
from unspool.demo.write import write_demo
from unspool.errors import Refused, UnspoolError
from unspool.read.source_tree import Skipped
from unspool.store.archive.archive import Archive
from unspool.store.database import STORE, open_archive, open_store
from unspool.store.sync.changes import is_filled
from unspool.store.sync.rebuild import is_archive_sound, salvage_archive, set_aside
from unspool.store.sync.sync import SyncOptions, fill_from_archive

PRICED = SyncOptions(price_edition="1")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Files with generations, one that has gone, one with a torn line; all synced."""
    made = World(tmp_path / "config")
    own = tmp_path / "own"
    for _ in range(4):
        made.append(made.create(), 6)
    step(made, own)
    made.rewrite(made.paths[0], 0)
    made.replace(made.paths[1])
    made.tear(made.paths[3], 77)
    step(made, own)
    made.truncate(made.paths[0], 900)
    made.delete(made.paths[2])
    step(made, own)
    return made


def step(world: World, own: Path) -> None:
    synced(own, world.root, PRICED)
    world.synced()


def rebuilt(folder: Path, at: Callable[[str], None] = lambda _: None) -> list[Skipped]:
    """Fill the store in a folder from the archive."""
    with closing(open_store(folder)) as database, closing(open_archive(folder)) as archive:
        failed = fill_from_archive(database, Archive(archive), PRICED._replace(on_step=at), folder)
        assert is_filled(database)
    return failed


def test_a_store_made_again_has_every_row_it_had(world: World, tmp_path: Path) -> None:
    own = tmp_path / "own"
    before = tables(own)
    set_aside(own, STORE)
    assert rebuilt(own) == []
    report = synced(own, world.root, PRICED)
    assert (report.lines_parsed, report.generations, report.gone) == (0, 0, 1)
    assert tables(own) == before
    check(world, own, tmp_path / "fresh")
    assert [path.name for path in own.iterdir() if path.name.startswith("rebuild-")] == []


def test_a_realistic_folder_is_made_again_without_reading_its_sessions(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    write_demo(root)
    synced(own, root, PRICED)
    before = tables(own)
    assert before["todos"]
    set_aside(own, STORE)
    assert rebuilt(own) == []
    report = synced(own, root, PRICED)
    assert (report.bytes_read, report.lines_parsed) == (0, 0)
    assert tables(own) == before


def test_files_that_have_gone_or_changed_since_are_made_again_too(world: World, tmp_path: Path) -> None:
    own = tmp_path / "own"
    set_aside(own, STORE)
    world.append(world.paths[0], 2)
    world.replace(world.paths[1])
    world.delete(world.paths[2])
    rebuilt(own)
    step(world, own)
    check(world, own, tmp_path / "fresh")


def newest(folder: Path) -> dict[str, bytes]:
    """Return what the archive has of each file as it last was."""
    with closing(open_archive(folder)) as database:
        archive = Archive(database)
        paths = {about.path for about in archive.files()}
        return {path: b"".join(data for _, data in archive.read(archive.find(path))) for path in paths}


class Ended(Exception):
    """A rebuild was ended on the way."""


@pytest.mark.parametrize("after", range(1, 8))
def test_making_it_again_goes_on_where_it_was_ended(world: World, tmp_path: Path, after: int) -> None:
    own, before = tmp_path / "own", tables(tmp_path / "own")
    left = [after]

    def reached(_: str) -> None:
        left[0] -= 1
        if not left[0]:
            raise Ended

    set_aside(own, STORE)
    with pytest.raises(Ended):
        rebuilt(own, reached)
    with closing(open_store(own)) as database:
        assert not is_filled(database)
    assert rebuilt(own) == []
    synced(own, world.root, PRICED)
    assert tables(own) == before


def test_nothing_is_deleted(tmp_path: Path) -> None:
    for number in (1, 2):
        with closing(open_store(tmp_path)) as database:
            database.execute("INSERT INTO homes (path) VALUES (?)", (f"/{number}",))
        assert set_aside(tmp_path, "store.db") == tmp_path / f"store.db.old-{number}"
    assert set_aside(tmp_path, "store.db") is None
    for number in (1, 2):
        with closing(sqlite3.connect(tmp_path / f"store.db.old-{number}")) as database:
            assert database.execute("SELECT path FROM homes").fetchall() == [(f"/{number}",)]


def test_what_is_only_in_the_write_ahead_log_is_moved_aside_too(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as reader, closing(open_store(tmp_path)) as database:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM homes").fetchone() == (0,)  # holds back what is written after
        database.execute("INSERT INTO homes (path) VALUES ('/a')")
        moved = set_aside(tmp_path, "store.db")
        assert moved
        with closing(sqlite3.connect(moved)) as old:
            assert old.execute("SELECT path FROM homes").fetchall() == [("/a",)]


def test_a_damaged_frame_costs_only_its_own_lines(world: World, tmp_path: Path) -> None:
    own = tmp_path / "own"
    gone = next(path for path in world.seen if not Path(path).exists())
    kept = archived(own)[gone][0]
    with closing(sqlite3.connect(own / "archive.db", isolation_level=None)) as database:
        frames = Archive(database)
        about = frames.find(gone)
        lines = kept.splitlines(keepends=True)
        database.execute("DELETE FROM frames WHERE source_id = ?", (about.id,))
        start = 0
        for number, line in enumerate(lines):  # a frame for each line, and a damaged one
            from unspool.store.archive.archive import compress

            data = bytes(9) if number == 2 else compress(line)
            database.execute("INSERT INTO frames VALUES (?, ?, ?, ?)", (about.id, start, len(line), data))
            start += len(line)
    set_aside(own, STORE)
    (failed,) = rebuilt(own)
    assert str(failed.path) == gone
    assert "is damaged at" in failed.reason
    synced(own, world.root, PRICED)
    rest = kept.replace(lines[2], b"\n")
    expected = billed([*(seen for path, seen in world.seen.items() if path != gone), [rest]])
    assert counted(own) == sorted(expected.items())
    assert rows(own, world.root)[gone]["gone"]


def test_a_damaged_frame_of_a_file_that_is_there_is_made_good(world: World, tmp_path: Path) -> None:
    own, path = tmp_path / "own", world.paths[1]
    before = counted(own)
    with closing(sqlite3.connect(own / "archive.db", isolation_level=None)) as database:
        about = Archive(database).find(str(path))
        database.execute("UPDATE frames SET data = zeroblob(9) WHERE source_id = ?", (about.id,))
    set_aside(own, STORE)
    (failed,) = rebuilt(own)
    assert failed.path == path
    report = synced(own, world.root, PRICED)
    assert report.generations == 1  # whether it is what it was cannot be known any more
    assert counted(own) == before
    assert newest(own)[str(path)] == path.read_bytes()
    synced(tmp_path / "fresh", world.root)
    assert rows(own, world.root)[str(path)] == rows(tmp_path / "fresh", world.root)[str(path)]


def damage(path: Path, *, keep: int = 3) -> None:
    """Write over every page of a database but the first ones and every third."""
    data = bytearray(path.read_bytes())
    for page in range(keep, len(data) // 4096):
        if page % 3:
            data[page * 4096 : page * 4096 + 4096] = b"\xde\xad" * 2048
    path.write_bytes(data)


def test_what_a_damaged_archive_still_has_goes_into_a_new_one(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    write_demo(root)
    synced(own, root, PRICED)
    whole = archived(own)
    with closing(sqlite3.connect(own / "archive.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert is_archive_sound(own)
    damage(own / "archive.db", keep=30)
    damaged = (own / "archive.db").read_bytes()
    assert not is_archive_sound(own)
    saved, lost = salvage_archive(own)
    assert saved > 0
    assert is_archive_sound(own)
    assert (own / "archive.db.old-1").read_bytes() == damaged
    with closing(open_archive(own)) as database:
        archive = Archive(database)
        holes: list[UnspoolError] = []
        for about in archive.files():
            pieces = [data for _, data in archive.read(about, holes)]
            if not holes:
                assert whole[about.path][0].startswith(b"".join(pieces))
            holes.clear()
    set_aside(own, STORE)
    rebuilt(own)
    synced(own, root, PRICED)
    synced(own, root, PRICED)
    assert archived(own) == whole  # the files were there still
    assert saved + lost <= len(whole)


def test_an_archive_that_is_no_database_is_moved_aside(world: World, tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "archive.db").write_bytes(b"nothing of the kind" * 1000)
    assert not is_archive_sound(own)
    assert salvage_archive(own) == (0, 0)
    assert (own / "archive.db.old-1").read_bytes().startswith(b"nothing of the kind")
    synced(own, world.root, PRICED)
    assert newest(own) == {str(path): path.read_bytes() for path in world.paths}


def test_an_archive_of_a_newer_unspool_is_refused(world: World, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "own" / "archive.db", isolation_level=None)) as database:
        database.execute("PRAGMA user_version = 7")
    with pytest.raises(Refused, match="created by a newer version of unspool"):
        is_archive_sound(tmp_path / "own")


def test_without_an_archive_there_is_nothing_to_be_wrong(tmp_path: Path) -> None:
    assert is_archive_sound(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_stands_in_the_place_of_the_archive_and_is_none_is_set_aside(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "archive.db"
    os.mkfifo(place) if kind == "pipe" else place.mkdir()
    assert not is_archive_sound(tmp_path)
    assert salvage_archive(tmp_path) == (0, 0)
    assert (tmp_path / "archive.db.old-1").exists()
    assert is_archive_sound(tmp_path)


def test_a_file_of_an_unknown_kind_in_a_damaged_archive_is_reported_and_the_others_are_made_again(
    world: World, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    with closing(open_archive(own)) as archive, archive:
        (table,) = archive.execute(
            "SELECT name FROM sqlite_master WHERE sql LIKE '%kind %' AND type = 'table'"
        ).fetchone()
        archive.execute(f"UPDATE {table} SET kind = 'Inf' WHERE path = ?", (str(world.paths[0]),))
    set_aside(own, STORE)
    failed = rebuilt(own)
    assert {(one.path, one.reason) for one in failed} == {(world.paths[0], "unknown kind of file: `Inf`")}
    with closing(open_store(own)) as database:
        paths = {path for (path,) in database.execute("SELECT path FROM sources")}
    assert {str(path) for path in world.paths[1:]} <= paths
