"""A state and a store of an earlier version, with a chain for each stream, are continued with one for the device."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.collect.machine import Machine, expected, folder_place, headers, rows
from tests.faults.world import World
from unspool.collect.object_store import SegmentStore
from unspool.collect.segments import SegmentName, decode_part_header, format_segment_name, parse_device_segment_name
from unspool.collect.selection import SelectionRules
from unspool.collect.state import NAME
from unspool.errors import ObjectStoreFailed
from unspool.store.archive.archive import decompress

NEW = {
    "targets": (
        *("asked", "chain_day", "chain_last", "chain_sequence", "chain_digest"),
        *("redactions", "looked", "failed", "refused"),
    ),
    "streams": ("at",),
    "outbox": ("length", "source_generation", "packed"),
}


class Down(SegmentStore):
    """Does not answer."""

    def put_new(self, name: str, data: bytes) -> bool:
        raise ObjectStoreFailed("no answer")


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "config")
    for _ in range(3):
        made.append(made.create(), 8)
    return made


@pytest.fixture
def place(tmp_path: Path) -> SegmentStore:
    return folder_place(tmp_path / "lake")


def down(place: SegmentStore) -> Down:
    return Down(place.url, place._store, place._folder)


def make_old(folder: Path) -> None:
    """Make a state what it would be in the earlier version, before anything was sent."""
    with closing(sqlite3.connect(folder / NAME)) as database, database:
        for id, stream, data in database.execute("SELECT id, stream_id, data FROM outbox").fetchall():
            header, digest = decode_part_header(decompress(data)), hashlib.sha256(data).hexdigest()
            name = SegmentName(header.org, header.device, header.stream, header.sequence, header.previous)
            database.execute(
                "UPDATE outbox SET name = ?, digest = ? WHERE id = ?", (format_segment_name(name), digest, id)
            )
            database.execute("UPDATE streams SET digest = ? WHERE id = ?", (digest, stream))
        for table, columns in NEW.items():
            for column in columns:
                database.execute(f'ALTER TABLE {table} DROP COLUMN "{column}"')
        database.execute("DROP TABLE sent_spans")
        database.execute("DROP TABLE packed")
        database.execute("PRAGMA user_version = 1")


def test_what_waits_in_an_old_state_is_sent_as_it_is_and_its_streams_go_on_in_the_chain(
    tmp_path: Path, world: World, place: SegmentStore
) -> None:
    own = tmp_path / "own"
    with pytest.raises(ObjectStoreFailed):
        Machine(own, world.root, down(place)).collect()
    make_old(own)
    for number in range(3):
        if number:
            for path in world.paths:
                world.append(path, 2)
        Machine(own, world.root, place).collect()
        world.synced()
        assert rows(place) == expected(world)
    names = [listed.name for listed in place.names("segments")]
    assert len([name for name in names if parse_device_segment_name(name)]) == 2
    assert len(names) == 5
    for name in own.glob(f"{NAME}*"):  # the state is lost: both layouts are asked
        name.unlink()
    world.replace(world.paths[0])
    world.append(world.paths[1], 1)
    Machine(own, world.root, place).collect()
    world.synced()
    assert rows(place) == expected(world)
    assert Machine(own, world.root, place).collect().segments == 0


def test_all_new_lines_of_all_files_are_one_object(tmp_path: Path, world: World, place: SegmentStore) -> None:
    for _ in range(17):
        world.append(world.create(), 2)
    machine = Machine(tmp_path / "own", world.root, place)
    assert machine.collect().segments == 1
    for path in world.paths:
        world.append(path, 1)
    report = machine.collect()
    assert (report.segments, report.lines) == (1, 20)
    assert len(list(place.names("segments"))) == 2
    (heartbeat,) = place.names("manifests")
    assert heartbeat.size < 700


def test_a_packed_segment_that_arrived_before_its_project_was_excluded_counts_as_sent(
    tmp_path: Path, world: World, place: SegmentStore
) -> None:
    class Forgetful(SegmentStore):
        def put_new(self, name: str, data: bytes) -> bool:
            is_new = super().put_new(name, data)
            if name.startswith("segments/"):
                raise ObjectStoreFailed("the answer was lost")
            return is_new

    with pytest.raises(ObjectStoreFailed):
        Machine(tmp_path / "own", world.root, Forgetful(place.url, place._store, place._folder)).collect()
    assert len(headers(place)) == 3
    excluded = Machine(
        tmp_path / "own", world.root, place, SelectionRules(exclude=("project",)), refuses=lambda _: True
    )
    assert excluded.collect().segments == 1
    with excluded.planned() as plan:
        assert plan.state.waiting() == []
    world.synced()
    assert rows(place) == expected(world)


def test_a_second_collector_costs_a_first_only_the_streams_that_both_have(
    tmp_path: Path, world: World, place: SegmentStore
) -> None:
    one, two = (Machine(tmp_path / name, world.root, place) for name in ("one", "two"))
    one.collect()
    two.collect()
    for path in world.paths:
        world.append(path, 2)
    one.place = down(place)
    with suppress(ObjectStoreFailed):
        one.collect()
    one.place = place
    kept = world.paths[1:]
    hidden = [path.rename(path.with_suffix(".hidden")) for path in kept]
    assert two.collect().lines == 2
    for path in hidden:
        path.rename(path.with_suffix(".jsonl"))
    assert one.collect().lines == 4
    world.synced()
    assert rows(place) == expected(world)
