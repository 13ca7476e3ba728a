"""Sinks that are killed at every step while the lake changes: a table is old or new, and the end is the lake's."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake
from tests.collect.sinks.databases import SinkDatabase, same_rows
from tests.collect.sinks.test_sinks import everything, grow
from tests.faults.conftest import Program
from tests.faults.tally import TALLY
from unspool.collect.sinks import STEPS

TABLES = ("responses", "answers", "sources")
KILLS = [*STEPS, "copied:2", "written:2", "committed:2"]


@pytest.mark.slow
def test_rows_are_those_of_the_lake_whenever_a_sink_is_killed(
    lake: TestLake, database: SinkDatabase, tmp_path: Path
) -> None:
    world, device = grow(lake, tmp_path / "config")
    program = Program(tmp_path)
    words = ["lake", "sink", "--lake", str(lake.folder), "--to", database.url, "--schema", database.schema]
    words += ["--tables", ",".join(TABLES)]
    for number, step in enumerate(KILLS):
        # With `--again` there are several files, whatever the runs before have finished.
        more = ("--again",) if ":" in step or number % 4 == 3 else ()
        done = program.run(*words, *more, UNSPOOL_KILL_AT=step, **database.environment)
        assert (done.code, done.err) == (-signal.SIGKILL, ""), step
        TALLY.steps[f"sink {step.partition(':')[0]}"] += 1
        if number % 3 == 2:
            done = program.run(*words, **database.environment)
            assert (done.code, done.err) == (0, ""), step
            before = everything(lake)
            same_rows(database, TABLES, before)
            # What is killed next has rows to replace: of each table, either all of it is done or nothing.
            world.append(world.paths[number % len(world.paths)], 2)
            world.replace(world.paths[0])
            device.send(world.root)
            lake.ingest()
            after = everything(lake)
            killed = program.run(*words, UNSPOOL_KILL_AT=f"written:{number // 3 % 2 + 1}", **database.environment)
            assert killed.code == -signal.SIGKILL
            for name in TABLES:
                assert database.table(name) in (before[name], after[name]), name
    done = program.run(*words, **database.environment)
    assert (done.code, done.err) == (0, "")
    same_rows(database, TABLES, everything(lake))
    (found,) = database.rows("SELECT count(*), sum(cost_micros) FROM $.org_responses")
    assert [tuple(map(int, found))] == lake.rows("SELECT count(*), sum(cost_micros) FROM org_responses")
    if database.url.startswith("clickhouse"):
        # One more run removes what the killed ones left.
        assert program.run(*words, **database.environment).code == 0
        for name in TABLES:
            ((rows,),) = database.rows(f"SELECT count() FROM $.{name}_rows")
            assert int(rows) == everything(lake)[name].total()


@pytest.mark.parametrize("step", ["prepared", "copied"])
def test_a_lock_is_free_once_its_process_was_killed(
    step: str, lake: TestLake, database: SinkDatabase, tmp_path: Path
) -> None:
    grow(lake, tmp_path / "config")
    program = Program(tmp_path)
    words = ["lake", "sink", "--lake", str(lake.folder), "--to", database.url, "--schema", database.schema]
    assert program.run(*words, UNSPOOL_KILL_AT=step, **database.environment).code == -signal.SIGKILL
    assert program.run(*words, **database.environment).code == 0
