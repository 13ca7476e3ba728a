"""One chain per device: requests and CPU for a new line by the number of old segments, and objects for a flush.

Rules
  1. The old lines are the same, in few segments or in many: only the number of segments differs.
  2. Requests are those for segments and bundles, and all together: the ingest works on a lake in a folder as on one in
     an object store, with copies of its logs. `tests/faults/test_lake_requests.py` counts them at an S3 server.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench import corpus
from bench.table import Row
from bench.usage import empty_folder
from tests.collect.lake.sending import Device
from tests.collect.lake.test_chains import Counting
from tests.faults.world import World
from unspool.collect.lake.lake import create_lake, open_lake
from unspool.collect.lake.log.copied_lake import CopiedLake
from unspool.collect.lake.run import Ingester, IngestJob
from unspool.collect.object_store import ListedFolder, ListedObject, StoredObject, open_object_store

FEW, MANY = 20, 300
LINES = 600
NEW = 5
MOST = 100
"""Requests that one new line may cost in all."""


class _AllRequests(Counting):
    """Counts all requests."""

    def put_new(self, name: str, data: bytes) -> bool:
        self.requests["put new"] += 1
        return super().put_new(name, data)

    def replace(self, name: str, data: bytes, before: StoredObject | None) -> bool:
        self.requests["replace"] += before is not None
        return super().replace(name, data, before)

    def names(self, prefix: str, after: str | None = None, before: str | None = None) -> Iterator[ListedObject]:
        self.requests["list"] += 1
        return super().names(prefix, after, before)

    def folder(self, prefix: str) -> ListedFolder:
        self.requests["list"] += 1
        return super().folder(prefix)

    def copy_to_file(self, name: str, path: Path) -> bool:
        self.requests["get file"] += 1
        return super().copy_to_file(name, path)

    def put_file(self, name: str, path: Path) -> None:
        self.requests["put file"] += 1
        super().put_file(name, path)

    def delete(self, name: str) -> None:
        self.requests["delete"] += 1
        super().delete(name)


class _LineCost(NamedTuple):
    """What a round with one new line costs."""

    segments: int
    """Requests for segments and bundles."""
    requests: int
    """All requests."""
    cpu: float


def rows() -> list[Row]:
    """Measure."""
    sides = []
    for segments in (FEW, MANY):
        corpus.say(f"chain: {segments} segments")
        with empty_folder() as data:
            sides.append(_cost(data, segments))
    corpus.say("")
    few, many = sides
    against = f"with {FEW} old segments"
    return [
        Row(
            name=f"ingest a line after {MANY} segments of {LINES} lines: requests for segments and bundles", unit="",
            ours=many.segments, reference=few.segments, against=against, target=1.0,
        ),
        Row(
            name="  all requests", unit="", ours=many.requests, reference=few.requests, against=against, target=MOST,
            of_ratio=False,
        ),
        Row(name="  CPU of the round", unit="s", ours=many.cpu, reference=few.cpu, against=against, target=1.2),
    ]  # fmt: skip


def _cost(data: Path, segments: int) -> _LineCost:
    """Return what a round with one new line costs, after so many segments."""
    world, place = World(data / "config"), open_object_store((data / "place").as_uri(), {})
    path, device = world.create(), Device(place)
    device.is_chained = True
    create_lake(str(data / "lake"), {})
    for _ in range(segments):
        world.append(path, LINES // segments)
        device.send(world.root)
    requests: Counter[str] = Counter()
    ingester = Ingester(IngestJob((data / "place").as_uri(), str(data / "lake")), {})
    ingester._lake = CopiedLake(open_lake(str(data / "lake"), {}), {})
    ingester._object_store = _AllRequests(ingester._object_store, requests)
    ingester._lake.object_store = _AllRequests(ingester._lake.object_store, requests)
    ingester.round()
    spent, counted = list[float](), list[Counter[str]]()
    for _ in range(NEW):
        world.append(path, 1)
        device.send(world.root)
        requests.clear()
        ingester._paused.clear()
        began = time.process_time()
        assert ingester.round().lines == 1
        spent.append(time.process_time() - began)
        counted.append(requests.copy())
    of_segments = [
        sum(count for name, count in one.items() if name.endswith((" segments", " parts"))) for one in counted
    ]
    return _LineCost(max(of_segments), max(one.total() for one in counted), min(spent))
