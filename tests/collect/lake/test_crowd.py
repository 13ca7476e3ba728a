"""Several workers at once, on one device: what they do together is what one would do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake, expected
from tests.faults.world import World
from unspool.collect.lake.run import Ingester, IngestJob

WORKERS = 4


@pytest.mark.parametrize("time", range(5))  # who comes when is left to chance: one time tells little
def test_workers_that_share_a_device_count_each_response_once(lake: TestLake, tmp_path: Path, time: int) -> None:
    world = World(tmp_path / "config")
    for count in range(6, 14):
        world.append(world.create(), count)
    for path in world.paths[:3]:
        world.fork(path)
    lake.device().send(world.root)
    job = IngestJob(lake.url, str(lake.folder), workers=WORKERS)
    ingesters = [Ingester(job, {}, number) for number in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        reports = list(pool.map(Ingester.round, ingesters))
    assert sum(report.streams for report in reports) == 11
    assert lake.verify().problems == ()
    assert lake.lines() == expected(world.root)
    assert lake.rows("SELECT count(*) = count(DISTINCT response_id) FROM responses") == [(True,)]
