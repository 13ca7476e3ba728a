"""Who follows looks where something may be new, and misses nothing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake, expected
from tests.faults.world import World
from unspool.collect.heartbeat import DeviceHeartbeat, send_heartbeat
from unspool.collect.lake.run import Ingester, IngestJob, IngestShard
from unspool.collect.lake.streams import device_stream_id
from unspool.errors import ObjectStoreFailed

NEVER = float("inf")


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "config")
    made.append(made.create(), 4)
    return made


@pytest.fixture
def ingester(lake: TestLake, world: World) -> Ingester:
    """Who has had one round, and will not list everything again."""
    lake.device("other").send(world.root)
    made = Ingester(IngestJob(lake.url, str(lake.folder)), {})
    assert made.round().segments > 0
    made._next_listing = NEVER
    return made


def test_a_device_whose_manifest_has_changed_is_looked_at(lake: TestLake, world: World, ingester: Ingester) -> None:
    device = lake.device()
    device.send(world.root)
    assert ingester.round().segments > 0
    world.append(world.paths[0], 2)
    device.send(world.root)
    assert ingester.round().lines == 2
    assert ingester.round().segments == 0
    assert {line for line in lake.lines() if line[0] == "laptop"} == set(expected(world.root))


def test_a_device_whose_heartbeat_has_changed_is_looked_at(lake: TestLake, world: World, ingester: Ingester) -> None:
    for number in (1, 2):
        for made in lake.device(f"d{number}").make(world.root):
            lake.place.put_new(made.name, made.data)
    beat = DeviceHeartbeat(org="acme", user="ada", device="d1", written="2026-01-05T00:00:00Z", collector="1")
    send_heartbeat(lake.place, beat)
    assert ingester.round().segments == 1
    assert {line[0] for line in lake.lines()} == {"other", "d1"}
    assert ingester.round().segments == 0


def test_what_no_manifest_tells_of_is_found_when_all_is_listed(
    lake: TestLake, world: World, ingester: Ingester
) -> None:
    for made in lake.device().make(world.root):
        lake.place.put_new(made.name, made.data)
    assert ingester.round().segments == 0
    ingester._next_listing = 0.0
    assert ingester.round().segments > 0


def test_a_long_session_rests_and_is_not_forgotten(lake: TestLake, world: World, ingester: Ingester) -> None:
    device = lake.device()
    device.send(world.root)
    ingester.round()
    world.append(world.paths[0], 1)
    device.send(world.root)
    stream = device_stream_id("acme", "laptop", device.stream(str(world.paths[0].relative_to(world.root))))
    ingester._paused[stream] = time.monotonic() + 1000
    assert ingester.round().segments == 0
    ingester._paused.clear()
    assert ingester.round().segments == 1


def test_shards_share_the_devices_and_do_together_what_one_does(lake: TestLake, world: World, tmp_path: Path) -> None:
    names = [f"d{number}" for number in range(9)]
    for name in names:
        lake.device(name).send(world.root)
    shards = [IngestShard(number, 3) for number in (1, 2, 3)]
    assert all(sum(shard.has(f"acme/{name}") for shard in shards) == 1 for name in names)
    reports = [lake.ingest(shard=shard) for shard in shards]
    assert all(report.streams for report in reports)
    assert sum(report.streams for report in reports) == len(names)
    assert lake.ingest().segments == 0
    assert lake.verify().problems == ()
    assert {line[0] for line in lake.lines()} == set(names)


def test_a_store_that_does_not_answer_is_told_of(lake: TestLake, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    ingester = Ingester(IngestJob("s3://bucket/in", str(lake.folder)), said)
    for _ in range(2):  # and asked again
        (told,) = ingester.round_with_news()
        assert isinstance(told, ObjectStoreFailed)
