"""Sessions that have gone read as they were; those that are there are read from their files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.faults.world import World, synced
from unspool.demo.write import write_demo
from unspool.errors import NotFound
from unspool.home import Home, open
from unspool.store.archive.archive import Archive
from unspool.store.archive.reader import ArchiveReader, read_gone_sources, scan_with_archive
from unspool.store.database import open_archive, open_store
from unspool.store.usage.ledger_files import read_stored_lines


class Kept:
    """A store and an archive that are open."""

    def __init__(self, folder: Path) -> None:
        self.database, self.archive = open_store(folder), Archive(open_archive(folder))
        self.reader = ArchiveReader(lambda: self.archive)

    def close(self) -> None:
        self.database.close()
        self.archive.database.close()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    with closing(Kept(tmp_path / "own")) as opened:
        yield opened


def test_every_session_of_a_folder_that_has_gone_is_what_it_was(kept: Kept, tmp_path: Path) -> None:
    root = tmp_path / "config"
    write_demo(root)
    synced(tmp_path / "own", root)
    sessions = {
        one.id: (one.facts, one.usage, [agent.id for agent in one.agents], one.items) for one in open(root).sessions()
    }
    contents = {str(path): path.read_bytes() for path in root.rglob("*.jsonl")}
    root.rename(tmp_path / "away")
    synced(tmp_path / "own", root)
    home = Home(scan_with_archive(kept.database, root), kept.reader)
    assert {
        one.id: (one.facts, one.usage, [agent.id for agent in one.agents], one.items) for one in home.sessions()
    } == sessions
    for path, data in contents.items():
        assert b"".join(kept.reader.pieces(Path(path))) == data


def test_a_tree_has_what_is_there_and_what_has_gone_each_once(kept: Kept, tmp_path: Path) -> None:
    world = World(tmp_path / "config")
    first, second = world.create(), world.create()
    synced(tmp_path / "own", world.root)
    size = first.stat().st_size
    world.delete(first)
    synced(tmp_path / "own", world.root)
    assert [(source.path, source.size) for source in read_gone_sources(kept.database, world.root)] == [(first, size)]
    assert [source.path for source in scan_with_archive(kept.database, world.root).sources] == [first, second]
    first.touch()  # it is there again, and nobody has synced
    assert [source.size for source in scan_with_archive(kept.database, world.root).sources] == [
        0,
        second.stat().st_size,
    ]


def test_a_file_that_is_there_is_read_from_disk_even_if_the_archive_is_behind(kept: Kept, tmp_path: Path) -> None:
    world = World(tmp_path / "config")
    path = world.create()
    synced(tmp_path / "own", world.root)
    world.append(path, 1)
    assert b"".join(kept.reader.pieces(path)) == path.read_bytes()
    assert sum(item.length for item in kept.reader.items(path)) == path.stat().st_size


def test_a_file_that_neither_has_is_not_found(kept: Kept) -> None:
    with pytest.raises(NotFound, match=r"file not found: `/nowhere/a.jsonl`"):
        list(kept.reader.pieces(Path("/nowhere/a.jsonl")))


def test_the_lines_of_all_generations_are_there_each_once(kept: Kept, tmp_path: Path) -> None:
    world = World(tmp_path / "config")
    paths = [world.create() for _ in range(3)]
    synced(tmp_path / "own", world.root)
    world.synced()
    world.replace(paths[0])
    world.replace(paths[1])
    synced(tmp_path / "own", world.root)
    world.synced()
    world.delete(paths[1])
    synced(tmp_path / "own", world.root)
    found: dict[str, list[bytes]] = {}
    for text in read_stored_lines(kept.database, world.root, lambda: kept.archive):
        found.setdefault(text.file, []).append(b"".join(some.data[some.start : some.end] for some in text.lines))
        assert text.project == "-home-me-project"
    assert {path: sorted(data) for path, data in found.items()} == {
        path: sorted(data) for path, data in world.seen.items()
    }
