"""A lake in a folder of the test's own, and what is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.collect.lake.sending import Device, place
from unspool.collect.lake.ingest import IngestReport
from unspool.collect.lake.lake import create_lake, open_lake
from unspool.collect.lake.log.copied_lake import CopiedLake
from unspool.collect.lake.run import IngestJob, run_once
from unspool.collect.lake.sql import engine_setup
from unspool.collect.lake.tables import lake_tables
from unspool.collect.lake.verify import LakeVerification, verify_lake
from unspool.read.source_tree import Kind, scan

LINED = (Kind.SESSION, Kind.AGENT, Kind.JOURNAL)
PASSING = frozenset({"written", "seen", "stored"})
"""Columns that tell when something was done."""


def copy_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ingests of a folder copy the logs of tables, as those of an object store do."""
    monkeypatch.setattr(
        "unspool.collect.lake.run.open_ingest_lake",
        lambda url, environment: CopiedLake(open_lake(url, environment), environment),
    )


class TestLake:
    """What segments lie in `segments` and what tables in `lake`."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder / "lake", (folder / "segments").as_uri()
        self.place = place(folder / "segments")
        create_lake(str(self.folder), {})

    def device(self, name: str = "laptop", user: str = "ada", *, is_chained: bool = False) -> Device:
        """Return a machine that sends here."""
        device = Device(self.place, name, user=user)
        device.is_chained = is_chained
        return device

    def ingest(self, **how: Any) -> IngestReport:
        """Ingest what there is."""
        return run_once(IngestJob(self.url, str(self.folder), **how), {})

    def verify(self, **how: Any) -> LakeVerification:
        """Compare everything."""
        return verify_lake(open_lake(str(self.folder), {}), self.place, **how)

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a connection with all tables as they are now."""
        made, _ = engine_setup(open_lake(str(self.folder), {}), self.folder / "none")
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for statement in made.statements:
                connection.execute(statement)
            yield connection

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query gives."""
        with self.connection() as connection:
            return connection.execute(query).fetchall()

    def everything(self) -> dict[str, Counter[tuple[Any, ...]]]:
        """Return the rows of every table."""
        lake = open_lake(str(self.folder), {})
        found = {}
        for name, table in lake_tables().items():
            columns = ", ".join(f'"{column}"' for column in table.names if column not in PASSING)
            found[name] = Counter(lake.rows(name, f"SELECT {columns} FROM t"))
        return found

    def lines(self) -> Counter[tuple[Any, ...]]:
        """Return the lines of sessions: device, path, generation, place and text."""
        return Counter(self.rows('SELECT device, source, generation, "offset", raw FROM entries'))


def expected(root: Path, device: str = "laptop", generation: int = 1) -> Counter[tuple[Any, ...]]:
    """Return the lines of the sessions in a folder, read the naive way; neither blank ones nor one without an end."""
    found: Counter[tuple[Any, ...]] = Counter()
    for source in scan(root).of(*LINED):
        offset, path = 0, str(source.path.relative_to(root))
        for line in source.path.read_bytes().split(b"\n")[:-1]:
            if line.strip():
                found[device, path, generation, offset, line.rstrip(b"\r").decode(errors="replace")] += 1
            offset += len(line) + 1
    return found
