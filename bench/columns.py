"""Disk, CPU and memory of the column files of `unspool sql`, and how long a roll-up takes.

Making them is measured after a sync, the whole command with every process it waits for, against a bare `orjson.loads`
of the lines; the reference's interpreter and imports are not counted. Then the same question again over 1,000 sessions,
of which none has changed, and one has; and a roll-up of all responses in an engine that has started, against SQLite
over the rows of the store.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench import child, corpus, decode
from bench.child import Measured
from bench.table import Row
from bench.usage import BARE, Spent, around, best, empty_folder, many, one_more, spent, unchanged, unspool

ROUNDS = 3
WARM_ROUNDS = 7
ROLLS = 20
SESSIONS = 1_000
MEMORY = 300
"""Megabytes that a process may have at most."""
QUESTION = ["sql", "SELECT sum(cost_micros) FROM responses", "--format", "json"]
ROLL_UP = """SELECT {day}, model, count(*), sum(input_tokens), sum(output_tokens), sum(cost_micros) FROM {table}
    GROUP BY 1, 2 ORDER BY 1, 2"""


def rows(parameters: corpus.Parameters) -> list[Row]:
    """Measure."""
    return [*_making(corpus.tree(parameters)), *_warm(many(SESSIONS))]


def _making(tree: Path) -> list[Row]:
    bare: list[Measured] = []
    mine: list[Spent] = []
    size = 0
    rolls: tuple[float, float] = (0.0, 0.0)
    for number in range(ROUNDS):
        corpus.say(f"column files: round {number + 1} of {ROUNDS}")
        with empty_folder() as data:
            environment = around(tree, data)
            spent(unspool("config", "archive", "off"), environment)
            spent(unspool("sync"), environment)
            mine.append(spent(unspool(*QUESTION), environment))
            size = sum(path.stat().st_size for path in (data / "columns").rglob("*") if path.is_file())
            if number == ROUNDS - 1:
                rolls = _rolled_up(data)
        bare.append(child.run(decode.reference, str(tree)))
    corpus.say("")
    raw = bare[0].counts["bytes"] / 1e6
    memory = [max(one.memory for one in side) / 1e6 for side in (mine, bare)]
    name = f"column files of {raw:.0f} MB"
    against = decode.AGAINST
    return [
        Row(name=name, unit="MB", ours=size / 1e6, reference=raw, against="the files", target=0.25),
        Row(
            name="  making them, CPU", unit="s", ours=best(mine), reference=best(bare), against=against, target=10,
            details={"wall_s": round(min(one.wall for one in mine), 3)},
        ),
        Row(
            name="  peak memory", unit="MB", ours=memory[0], reference=memory[1], against=against, target=MEMORY,
            of_ratio=False,
        ),
        Row(
            name="  roll-up by day and model", unit="ms", ours=rolls[0] * 1000, reference=rolls[1] * 1000,
            against="SQLite over the store", target=100, of_ratio=False,
        ),
    ]  # fmt: skip


def _rolled_up(data: Path) -> tuple[float, float]:
    """Return the seconds of a roll-up, of an engine that has started and of SQLite."""
    with _engine(data) as ask:
        ours = [_timed(ask) for _ in range(ROLLS)]
    with closing(sqlite3.connect(data / "store.db")) as database:
        query = ROLL_UP.format(day="date(time / 1000, 'unixepoch')", table="responses")
        theirs = [_timed(lambda: database.execute(query).fetchall()) for _ in range(ROLLS)]
    return statistics.median(ours), statistics.median(theirs)


@contextmanager
def _engine(data: Path) -> Iterator[Callable[[], object]]:
    from datetime import UTC

    from unspool.store.columns import manifest as manifests
    from unspool.store.sql.client import SqlEngine
    from unspool.store.sql.protocol import ROWS
    from unspool.store.sql.views import SqlScope, build_setup

    columns = data / manifests.COLUMNS_FOLDER
    query = ROLL_UP.format(day="time::DATE", table="responses")
    with (
        manifests.open_manifest(columns) as manifest,
        SqlEngine(build_setup(columns, manifest, SqlScope(), UTC), str(columns)) as engine,
    ):
        list(engine.execute("SELECT 1", ROWS))
        yield lambda: list(engine.execute(query, ROWS))


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _warm(tree: Path) -> list[Row]:
    session = sorted(tree.glob("projects/*/*.jsonl"))[SESSIONS // 2]
    sides: dict[str, list[Spent]] = {"bare": [], "warm": [], "refresh": []}
    with empty_folder() as data, unchanged(session):
        environment = around(tree, data)
        spent(unspool(*QUESTION), environment)
        for number in range(WARM_ROUNDS):
            corpus.say(f"sql of {SESSIONS:,} sessions: round {number + 1} of {WARM_ROUNDS}")
            sides["bare"].append(spent(BARE, environment))
            sides["warm"].append(spent(unspool(*QUESTION), environment, os.devnull))
            with session.open("ab") as file:
                file.write(one_more(session.read_bytes(), number))
            sides["refresh"].append(spent(unspool(*QUESTION), environment, os.devnull))
    corpus.say("")
    bare, *ours = (statistics.median(one.cpu for one in side) * 1000 for side in sides.values())
    names = (f"warm sql, {SESSIONS:,} sessions", "  after one more line")
    walls = [min(one.wall for one in sides[name]) for name in ("warm", "refresh")]
    return [
        Row(
            name=name, unit="ms", ours=cpu, reference=bare, against="python -c pass", target=target,
            details={"wall_ms": round(wall * 1000, 1)},
        )
        for name, cpu, wall, target in zip(names, ours, walls, (40, 60), strict=True)
    ]  # fmt: skip
