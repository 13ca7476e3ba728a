"""A stream belongs to the device below whose prefix it is, whatever another device calls its own."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.collect.lake.lakes import TestLake, expected
from tests.collect.lake.sending import Device
from tests.faults.world import World
from unspool.collect.lake.lake import MARK, LakeMarker, open_lake


class Thief(Device):
    """A device that calls its streams as another device does."""

    def stream(self, path: str) -> str:
        return Device(self.place, "laptop").stream(path)


@pytest.mark.parametrize("thief", ["aaa", "zzz"])  # listed before and after the owner
@pytest.mark.parametrize("comes_first", [True, False])
def test_a_device_that_uses_the_name_of_anothers_stream_changes_nothing_of_it(
    lake: TestLake, tmp_path: Path, thief: str, comes_first: bool
) -> None:
    world, others = World(tmp_path / "config"), World(tmp_path / "others")
    for made, count in ((world, 6), (others, 12)):
        made.append(made.create(), count)
    devices = [(lake.device(), world), (Thief(lake.place, thief, user="mallory"), others)]
    for device, made in reversed(devices) if comes_first else devices:
        device.send(made.root)
        lake.ingest()
    world.append(world.paths[0], 3)
    devices[0][0].send(world.root)
    assert lake.ingest().bad == ()
    lines = lake.lines()
    assert {line: n for line, n in lines.items() if line[0] == "laptop"} == expected(world.root)
    assert {line: n for line, n in lines.items() if line[0] == thief} == expected(others.root, thief)
    assert lake.rows("SELECT count(DISTINCT id) FROM sources") == [(2,)]
    assert lake.rows("SELECT DISTINCT user FROM responses WHERE device = 'laptop'") == [("ada",)]
    assert lake.verify().problems == ()


def test_a_lake_of_the_first_version_keeps_the_ids_that_its_streams_have(lake: TestLake, tmp_path: Path) -> None:
    (lake.folder / MARK).write_bytes(msgspec.json.encode(LakeMarker(version=1)))
    world = World(tmp_path / "config")
    world.append(world.create(), 6)
    device = lake.device()
    device.send(world.root)
    lake.ingest()
    world.append(world.paths[0], 3)
    device.send(world.root)
    lake.ingest()
    stream = device.stream(str(world.paths[0].relative_to(world.root)))
    assert lake.rows("SELECT id FROM sources") == [(stream,)]
    assert lake.lines() == expected(world.root)
    assert lake.verify().problems == ()
    assert open_lake(str(lake.folder), {}).version == 1
