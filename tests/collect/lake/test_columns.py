"""A lake of an earlier version, which lacks columns, is read and written on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake, copy_logs, expected
from tests.faults.world import World
from unspool.collect.lake.lake import Lake, open_lake
from unspool.collect.lake.tables import partition_columns

LATE = {"sources": "stored", "answers": "inference_geo", "messages": "model", "responses": "speed"}
"""Columns that an earlier version might not have had."""


def take_column_out(lake: Lake, name: str, column: str) -> None:
    """Make a table as it would be had the column never existed."""
    from deltalake import CommitProperties, QueryBuilder, Transaction, write_deltalake

    table = lake.table(name, fresh=True)
    columns = ", ".join(f'"{field.name}"' for field in table.schema().fields if field.name != column)
    rows = QueryBuilder().register("t", table).execute(f"SELECT {columns} FROM t").read_all()
    done = [Transaction(app, version) for app, version in lake.versions(name).items()]
    shutil.rmtree(lake.location(name))
    write_deltalake(
        lake.location(name),
        rows,
        partition_by=partition_columns(name),
        commit_properties=CommitProperties(app_transactions=done),
    )


@pytest.fixture
def earlier(lake: TestLake, tmp_path: Path) -> tuple[TestLake, World]:
    """A lake with rows, without some columns."""
    world = World(tmp_path / "config")
    world.append(world.create(), 9)
    lake.device().send(world.root)
    lake.ingest()
    for name, column in LATE.items():
        take_column_out(open_lake(str(lake.folder), {}), name, column)
    return lake, world


def test_a_lake_that_lacks_columns_is_queried_and_verified(earlier: tuple[TestLake, World]) -> None:
    lake, world = earlier
    assert lake.lines() == expected(world.root)
    assert lake.rows("SELECT count(*) > 0, count(speed) FROM responses") == [(True, 0)]
    assert lake.verify().problems == ()


@pytest.mark.parametrize("is_copied", [False, True], ids=["folder", "object store"])
def test_an_ingest_adds_the_columns_that_came_since(
    earlier: tuple[TestLake, World], monkeypatch: pytest.MonkeyPatch, *, is_copied: bool
) -> None:
    lake, world = earlier
    if is_copied:
        copy_logs(monkeypatch)
    world.append(world.create(), 5)
    lake.device("desktop").send(world.root)
    assert lake.ingest().streams == 2
    assert lake.verify().problems == ()
    assert lake.rows("SELECT device, count(stored) FROM parts.sources GROUP BY device ORDER BY device") == [
        ("desktop", 2),
        ("laptop", 0),
    ]
    counts = "SELECT device, count(*) = count(model), min(day) IS NOT NULL FROM parts.messages WHERE role = 'assistant'"
    rows = lake.rows(f"{counts} GROUP BY device ORDER BY device")
    assert rows == [("desktop", True, True), ("laptop", False, True)]
    assert open_lake(str(lake.folder), {}).add_missing_columns() == []
