"""Of a remote lake only the partitions that a query reads are fetched, and the answer is the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import duckdb
import pytest

from tests.collect.lake.lakes import TestLake
from unspool.collect.lake.lake import Lake, open_lake
from unspool.collect.lake.partition_selection import select_files
from unspool.collect.lake.sql import engine_setup, table_paths
from unspool.collect.lake.tables import lake_tables
from unspool.collect.object_store import SegmentStore
from unspool.testing.build import assistant, session, user

DAYS = [f"2026-01-{day:02d}" for day in range(5, 11)]
PRUNED = {
    f"SELECT count(*), sum(output_tokens) FROM responses WHERE day = '{DAYS[1]}'": 1,
    f"SELECT device, count(*) FROM org_responses WHERE day > '{DAYS[3]}' GROUP BY device": None,
    f"SELECT count(*) FROM entries WHERE day BETWEEN '{DAYS[1]}' AND '{DAYS[2]}' AND type = 'user'": 2,
    f"SELECT count(*) FROM entries WHERE date_trunc('week', day) = '{DAYS[0]}'": None,
    "SELECT count(*) FROM entries WHERE day = '1999-01-01'": 0,
    f"WITH a AS (SELECT * FROM entries WHERE day = '{DAYS[0]}') SELECT count(*) FROM a x JOIN a y USING (uuid)": 1,
    f"""SELECT count(*) FROM entries WHERE day = '{DAYS[0]}' OR day = '{DAYS[4]}'""": 2,
    f"""SELECT (SELECT count(*) FROM entries WHERE day = '{DAYS[0]}'), count(*) FROM entries
        WHERE day = '{DAYS[1]}'""": 2,
    "SELECT count(*) FROM entries": 6,
    "SELECT count(*) FROM entries e LEFT JOIN quarantine q ON q.name = e.uuid": 6,
    f"SELECT count(*) FROM entries WHERE day = '{DAYS[0]}' OR type = 'user'": 6,
    "SUMMARIZE SELECT day FROM entries": 6,
    "no query at all": 6,
}
"""Queries, and the files of `entries` or `responses` that each needs; None if that is not counted."""


@pytest.fixture
def days(lake: TestLake, tmp_path: Path) -> TestLake:
    """A lake with one session on each of some days."""
    for number, day in enumerate(DAYS):
        root = tmp_path / day
        words = session(user("hello"), assistant("well"), id=f"{number:08x}-0000-4000-8000-000000000000",
                        start=f"{day}T09:00:00.000Z")  # fmt: skip
        words.save(root)
        lake.device(f"d{number}").send(root)
    lake.ingest()
    return lake


class Remote(Lake):
    """A lake in a folder that is treated as one in an object store."""

    fetched: list[str]

    @property
    def folder(self) -> Path | None:
        return None

    def location(self, name: str) -> str:
        return str(open_lake(self.url, {}).folder / name)  # type: ignore[operator]


@pytest.fixture
def remote(days: TestLake) -> Callable[[], tuple[Remote, list[str]]]:
    """Return a function that opens the lake and gives the list of the files that are then fetched."""

    def open_remote() -> tuple[Remote, list[str]]:
        fetched: list[str] = []

        class Counting(SegmentStore):
            def get(self, name: str) -> bytes | None:
                if name.endswith(".parquet"):
                    fetched.append(name)
                return super().get(name)

        opened = Remote(str(days.folder), {})
        store = opened.object_store
        opened.object_store = Counting(store.url, store._store, store._folder)
        return opened, fetched

    return open_remote


@pytest.mark.parametrize("query", PRUNED)
def test_only_partitions_that_a_query_reads_are_fetched(
    days: TestLake, remote: Callable[[], tuple[Remote, list[str]]], tmp_path: Path, query: str
) -> None:
    opened, fetched = remote()
    setup, _ = engine_setup(opened, tmp_path / "cache", query)
    needed = PRUNED[query]
    if query != "no query at all":
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for statement in setup.statements:
                connection.execute(statement)
            assert connection.execute(query).fetchall() == days.rows(query)
        if needed is not None:
            assert len([name for name in fetched if name.startswith(("entries/", "responses/"))]) == needed


def test_files_that_were_fetched_are_not_fetched_again(
    remote: Callable[[], tuple[Remote, list[str]]], tmp_path: Path
) -> None:
    opened, fetched = remote()
    query = f"SELECT count(*) FROM entries WHERE day >= '{DAYS[0]}' AND day <= '{DAYS[1]}'"
    engine_setup(opened, tmp_path / "cache", query)
    assert len(fetched) == 2
    engine_setup(opened, tmp_path / "cache", query.replace(DAYS[1], DAYS[2]))
    assert len(fetched) == 3


def test_what_cannot_be_explained_reads_everything(days: TestLake) -> None:
    opened = open_lake(str(days.folder), {})
    files = {name: [unquote(path) for path in table_paths(opened.table(name))] for name in lake_tables()}
    assert select_files(files, "SELECT nonsense(", []) == files
