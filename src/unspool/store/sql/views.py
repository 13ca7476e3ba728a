"""The tables of SQL over the column files: a manifest and a scope in, statements for a connection out.

Rules
  1. Only what the manifest names is read, and of it only rows that are current and in the scope.
  2. Every table is there, with rows or without.

[merged: scopes.py] Which files a question is about, and what counts in them: folders in, a `Scope` out.

Rules
  1. What counts is what `unspool usage` counts. Where the question is about one home, the marks in `answers` say so;
     about a part of a home, or several folders, it is found anew among the files that are there.

[merged: prepared.py] The tables of SQL, ready to be asked: column files that are up to date in, what to run over them out.
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
from unspool.store.columns import manifest as manifests
from unspool.store.columns.manifest import Current, Manifest
from unspool.store.columns.merge import quoted
from unspool.store.columns.parquet import write
from unspool.store.columns.store_rows import WHOLE
from unspool.store.columns.tables import Table, parts, public
from unspool.store.database import telling
from unspool.store.preferences import Settings
from unspool.store.sync.changes import WITHIN, homes, within
from unspool.store.usage.report import days, zone_of

if TYPE_CHECKING:
    from unspool.prices.price_list import Price

_IDS = {"sources": "id"}
_UNSCOPED = frozenset({"prices"})


class Scope(NamedTuple):
    """Which files a question is about."""

    sources: frozenset[int] | None = None
    """None: all of them."""
    answers: str | None = None
    """The file with what counts in these, if the marks in the column files are about other folders."""


class Setup(NamedTuple):
    """What a connection must run, and the files it may read."""

    statements: list[str]
    files: list[str]


def setup(columns: Path, manifest: Manifest, scope: Scope, zone: tzinfo | None) -> Setup:
    """Return the statements that make every table."""
    if any(mark in str(columns) for mark in "*?[]{}"):
        message = f"DuckDB would take the name of the store's folder for a pattern: `{columns.parent}`"
        raise Refused(message, hint="let `$UNSPOOL_HOME` be a folder without any of * ? [ ] { } in its path")
    files: dict[str, list[str]] = {table: [] for table in parts()}
    for file in manifest.files():
        files[file.table].append(str(columns / file.name))
    if scope.answers is not None:
        files["answers"] = [scope.answers]
    statements = ["CREATE SCHEMA parts", *_chosen(manifest, scope)]
    for table in parts().values():
        statements.append(_part(table, files[table.name], manifest, scope))
    statements += views(zone)
    return Setup(statements, sorted({path for paths in files.values() for path in paths}))


def views(zone: tzinfo | None) -> list[str]:
    """Return the statements that make the tables of `columns.sql` from those of `parts.sql`."""
    script = re.sub(
        r"^--.*\n",
        "",
        Path(__file__).with_name("views.sql").read_text("utf-8").replace("$day$", _day(zone)),
        flags=re.MULTILINE,
    )
    return [statement.strip() for statement in script.split(";\n") if statement.strip()]


def comments(prefix: str = "", kind: str = "VIEW") -> Iterator[str]:
    """Yield the statements that tell what tables and columns mean."""
    for table in public().values():
        yield f"COMMENT ON {kind} {prefix}{table.name} IS '{quoted(table.comment)}'"
        for column in table.columns:
            yield f"""COMMENT ON COLUMN {prefix}{table.name}."{column.name}" IS '{quoted(column.comment)}'"""


def columns_of(table: Table) -> str:
    """Return the columns of a table of `parts.sql` as a statement declares them. JSON is text there."""
    return ", ".join(f'"{column.name}" {column.type.replace("JSON", "VARCHAR")}' for column in table.columns)


def _chosen(manifest: Manifest, scope: Scope) -> Iterator[str]:
    """Yield what makes the tables of revisions and files that are wanted."""
    wanted = scope.sources
    revisions = [
        one.revision
        for current in (manifest.lines, manifest.answers)
        for one in current.values()
        if wanted is None or one.source_id in wanted
    ]
    yield f"CREATE TABLE parts.current AS SELECT unnest({revisions}::BIGINT[]) AS revision"
    if wanted is not None:
        yield f"CREATE TABLE parts.scope AS SELECT unnest({sorted(wanted)}::INTEGER[]) AS id"


def _part(table: Table, files: list[str], manifest: Manifest, scope: Scope) -> str:
    if not files:
        return f"CREATE TABLE parts.{table.name} ({columns_of(table)})"
    where = ""
    if table.name in WHOLE:
        if scope.sources is not None:
            where = f" WHERE {_IDS.get(table.name, 'source_id')} IN (SELECT id FROM parts.scope)"
    elif table.name not in _UNSCOPED and not (table.name == "answers" and scope.answers):
        current = manifest.answers if table.name == "answers" else manifest.lines
        if scope.sources is not None or _has_dead_rows(manifest, current):
            where = " WHERE revision IN (SELECT revision FROM parts.current)"
    names = ", ".join(f"'{quoted(file)}'" for file in files)
    return f"CREATE VIEW parts.{table.name} AS SELECT * FROM read_parquet([{names}]){where}"


def _has_dead_rows(manifest: Manifest, current: dict[str, Current]) -> bool:
    alive: dict[str, int] = {}
    for one in current.values():
        alive[one.part] = alive.get(one.part, 0) + one.offset + 1
    return any(weight != manifest.parts[name].weight for name, weight in alive.items())


def _day(zone: tzinfo | None) -> str:
    """Return the day of `time` in a zone, as SQL."""
    *before, (_, last) = days(zone)
    cases = " ".join(f"WHEN epoch_ms(time) < {until} THEN {ahead}" for until, ahead in before)
    ahead = f"CASE {cases} ELSE {last} END" if before else str(last)
    return f"CAST(time + to_milliseconds({ahead}) AS DATE)"


def scope(
    database: sqlite3.Connection, columns: Path, manifest: Manifest, roots: Sequence[Path], prices: Sequence[Price]
) -> Scope:
    """Return what a question about some folders is about."""
    query = f"SELECT id FROM sources WHERE {WITHIN}"
    sources = frozenset(id for root in roots for (id,) in database.execute(query, within(root)))
    every = database.execute("SELECT count(*) FROM sources").fetchone()[0]
    chosen = None if len(sources) == every else sources
    if len(roots) == 1 and _is_home(database, roots[0]):
        return Scope(chosen)
    key = "\0".join(map(str, sorted(roots))).encode(errors="surrogateescape")
    name = f"scopes/{manifest.serial}-{hashlib.blake2b(key, digest_size=12).hexdigest()}.parquet"
    if not (columns / name).exists():
        from unspool.store.columns.dedupe_responses import counted

        new = f"{name}.{os.getpid()}"
        write(columns, new, "answers", list(counted(database, sources, prices)))
        (columns / new).replace(columns / name)
    return Scope(chosen, str(columns / name))


def _is_home(database: sqlite3.Connection, root: Path) -> bool:
    """Tell whether a folder is a home and no other is inside."""
    found = homes(database)
    inner = within(root)["first"]
    return any(row.path == str(root) for row in found) and not any(row.path.startswith(inner) for row in found)


class Tables(NamedTuple):
    """Column files that stay as they are while this is used."""

    columns: Path
    setup: Setup
    database: sqlite3.Connection
    folder: Path
    """Of the store."""
    roots: Sequence[Path]


@contextmanager
def tables(database: sqlite3.Connection, folder: Path, roots: Sequence[Path], chosen: Settings) -> Iterator[Tables]:
    """Return the tables of some folders, as the column files have them."""
    columns = folder / manifests.FOLDER
    with manifests.reading(columns) as manifest, telling(folder):
        zone = zone_of(chosen.timezone or "local")
        wanted = scope(database, columns, manifest, list(roots), chosen.prices)
        yield Tables(columns, setup(columns, manifest, wanted, zone), database, folder, roots)
