"""Selects the files of a remote lake that a query reads, so that the others need not be fetched.

Rules
  1. DuckDB itself says which partitions a query reads: the query is explained over empty files, one for each partition.
     The plan has for each scan the condition on its partition columns.
  2. Every table has one more such column, its own name. So the condition of a scan says of which table it is. DuckDB
     names a condition only if it excludes a file: each table has one file with another name.
  3. Whatever is not understood means: all files. Too many files cost time, one too few would be a wrong answer.
  4. Optimizations that depend on the content of files are off: these files are empty, and the real ones are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from unspool.collect.lake.tables import lake_tables, partition_columns
from unspool.errors import UnspoolError, UsageError
from unspool.store.columns import Table, arrow_schema, sql_literal
from unspool.store.sql import EngineSetup, QueryLimits, SqlEngine, fetch_text_rows

_TABLE = "unspool_table"
_OPTIMIZERS_OFF = ("statistics_propagation", "empty_result_pullup", "row_group_pruner")
_LONGEST_QUERY = 100_000


def select_files(
    files: Mapping[str, Sequence[str]], query: str, later_statements: Sequence[str]
) -> dict[str, list[str]]:
    """Return by table those of its files that a query reads, as far as their partitions tell.

    `files` has the paths of each table below its folder (`day=2026-01-05/part-….parquet`). `later_statements` create
    the views over `parts`.
    """
    every = {name: list(paths) for name, paths in files.items()}
    partitioned = {
        name: sorted({path.rpartition("/")[0] for path in paths})
        for name, paths in files.items()
        if paths and partition_columns(name)
    }
    if not partitioned or len(query) > _LONGEST_QUERY:
        return every
    with TemporaryDirectory(prefix="unspool-plan-") as folder:
        setup = _empty_tables(Path(folder), partitioned, later_statements)
        try:
            with SqlEngine(setup, folder, QueryLimits(deadline=20.0)) as engine:
                read = _read_partitions(engine, query)
        except UnspoolError:
            return every
    if read is None:
        return every
    return {
        name: [path for path in paths if (name, path.rpartition("/")[0]) in read] if name in partitioned else paths
        for name, paths in every.items()
    }


def _read_partitions(engine: SqlEngine, query: str) -> set[tuple[str, str]] | None:
    """Return the partitions that a query reads, as (table, folder); None if that is not certain."""
    _, rows = fetch_text_rows(engine, f"EXPLAIN (FORMAT json) {query}", null=None)
    plans = [row[1] for row in rows]
    if len(plans) != 1:
        return None
    read: set[tuple[str, str]] = set()
    for scan in _find_scans(msgspec.json.decode(plans[0])):
        condition = scan.get("File Filters")
        if not isinstance(condition, str) or f"{_TABLE} = " not in condition:
            return None
        select = f"SELECT {_TABLE}, folder FROM parts.partitions WHERE {_join_conditions(condition)}"
        _, found = fetch_text_rows(engine, select, null=None)
        read |= {(str(name), str(folder)) for name, folder in found}
    return read


def _join_conditions(text: str) -> str:
    """Return the conditions of a scan as one: a plan has them one after the other, each in parentheses.

    >>> _join_conditions("(a = ')(')(b IN ('x', 'y'))")
    "(a = ')(') AND (b IN ('x', 'y'))"
    """
    joined, depth, is_quoted = "", 0, False
    for sign in text:
        if sign == "'":
            is_quoted = not is_quoted
        elif not is_quoted:
            joined += " AND " if sign == "(" and not depth and joined else ""
            depth += (sign == "(") - (sign == ")")
        joined += sign
    return joined


def _find_scans(nodes: Any) -> Iterator[dict[str, Any]]:
    """Yield what a plan says of each scan of files."""
    if not isinstance(nodes, list):
        raise UsageError("not a query plan")
    for node in nodes:
        details = node.get("extra_info") or {}
        if "PARQUET" in str(node.get("name", "")).upper() or "Scanning Files" in details:
            yield details
        yield from _find_scans(node.get("children") or [])


def _empty_tables(
    folder: Path, partitioned: Mapping[str, Sequence[str]], later_statements: Sequence[str]
) -> EngineSetup:
    """Write an empty file for each partition; return the statements that create all tables over them."""
    statements = [f"SET disabled_optimizers = {sql_literal(','.join(_OPTIMIZERS_OFF))}", "CREATE SCHEMA parts"]
    files, rows = list[str](), list[str]()
    for name, table in lake_tables().items():
        own_places = partitioned.get(name, [""])
        places = [folder / f"{_TABLE}={name}" / place for place in own_places]
        places.append(folder / name / f"{_TABLE}=-" / own_places[0])
        own = [str(path) for path in _write_empty_files(table, places)]
        files += own
        statements.append(_create_view(table, own, has_partitions=name in partitioned))
        for place in partitioned.get(name, ()):
            values = dict(part.split("=", 1) for part in place.split("/"))
            day, bucket = values.get("day"), values.get("bucket")
            day_cell = f"DATE {sql_literal(day)}" if day else "NULL"
            rows.append(f"({sql_literal(name)}, {sql_literal(place)}, {day_cell}, {bucket or 'NULL'})")
    columns = f"{_TABLE} VARCHAR, folder VARCHAR, day DATE, bucket INTEGER"
    statements += [
        f"CREATE TABLE parts.partitions ({columns})",
        f"INSERT INTO parts.partitions VALUES {', '.join(rows)}",
        *later_statements,
    ]
    return EngineSetup(statements, files)


def _write_empty_files(table: Table, places: Sequence[Path]) -> Iterator[Path]:
    from arro3.core import Table as ArrowTable
    from arro3.io import write_parquet

    kept = [column for column in table.columns if column.name not in partition_columns(table.name)]
    empty = ArrowTable.from_batches([], schema=arrow_schema(table._replace(columns=tuple(kept))))
    first: Path | None = None
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        path = place / "empty.parquet"
        # A link, not a copy: there may be a thousand partitions.
        if first is None:
            write_parquet(empty, str(path))
            first = path
        else:
            os.link(first, path)
        yield path


def _create_view(table: Table, files: Sequence[str], *, has_partitions: bool) -> str:
    types = {_TABLE: "VARCHAR"}
    columns = partition_columns(table.name) if has_partitions else []
    types |= {name: "DATE" if name == "day" else "INTEGER" for name in columns}
    paths = ", ".join(sql_literal(file) for file in files)
    hive = f"hive_partitioning = true, hive_types_autocast = false, hive_types = {types}"
    missing = "".join(
        f", NULL::{'DATE' if name == 'day' else 'INTEGER'} AS {name}"
        for name in partition_columns(table.name)
        if not has_partitions
    )
    times = [column.name for column in table.columns if column.type == "TIMESTAMPTZ"]
    casts = ", ".join(f"CAST({name} AS TIMESTAMP) AS {name}" for name in times)
    star = f"* EXCLUDE ({_TABLE}){f' REPLACE ({casts})' if casts else ''}{missing}"
    source = f"read_parquet([{paths}], {hive})"
    return f"CREATE VIEW parts.{table.name} AS SELECT {star} FROM {source} WHERE {_TABLE} = '{table.name}'"
