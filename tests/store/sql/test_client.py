"""The engine answers, and can do nothing else: nothing is read but column files, nothing is written, nothing stays."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.profiles import examples
from tests.store import dirty
from tests.store.asking import Columns, answer, digest
from unspool.errors import Refused, UnspoolError, UsageError
from unspool.store.sql.client import EngineStopped, QueryLimits, SqlEngine
from unspool.store.sql.engine import refusal_reason
from unspool.store.sql.protocol import OBJECTS

CANARY = "the-canary-has-sung"
KNOWN_FUNCTIONS = Path(__file__).with_name("table_functions.txt")


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Columns:
    """Column files, and beside them a file that nobody may read."""
    place = tmp_path_factory.mktemp("query")
    made = Columns(place / "own", dirty.write(place / "config"))
    made.refresh()
    (place / "secret.csv").write_text(f"{CANARY}\n{CANARY}\n")
    (place / "own" / "columns" / "link.csv").symlink_to(place / "secret.csv")
    return made


@pytest.fixture(scope="module")
def engine(columns: Columns) -> Iterator[SqlEngine]:
    """One engine for all questions: it must outlive every one of them."""
    with columns.engine(QueryLimits(deadline=20)) as made:
        yield made


ESCAPES = {
    "a file as CSV": "SELECT * FROM read_csv('{secret}', header = false)",
    "a file as CSV, told to be": "SELECT * FROM read_csv_auto('{secret}')",
    "sniffed": "SELECT * FROM sniff_csv('{secret}')",
    "a file as text": "SELECT * FROM read_text('{secret}')",
    "a file as bytes": "SELECT * FROM read_blob('{secret}')",
    "a file as JSON": "SELECT * FROM read_json('{secret}')",
    "a file as JSON objects": "SELECT * FROM read_ndjson_objects('{secret}')",
    "a file as Parquet": "SELECT * FROM read_parquet('{secret}')",
    "what a Parquet file says of itself": "SELECT * FROM parquet_metadata('{secret}')",
    "a file by its name": "SELECT * FROM '{secret}'",
    "a file in a subquery": "SELECT (SELECT content FROM read_text('{secret}'))",
    "a file by way of another": "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
    "a file two folders up": "SELECT * FROM read_text('{columns}/../../secret.csv')",
    "a link in the folder of the column files": "SELECT * FROM read_text('{columns}/link.csv')",
    "the manifest": "SELECT * FROM read_text('{columns}/manifest')",
    "a list of files": "SELECT * FROM glob('{place}/*')",
    "everything in a folder": "SELECT * FROM read_text('{place}/**')",
    "the passwords": "SELECT * FROM read_text('/etc/passwd')",
    "the environment by a file": "SELECT * FROM read_text('/proc/self/environ')",
    "memory of its own": "SELECT * FROM read_blob('/proc/self/mem')",
    "the network": "SELECT * FROM read_text('http://127.0.0.1:{port}/')",
    "a bucket": "SELECT * FROM read_parquet('s3://bucket/key')",
    "COPY TO": "COPY (SELECT 1) TO '{place}/out.csv'",
    "COPY over a column file": "COPY (SELECT 1) TO '{file}' (FORMAT parquet)",
    "COPY FROM": "COPY daily FROM '{secret}'",
    "EXPLAIN ANALYZE COPY": "EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}' (FORMAT parquet)",
    "EXPLAIN with a comment, COPY": "/* é */ EXPLAIN /* é */ ANALYZE -- é\n COPY (SELECT 1) TO '{file}'",
    "EXPLAIN with options, COPY": "EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 1) TO '{file}'",
    "ATTACH": "ATTACH '{place}/new.db'",
    "ATTACH the store": "ATTACH '{place}/own/store.db' (TYPE sqlite)",
    "INSTALL": "INSTALL httpfs",
    "LOAD": "LOAD httpfs",
    "LOAD a file": "LOAD '{secret}'",
    "SET": "SET enable_external_access = true",
    "SET a limit": "SET memory_limit = '100GB'",
    "RESET": "RESET lock_configuration",
    "SET by a function": "SELECT set_config('threads', '1', false)",
    "PRAGMA": "PRAGMA enable_profiling",
    "PRAGMA with a file": "PRAGMA profiling_output = '{place}/out.json'",
    "EXPORT": "EXPORT DATABASE '{place}/out'",
    "IMPORT": "IMPORT DATABASE '{place}'",
    "CREATE TABLE": "CREATE TABLE t AS SELECT 1",
    "CREATE SECRET": "CREATE PERSISTENT SECRET s (TYPE s3)",
    "CREATE MACRO": "CREATE MACRO f() AS (SELECT 1)",
    "CREATE OR REPLACE VIEW": "CREATE OR REPLACE VIEW daily AS SELECT 1",
    "INSERT": "INSERT INTO parts.current VALUES (1)",
    "UPDATE": "UPDATE parts.current SET revision = 1",
    "DELETE": "DELETE FROM parts.current",
    "DROP": "DROP VIEW daily",
    "ALTER": "ALTER VIEW daily RENAME TO d",
    "CALL": "CALL enable_logging()",
    "CHECKPOINT": "CHECKPOINT",
    "USE": "USE temp",
    "PREPARE": "PREPARE p AS SELECT 1",
    "BEGIN": "BEGIN",
    "two at once": "SELECT 1; COPY (SELECT 1) TO '{place}/out.csv'",
    "getenv": "SELECT getenv('HOME')",
    "a Python variable": "SELECT * FROM begin",
    "nothing": "   -- only a comment",
    "a database": "SELECT * FROM read_duckdb('{secret}')",
    "logging, as a table": "FROM enable_logging(storage = 'file', storage_path = '{place}')",
    "profiling, as a table": "FROM enable_profiling(save_location = '{place}/out.json')",
    "a resource, as a table": "FROM create_external_resource('{place}/out')",
    "a kind of resource, as a table": "FROM register_external_resource_type('x', '{secret}')",
    "what Python holds": "FROM pandas_scan(140000000000)",
    "what Arrow holds": "FROM arrow_scan(1, 2, 3)",
    "SQL in JSON": "FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''{secret}'')'))",
    "a filter of a Parquet file": "FROM parquet_bloom_probe('{secret}', 'a', 1)",
    "a filter that reads": "SELECT * FROM daily WHERE '{secret}' IN (SELECT content FROM read_text('{secret}'))",
}


@pytest.mark.parametrize("query", ESCAPES.values(), ids=ESCAPES.keys())
def test_an_escape_is_refused_and_the_engine_goes_on(columns: Columns, engine: SqlEngine, query: str) -> None:
    place = columns.folder.parent
    file = next(columns.place.glob("parts/*/messages.0.parquet"))
    before, names = digest(columns.folder), sorted(place.iterdir())
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        where = {"secret": place / "secret.csv", "columns": columns.place, "place": place, "file": file}
        with pytest.raises(UsageError) as told:
            answer(engine, query.format(**where, port=server.getsockname()[1]))
        with pytest.raises(BlockingIOError):
            server.accept()
    assert CANARY not in told.value.message
    assert told.value.exit_code == 2
    assert (digest(columns.folder), sorted(place.iterdir())) == (before, names)
    assert answer(engine, "SELECT 1") == (["1"], b"[1]\n")


HARMLESS = {
    "SELECT": "SELECT count(*) FROM sessions",
    "FROM first": "FROM daily",
    "WITH": "WITH a AS (SELECT 1) SELECT * FROM a",
    "VALUES": "VALUES (1), (2)",
    "DESCRIBE": "DESCRIBE messages",
    "SHOW": "SHOW TABLES",
    "SUMMARIZE": "SUMMARIZE responses",
    "EXPLAIN": "EXPLAIN SELECT 1",
    "EXPLAIN ANALYZE": "explain /* é */ analyze SELECT count(*) FROM messages",
    "EXPLAIN with options": "EXPLAIN (ANALYZE, FORMAT json) FROM daily",
    "a statement with its end": "SELECT 1 ; -- that is all",
    "PIVOT": "FROM (PIVOT responses ON model IN ('glm-4.7') USING count(*))",
    "a time with a zone": "SELECT now()",
}


@pytest.mark.parametrize("query", HARMLESS.values(), ids=HARMLESS.keys())
def test_what_only_reads_is_answered(engine: SqlEngine, query: str) -> None:
    names, rows = answer(engine, query)
    assert names
    assert rows


def test_nothing_of_this_process_is_to_be_seen(engine: SqlEngine) -> None:
    _, found = answer(engine, "SELECT list(name || value) FROM duckdb_settings()")
    _, more = answer(engine, "SELECT * FROM duckdb_secrets() UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL")
    assert os.environ["HOME"].encode() not in found + more
    assert answer(engine, "SELECT path FROM duckdb_databases() WHERE path IS NOT NULL")[1] == b""


BOMBS = {
    "time": "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000) c WHERE a.range * b.range = c.range",
    "endless": "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r",
    "a long text": "SELECT repeat('x', 2000000000)",
    "many long texts": "SELECT repeat('x', 100000000 + range::INT) FROM range(1000)",
    "a long list": "SELECT list(range) FROM range(10000000000)",
    "a long text of many": "SELECT string_agg(range::VARCHAR, ',') FROM range(10000000000)",
    "a large sort": "SELECT * FROM range(1000000000) ORDER BY hash(range) DESC",
    "a deep expression": "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "a large group": "SELECT count(*) FROM (SELECT DISTINCT range || 'x' FROM range(10000000000))",
}


@pytest.mark.slow
@pytest.mark.parametrize("query", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_costs_the_engine_and_nothing_else(columns: Columns, query: str) -> None:
    with columns.engine(QueryLimits(deadline=3)) as engine:
        began = time.monotonic()
        with pytest.raises(UnspoolError) as told:
            answer(engine, query)
        assert time.monotonic() - began < 15
        assert isinstance(told.value, UsageError | Refused | EngineStopped)
        assert answer(engine, "SELECT 42") == (["42"], b"[42]\n")


def test_a_query_that_takes_too_long_is_ended_with_a_word(columns: Columns) -> None:
    with columns.engine(QueryLimits(deadline=0.5)) as engine:
        with pytest.raises(Refused) as told:
            answer(engine, BOMBS["time"])
        assert told.value.message == "the query was stopped after 0.5 seconds"
        assert not engine.is_running


@pytest.mark.slow
def test_the_time_that_the_reader_takes_does_not_count(columns: Columns) -> None:
    with columns.engine(QueryLimits(deadline=2)) as engine:
        pieces = engine.execute("SELECT range, repeat('x', 1000) FROM range(20000)", OBJECTS)
        next(pieces)
        began = time.monotonic()
        while time.monotonic() - began < 2.5:  # longer than the deadline; the pipe is full long before
            pass
        assert sum(len(piece) for piece in pieces if isinstance(piece, bytes)) > 20_000_000


def test_an_engine_that_was_killed_is_told_of_and_another_is_started(columns: Columns) -> None:
    with columns.engine() as engine:
        answer(engine, "SELECT 1")
        assert engine._process
        engine._process.kill()
        with pytest.raises(EngineStopped):
            answer(engine, "SELECT 1")
        assert answer(engine, "SELECT 1") == (["1"], b"[1]\n")


def test_the_engine_ends_with_the_process_that_asked(columns: Columns) -> None:
    program = f"""
import sys
from tests.store.asking import Columns, answer
from pathlib import Path
engine = Columns(Path({str(columns.folder)!r}), Path({str(columns.roots[0])!r})).engine()
answer(engine, "SELECT 1")
print(engine._process.pid, flush=True)
engine.execute({BOMBS["time"]!r}, "rows").__next__()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    ) as asker:
        assert asker.stdout
        pid = int(asker.stdout.readline())
        asker.kill()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        pass
    assert not Path(f"/proc/{pid}").exists()


RIGHTS = """
import sys
from pathlib import Path
from unspool.sandbox import restrict_to_reading
place = Path(sys.argv[1])
if not restrict_to_reading([str(place / "readable")]):
    sys.exit(77)
assert (place / "readable" / "file").read_text() == "yes"
for attempt in (
    lambda: (place / "closed").read_text(),
    lambda: open("/etc/passwd").read(),
    lambda: (place / "readable" / "new").write_text("x"),
    lambda: open(place / "readable" / "file", "r+").truncate(0),
    lambda: (place / "readable" / "file").unlink(),
    lambda: (place / "readable" / "file").rename(place / "readable" / "other"),
    lambda: (place / "readable" / "folder").mkdir(),
    lambda: __import__("socket").create_connection(("127.0.0.1", int(sys.argv[2]))),
):
    try:
        attempt()
    except PermissionError:
        continue
    sys.exit("not refused")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux's")
def test_a_process_without_rights_reads_one_folder_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "readable").mkdir()
    (tmp_path / "readable" / "file").write_text("yes")
    (tmp_path / "closed").write_text("no")
    with socket.create_server(("127.0.0.1", 0)) as server:
        arguments = [str(tmp_path), str(server.getsockname()[1])]
        done = subprocess.run([sys.executable, "-c", RIGHTS, *arguments], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        pytest.skip("this kernel has no Landlock")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "readable" / "file").read_text() == "yes"


def test_no_function_that_might_read_files_is_new() -> None:
    """When DuckDB is upgraded: look at what is new, add an escape for it above, then write the list anew."""
    query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type LIKE '%table%' ORDER BY ALL"
    with duckdb.connect() as connection:
        found = [name for (name,) in connection.execute(query).fetchall()]
    assert found == KNOWN_FUNCTIONS.read_text().splitlines()


VALUES = """SELECT 1::HUGEINT << 100 AS huge, 1.50::DECIMAL(4, 2) AS exact, 'NaN'::DOUBLE AS none,
    DATE '2026-01-05' AS day, TIMESTAMP '2026-01-05 09:00:00.5' AS moment, TIME '09:00' AS time, INTERVAL 1 DAY AS span,
    'ab'::BLOB AS bytes, [1, NULL] AS list, {'a': {'b': 'x'}} AS struct, MAP {1: 'x'} AS map,
    '{"a": [1]}'::JSON AS json, true AS flag, NULL AS nothing, 'a' AS twice, 'b' AS twice"""


def test_values_are_what_the_rule_says(engine: SqlEngine) -> None:
    _, line = engine.execute(VALUES, OBJECTS)
    assert isinstance(line, bytes)
    assert b'"huge":1267650600228229401496703205376,"exact":1.50,' in line
    assert json.loads(line) == {
        "huge": 1 << 100, "exact": 1.5, "none": None, "day": "2026-01-05", "moment": "2026-01-05T09:00:00.500000",
        "time": "09:00:00", "span": "P1D", "bytes": "YWI=", "list": [1, None], "struct": {"a": {"b": "x"}},
        "map": {"1": "x"}, "json": {"a": [1]}, "flag": True, "nothing": None, "twice": "a", "twice_1": "b",
    }  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_answered_or_refused(engine: SqlEngine, query: str) -> None:
    with suppress(UsageError):
        answer(engine, query)
    assert engine.is_running


writes = st.sampled_from(["COPY (SELECT 1) TO 'x'", "INSERT INTO t VALUES (1)", "CREATE TABLE t (a INT)", "SET a = 1"])
noise = st.sampled_from(["", " ", "\n", "/* x */", "-- x\n", "/* é ( */", "/* explain select 1 */"])
options = st.sampled_from(["", "ANALYZE", "(FORMAT json)", "(ANALYZE, FORMAT json)"])


@given(noise, noise, options, noise, writes)
def test_an_explain_hides_nothing(before: str, between: str, option: str, after: str, write: str) -> None:
    with duckdb.connect() as connection:
        query = f"{before} EXPLAIN {between} {option} {after} {write}"
        with suppress(duckdb.ParserException):
            assert refusal_reason(connection, query) is not None
