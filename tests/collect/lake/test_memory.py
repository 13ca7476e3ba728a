"""A batch has about as many bytes as it may have; what is more is ingested in several, with the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake
from tests.faults.world import World
from unspool.collect.lake.ingest import (
    ChainSlice,
    IngestBatch,
    IngestOptions,
    IngestReport,
    halve_batch,
    ingest_batch,
    split_chains,
)
from unspool.collect.lake.lake import open_lake
from unspool.collect.object_store import ListedObject


class Counter:
    """Ingests in batches of some bytes, and counts the bytes of each."""

    def __init__(self, lake: TestLake, size: int) -> None:
        self.batches: list[int] = []
        self.report = IngestReport()
        chains: dict[str, list[ListedObject]] = {}
        for listed in sorted(lake.place.names("segments")):
            chains.setdefault("/".join(listed.name.split("/")[1:3]), []).append(listed)
        options = IngestOptions(self._step, note_size=self._note, batch_bytes=size)
        opened = open_lake(str(lake.folder), {})
        self._size = 0
        for batch in split_chains(chains, size):
            self.report = self.report.merged(ingest_batch(opened, lake.place, batch, options, []))

    def _note(self, home: str, size: int) -> None:
        self._size += size

    def _step(self, step: str) -> None:
        if step == "read":
            self.batches.append(self._size)
            self._size = 0


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "config")
    for count in (4, 5, 3):
        made.append(made.create(), count)
    return made


def test_batches_have_about_as_many_bytes_as_they_may_and_give_the_same_rows(
    lake: TestLake, tmp_path: Path, world: World
) -> None:
    other = TestLake(tmp_path / "other")
    for _ in range(9):
        world.append(world.create(), 3)
    for each in (lake, other):
        device = each.device(is_chained=True)
        device.most_parts = 1
        device.send(world.root, 700)
    whole, parts = Counter(other, 1 << 20), Counter(lake, 12_000)
    assert len(whole.batches) == 1
    assert len(parts.batches) > 2
    # How long earlier parts are is known from the length of the file alone: lines as short as these have more around.
    assert max(parts.batches) < 18_000 < whole.batches[0]
    assert parts.report.large == ()
    assert lake.everything() == other.everything()
    assert lake.verify().problems == ()


def test_a_segment_that_is_larger_is_ingested_and_named(lake: TestLake, world: World) -> None:
    (made,) = (device := lake.device(is_chained=True)).make(world.root)
    lake.place.put_new(made.name, made.data)
    device.publish()
    report = Counter(lake, 100).report
    assert [large.name for large in report.large] == [made.name]
    assert report.large[0].bytes > 100
    assert lake.verify().problems == ()


def test_a_batch_is_halved_by_devices_first_and_in_the_order_of_segments() -> None:
    def listed(name: str) -> ListedObject:
        return ListedObject(name, 1, None)  # type: ignore[arg-type]

    batch = IngestBatch(chains=[ChainSlice("a/1", [listed("1"), listed("2"), listed("3")]), ChainSlice("a/2", [])])
    halves = halve_batch(batch)
    assert halves is not None
    assert [[chain.home for chain in half.chains] for half in halves] == [["a/1"], ["a/2"]]
    quarters = halve_batch(halves[0])
    assert quarters is not None
    assert [[one.name for one in half.chains[0].segments] for half in quarters] == [["1"], ["2", "3"]]
    assert halve_batch(quarters[0]) is None
