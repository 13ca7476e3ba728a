"""The collector: CPU for a gigabyte from files to segments in a folder, what it costs idle, and how late a line is."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench import corpus
from bench.browser import cpu_seconds
from bench.table import Row
from bench.usage import Spent, around, best, empty_folder, many, one_more, spent, unchanged, unspool

ROUNDS = 3
FILES = 5_000
IDLE = 30.0
LINES = 5
PATIENCE = 120.0


def rows(parameters: corpus.Parameters) -> list[Row]:
    """Measure."""
    return [*_collecting(corpus.tree(parameters)), *_following(many(FILES))]


def _collecting(tree: Path) -> list[Row]:
    whole, alone = list[Spent](), list[Spent]()
    for number in range(ROUNDS):
        corpus.say(f"collect: round {number + 1} of {ROUNDS}")
        for side, command in ((alone, unspool("sync")), (whole, unspool("collect", "--once", "--to"))):
            with empty_folder() as data:
                environment = around(tree, data)
                spent(unspool("config", "indexing", "off"), environment)
                where = [f"file://{data}/segments"] if side is whole else []
                side.append(spent([*command, *where], environment))
    corpus.say("")
    size = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) / 1e9
    return [
        Row(
            name="collect a GB, files to segments", unit="s", ours=best(whole) / size, reference=best(alone) / size,
            against="the sync in it", target=25, of_ratio=False,
        ),
        Row(
            name="  memory", unit="MB", ours=max(one.memory for one in whole) / 1e6,
            reference=max(one.memory for one in alone) / 1e6, against="that of the sync",
        ),
    ]  # fmt: skip


def _following(tree: Path) -> list[Row]:
    session = max(tree.glob("projects/*/*.jsonl"), key=lambda path: path.stat().st_size)
    with empty_folder() as data, unchanged(session):
        environment = around(tree, data)
        spent(unspool("config", "indexing", "off"), environment)
        segments = data / "place"
        spent(unspool("collect", "--once", "--to", f"file://{segments}"), environment)
        with _running(
            unspool("collect", "--follow", "--flush-age", "0", "--to", f"file://{segments}"), environment
        ) as pid:
            corpus.say("collect: idle")
            time.sleep(8)  # the first look is not idle
            before = cpu_seconds(pid)
            time.sleep(IDLE)
            busy = (cpu_seconds(pid) - before) / IDLE * 100
            waits = [_late(session, segments, number) for number in range(LINES)]
    corpus.say("")
    return [
        Row(
            name=f"CPU of --follow, idle, {FILES:,} files", unit="%", ours=busy, reference=100, against="a core",
            target=1, of_ratio=False,
        ),
        Row(
            name="until a line is in a segment", unit="s", ours=max(waits), reference=statistics.median(waits),
            against="the median", target=10, of_ratio=False,
        ),
    ]  # fmt: skip


def _late(session: Path, segments: Path, number: int) -> float:
    """Return how long it takes until a line that is written now is in a segment."""
    before = _count(segments)
    with session.open("ab") as file:
        file.write(one_more(session.read_bytes(), number))
    start = time.monotonic()
    while _count(segments) == before:
        if time.monotonic() - start > PATIENCE:
            raise TimeoutError("no segment came")
        time.sleep(0.05)
    return time.monotonic() - start


def _count(segments: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(segments / "segments"))


@contextmanager
def _running(command: list[str], environment: Mapping[str, str]) -> Iterator[int]:
    process = subprocess.Popen(command, env=dict(environment), stdout=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()
