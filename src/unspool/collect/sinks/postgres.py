"""Copies the tables of a lake to a schema of Postgres.

    sink_tables   one row per table: the table of the lake it came from, and its version there
    sink_files    one row per file of the lake whose rows are here; `sink_file` in the other tables is its id

Rules
  1. A step is one transaction: rows of removed files go, rows of added files come, and `sink_files` says so. A sink
     that is killed leaves the state before or after it. A reader sees one of the two as well.
  2. A sink holds an advisory lock on the schema from the beginning to the end. The server drops it with the connection.
  3. Columns are only added. The rows before have null in them: no file of then has the column.
  4. A table with the name of one of the lake that no sink has made is refused: its rows are somebody else's.
  5. A text with a NUL, which Postgres cannot hold, has U+FFFD there, and is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from unspool.collect.sinks.address import SinkAddress
from unspool.collect.sinks.data_files import FileChanges, Row, TableSnapshot
from unspool.collect.sinks.org_responses import TABLE, VIEW, postgres_query
from unspool.collect.sinks.target import CopiedRows, FilledTable, RowReader, already_locked, foreign_table
from unspool.display import clean_line
from unspool.errors import Refused, SinkFailed
from unspool.extras import require_extras
from unspool.store.columns import Table

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_TYPES = {
    "VARCHAR": "text",
    "TEXT": "text",
    "JSON": "text",  # not jsonb: it refuses \u0000, which sessions have
    "BIGINT": "bigint",
    "INTEGER": "integer",
    "TIMESTAMPTZ": "timestamptz",
    "DATE": "date",
    "DOUBLE": "double precision",
    "BOOLEAN": "boolean",
}
_INDEXES = {"day": "btree", "session_id": "hash", "sink_file": "btree"}
"""Columns with an index. A session's id is any text that a line has: a tree refuses those that are too long."""

_TIMEOUT = 10
"""Seconds to connect, unless `$PGCONNECT_TIMEOUT` says otherwise."""


@contextmanager
def open_postgres(
    address: SinkAddress, environment: Mapping[str, str], on_step: Callable[[str], None]
) -> Iterator[PostgresTarget]:
    """Connect to a database and lock the schema; the environment has the password, as for `psql`."""
    require_extras("postgres")
    import psycopg

    with _translate_errors(address):
        timeout = {} if "PGCONNECT_TIMEOUT" in environment else {"connect_timeout": _TIMEOUT}
        options: dict[str, Any] = {"application_name": "unspool", "client_encoding": "UTF8", **timeout}
        with psycopg.connect(address.url, autocommit=True, **options) as connection:
            if connection.info.parameter_status("server_encoding") != "UTF8":
                message = f"the database at `{address.url}` does not store UTF-8"
                raise Refused(message, hint="create one with `createdb --encoding UTF8 --template template0`")
            key = blake2b(f"unspool sink {address.schema}".encode(), digest_size=8).digest()
            # It ends with the connection: nobody has to remove the lock of a sink that was killed.
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", [int.from_bytes(key, signed=True)]).fetchone()
            if row != (True,):
                raise already_locked(address.words)
            yield PostgresTarget(connection, address.schema, on_step)


class PostgresTarget:
    """A schema of Postgres, on a connection that holds its lock."""

    def __init__(self, connection: Connection, schema: str, on_step: Callable[[str], None]) -> None:
        self._connection, self._schema, self._on_step = connection, schema, on_step
        self._create_bookkeeping()

    def prepare(self, tables: Sequence[Table]) -> dict[str, list[str]]:
        """Create what is missing; return by table the columns that were added to an existing one."""
        added = {}
        with self._connection.transaction():
            for table in tables:
                there = self._columns(table.name)
                if there and "sink_file" not in there:
                    raise foreign_table(self._schema, table.name)
                missing = [column for column in table.columns if column.name not in there]
                if not there:
                    definitions = ", ".join(f'"{column.name}" {_TYPES[column.type]}' for column in table.columns)
                    self._execute(f"CREATE TABLE {self._name(table.name)} ({definitions}, sink_file bigint NOT NULL)")
                    # Somebody may have dropped the table: what was in it is not there any more.
                    for of, column in (("sink_files", "table_name"), ("sink_tables", "name")):
                        self._execute(f"DELETE FROM {self._name(of)} WHERE {column} = %s", [table.name])
                    for name, method in _INDEXES.items():
                        if name in (*table.names, "sink_file"):
                            self._execute(f'CREATE INDEX ON {self._name(table.name)} USING {method} ("{name}")')
                elif missing:
                    clauses = ", ".join(f'ADD COLUMN "{column.name}" {_TYPES[column.type]}' for column in missing)
                    self._execute(f"ALTER TABLE {self._name(table.name)} {clauses}")
                    added[table.name] = [column.name for column in missing]
            columns = self._columns(TABLE)
            if "sink_file" in columns:
                # In the order they have in the table: a view can be replaced only if it keeps its columns.
                names = ", ".join(f'"{name}"' for name in columns if name != "sink_file")
                query = postgres_query(self._name(TABLE), names)
                self._execute(f"CREATE OR REPLACE VIEW {self._name(VIEW)} AS {query}")
        return added

    def filled(self) -> Mapping[str, FilledTable]:
        """Return the tables that were copied here."""
        query = f"SELECT name, lake_id, version, other_columns FROM {self._name('sink_tables')}"
        return {name: FilledTable(id, version, frozenset(other)) for name, id, version, other in self._execute(query)}

    def files(self, table: str) -> set[str]:
        """Return the files of the lake whose rows a table has."""
        query = f"SELECT path FROM {self._name('sink_files')} WHERE table_name = %s"
        return {path for (path,) in self._execute(query, [table])}

    def change(self, snapshot: TableSnapshot, changes: FileChanges, read: RowReader) -> CopiedRows:
        """Add and remove the rows of files in one transaction."""
        table = snapshot.table
        with self._connection.transaction():
            removed = self._remove(table, changes.removed)
            self._on_step("removed")
            copied = CopiedRows(removed=removed)
            for file in changes.added:
                query = f"INSERT INTO {self._name('sink_files')} (table_name, path) VALUES (%s, %s) RETURNING id"
                ((id,),) = self._execute(query, [table.name, file.path])
                for rows in read(file):
                    copied = copied.plus(self._copy(table, rows, id))
                self._on_step("copied")
            # -1: not all rows of a version are there yet. Those of another lake may have been, so it is said here.
            self._write_version(snapshot, -1)
            self._on_step("written")
        self._on_step("committed")
        return copied

    def record(self, snapshot: TableSnapshot) -> None:
        """Note that a table has all rows of a snapshot."""
        self._write_version(snapshot, snapshot.version)

    def clean_up(self) -> None:
        """Do nothing: a transaction has left no rows that do not count."""

    def _create_bookkeeping(self) -> None:
        # `IF NOT EXISTS` wants the right to create schemas even if there is nothing to create.
        if not self._execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [self._schema]):
            self._execute(f'CREATE SCHEMA "{self._schema}"')
        self._execute(
            f"""CREATE TABLE IF NOT EXISTS {self._name("sink_tables")} (name text PRIMARY KEY, lake_id text NOT NULL,
            version bigint NOT NULL, other_columns text[] NOT NULL, changed timestamptz NOT NULL)"""
        )
        self._execute(
            f"""CREATE TABLE IF NOT EXISTS {self._name("sink_files")} (id bigint GENERATED ALWAYS AS IDENTITY
            PRIMARY KEY, table_name text NOT NULL, path text NOT NULL, UNIQUE (table_name, path))"""
        )

    def _columns(self, table: str) -> list[str]:
        """Return the columns of a table in their order; none if there is no such table."""
        query = """SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
            ORDER BY ordinal_position"""
        return [name for (name,) in self._execute(query, [self._schema, table])]

    def _remove(self, table: Table, paths: Sequence[str]) -> int:
        if not paths:
            return 0
        query = f"DELETE FROM {self._name('sink_files')} WHERE table_name = %s AND path = ANY(%s) RETURNING id"
        ids = [id for (id,) in self._execute(query, [table.name, list(paths)])]
        cursor = self._connection.execute(f"DELETE FROM {self._name(table.name)} WHERE sink_file = ANY(%s)", [ids])
        return cursor.rowcount

    def _copy(self, table: Table, rows: Sequence[Row], id: int) -> CopiedRows:
        names = ", ".join(f'"{name}"' for name in table.names)
        altered = 0
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {self._name(table.name)} ({names}, sink_file) FROM STDIN") as copy,
        ):
            for row in rows:
                nuls = sum(isinstance(cell, str) and "\0" in cell for cell in row)
                if nuls:
                    row = tuple(cell.replace("\0", "\ufffd") if isinstance(cell, str) else cell for cell in row)
                    altered += nuls
                copy.write_row((*row, id))
        return CopiedRows(len(rows), 0, altered)

    def _write_version(self, snapshot: TableSnapshot, version: int) -> None:
        self._execute(
            f"""INSERT INTO {self._name("sink_tables")} VALUES (%s, %s, %s, %s, now()) ON CONFLICT (name) DO UPDATE SET
            lake_id = excluded.lake_id, version = excluded.version, other_columns = excluded.other_columns,
            changed = excluded.changed""",
            [snapshot.table.name, snapshot.id, version, sorted(snapshot.other_columns)],
        )

    def _execute(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        # Names in it are those of tables and columns of this version, and a schema of plain letters.
        cursor = self._connection.execute(query.encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    def _name(self, table: str) -> str:
        return f'"{self._schema}"."{table}"'


@contextmanager
def _translate_errors(address: SinkAddress) -> Iterator[None]:
    """Turn the driver's errors into `SinkFailed`, in one line and without the rows that they may quote."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        lines = (error.diag.message_primary or str(error)).strip().splitlines() or [type(error).__name__]
        # What the server refuses to do for good, unlike a connection that is lost, is no better the next time.
        is_final = error.sqlstate is not None and error.sqlstate[:2] not in ("08", "40", "53", "57")
        raise SinkFailed(
            f"cannot write to {address.words}: {clean_line(lines[0])[:300]}",
            hint=None if is_final else "no row is lost or doubled; try again",
            is_final=is_final,
        ) from None
