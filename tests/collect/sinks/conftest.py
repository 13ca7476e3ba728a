"""Databases for the tests of sinks; each test has a schema of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collect.lake.lakes import TestLake
from tests.collect.sinks.databases import (
    ClickHouseDatabase,
    PostgresSchema,
    SinkDatabase,
    run_clickhouse_server,
    run_engine,
    run_postgres,
)

_numbers = itertools.count(1)


@pytest.fixture
def lake(tmp_path: Path) -> TestLake:
    """Return an empty lake."""
    return TestLake(tmp_path)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[tuple[Path, str]]:
    """Start Postgres once."""
    with run_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """Start the engine of ClickHouse once."""
    with run_engine(tmp_path_factory.mktemp("clickhouse")) as server:
        yield server


@pytest.fixture(scope="session")
def old_server() -> Iterator[tuple[int, str]]:
    """Start Debian's server of ClickHouse once."""
    with run_clickhouse_server() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: tuple[Path, str]) -> Iterator[PostgresSchema]:
    """Return a schema that is not there yet."""
    folder, password = postgres_server
    schema = PostgresSchema(folder, f"team_{next(_numbers)}", password)
    with schema.connection:
        yield schema


@pytest.fixture
def clickhouse(engine: tuple[int, str]) -> Iterator[ClickHouseDatabase]:
    """Return a database that is not there yet."""
    port, password = engine
    database = ClickHouseDatabase(port, f"team_{next(_numbers)}", password)
    yield database
    database.client.close()


@pytest.fixture(params=["postgres", "clickhouse"])
def database(request: pytest.FixtureRequest) -> SinkDatabase:
    """Return one of both."""
    found: SinkDatabase = request.getfixturevalue(request.param)
    return found
