"""What only Postgres has: roles, and a driver that quotes the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake
from tests.collect.sinks.databases import PostgresSchema, same_rows
from tests.collect.sinks.test_sinks import everything, grow
from unspool.collect.sinks import SinkJob, SinkReport, SinkRunner, parse_address
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


def test_follow_goes_on_after_the_server_has_closed_the_connection(
    lake: TestLake, postgres: PostgresSchema, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(lake, tmp_path / "config")
    monkeypatch.setenv("PGPASSWORD", postgres.environment["PGPASSWORD"])
    steps: list[str] = []

    def close_once(step: str) -> None:
        steps.append(step)
        if steps.count("copied") == 1 and step == "copied":
            postgres.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'unspool'")

    address = parse_address(postgres.url, postgres.schema, {})
    outcomes = SinkRunner(SinkJob(str(lake.folder), address, ("responses",), on_step=close_once), {}).follow(0.01)
    failure = next(outcomes)
    assert isinstance(failure, SinkFailed)
    assert not failure.is_final
    assert isinstance(next(outcomes), SinkReport)
    outcomes.close()  # type: ignore[attr-defined]
    same_rows(postgres, ("responses",), everything(lake))
