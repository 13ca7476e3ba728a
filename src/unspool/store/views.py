"""The tables of SQL over the column files: a manifest and a scope in, statements for a connection out.

Rules
  1. Only what the manifest names is read, and of it only rows that are current and in the scope.
  2. Every table is there, with rows or without.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path
from typing import NamedTuple

from unspool.errors import Refused
from unspool.store.manifest import Current, Manifest
from unspool.store.merging import quoted
from unspool.store.snapshot import WHOLE
from unspool.store.tables import Table, parts, public, text
from unspool.store.usage import days

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
    script = re.sub(r"^--.*\n", "", text("views.sql").replace("$day$", _day(zone)), flags=re.MULTILINE)
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
