"""A round fetches what is new, whatever a stream has already; a bundle is only a cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake, expected
from tests.collect.lake.sending import Device
from tests.faults.world import World
from unspool.collect.lake.lake import open_lake
from unspool.collect.lake.maintenance import vacuum_tables
from unspool.collect.lake.run import Ingester, IngestJob
from unspool.collect.object_store import SegmentStore


class Counting(SegmentStore):
    """Counts the segments that are fetched."""

    def __init__(self, place: SegmentStore) -> None:
        super().__init__(place.url, place._store, place._folder)
        self.fetched: list[str] = []

    def get(self, name: str) -> bytes | None:
        if name.startswith("segments/"):
            self.fetched.append(name)
        return super().get(name)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "config")
    made.create()
    return made


def grow(world: World, device: Device, count: int) -> None:
    """Send lines one by one: each is a segment."""
    for _ in range(count):
        world.append(world.paths[0], 1)
        device.send(world.root)


def ingester(lake: TestLake) -> tuple[Ingester, Counting]:
    """Return who has no memory of earlier rounds, and what counts its requests."""
    made, counting = Ingester(IngestJob(lake.url, str(lake.folder)), {}), Counting(lake.place)
    made._object_store = counting
    return made, counting


def test_a_round_fetches_new_segments_however_many_there_are_already(lake: TestLake, world: World) -> None:
    device, requests = lake.device(), list[int]()
    for _ in range(8):
        grow(world, device, 5)
        made, counting = ingester(lake)
        report = made.round()
        requests.append(len(counting.fetched))
        assert report.segments >= 5
    segments = len(list(lake.place.names("segments")))
    assert segments >= 40
    assert max(requests) <= 5 + 8
    assert sum(requests) < 2 * segments
    assert lake.lines() == expected(world.root)
    assert lake.verify().problems == ()


@pytest.mark.parametrize("spoilt", [b"", b"\xc1 nonsense", b"\x81\xa1a\xc4\x01b"])
def test_a_bundle_that_is_damaged_or_gone_costs_only_requests(lake: TestLake, world: World, spoilt: bytes) -> None:
    device = lake.device()
    grow(world, device, 12)
    lake.ingest()
    opened = open_lake(str(lake.folder), {})
    (bundle,) = [found.name for found in opened.object_store.names("bundles")]
    if spoilt:
        opened.object_store.overwrite(bundle, spoilt)
    else:
        opened.object_store.delete(bundle)
    grow(world, device, 1)
    assert lake.ingest().segments == 1
    assert lake.lines() == expected(world.root)
    assert lake.verify(is_full=True).problems == ()


def test_the_tables_are_those_that_would_be_made_without_bundles(lake: TestLake, world: World, tmp_path: Path) -> None:
    device = lake.device()
    for _ in range(4):
        grow(world, device, 6)
        lake.ingest()
    anew = TestLake(tmp_path / "anew")
    anew.url, anew.place = lake.url, lake.place
    anew.ingest()
    assert anew.everything() == lake.everything()


def test_a_segment_that_was_damaged_and_is_repaired_is_read_again(lake: TestLake, world: World) -> None:
    device = lake.device()
    grow(world, device, 12)
    names = sorted(found.name for found in lake.place.names("segments"))
    whole = lake.place.get(names[9])
    assert whole is not None
    lake.place.overwrite(names[9], whole[:-5])
    assert len(lake.ingest().bad) == 1
    lake.place.overwrite(names[9], whole)
    assert lake.ingest().bad == ()
    assert lake.lines() == expected(world.root)


def test_a_vacuum_removes_old_bundles(lake: TestLake, world: World) -> None:
    grow(world, lake.device(), 12)
    lake.ingest()
    opened = open_lake(str(lake.folder), {})
    for hours, left in ((1, 1), (0, 0)):
        vacuum_tables(opened, hours, really=True)
        assert len(list(opened.object_store.names("bundles"))) == left
