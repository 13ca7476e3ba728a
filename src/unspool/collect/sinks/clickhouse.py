"""Copies the tables of a lake to a database of ClickHouse.

    NAME              a view: the rows of `NAME_rows` that count
    NAME_rows         rows of the table NAME, each with the number of the load that brought it (`sink_load`)
    sink_files        per file of the lake: the load with its rows, and whether it counts; the newest entry is valid
    sink_tables       per table: the table of the lake it came from, and its version there
    sink_lock_N       the lock (below)

Rules
  1. ClickHouse has no transactions, but adds one block of rows to a table as a whole or not at all. So rows are brought
     by loads that nobody sees. Then one block of `sink_files` makes the new loads count and the old ones no longer.
     A sink that is killed before has changed nothing that the views show.
  2. The number of a load is never used again: it begins with the number of the lock. What killed sinks left is removed
     by the next one.
  3. Rows that no longer count are removed with the next change of their table, or by the next sink. A query that began
     before the change may still read them.
  4. The lock is the table `sink_lock_N` with the highest N: of several sinks that create it, ClickHouse lets one. Its
     rows say who holds it and when that was written. A sink takes over from one that has released it, from a process
     of this machine that has ended, and from one that has been silent for `LEASE` seconds.
  5. Before its loads count, a sink checks that the lock is still its own.
  6. A table that has one of these names, and that no sink has made, is refused: its rows are somebody else's.
  7. A time or day that ClickHouse cannot hold (before 1900, after 2299) is null there, and counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec

from unspool.collect.sinks.address import SinkAddress
from unspool.collect.sinks.clickhouse_http import ClickHouseClient, ClickHouseError
from unspool.collect.sinks.data_files import FileChanges, Row, TableSnapshot
from unspool.collect.sinks.org_responses import TABLE, VIEW, clickhouse_query
from unspool.collect.sinks.target import CopiedRows, FilledTable, RowReader, already_locked, foreign_table
from unspool.errors import SinkFailed, UnspoolError
from unspool.format import DECODE_ERRORS
from unspool.processes import is_registered_process, read_pid_domain, read_start_ticks
from unspool.store.columns import Table, sql_literal

LEASE = 900.0
"""Seconds after which a silent sink has lost its lock: more than the longest statement takes."""

_BEAT = 60.0
"""Seconds between the signs of life of a sink."""
_BLOCK_BYTES = 8 * 1024 * 1024
_LOADS = 2**32
"""Loads that one lock may make."""
_LOADS_PER_STATEMENT = 5000
"""Numbers in one statement, which may have 256 kB."""
_EXISTS = 57
_TYPES = {
    "VARCHAR": "String",
    "TEXT": "String",
    "JSON": "String",
    "BIGINT": "Int64",
    "INTEGER": "Int32",
    "TIMESTAMPTZ": "DateTime64(6, 'UTC')",
    "DATE": "Date32",
    "DOUBLE": "Float64",
    "BOOLEAN": "Bool",
}
_YEARS = range(1900, 2300)


class SinkOwner(msgspec.Struct, frozen=True):
    """The process that holds a lock, as it is written there."""

    boot: str
    """The running system: empty where it has no name."""
    domain: str
    pid: int
    ticks: str | None

    @property
    def has_ended(self) -> bool:
        """Whether it certainly does not run any more: only known of a process of this system."""
        mine = current_owner()
        if not mine.boot or (mine.boot, mine.domain) != (self.boot, self.domain):
            return False
        return is_registered_process(self.pid, self.ticks, None) is False


def current_owner() -> SinkOwner:
    """Return this process."""
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return SinkOwner(boot, read_pid_domain() or "", os.getpid(), read_start_ticks(os.getpid()))


@contextmanager
def open_clickhouse(
    address: SinkAddress, environment: Mapping[str, str], on_step: Callable[[str], None]
) -> Iterator[ClickHouseTarget]:
    """Connect to a database and lock it; the password is in `$CLICKHOUSE_PASSWORD`."""
    client = ClickHouseClient(address, environment.get("CLICKHOUSE_PASSWORD", ""))
    try:
        client.wait_for_inserts()
        # `IF NOT EXISTS` wants the right to create databases even if there is nothing to create.
        if not client.rows(f"SELECT name FROM system.databases WHERE name = {sql_literal(address.schema)}"):
            client.execute(f"CREATE DATABASE IF NOT EXISTS {address.schema}")
        lock = ClickHouseLock(client, address)
        try:
            yield ClickHouseTarget(client, address.schema, lock, on_step)
        finally:
            # If the server is gone, the lock is free once the process has ended.
            with suppress(UnspoolError):
                lock.release()
    finally:
        client.close()


class ClickHouseLock:
    """The lock of a database: no other sink writes while it is held."""

    def __init__(self, client: ClickHouseClient, address: SinkAddress) -> None:
        self._client, self._address = client, address
        held = self._find_newest()
        if held and not self._is_free(held):
            raise already_locked(address.words, f"silent for {LEASE:.0f} seconds, it would lose its lock")
        self.number = held + 1
        """Higher than that of any lock before."""
        try:
            # With its first row: a sink that is killed between two statements would leave a lock of nobody.
            client.execute(
                f"CREATE TABLE {self._name(self.number)} ENGINE = MergeTree ORDER BY at AS {_select_owner(0)}"
            )
        except ClickHouseError as error:
            if error.code == _EXISTS:
                raise already_locked(address.words) from None
            raise
        # The lock that was seen may be long gone, and this number have been used before.
        self.check()
        self._written = time.monotonic()
        for number in self._numbers():
            if number < self.number:
                client.execute(f"DROP TABLE IF EXISTS {self._name(number)}")

    def keep(self) -> None:
        """Show that this sink is alive, if that was not done for some time."""
        if time.monotonic() - self._written > _BEAT:
            self.check()
            self._write(is_released=False)

    def check(self) -> None:
        """Raise unless the lock is still this sink's."""
        if self._find_newest() != self.number:
            raise already_locked(self._address.words, "it has the lock now")

    def release(self) -> None:
        """Let other sinks write."""
        self._write(is_released=True)

    def _is_free(self, number: int) -> bool:
        # The row of a lock comes a moment after its table: until then the table's own age counts.
        query = f"""SELECT dateDiff('second', metadata_modification_time, now()) FROM system.tables
            WHERE database = {sql_literal(self._address.schema)} AND name = 'sink_lock_{number}'"""
        age = [int(row[0]) for row in self._client.rows(query)]
        rows = self._client.rows(
            f"""SELECT owner, is_released, dateDiff('second', at, now()) FROM {self._name(number)}
            ORDER BY is_released DESC, at DESC LIMIT 1"""
        )
        if not rows:
            return not age or age[0] > LEASE
        owner, is_released, silent = rows[0]
        with suppress(*DECODE_ERRORS):
            if msgspec.json.decode(owner, type=SinkOwner).has_ended:
                return True
        return bool(is_released) or int(silent) > LEASE

    def _write(self, *, is_released: bool) -> None:
        self._client.execute(f"INSERT INTO {self._name(self.number)} {_select_owner(int(is_released))}")
        self._written = time.monotonic()

    def _find_newest(self) -> int:
        return max(self._numbers(), default=0)

    def _numbers(self) -> list[int]:
        query = f"""SELECT name FROM system.tables WHERE database = {sql_literal(self._address.schema)}
            AND name LIKE 'sink_lock_%'"""
        names = (str(name).removeprefix("sink_lock_") for (name,) in self._client.rows(query))
        return [int(name) for name in names if name.isdecimal()]

    def _name(self, number: int) -> str:
        return f"{self._address.schema}.sink_lock_{number}"


class ClickHouseTarget:
    """A database of ClickHouse that this process has locked."""

    def __init__(
        self, client: ClickHouseClient, database: str, lock: ClickHouseLock, on_step: Callable[[str], None]
    ) -> None:
        self._client, self._database, self._lock, self._on_step = client, database, lock, on_step
        self._position = lock.number * _LOADS
        """The last number that was given to a load or an entry."""
        self._retired: dict[str, list[int]] = {}
        """By table: loads that no longer count, and are removed in the next round."""
        self._cleaned: set[str] = set()
        """Tables in which what killed sinks left was removed."""
        self._create_bookkeeping()

    def prepare(self, tables: Sequence[Table]) -> dict[str, list[str]]:
        """Create what is missing; return by table the columns that were added to an existing one."""
        added = {}
        for table in tables:
            there = self._columns(f"{table.name}_rows")
            if there and "sink_load" not in there:
                raise foreign_table(self._database, f"{table.name}_rows")
            # A view takes the place of whatever has its name: a table would be dropped.
            for view in (table.name, VIEW) if table.name == TABLE else (table.name,):
                if self._engine(view) not in (None, "View"):
                    raise foreign_table(self._database, view)
            missing = [column for column in table.columns if column.name not in there]
            if not there:
                self._create_rows(table)
            elif missing:
                clauses = ", ".join(f"ADD COLUMN `{column.name}` Nullable({_TYPES[column.type]})" for column in missing)
                self._client.execute(f"ALTER TABLE {self._name(table.name)}_rows {clauses}")
                added[table.name] = [column.name for column in missing]
            columns = [name for name in self._columns(f"{table.name}_rows") if name != "sink_load"]
            names = ", ".join(f"`{name}`" for name in columns)
            rows, loads = f"{self._name(table.name)}_rows", self._counting_loads(table.name)
            query = f"SELECT {names} FROM {rows} WHERE sink_load IN ({loads})"
            self._client.execute(f"CREATE OR REPLACE VIEW {self._name(table.name)} AS {query}")
            if table.name == TABLE:
                query = clickhouse_query(self._name(TABLE), names)
                self._client.execute(f"CREATE OR REPLACE VIEW {self._name(VIEW)} AS {query}")
            self._remove_leftovers(table.name)
        return added

    def filled(self) -> Mapping[str, FilledTable]:
        """Return the tables that were copied here."""
        query = f"""SELECT name, argMax(lake_id, position), argMax(version, position), argMax(other_columns, position)
            FROM {self._name("sink_tables")} GROUP BY name"""
        return {name: FilledTable(id, int(version), frozenset(other)) for name, id, version, other in self._rows(query)}

    def files(self, table: str) -> set[str]:
        """Return the files of the lake whose rows a table has."""
        return set(self._entries(table))

    def change(self, snapshot: TableSnapshot, changes: FileChanges, read: RowReader) -> CopiedRows:
        """Bring the rows of added files, then make them count instead of those of removed files."""
        name, copied = snapshot.table.name, CopiedRows()
        # What the change before replaced: nobody reads it any more.
        self._remove_loads(name, self._retired.pop(name, []))
        self._on_step("removed")
        before = self._entries(name) if changes.removed else {}
        entries = {path: _entry(name, path, before[path], 0) for path in changes.removed if path in before}
        for file in changes.added:
            load, count = self._next_position(), 0
            for rows in read(file):
                brought = self._bring(snapshot.table, rows, load)
                count, copied = count + brought.added, copied.plus(brought)
            # With `--again` a path is removed and added: the new load is what counts.
            entries[file.path] = _entry(name, file.path, (load, count), 1)
            self._on_step("copied")
        self._write_version(self._with_former_columns(snapshot), -1)
        self._on_step("written")
        self._lock.check()
        position = self._next_position()
        rows_of_entries = [{**entry, "position": position} for entry in entries.values()]
        if rows_of_entries:
            self._client.insert(self._name("sink_files"), list(rows_of_entries[0]), rows_of_entries)
        self._on_step("committed")
        gone = [before[path] for path in changes.removed if path in before]
        self._retired.setdefault(name, []).extend(load for load, _ in gone)
        return copied.plus(CopiedRows(removed=sum(count for _, count in gone)))

    def record(self, snapshot: TableSnapshot) -> None:
        """Note that a table has all rows of a snapshot."""
        self._write_version(snapshot, snapshot.version)

    def clean_up(self) -> None:
        """Keep the lock. Rows that no longer count stay until the next round: somebody may be reading them."""
        self._lock.keep()

    def _create_bookkeeping(self) -> None:
        self._client.execute(
            f"""CREATE TABLE IF NOT EXISTS {self._name("sink_files")} (table_name String, path String, load UInt64,
            row_count UInt64, counts UInt8, position UInt64)
            ENGINE = ReplacingMergeTree(position) ORDER BY (table_name, path)"""
        )
        self._client.execute(
            f"""CREATE TABLE IF NOT EXISTS {self._name("sink_tables")} (name String, lake_id String, version Int64,
            other_columns Array(String), position UInt64) ENGINE = ReplacingMergeTree(position) ORDER BY name"""
        )

    def _create_rows(self, table: Table) -> None:
        columns = [f"`{column.name}` Nullable({_TYPES[column.type]})" for column in table.columns]
        if "day" in table.names:
            columns.append("INDEX days day TYPE minmax GRANULARITY 4")
        # By load: so the rows of a load are together, and those of one that no longer counts are skipped.
        self._client.execute(
            f"""CREATE TABLE {self._name(table.name)}_rows (sink_load UInt64, {", ".join(columns)})
            ENGINE = MergeTree ORDER BY sink_load"""
        )
        # Somebody may have dropped the table: what was in it is not there any more.
        entries = self._entries(table.name)
        if entries:
            position = self._next_position()
            rows = [{**_entry(table.name, path, load, 0), "position": position} for path, load in entries.items()]
            self._client.insert(self._name("sink_files"), list(rows[0]), rows)
            self._client.execute(
                f"ALTER TABLE {self._name('sink_tables')} DELETE WHERE name = {sql_literal(table.name)}"
                " SETTINGS mutations_sync = 1"
            )

    def _bring(self, table: Table, rows: Sequence[Row], load: int) -> CopiedRows:
        names = ["sink_load", *table.names]
        lines, size, altered = list[bytes](), 0, 0
        statement = (
            f"INSERT INTO {self._name(table.name)}_rows ({', '.join(f'`{name}`' for name in names)})"
            " SETTINGS date_time_input_format = 'best_effort' FORMAT JSONCompactEachRow"
        )
        for row in rows:
            cells = [_fit(cell) for cell in row]
            altered += sum(new is None and old is not None for new, old in zip(cells, row, strict=True))
            line = msgspec.json.encode([load, *cells])
            lines.append(line)
            size += len(line)
            if size > _BLOCK_BYTES:
                self._client.execute(statement, b"\n".join(lines))
                self._lock.keep()
                lines, size = [], 0
        if lines:
            self._client.execute(statement, b"\n".join(lines))
            self._lock.keep()
        return CopiedRows(len(rows), 0, altered)

    def _remove_leftovers(self, table: str) -> None:
        """Remove the rows of loads that do not count, once for each table: a killed sink may have left them."""
        if table in self._cleaned:
            return
        rows, loads = f"{self._name(table)}_rows", self._counting_loads(table)
        self._remove_loads(table, [int(load) for (load,) in self._rows(
            f"SELECT DISTINCT sink_load FROM {rows} WHERE sink_load NOT IN ({loads})"
        )])  # fmt: skip
        self._cleaned.add(table)

    def _remove_loads(self, table: str, loads: Sequence[int]) -> None:
        """Remove the rows of loads, and then the entries of files that no longer count."""
        if not loads:
            return
        for start in range(0, len(loads), _LOADS_PER_STATEMENT):
            numbers = ", ".join(map(str, loads[start : start + _LOADS_PER_STATEMENT]))
            self._client.execute(f"DELETE FROM {self._name(table)}_rows WHERE sink_load IN ({numbers})")
        # Only now: while an entry is being deleted, an older one of its file may count for a moment.
        files, name = self._name("sink_files"), sql_literal(table)
        self._client.execute(
            f"""DELETE FROM {files} WHERE table_name = {name} AND path IN (SELECT path FROM {files}
            WHERE table_name = {name} GROUP BY path HAVING argMax(counts, position) = 0)"""
        )
        self._lock.keep()

    def _entries(self, table: str) -> dict[str, tuple[int, int]]:
        """Return by file that counts its load and how many rows that has."""
        query = f"""SELECT path, argMax(load, position), argMax(row_count, position) FROM {self._name("sink_files")}
            WHERE table_name = {sql_literal(table)} GROUP BY path HAVING argMax(counts, position) = 1"""
        return {path: (int(load), int(count)) for path, load, count in self._rows(query)}

    def _counting_loads(self, table: str) -> str:
        """Return the query for the loads that count."""
        return f"""SELECT argMax(load, position) FROM {self._name("sink_files")}
            WHERE table_name = {sql_literal(table)} GROUP BY path HAVING argMax(counts, position) = 1"""

    def _columns(self, table: str) -> list[str]:
        query = f"""SELECT name FROM system.columns WHERE database = {sql_literal(self._database)}
            AND table = {sql_literal(table)} ORDER BY position"""
        return [name for (name,) in self._rows(query)]

    def _engine(self, table: str) -> str | None:
        """Return the engine of a table or view; None if there is none."""
        query = f"""SELECT engine FROM system.tables WHERE database = {sql_literal(self._database)}
            AND name = {sql_literal(table)}"""
        return next((str(engine) for (engine,) in self._rows(query)), None)

    def _write_version(self, snapshot: TableSnapshot, version: int) -> None:
        row = {
            "name": snapshot.table.name,
            "lake_id": snapshot.id,
            "version": version,
            "other_columns": sorted(snapshot.other_columns),
            "position": self._next_position(),
        }
        self._client.insert(self._name("sink_tables"), list(row), [row])

    def _with_former_columns(self, snapshot: TableSnapshot) -> TableSnapshot:
        """Return a snapshot that also names the columns that were unknown before: their rows may not be replaced."""
        former = self.filled().get(snapshot.table.name)
        others = former.other_columns if former else frozenset()
        return snapshot._replace(other_columns=snapshot.other_columns | others)

    def _next_position(self) -> int:
        self._position += 1
        if self._position >= (self._lock.number + 1) * _LOADS:
            raise SinkFailed("too many loads with one lock", hint="start the command again", is_final=True)
        return self._position

    def _rows(self, query: str) -> list[list[Any]]:
        return self._client.rows(query)

    def _name(self, table: str) -> str:
        return f"{self._database}.{table}"


def _select_owner(is_released: int) -> str:
    """Return the query for the row of a lock that this process holds or releases."""
    owner = msgspec.json.encode(current_owner()).decode()
    return f"SELECT {sql_literal(owner)} AS owner, toUInt8({is_released}) AS is_released, now() AS at"


def _entry(table: str, path: str, load: tuple[int, int], counts: int) -> dict[str, Any]:
    number, count = load
    return {"table_name": table, "path": path, "load": number, "row_count": count, "counts": counts}


def _fit(cell: object) -> object:
    """Return a cell as ClickHouse takes it; None if it cannot hold it."""
    if isinstance(cell, date) and cell.year not in _YEARS:  # a time is a date too
        return None
    if isinstance(cell, datetime):
        return cell.replace(tzinfo=None).isoformat(" ")
    return cell
