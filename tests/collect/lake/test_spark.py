"""Spark ingests the same rows as a single machine, each once, whatever is killed in between."""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.collect.lake import spark_jobs
from tests.collect.lake.lakes import TestLake
from tests.faults.world import World
from unspool.collect.lake.lake import open_lake
from unspool.collect.lake.run import IngestJob
from unspool.collect.lake.spark import ingest_with_spark
from unspool.collect.lake.users import bind_users


class Twins:
    """Two lakes with the same segments: one for Spark, one for a single machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spark, self.single = TestLake(folder / "spark"), TestLake(folder / "single")
        self.worlds = [World(folder / f"config-{number}") for number in range(3)]
        self._devices = [
            [each.device(f"d{number}", is_chained=number > 0) for number in range(3)]
            for each in (self.spark, self.single)
        ]

    def grow(self, *numbers: int) -> None:
        """Let sessions of devices go on, and be sent to both. The first device has a chain for each stream."""
        for number in numbers:
            world = self.worlds[number]
            for count in (5, 3):
                world.append(world.create(), count)
            world.append(world.paths[0], 2)
            world.fork(world.paths[0])
            for devices in self._devices:
                devices[number].send(world.root, 900)

    def run(self, **environment: str) -> int:
        """Run the Spark ingest; return its exit code, and fail with its words if it is another than that of a kill."""
        done = spark_jobs.run_ingest(self.spark.url, self.spark.folder, self.folder, **environment)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()[-4000:]
        return done.returncode


class PicklingContext:
    """Does what a `SparkContext` does with tasks, in this process: all that goes in or out is pickled."""

    def __init__(self) -> None:
        self.tasks: list[Any] = []

    def broadcast(self, value: Any) -> Any:
        """Return what tasks can read the value from."""
        return SimpleNamespace(value=pickle.loads(pickle.dumps(value)), unpersist=lambda: None)

    def parallelize(self, tasks: Iterable[Any], count: int) -> PicklingContext:
        """Take tasks."""
        self.tasks = [pickle.loads(pickle.dumps(task)) for task in tasks]
        assert len(self.tasks) == count
        return self

    def map(self, run: Callable[[Any], Any]) -> PicklingContext:
        """Run them, each twice: Spark may repeat any."""
        self.tasks = [(run(task), run(task))[1] for task in self.tasks]
        return self

    def collect(self) -> list[Any]:
        """Return the results."""
        return [pickle.loads(pickle.dumps(result)) for result in self.tasks]


def test_what_tasks_derive_can_be_sent_and_gives_the_rows_of_a_single_machine(tmp_path: Path) -> None:
    twins = Twins(tmp_path)
    for _ in range(2):
        twins.grow(0, 1, 2)
        for each in (twins.spark, twins.single):
            bind_users(open_lake(str(each.folder), {}), {"acme/d2": "grace"})
        job = IngestJob(twins.spark.url, str(twins.spark.folder))
        report, single = ingest_with_spark(PicklingContext(), job, {}), twins.single.ingest()
        assert (report.lines, report.segments) == (single.lines, single.segments)
        assert twins.spark.everything() == twins.single.everything()
    assert {user for (user,) in twins.spark.rows("SELECT DISTINCT user FROM messages")} == {"ada", "grace"}


def test_a_damaged_segment_stops_its_device_in_spark_too(tmp_path: Path) -> None:
    twins = Twins(tmp_path)
    twins.grow(1, 2)
    name = sorted(one.name for one in twins.spark.place.names("segments/acme/d1"))[1]
    for each in (twins.spark, twins.single):
        each.place.overwrite(name, b"damaged")
    report = ingest_with_spark(PicklingContext(), IngestJob(twins.spark.url, str(twins.spark.folder)), {})
    assert [bad.name for bad in report.bad] == [name]
    twins.single.ingest()
    assert twins.spark.everything() == twins.single.everything()


@pytest.mark.slow
def test_spark_gives_the_rows_of_a_single_machine_after_kills_of_the_driver_and_of_a_worker(tmp_path: Path) -> None:
    if not spark_jobs.has_spark():
        pytest.skip("no Spark here: `make spark`")
    twins = Twins(tmp_path)
    twins.grow(1, 2)
    # Between two commits: lines are in the tables, and of other tables two.
    assert twins.run(UNSPOOL_KILL_AT="derived:2") == -signal.SIGKILL
    assert spark_jobs.killed_workers(tmp_path)  # its task was done again by another
    twins.grow(0, 1, 2)
    assert twins.run() == 0
    twins.single.ingest()
    found, wanted = twins.spark.everything(), twins.single.everything()
    assert found.keys() == wanted.keys()
    for name in wanted:
        assert found[name] == wanted[name], name
    assert sum(map(len, wanted.values())) > 100
    assert twins.spark.verify(is_full=True).problems == ()
    # Both kinds of ingest go on with what the other did.
    twins.grow(0, 1)
    for each in (twins.spark, twins.single):
        each.ingest()
    assert twins.spark.everything() == twins.single.everything()
