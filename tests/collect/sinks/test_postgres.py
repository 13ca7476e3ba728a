"""What only Postgres has: roles, and a driver that quotes the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake
from tests.collect.sinks.databases import PostgresSchema, same_rows
from tests.collect.sinks.test_sinks import everything, grow
from unspool.collect.sinks import SinkJob, SinkRunner, parse_address
from unspool.errors import SinkFailed


def test_a_role_that_owns_the_schema_and_nothing_else_is_enough(
    lake: TestLake, postgres: PostgresSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(lake, tmp_path / "config")
    role = f"sink_of_{postgres.schema}"
    monkeypatch.setenv("PGPASSWORD", "wave")
    postgres.rows(f"CREATE ROLE {role} LOGIN PASSWORD 'wave'")
    url = postgres.url.replace("//tide@", f"//{role}@")
    job = SinkJob(str(lake.folder), parse_address(url, postgres.schema, {}), ("responses", "sources"))
    with pytest.raises(SinkFailed, match=r"^cannot write to `[^`]*` at `[^`]*`: permission denied") as caught:
        SinkRunner(job, {}).run_once()
    assert caught.value.is_final
    postgres.rows(f"CREATE SCHEMA $ AUTHORIZATION {role}")
    for _ in range(2):
        SinkRunner(job, {}).run_once()
    same_rows(postgres, job.tables, everything(lake))


def test_views_of_others_on_the_tables_stay(
    lake: TestLake, postgres: PostgresSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(lake, tmp_path / "config")
    monkeypatch.setenv("PGPASSWORD", postgres.environment["PGPASSWORD"])
    job = SinkJob(str(lake.folder), parse_address(postgres.url, postgres.schema, {}), ("responses",))
    SinkRunner(job, {}).run_once()
    postgres.rows("CREATE VIEW $.bill AS SELECT sum(cost_micros) AS micros FROM $.org_responses")
    SinkRunner(job._replace(again=True), {}).run_once()
    assert [tuple(map(int, row)) for row in postgres.rows("SELECT micros FROM $.bill")] == lake.rows(
        "SELECT sum(cost_micros) FROM org_responses"
    )
