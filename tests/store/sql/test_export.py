"""Exported tables are those that `unspool sql` sees, made in memory that does not grow with the sessions."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.store import dirty
from tests.store.asking import Columns
from unspool.demo.write import write_demo
from unspool.store.columns import store_rows
from unspool.store.columns.tables import public_tables
from unspool.store.database import open_store
from unspool.store.sql.export import PIECE_BYTES, export_duckdb, export_parquet, read_raw_lines
from unspool.testing.build import assistant, session, tool_result, tool_use, user

MEGABYTES = int(os.environ.get("UNSPOOL_WIDE_MB", "250"))
"""How large the folder with wide tool results is: `UNSPOOL_WIDE_MB=2400` for as much as years of sessions."""
MOST_MEMORY = 450_000
"""Kilobytes that a process may have."""


@pytest.fixture(scope="module", params=["dirty", "demo"])
def columns(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Columns:
    place = tmp_path_factory.mktemp(request.param)
    (dirty.write if request.param == "dirty" else write_demo)(place / "config")
    made = Columns(place / "own", place / "config")
    made.refresh()
    return made


def raw_lines(columns: Columns) -> list[tuple[int, int, str]]:
    with closing(open_store(columns.folder)) as database:
        sources = store_rows.read_sources(database)
    return list(read_raw_lines(sources, columns.folder, lambda *_: None))


@pytest.mark.parametrize("piece_bytes", [30_000, PIECE_BYTES])
def test_the_files_hold_every_row_once_whatever_the_size_of_pieces(
    columns: Columns, tmp_path: Path, piece_bytes: int
) -> None:
    export_parquet(columns.setup(), tmp_path / "tables", None, piece_bytes)
    with columns.connection() as connection:
        for name in public_tables():
            rows = connection.execute(f"FROM {name}").fetchall()
            written = connection.execute(f"FROM read_parquet('{tmp_path}/tables/{name}.parquet')").fetchall()
            assert sorted(map(repr, written)) == sorted(map(repr, rows)), name
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]


@pytest.mark.parametrize("piece_bytes", [30_000])
def test_raw_lines_stand_beside_their_entries_in_both_forms(columns: Columns, tmp_path: Path, piece_bytes: int) -> None:
    raw = raw_lines(columns)
    expected = {(source, offset): text for source, offset, text in raw}
    export_parquet(columns.setup(), tmp_path / "tables", iter(raw), piece_bytes)
    export_duckdb(columns.setup(), tmp_path / "tables.db", iter(raw), piece_bytes)
    query = 'SELECT source_id, "offset", raw FROM '
    with duckdb.connect(str(tmp_path / "tables.db"), read_only=True) as database:
        written = database.execute(f"{query} read_parquet('{tmp_path}/tables/entries.parquet')").fetchall()
        stored = database.execute(f"{query} entries").fetchall()
        blocks = database.execute("SELECT count(*) FROM blocks").fetchall()
    assert sorted(written, key=repr) == sorted(stored, key=repr)
    assert len(written) == columns.rows("SELECT count(*) FROM entries")[0][0]
    assert blocks == columns.rows("SELECT count(*) FROM blocks")
    assert {(source, offset): text for source, offset, text in written} == {
        (source, offset): expected.get((source, offset)) for source, offset, _ in written
    }


# On Linux the peak of a process begins with that of the one that started it: a small one in between.
PEAK_MEMORY = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.parametrize("sessions", [100, 1])
def test_wide_results_are_made_columns_and_exported_in_little_memory(tmp_path: Path, sessions: int) -> None:
    chance = random.Random(1)
    known = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(5_000)]
    text = " ".join(chance.choices(known, k=8_000))
    calls = MEGABYTES * 1_000_000 // 25_000
    for number in range(sessions):
        turns = []
        for call in range(number, calls, sessions):
            wide = f"{call} {text[call % 10_000 :][:24_000]}"
            turns += [user("go"), assistant(tool_use("Bash", command=f"make {call}")), tool_result(wide)]
        session(*turns, id=f"{number:08x}-0000-4000-8000-000000000000").save(tmp_path / "config")
    environment = {"HOME": str(tmp_path), "UNSPOOL_HOME": str(tmp_path / "own"), "PATH": os.environ["PATH"]}
    unspool = [sys.executable, "-c", PEAK_MEMORY, sys.executable, "-m", "unspool"]
    unspool += ["--config-dir", str(tmp_path / "config")]
    options: dict[str, Any] = {"env": environment, "capture_output": True, "text": True}
    query = "SELECT count(*) AS calls, sum(length(result)) AS characters FROM tool_calls"
    asked = subprocess.run([*unspool, "sql", query, "--json"], check=False, **options)
    assert asked.returncode == 0, asked.stderr
    assert int(asked.stderr.splitlines()[-1]) < MOST_MEMORY
    (known_sums,) = json.loads(asked.stdout)["items"]
    assert known_sums["calls"] == calls
    for form in ("--parquet", "--duckdb"):
        command = [*unspool, "export", form, str(tmp_path / form.strip("-"))]
        done = subprocess.run(command, check=False, **options)
        assert done.returncode == 0, done.stderr
        assert int(done.stderr.splitlines()[-1]) < MOST_MEMORY, form
    sums = f"SELECT count(*), sum(length(text)) FROM read_parquet('{tmp_path}/parquet/blocks.parquet')"
    with duckdb.connect(":memory:", config={"memory_limit": "1GB"}) as connection:
        written = connection.execute(f"{sums} WHERE type = 'tool_result'").fetchall()
    assert written == [(calls, known_sums["characters"])]
