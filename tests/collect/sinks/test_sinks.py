"""What a sink copies is what the lake has, row by row, in Postgres and in ClickHouse."""

from __future__ import annotations

import stat
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.collect.lake.lakes import TestLake
from tests.collect.sinks.databases import ClickHouseDatabase, PostgresSchema, Rows, SinkDatabase, same_rows
from tests.faults.conftest import Program
from tests.faults.world import World
from unspool.cli.documents.registry import DOCUMENTS
from unspool.collect.lake.lake import Lake, open_lake
from unspool.collect.lake.maintenance import compact_tables, vacuum_tables
from unspool.collect.lake.tables import lake_tables, private_tables
from unspool.collect.sinks import SinkJob, SinkReport, SinkRunner, choose_tables, parse_address
from unspool.demo.write import write_demo
from unspool.errors import Refused
from unspool.store.columns import to_record_batch

ALL = tuple(lake_tables())
FEW = ("responses", "answers", "sources", "messages")
SUMS = """SELECT count(*), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cost_micros),
    count(DISTINCT session_id) FROM {} """


def sink(lake: TestLake, database: SinkDatabase, *tables: str, again: bool = False) -> SinkReport:
    """Copy a lake, in this process."""
    return runner(lake, database, *tables, again=again).run_once()


def runner(lake: TestLake, database: SinkDatabase, *tables: str, again: bool = False) -> SinkRunner:
    """Return what copies a lake."""
    address = parse_address(database.url, database.schema, database.environment)
    return SinkRunner(SinkJob(str(lake.folder), address, tables or ALL, again), database.environment)


def everything(lake: TestLake) -> dict[str, Rows]:
    """Return the rows of every table of a lake."""
    opened = open_lake(str(lake.folder), {})
    columns = {name: ", ".join(f'"{column}"' for column in table.names) for name, table in lake_tables().items()}
    return {name: Counter(opened.rows(name, f"SELECT {columns[name]} FROM t")) for name in lake_tables()}


@pytest.fixture(autouse=True)
def _credentials(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the driver of Postgres the password as a user does: it reads the environment itself."""
    for kind in {"database", "postgres", "clickhouse"} & set(request.fixturenames):
        for name, value in request.getfixturevalue(kind).environment.items():
            monkeypatch.setenv(name, value)


def grow(lake: TestLake, folder: Path) -> tuple[World, Any]:
    """Fill a lake with sessions that went on and were forked, of two devices that share a folder."""
    world, device = World(folder), lake.device(is_chained=True)
    for count in (3, 20):
        world.append(world.create(), count)
        world.fork(world.paths[0])
    device.send(world.root)
    lake.device("desktop", "bob").send(world.root)
    lake.ingest()
    return world, device


@pytest.mark.parametrize("what", ["a demo", "forks on two devices"])
def test_every_table_has_the_rows_of_the_lake(
    what: str, lake: TestLake, database: SinkDatabase, tmp_path: Path
) -> None:
    if what == "a demo":
        write_demo(tmp_path / "config")
        lake.device(is_chained=True).send(tmp_path / "config")
        lake.ingest()
    else:
        grow(lake, tmp_path / "config")
    report = sink(lake, database)
    wanted = everything(lake)
    same_rows(database, ALL, wanted)
    assert sum(table.rows_added for table in report.tables) == sum(rows.total() for rows in wanted.values()) > 100
    for name in ("responses", "org_responses"):
        (found,) = database.rows(SUMS.format(f"$.{name}"))
        assert [tuple(map(int, found))] == lake.rows(SUMS.format(name))
    by_user = "SELECT {0}, response_id, device, source_id FROM {1}org_responses ORDER BY 2, 3"
    is_postgres = database.url.startswith("postgresql")
    assert database.rows(by_user.format('"user"' if is_postgres else "user", "$.")) == lake.rows(
        by_user.format("user", "")
    )


def test_a_second_run_copies_only_what_is_new(lake: TestLake, database: SinkDatabase, tmp_path: Path) -> None:
    world, device = grow(lake, tmp_path / "config")
    sink(lake, database, *FEW)
    assert not sink(lake, database, *FEW).is_changed
    path, copied = world.paths[0], 0
    for change in (lambda: world.append(path, 2), lambda: world.replace(path), lambda: world.fork(path)):
        change()
        device.send(world.root)
        lake.ingest()
        report = sink(lake, database, *FEW)
        assert report.is_changed
        copied = sum(table.rows_added for table in report.tables)
        same_rows(database, FEW, everything(lake))
    # The last change is one more file of a session: it copies less than the first run.
    assert 0 < copied < sum(rows.total() for name, rows in everything(lake).items() if name in FEW)


def test_rows_stay_equal_when_the_lake_is_compacted_vacuumed_and_derived_again(
    lake: TestLake, database: SinkDatabase, tmp_path: Path
) -> None:
    world, device = grow(lake, tmp_path / "config")
    sink(lake, database, *FEW)
    world.append(world.paths[0], 3)
    device.send(world.root)
    lake.ingest()
    opened = open_lake(str(lake.folder), {})
    compact_tables(opened, 0)
    vacuum_tables(opened, 0, really=True)
    sink(lake, database, *FEW)
    same_rows(database, FEW, everything(lake))
    lake.ingest(again=True)
    opened.table("responses", fresh=True)
    opened.delete("responses", "device = 'desktop'")
    sink(lake, database, *FEW)
    same_rows(database, FEW, everything(lake))
    assert not sink(lake, database, *FEW).is_changed


def test_again_replaces_all_rows(lake: TestLake, database: SinkDatabase, tmp_path: Path) -> None:
    grow(lake, tmp_path / "config")
    wanted = everything(lake)
    sink(lake, database, "responses")
    report = sink(lake, database, "responses", again=True)
    assert report.tables[0].rows_added == report.tables[0].rows_removed == wanted["responses"].total()
    same_rows(database, ("responses",), wanted)


def test_another_lake_is_refused_until_all_rows_are_replaced(
    lake: TestLake, database: SinkDatabase, tmp_path: Path
) -> None:
    grow(lake, tmp_path / "config")
    sink(lake, database, "responses")
    (tmp_path / "second").mkdir()
    other = TestLake(tmp_path / "second")
    with pytest.raises(Refused, match="has the table `responses` of another lake"):
        sink(other, database, "responses")
    same_rows(database, ("responses",), everything(lake))
    assert sink(other, database, "responses", again=True).is_changed
    assert database.table("responses").total() == 0


def test_a_column_that_came_later_is_added(lake: TestLake, database: SinkDatabase, tmp_path: Path) -> None:
    world, device = grow(lake, tmp_path / "config")
    sink(lake, database, "sources")
    # As a version that had no such columns would have left it.
    drop(database, "sources", "redactions", "stored")
    world.append(world.paths[0], 3)
    device.send(world.root)
    lake.ingest()
    report = sink(lake, database, "sources")
    assert report.tables[0].columns_added == ("redactions", "stored")
    sink(lake, database, "sources", again=True)
    same_rows(database, ("sources",), everything(lake))


def test_a_column_that_was_left_out_is_filled_once_it_is_known(
    lake: TestLake, database: SinkDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(lake, tmp_path / "config")
    table = lake_tables()["sources"]
    older = table._replace(columns=tuple(column for column in table.columns if column.name != "redactions"))
    with monkeypatch.context() as patched:
        patched.setitem(lake_tables(), "sources", older)
        sink(lake, database, "sources")
    assert sink(lake, database, "sources").tables[0].columns_added == ("redactions",)
    same_rows(database, ("sources",), everything(lake))


def test_a_table_that_somebody_dropped_is_filled_again(lake: TestLake, database: SinkDatabase, tmp_path: Path) -> None:
    grow(lake, tmp_path / "config")
    sink(lake, database, "sources", "compactions")
    if isinstance(database, ClickHouseDatabase):
        database.execute("DROP TABLE $.sources_rows")
    else:
        database.rows("DROP TABLE $.sources")
    sink(lake, database, "sources", "compactions")
    same_rows(database, ("sources", "compactions"), everything(lake))


def test_a_table_of_somebody_else_is_refused_and_stays_as_it_is(
    lake: TestLake, database: SinkDatabase, tmp_path: Path
) -> None:
    grow(lake, tmp_path / "config")
    if isinstance(database, ClickHouseDatabase):
        database.execute("CREATE DATABASE $")
        database.execute("CREATE TABLE $.responses ENGINE = MergeTree ORDER BY own AS SELECT 7 AS own")
        database.execute("CREATE TABLE $.turns_rows ENGINE = MergeTree ORDER BY own AS SELECT 7 AS own")
        names = {"responses": "responses", "turns": "turns_rows"}
    else:
        database.rows("CREATE SCHEMA $")
        for name in ("responses", "turns"):
            database.rows(f"CREATE TABLE $.{name} AS SELECT 7 AS own")
        names = {"responses": "responses", "turns": "turns"}
    for table, name in names.items():
        with pytest.raises(Refused, match=rf"{database.schema}\.{name}` exists, and no sink has made it"):
            sink(lake, database, table)
        assert database.rows(f"SELECT * FROM $.{name}") == [(7,)]
    sink(lake, database, "sources")


def test_a_second_sink_at_the_same_time_is_refused(lake: TestLake, database: SinkDatabase, tmp_path: Path) -> None:
    grow(lake, tmp_path / "config")
    address = parse_address(database.url, database.schema, database.environment)
    refused: list[str] = []

    def start_another(step: str) -> None:
        if step == "copied" and not refused:
            with pytest.raises(Refused, match="another sink is writing") as error:
                sink(lake, database, "responses")
            refused.append(error.value.message)

    job = SinkJob(str(lake.folder), address, ("responses",), on_step=start_another)
    SinkRunner(job, database.environment).run_once()
    assert len(refused) == 1
    assert database.schema in refused[0]
    same_rows(database, ("responses",), everything(lake))


def test_follow_copies_what_comes_and_yields_nothing_else(
    lake: TestLake, database: SinkDatabase, tmp_path: Path
) -> None:
    world, device = grow(lake, tmp_path / "config")
    reports = runner(lake, database, "responses").follow(0.01)
    assert isinstance(next(reports), SinkReport)
    world.append(world.paths[0], 9)
    device.send(world.root)
    lake.ingest()
    assert isinstance(next(reports), SinkReport)
    reports.close()  # type: ignore[attr-defined]
    same_rows(database, ("responses",), everything(lake))


def test_the_command_copies_tables_without_text_with_a_password_from_a_file(
    lake: TestLake, database: SinkDatabase, tmp_path: Path
) -> None:
    grow(lake, tmp_path / "config")
    program = Program(tmp_path)
    words = ("lake", "sink", "--lake", lake.folder, "--to", database.url, "--schema", database.schema)
    secret = tmp_path / "credentials"
    secret.write_text("".join(f"{name}={value}\n" for name, value in database.environment.items()))
    secret.chmod(stat.S_IRUSR)
    done = program.run(*words, "--env-file", secret)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{len(ALL) - len(private_tables())} tables: ")
    same_rows(database, choose_tables([], with_text=False), everything(lake))
    if isinstance(database, PostgresSchema):
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
        there = {name for (name,) in database.connection.execute(query, [database.schema])}
    else:
        there = {name for (name,) in database.rows("SELECT name FROM system.tables WHERE database = '$'")}
    assert there >= {"responses", "org_responses"}
    assert there.isdisjoint(private_tables())
    again = program.run(*words, "--json", **database.environment)
    assert check_document(again.out)["left"] == []
    wrong = {name: "wrong" for name in database.environment if "PASSWORD" in name}
    user = {name: value for name, value in database.environment.items() if "PASSWORD" not in name}
    refused = program.run(*words, **user, **wrong)
    assert refused.code == 6
    assert "wrong" not in refused.err
    assert len(refused.err.splitlines()) <= 2


def test_a_value_that_the_database_cannot_hold_is_changed_and_counted(
    lake: TestLake, database: SinkDatabase, tmp_path: Path
) -> None:
    grow(lake, tmp_path / "config")
    write_odd_rows(open_lake(str(lake.folder), {}), "x" * 100_000)
    report = sink(lake, database, "responses", "sources")
    altered = {table.table: table.cells_altered for table in report.tables}
    if isinstance(database, ClickHouseDatabase):
        assert altered == {"responses": 2, "sources": 0}
        found = database.rows("SELECT length(session_id), time, day FROM $.responses WHERE device = 'odd'")
        assert [(int(length), time, day) for length, time, day in found] == [(100_000, None, None)]
    else:
        assert altered == {"responses": 0, "sources": 1}
        assert database.rows("SELECT rules FROM $.sources WHERE device = 'odd'") == [("a\ufffdb",)]
        assert database.rows("SELECT length(session_id) FROM $.responses WHERE device = 'odd'") == [(100_000,)]


def write_odd_rows(lake: Lake, session_id: str) -> None:
    """Add a response of long ago with this session id, and a source with a NUL."""
    cells: dict[str, object] = {"org": "acme", "user": "ada", "device": "odd", "source_id": "odd", "id": "odd"}
    cells |= {"session_id": session_id, "response_id": "odd", "bucket": 1, "rules": "a\0b"}
    cells |= {"time": -500 * 365 * 86400 * 10**6, "day": -500 * 365}
    for name in ("responses", "sources"):
        table = lake_tables()[name]
        # As texts, which may have a NUL: an ingest removes it from words.
        loose = [column._replace(type=column.type.replace("VARCHAR", "TEXT")) for column in table.columns]
        row = tuple(cells.get(column) for column in table.names)
        lake.write(name, [to_record_batch(table._replace(columns=tuple(loose)), [row])], {})


def check_document(text: str) -> Any:
    """Return a JSON document that is as it is described."""
    data = msgspec.json.decode(text)
    msgspec.convert(data, DOCUMENTS["lake-sink"], strict=True)
    return data


def drop(database: SinkDatabase, table: str, *columns: str) -> None:
    """Drop columns of a table."""
    for column in columns:
        if isinstance(database, ClickHouseDatabase):
            database.execute(f"ALTER TABLE $.{table}_rows DROP COLUMN {column}")
        else:
            database.rows(f"ALTER TABLE $.{table} DROP COLUMN {column}")
