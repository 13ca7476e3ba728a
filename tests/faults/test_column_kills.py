"""Refreshes of the column files that are killed at any step while files change: what is left is what the store says.

`UNSPOOL_FAULTS` says how many processes are to be killed; `make faults` kills 300.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb

from tests.faults.conftest import Program
from tests.faults.tally import Tally
from tests.faults.world import World, counted, differences
from unspool.format import parse_zone
from unspool.store.columns import manifest as manifests
from unspool.store.columns.refresh import STEPS, RefreshOptions, refresh_columns
from unspool.store.columns.tables import public_tables
from unspool.store.database import open_store
from unspool.store.preferences import Preferences, price_edition
from unspool.store.sql.views import SqlScope, build_setup

KILLS = int(os.environ.get("UNSPOOL_FAULTS", "18"))
MADE_AGAIN = "unspool: column files were damaged or missing; wrote them again\n"
QUERY = "SELECT count(*) AS responses, sum(cost_micros)::BIGINT AS cost_micros FROM responses"


def test_column_files_agree_with_the_store_whenever_a_refresh_is_killed(
    program: Program, tmp_path: Path, tally: Tally
) -> None:
    chance, world = random.Random(20260106), World(tmp_path / "config")
    for _ in range(4):
        world.append(world.create(), 5)
    done = 0
    while done < KILLS:
        step = STEPS[done % len(STEPS)]
        _change(world, chance)
        code, _, err = program.run("sql", QUERY, "--config-dir", world.root, UNSPOOL_KILL_AT=step)
        assert code in (-9, 0)
        assert err in ("", MADE_AGAIN)
        done += 1
        tally.steps[f"columns {step}"] += code == -9
        if chance.random() < 0.2:
            _spoil(program.folder / "columns", chance)
        if chance.random() < 0.6:
            _compare(program, world, tmp_path / "anew", tally)
    world.append(world.create(), 3)
    _compare(program, world, tmp_path / "anew", tally)
    named = {path.name for path in (program.folder / "columns" / "parts").iterdir()}
    assert (
        named == manifests.read_manifest(program.folder / "columns").parts.keys()
    )  # nothing is left of those that were killed
    assert {f"columns {step}" for step in STEPS} <= tally.steps.keys()


def _change(world: World, chance: random.Random) -> None:
    for path in world.paths:
        world.append(path, chance.randint(0, 2))
    path = chance.choice(world.paths)
    match chance.randrange(5):
        case 0:
            world.fork(path)
        case 1:
            world.truncate(path, chance.randrange(3000))
        case 2:
            world.replace(path)
        case 3 if len(world.paths) > 3:
            world.delete(path)
        case _:
            world.tear(path, chance.randrange(2000))


def _spoil(columns: Path, chance: random.Random) -> None:
    """Take away a column file, or cut it, as a disk that lost its mind would."""
    files = [*sorted(columns.rglob("*.parquet")), columns / "manifest"]
    path = chance.choice([path for path in files if path.exists()] or [columns])
    if path.is_file():
        path.unlink() if chance.random() < 0.5 else os.truncate(path, path.stat().st_size // 2)


def _compare(program: Program, world: World, anew: Path, tally: Tally) -> None:
    """Bring all up to date and compare every row with column files that were made just now from the same store."""
    code, out, _ = program.run("sql", QUERY, "--format", "json", "--config-dir", world.root)
    assert code == 0
    used = json.loads(program.run("usage", "--json", "--config-dir", world.root).out)["totals"]
    (found,) = json.loads(out)
    assert (found["responses"], found["cost_micros"] or 0) == (used["responses"], used["cost_micros"])
    assert found["responses"] == len(counted(program.folder))
    shutil.rmtree(anew, ignore_errors=True)
    anew.mkdir()
    for name in ("store.db", "store.db-wal", "archive.db", "archive.db-wal"):
        if (program.folder / name).exists():
            shutil.copyfile(program.folder / name, anew / name)
    with closing(open_store(anew)) as database:
        refresh_columns(database, anew, RefreshOptions(price_edition=price_edition(Preferences())))
    ours, theirs = _rows(program.folder), _rows(anew)
    for name in public_tables():
        different = differences(ours[name], theirs[name])
        tally.wrong += len(different)
        tally.compared[f"rows of {name}"] += len(theirs[name])
        assert different == [], name


def _rows(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    columns = folder / "columns"
    with duckdb.connect() as connection:
        for statement in build_setup(
            columns, manifests.read_manifest(columns), SqlScope(), parse_zone("UTC")
        ).statements:
            connection.execute(statement)
        return {name: connection.execute(f"FROM {name}").fetchall() for name in public_tables()}
