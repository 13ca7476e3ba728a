"""Prepares SQL over a lake: the statements that a DuckDB connection runs first.

Rules
  1. Only files that the tables' own logs name are read; a folder is never searched for files.
  2. A query sees one snapshot of each table; what is written meanwhile is for the next query.
  3. Files of a lake in an object store are fetched first: those of the tables that the query names, in the partitions
     that it reads (`partition_selection.py`). They never change, so each is fetched once.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from unspool.collect.lake.lake import Lake, has_late_columns, translate_lake_errors
from unspool.collect.lake.partition_selection import select_files
from unspool.collect.lake.tables import lake_tables, partition_columns
from unspool.errors import Refused
from unspool.files import write_atomically
from unspool.store.columns import Table, part_tables, price_rows, sql_literal
from unspool.store.sql import EngineSetup, column_definitions, view_statements

if TYPE_CHECKING:
    from deltalake import DeltaTable

_PATTERN = "*?[]{}"
_WORD = re.compile(r"\w+")
_HIVE = "hive_partitioning = true, hive_types_autocast = false"


def engine_setup(lake: Lake, cache: Path, query: str | None = None) -> tuple[EngineSetup, Path]:
    """Return the statements that create every table, and the folder of the files. `query` limits what is fetched."""
    folder = lake.folder or _cache_folder(lake, cache)
    # `read_parquet` takes every path for a pattern.
    if any(mark in str(folder) for mark in _PATTERN):
        message = f"DuckDB would read the folder name as a pattern: `{folder}`"
        raise Refused(message, hint="use a path without the characters * ? [ ] { }")
    needed = set(lake_tables()) if lake.folder or query is None else _tables_of_query(query)
    statements, files = ["CREATE SCHEMA parts"], list[str]()
    later_statements = [_create_prices(), *_view_statements()]
    paths = {name: _logged_files(lake, name) for name in lake_tables() if name in needed}
    if not lake.folder:
        selected = paths if query is None else select_files(paths, query, later_statements)
        for name, current in paths.items():
            _fetch(lake, folder, name, selected[name])
            _remove_old(folder, name, current)
        paths = selected
    for name, table in lake_tables().items():
        table_files = sorted(str(folder / name / path) for path in paths.get(name, ()))
        files += table_files
        statements.append(_create_part(lake, table, table_files))
    return EngineSetup([*statements, *later_statements], files), folder


def table_paths(table: DeltaTable) -> list[str]:
    """Return the files of a table, as its log names them."""
    column: Any = table.get_add_actions(flatten=True).column("path")
    return [str(path) for path in column.to_pylist()]


def _logged_files(lake: Lake, name: str) -> list[str]:
    """Return the paths of the files of a table below its folder."""
    # Replaced files stay in the folder until a vacuum, so only the log says which count. It quotes paths as URLs do.
    with translate_lake_errors(lake.url):
        return [unquote(path) for path in table_paths(lake.table(name, fresh=True))]


def _create_part(lake: Lake, table: Table, files: list[str]) -> str:
    if not files:
        columns = column_definitions(
            Table("", "", tuple(column._replace(type=_plain_type(column.type)) for column in table.columns))
        )
        return f"CREATE TABLE parts.{table.name} ({columns})"
    if has_late_columns(lake.table(table.name), table):
        return _create_uneven_part(table, files)
    times = [column.name for column in table.columns if column.type == "TIMESTAMPTZ"]
    casts = ", ".join(f"CAST({name} AS TIMESTAMP) AS {name}" for name in times)
    star = f"* REPLACE ({casts})" if casts else "*"
    types = {name: "DATE" if name == "day" else "INTEGER" for name in partition_columns(table.name)}
    partitions = f", {_HIVE}, hive_types = {types}" if types else ""
    names = ", ".join(sql_literal(file) for file in files)
    return f"CREATE VIEW parts.{table.name} AS SELECT {star} FROM read_parquet([{names}]{partitions})"


def _create_uneven_part(table: Table, files: list[str]) -> str:
    """Return the statement for a table whose files differ in their columns: where one is missing, it is null."""
    # Opens every file for its columns, which costs time; so only a table that had columns added is read this way.
    times = {column.name for column in table.columns if column.type == "TIMESTAMPTZ"}
    names = ", ".join(f'"{name}"::TIMESTAMP AS "{name}"' if name in times else f'"{name}"' for name in table.names)
    types = {name: "DATE" if name == "day" else "INTEGER" for name in partition_columns(table.name)}
    partitions = f", {_HIVE}, hive_types = {types}" if types else ""
    paths = ", ".join(sql_literal(file) for file in files)
    empty = ", ".join(f'NULL::{column.type.replace("TEXT", "VARCHAR")} AS "{column.name}"' for column in table.columns)
    union = f"""SELECT {empty} WHERE false UNION ALL BY NAME
        SELECT * FROM read_parquet([{paths}], union_by_name = true{partitions})"""
    return f"CREATE VIEW parts.{table.name} AS SELECT {names} FROM ({union})"


def _plain_type(type: str) -> str:
    return {"TIMESTAMPTZ": "TIMESTAMP", "TEXT": "VARCHAR"}.get(type, type)


def _view_statements() -> list[str]:
    return view_statements(Path(__file__).with_name("views.sql"), whose="org, user, device,")


def _create_prices() -> str:
    """Return the statement that creates the price list."""
    table = part_tables()["prices"]
    rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in price_rows(()))
    names = ", ".join(f'"{name}"' for name in table.names)
    casts = ", ".join(
        f"(DATE '1970-01-01' + {column.name}::INTEGER) AS since"
        if column.type == "DATE"
        else f'"{column.name}"::{column.type} AS "{column.name}"'
        for column in table.columns
    )
    return f"CREATE TABLE prices AS SELECT {casts} FROM (VALUES {rows}) AS t({names})"


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return sql_literal(value)
        case _:
            return str(value).upper() if isinstance(value, bool) else str(value)


def _tables_of_query(query: str) -> set[str]:
    """Return the tables of the lake that a query needs: by the words in it, and in the views that it names."""
    # Words, not a parser: a table too many is only fetched in vain.
    views = {statement.split()[2]: set(_WORD.findall(statement)) for statement in _view_statements()}
    words = {word.lower() for word in _WORD.findall(query)}
    needed = {table for view, tables in views.items() if view in words for table in tables}
    return {table for table in lake_tables() if table in needed or table in words}


def _cache_folder(lake: Lake, cache: Path) -> Path:
    folder = cache / hashlib.sha256(lake.url.encode()).hexdigest()[:16]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _fetch(lake: Lake, folder: Path, name: str, paths: Iterable[str]) -> None:
    """Fetch files of a table that are not in the cache."""
    for path in paths:
        target = folder / name / path
        if not target.exists():
            data = lake.object_store.get(f"{name}/{quote(path, safe='/=')}")
            if data is None:
                raise Refused(
                    f"a file of the table `{name}` no longer exists", hint="a vacuum removed it; run the query again"
                )
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(target, data)  # another process may query from the same cache


def _remove_old(folder: Path, name: str, paths: Iterable[str]) -> None:
    """Remove the files that a table no longer has from the cache."""
    kept = {folder / name / path for path in paths}
    for old in (folder / name).rglob("*.parquet"):
        if old not in kept:
            old.unlink(missing_ok=True)
