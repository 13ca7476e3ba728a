"""The lake: from segments to tables with one worker, and ten times as much; 100 devices at once; how late a line is.

Against a bare append of the same lines to one Delta table, and nothing derived from them. Files of sessions in the tree
lie on some 200 days, so every batch writes some 200 files for each table: a team's days hold far more.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench import child, corpus
from bench.child import Measured
from bench.table import Row
from bench.usage import Spent, around, best, empty_folder, one_more, spent, unchanged, unspool

ROUNDS = 3
SMALL = 30_000_000
"""Bytes of the tree whose tenfold is measured too."""
DEVICES = 100
AT_ONCE = 4
LINES = 5
PATIENCE = 120.0


def rows(parameters: corpus.Parameters) -> list[Row]:
    """Measure."""
    tree = corpus.tree(parameters)
    small = corpus.tree(corpus.Parameters(size=SMALL), name="tenth")
    large = corpus.tree(corpus.Parameters(size=10 * SMALL), name="tenfold")
    return [*_ingesting(tree), _linear(small, large), *_many(tree), _following(small)]


def bare(segments: str) -> Callable[[], dict[str, int]]:
    """Append the lines of all segments to one Delta table, with nothing derived."""
    from arro3.core import Array, DataType, Field, RecordBatch, Schema
    from deltalake import WriterProperties, write_deltalake

    from unspool.collect.segments import unpack_segment

    fields = [("stream", DataType.utf8()), ("offset", DataType.int64()), ("raw", DataType.utf8())]
    schema, table = Schema([Field(*field) for field in fields]), Path(segments).parent / "bare"
    shutil.rmtree(table, ignore_errors=True)

    def append() -> dict[str, int]:
        held: list[tuple[str, int, str]] = []
        size = 0
        for path in sorted(Path(segments).rglob("*.zst")):
            found = unpack_segment(path.read_bytes())
            held += [(found.header.stream, line.offset, line.raw) for line in found.lines]
            size += sum(line.length for line in found.lines)
        columns = [Array(list(values), kind) for values, (_, kind) in zip(zip(*held, strict=True), fields, strict=True)]
        how = WriterProperties(compression="ZSTD", compression_level=1)
        write_deltalake(table, RecordBatch(columns, schema=schema), writer_properties=how)
        return {"bytes": size, "lines": len(held)}

    return append


def _ingesting(tree: Path) -> list[Row]:
    ours, reference = list[Spent](), list[Measured]()
    with empty_folder() as data:
        environment = around(tree, data)
        _collect(environment, data)
        for number in range(ROUNDS):
            corpus.say(f"lake: round {number + 1} of {ROUNDS}")
            ours.append(_ingest(environment, data, f"lake-{number}"))
            reference.append(child.run(bare, str(data / "place" / "segments")))
        size = reference[0].counts["bytes"] / 1e6
        disk = sum(path.stat().st_size for path in (data / "lake-0").rglob("*.parquet")) / 1e6
    corpus.say("")
    against = "a bare append of the lines"
    wall = min(one.wall for one in ours)
    told = {"MB": round(size), "MB/s": round(size / wall, 1), "MB/s of CPU": round(size / best(ours), 1)}
    return [
        Row(
            name="ingest 100 MB, one worker, wall", unit="s", ours=wall / size * 100,
            reference=best(reference) / size * 100, against=f"{against}, CPU", target=5, of_ratio=False, details=told,
        ),
        Row(
            name="  CPU", unit="s", ours=best(ours) / size * 100, reference=best(reference) / size * 100,
            against=against, details=told,
        ),
        Row(
            name="  memory", unit="MB", ours=max(one.memory for one in ours) / 1e6,
            reference=max(one.memory for one in reference) / 1e6, against=against,
        ),
        Row(name="  on disk, for 100 MB", unit="MB", ours=disk / size * 100, reference=100, against="the lines"),
    ]  # fmt: skip


def _linear(small: Path, large: Path) -> Row:
    """Return how long ten times as much takes, for each part of it."""
    sides = []
    for tree in (small, large):
        with empty_folder() as data:
            environment = around(tree, data)
            _collect(environment, data)
            size = sum(path.stat().st_size for path in tree.rglob("*.jsonl")) / 1e8
            corpus.say(f"lake: {size * 100:.0f} MB")
            sides.append(best([_ingest(environment, data, f"lake-{number}") for number in range(2)]) / size)
    corpus.say("")
    name = "ingest 100 MB of ten times as much, CPU"
    return Row(name=name, unit="s", ours=sides[1], reference=sides[0], against="100 MB of 30 MB", target=1.2)


def _many(tree: Path) -> list[Row]:
    """Let many devices send their part of a tree at once, and ingest it."""
    with empty_folder() as data:
        size = _deal(tree, data)
        environment = around(tree, data)
        corpus.say(f"lake: {DEVICES} devices")
        waiting = [_device(environment, data, number) for number in range(DEVICES)]
        began, running = time.monotonic(), list[subprocess.Popen[bytes]]()
        while waiting or running:
            running = [one for one in running if one.poll() is None]
            while waiting and len(running) < AT_ONCE:
                command, around_it = waiting.pop()
                running.append(subprocess.Popen(command, env=around_it, stdout=subprocess.DEVNULL))
            time.sleep(0.05)
        collected = time.monotonic() - began
        whole = [_ingest(environment, data, f"lake-{workers}", workers) for workers in (1, 2)]
        verify = ("lake", "verify", "--lake", str(data / "lake-2"), "--from", f"file://{data}/place")
        spent(unspool(*verify), environment)
    corpus.say("")
    told = {"MB": round(size), "collected_seconds": round(collected, 1), "devices": DEVICES}
    name = f"ingest 100 MB of {DEVICES} devices"
    return [
        Row(
            name=f"{name}, two workers, wall", unit="s", ours=whole[1].wall / size * 100,
            reference=whole[0].wall / size * 100, against="one worker", details=told,
        ),
        Row(name=f"{name}, one worker, CPU", unit="s", ours=whole[0].cpu / size * 100, reference=5, against="20 MB/s"),
    ]  # fmt: skip


def _following(tree: Path) -> Row:
    """Measure from a line that is written to the row that a question finds."""
    session = max(tree.glob("projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
    with empty_folder() as data, unchanged(session):
        environment = around(tree, data)
        _collect(environment, data)
        _ingest(environment, data, "lake")
        place = f"file://{data}/place"
        following = (
            unspool("collect", "--follow", "--to", place),
            unspool("lake", "ingest", "--follow", "--from", place, "--to", str(data / "lake")),
        )
        with _running(following, environment):
            waits = [_late(session, data / "lake" / "responses", number) for number in range(LINES)]
    corpus.say("")
    return Row(
        name="until a line is in the table", unit="s", ours=max(waits), reference=statistics.median(waits),
        against="the median", target=60, of_ratio=False,
    )  # fmt: skip


def _late(session: Path, table: Path, number: int) -> float:
    from deltalake import DeltaTable, QueryBuilder

    with session.open("ab") as file:
        file.write(one_more(session.read_bytes(), number))
    start = time.monotonic()
    query = f"SELECT count(*) FROM t WHERE response_id = 'msg_more{number}'"
    while True:
        corpus.say(f"lake: waiting for line {number + 1} of {LINES}")
        found: Any = QueryBuilder().register("t", DeltaTable(str(table))).execute(query).read_all()
        if found.columns[0].to_pylist() == [1]:
            return time.monotonic() - start
        if time.monotonic() - start > PATIENCE:
            raise TimeoutError("the line did not come")
        time.sleep(0.1)


def _collect(environment: Mapping[str, str], data: Path) -> None:
    spent(unspool("config", "indexing", "off"), environment)
    spent(unspool("collect", "--once", "--to", f"file://{data}/place", "--org", "acme", "--user", "me"), environment)


def _ingest(environment: Mapping[str, str], data: Path, name: str, workers: int = 1) -> Spent:
    lake = str(data / name)
    spent(unspool("lake", "init", lake), environment)
    how = ("--workers", str(workers))
    return spent(unspool("lake", "ingest", "--from", f"file://{data}/place", "--to", lake, *how), environment)


def _deal(tree: Path, data: Path) -> float:
    """Give each device some of the sessions; return how many megabytes that is."""
    sessions = sorted(tree.glob("projects/*/*.jsonl"))
    for number, path in enumerate(sessions):
        target = data / f"config-{number % DEVICES}" / path.relative_to(tree)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(path, target)
    return sum(path.stat().st_size for path in sessions) / 1e6


def _device(environment: Mapping[str, str], data: Path, number: int) -> tuple[list[str], dict[str, str]]:
    home = data / f"home-{number}"
    home.mkdir()
    (home / "settings.json").write_bytes(msgspec.json.encode({}))
    told = {**environment, "UNSPOOL_HOME": str(home), "UNSPOOL_DEVICE": f"device-{number}"}
    who = ("--org", "acme", "--user", f"user-{number % 40}", "--config-dir", str(data / f"config-{number}"))
    return unspool("collect", "--once", "--to", f"file://{data}/place", *who), told


@contextmanager
def _running(commands: tuple[list[str], ...], environment: Mapping[str, str]) -> Iterator[None]:
    processes = [subprocess.Popen(one, env=dict(environment), stdout=subprocess.DEVNULL) for one in commands]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait()
