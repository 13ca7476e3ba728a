"""Builds the SQL tables over the column files: the statements that a DuckDB connection runs to define them.

Rules
  1. Only files that the manifest names are read, and of these only rows that are current and in the scope.
  2. Every table is defined, with rows or without.
  3. Responses are counted as `unspool usage` counts them. For a query about one config folder the marks in `answers`
     say which copy counts; for a part of one, or several folders, the copies in scope are compared again.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unspool.errors import Refused
from unspool.format import parse_zone, zone_offsets
from unspool.store.columns import manifest as manifests
from unspool.store.columns.manifest import ColumnManifest, live_weights
from unspool.store.columns.parquet import write_column_file
from unspool.store.columns.store_rows import WHOLE_TABLES
from unspool.store.columns.tables import Table, part_tables, sql_literal
from unspool.store.database import IN_FOLDER, folder_parameters, translate_errors
from unspool.store.preferences import Preferences
from unspool.store.sync.changes import read_homes

if TYPE_CHECKING:
    from unspool.prices import Price


class SqlScope(NamedTuple):
    """Which files a query is about."""

    sources: frozenset[int] | None = None
    """Their ids; null means all files."""
    answers: str | None = None
    """A Parquet file with the responses that count in these files, if the marks in `answers` do not apply."""


class EngineSetup(NamedTuple):
    """The statements that define all tables, and the files that they read."""

    statements: list[str]
    files: list[str]


def build_setup(columns: Path, manifest: ColumnManifest, scope: SqlScope, zone: tzinfo | None) -> EngineSetup:
    """Return the statements that define every table."""
    # `read_parquet` expands patterns and has no way to escape them.
    if any(mark in str(columns) for mark in "*?[]{}"):
        message = f"DuckDB would read the name of the store folder as a pattern: `{columns.parent}`"
        raise Refused(message, hint="set `$UNSPOOL_HOME` to a path without the characters * ? [ ] { }")
    files: dict[str, list[str]] = {table: [] for table in part_tables()}
    for file in manifest.files():
        files[file.table].append(str(columns / file.name))
    if scope.answers is not None:
        files["answers"] = [scope.answers]
    revisions = [
        rows.revision
        for current in (manifest.lines, manifest.answers)
        for rows in current.values()
        if scope.sources is None or rows.source_id in scope.sources
    ]
    statements = [
        "CREATE SCHEMA parts",
        f"CREATE TABLE parts.current AS SELECT unnest({revisions}::BIGINT[]) AS revision",
    ]
    if scope.sources is not None:
        statements.append(f"CREATE TABLE parts.scope AS SELECT unnest({sorted(scope.sources)}::INTEGER[]) AS id")
    statements += [_part_statement(table, files[table.name], manifest, scope) for table in part_tables().values()]
    statements += view_statements(Path(__file__).with_name("views.sql"), day=_day_expression(zone), whose="")
    return EngineSetup(statements, sorted({path for paths in files.values() for path in paths}))


def view_statements(script: Path, **values: str) -> list[str]:
    """Return the statements of a script that makes views; `$name$` in it is a value, or text of `shared_views.sql`."""
    shared = Path(__file__).with_name("shared_views.sql").read_text("utf-8")
    named = re.split(r"^-- (\w+)\n", shared, flags=re.MULTILINE)[1:]
    texts = {**dict(zip(named[::2], named[1::2], strict=True)), **values}
    text = script.read_text("utf-8")
    for _ in range(2):  # what is shared may name a value
        text = re.sub(r"\$(\w+)\$", lambda found: texts[found[1]].strip(), text)
    text = re.sub(r"^--.*\n", "", text, flags=re.MULTILINE)
    return [statement.strip() for statement in text.split(";\n") if statement.strip()]


def column_definitions(table: Table) -> str:
    """Return the columns of a table of `parts.sql` for a `CREATE TABLE`. JSON is text there, as in Parquet."""
    return ", ".join(f'"{column.name}" {column.type.replace("JSON", "VARCHAR")}' for column in table.columns)


def _part_statement(table: Table, files: list[str], manifest: ColumnManifest, scope: SqlScope) -> str:
    if not files:
        return f"CREATE TABLE parts.{table.name} ({column_definitions(table)})"
    where = ""
    if table.name in WHOLE_TABLES:
        if scope.sources is not None:
            where = f" WHERE {'id' if table.name == 'sources' else 'source_id'} IN (SELECT id FROM parts.scope)"
    elif table.name != "prices" and not (table.name == "answers" and scope.answers):
        current = manifest.answers if table.name == "answers" else manifest.lines
        has_stale_rows = any(weight != manifest.parts[name].weight for name, weight in live_weights(current).items())
        # Comparing the revision of every row takes time, so it is left out where all rows are current.
        if scope.sources is not None or has_stale_rows:
            where = " WHERE revision IN (SELECT revision FROM parts.current)"
    return (
        f"CREATE VIEW parts.{table.name} AS SELECT * FROM read_parquet([{', '.join(map(sql_literal, files))}]){where}"
    )


def _day_expression(zone: tzinfo | None) -> str:
    """Return a SQL expression for the day of `time` in a time zone."""
    *before, (_, last) = zone_offsets(zone)
    # The engine knows no time zone but UTC: the offsets of the zone, and until when each applies, are in the statement.
    cases = " ".join(f"WHEN epoch_ms(time) < {until} THEN {offset}" for until, offset in before)
    offset = f"CASE {cases} ELSE {last} END" if before else str(last)
    return f"CAST(time + to_milliseconds({offset}) AS DATE)"


def resolve_scope(
    database: sqlite3.Connection,
    columns: Path,
    manifest: ColumnManifest,
    roots: Sequence[Path],
    prices: Sequence[Price],
) -> SqlScope:
    """Return the files that a query about some folders covers, and write the responses that count in them if needed."""
    query = f"SELECT id FROM sources WHERE {IN_FOLDER}"
    sources = frozenset(id for (id,) in database.execute(query, folder_parameters(roots)))
    total = database.execute("SELECT count(*) FROM sources").fetchone()[0]
    selected = None if len(sources) == total else sources
    homes = {row.path for row in read_homes(database)}
    if len(roots) == 1 and str(roots[0]) in homes:
        inside = folder_parameters(roots[0])["first"]
        if not any(path.startswith(inside) for path in homes):
            return SqlScope(selected)
    key = "\0".join(map(str, sorted(roots))).encode(errors="surrogateescape")
    name = f"scopes/{manifest.serial}-{hashlib.blake2b(key, digest_size=12).hexdigest()}.parquet"
    if not (columns / name).exists():
        from unspool.store.columns.dedupe_responses import deduplicated_rows  # loads prices; hardly ever needed

        temporary = f"{name}.{os.getpid()}"
        write_column_file(columns, temporary, "answers", list(deduplicated_rows(database, sources, prices)))
        (columns / temporary).replace(columns / name)
    return SqlScope(selected, str(columns / name))


class SqlTables(NamedTuple):
    """The SQL tables of some folders, over column files that are not removed while this is used."""

    columns: Path
    setup: EngineSetup
    database: sqlite3.Connection
    folder: Path
    """The folder of the store."""
    roots: Sequence[Path]


@contextmanager
def open_tables(
    database: sqlite3.Connection, folder: Path, roots: Sequence[Path], preferences: Preferences
) -> Iterator[SqlTables]:
    """Open the SQL tables of some folders over the column files as they are."""
    columns = folder / manifests.COLUMNS_FOLDER
    with manifests.open_manifest(columns) as manifest, translate_errors(folder):
        zone = parse_zone(preferences.timezone or "local")
        scope = resolve_scope(database, columns, manifest, list(roots), preferences.prices)
        yield SqlTables(columns, build_setup(columns, manifest, scope, zone), database, folder, roots)
