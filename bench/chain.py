"""One chain per device: requests and CPU for a new line by the number of old segments, and objects for a flush.

Rules
  1. The old lines are the same, in few segments or in many: only the number of segments differs.
  2. Requests are those for segments and bundles. Those of the Delta library for its tables are counted by
     `tests/faults/test_lake_requests.py`, at an S3 server.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from bench import corpus
from bench.table import Row
from bench.usage import empty_folder
from tests.collect.lake.sending import Device
from tests.collect.lake.test_chains import Counting
from tests.faults.world import World
from unspool.collect.lake.lake import create_lake
from unspool.collect.lake.run import Ingester, IngestJob
from unspool.collect.object_store import open_object_store

FEW, MANY = 20, 300
LINES = 600
NEW = 5


def rows() -> list[Row]:
    """Measure."""
    sides = []
    for segments in (FEW, MANY):
        corpus.say(f"chain: {segments} segments")
        with empty_folder() as data:
            sides.append(_cost(data, segments))
    corpus.say("")
    (few_requests, few_cpu), (many_requests, many_cpu) = sides
    against = f"with {FEW} old segments"
    return [
        Row(
            name=f"ingest a line after {MANY} segments of {LINES} lines: requests for segments and bundles", unit="",
            ours=many_requests, reference=few_requests, against=against, target=1.0,
        ),
        Row(name="  CPU of the round", unit="s", ours=many_cpu, reference=few_cpu, against=against, target=1.2),
    ]  # fmt: skip


def _cost(data: Path, segments: int) -> tuple[float, float]:
    """Return the requests and the CPU seconds of a round with one new line, after so many segments."""
    world, place = World(data / "config"), open_object_store((data / "place").as_uri(), {})
    path, device = world.create(), Device(place)
    device.is_chained = True
    create_lake(str(data / "lake"), {})
    for _ in range(segments):
        world.append(path, LINES // segments)
        device.send(world.root)
    requests: Counter[str] = Counter()
    ingester = Ingester(IngestJob((data / "place").as_uri(), str(data / "lake")), {})
    ingester.round()
    ingester._object_store = Counting(ingester._object_store, requests)
    ingester._lake.object_store = Counting(ingester._lake.object_store, requests)
    spent, counted = list[float](), list[int]()
    for _ in range(NEW):
        world.append(path, 1)
        device.send(world.root)
        requests.clear()
        ingester._paused.clear()
        began = time.process_time()
        assert ingester.round().lines == 1
        spent.append(time.process_time() - began)
        counted.append(sum(count for name, count in requests.items() if name.endswith((" segments", " parts"))))
    return max(counted), min(spent)
