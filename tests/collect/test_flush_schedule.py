"""New lines are held until they are many or old, and are never lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.machine import Machine, expected, folder_place, rows
from tests.faults.world import World
from unspool.collect.flush_schedule import FlushSchedule
from unspool.collect.object_store import SegmentStore


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "config")
    made.append(made.create(), 2)
    return made


@pytest.fixture
def place(tmp_path: Path) -> SegmentStore:
    return folder_place(tmp_path / "lake")


def test_lines_of_a_minute_are_one_segment(tmp_path: Path, world: World, place: SegmentStore) -> None:
    now = [0.0]
    schedule = FlushSchedule(60.0, 1 << 18, lambda: now[0])
    machine = Machine(tmp_path / "own", world.root, place, schedule=schedule)
    assert machine.collect().segments == 1
    for _ in range(11):
        now[0] += 5
        world.append(world.paths[0], 1)
        assert machine.collect().segments == 0
        assert not schedule.has_due()
    now[0] += 5
    assert schedule.has_due()
    assert (report := machine.collect()).segments == 1
    assert report.lines == 11
    assert not schedule.has_due()
    world.synced()
    assert rows(place) == expected(world)


def test_many_bytes_are_not_held(tmp_path: Path, world: World, place: SegmentStore) -> None:
    machine = Machine(tmp_path / "own", world.root, place, schedule=FlushSchedule(60.0, 3000, lambda: 0.0))
    machine.collect()
    world.append(world.paths[0], 1)
    assert machine.collect().segments == 0
    world.append(world.paths[0], 12)
    assert machine.collect().lines == 13


def test_a_file_that_was_replaced_is_not_held_if_it_is_large(tmp_path: Path, world: World, place: SegmentStore) -> None:
    path, machine = (
        world.paths[0],
        Machine(tmp_path / "own", world.root, place, schedule=FlushSchedule(60.0, 100, lambda: 0.0)),
    )
    machine.collect()
    world.synced()
    world.replace(path)
    assert machine.collect().segments == 1
    world.synced()
    assert rows(place) == expected(world)


def test_what_a_collector_held_when_it_ended_is_sent_by_the_next(
    tmp_path: Path, world: World, place: SegmentStore
) -> None:
    held = Machine(tmp_path / "own", world.root, place, schedule=FlushSchedule(60.0, 1 << 18, lambda: 0.0))
    held.collect()
    world.append(world.paths[0], 3)
    assert held.collect().segments == 0
    assert Machine(tmp_path / "own", world.root, place).collect().lines == 3
    world.synced()
    assert rows(place) == expected(world)
