"""Prepares SQL over a lake: the statements that a DuckDB connection runs first.

Rules
  1. Only files that the tables' own logs name are read; a folder is never searched for files.
  2. All tables are as they were at one moment each; what is written meanwhile is for the next question.
  3. Files of a lake that is no folder are fetched first, those of the tables that a question speaks of. They never
     change, so each is fetched once.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from unspool.collect.lake.lake import Lake, translate_lake_errors
from unspool.collect.lake.tables import lake_tables, partition_columns
from unspool.errors import Refused
from unspool.store.columns import Table, part_tables, price_rows, sql_literal
from unspool.store.sql import EngineSetup, column_definitions

if TYPE_CHECKING:
    from deltalake import DeltaTable

_PATTERN = "*?[]{}"
_WORD = re.compile(r"\w+")
_HIVE = "hive_partitioning = true, hive_types_autocast = false"


def engine_setup(lake: Lake, cache: Path, query: str | None = None) -> tuple[EngineSetup, Path]:
    """Return what makes every table, and the folder that the files are in. `query` is what will be asked, if known."""
    folder = lake.folder or _cached(lake, cache)
    if any(mark in str(folder) for mark in _PATTERN):
        message = f"DuckDB would take the name of the folder for a pattern: `{folder}`"
        raise Refused(message, hint="let it be a folder without any of * ? [ ] { } in its path")
    wanted = set(lake_tables()) if lake.folder or query is None else _spoken_of(query)
    statements, files = ["CREATE SCHEMA parts"], list[str]()
    for name, table in lake_tables().items():
        found = _files(lake, folder, name) if name in wanted else []
        files += found
        statements.append(_part(table, found))
    statements += [_prices(), *_views()]
    return EngineSetup(statements, files), folder


def table_paths(table: DeltaTable) -> list[str]:
    """Return the files of a table, as its log names them."""
    column: Any = table.get_add_actions(flatten=True).column("path")
    return [str(path) for path in column.to_pylist()]


def _files(lake: Lake, folder: Path, name: str) -> list[str]:
    """Return where the files of a table are; those of a lake elsewhere are fetched."""
    with translate_lake_errors(lake.url):
        found = [_decoded(path) for path in table_paths(lake.table(name, fresh=True))]
    if not lake.folder:
        _fetch(lake, folder, name, found)
    return sorted(str(folder / name / path) for path in found)


def _decoded(path: str) -> str:
    return unquote(path)


def _part(table: Table, files: list[str]) -> str:
    if not files:
        columns = column_definitions(Table("", "", tuple(one._replace(type=_plain(one.type)) for one in table.columns)))
        return f"CREATE TABLE parts.{table.name} ({columns})"
    times = [one.name for one in table.columns if one.type == "TIMESTAMPTZ"]
    casts = ", ".join(f"CAST({name} AS TIMESTAMP) AS {name}" for name in times)
    star = f"* REPLACE ({casts})" if casts else "*"
    types = {name: "DATE" if name == "day" else "INTEGER" for name in partition_columns(table.name)}
    told = f", {_HIVE}, hive_types = {types}" if types else ""
    names = ", ".join(sql_literal(file) for file in files)
    return f"CREATE VIEW parts.{table.name} AS SELECT {star} FROM read_parquet([{names}]{told})"


def _plain(type: str) -> str:
    return {"TIMESTAMPTZ": "TIMESTAMP", "TEXT": "VARCHAR"}.get(type, type)


def _views() -> list[str]:
    script = (Path(__file__).parent / "views.sql").read_text("utf-8")
    script = re.sub(r"^--.*\n", "", script, flags=re.MULTILINE)
    return [statement.strip() for statement in script.split(";\n") if statement.strip()]


def _prices() -> str:
    """Return what makes the price list."""
    table = part_tables()["prices"]
    rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in price_rows(()))
    names = ", ".join(f'"{name}"' for name in table.names)
    casts = ", ".join(
        f"(DATE '1970-01-01' + {one.name}::INTEGER) AS since"
        if one.type == "DATE"
        else f'"{one.name}"::{one.type} AS "{one.name}"'
        for one in table.columns
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


def _spoken_of(query: str) -> set[str]:
    """Return the tables of the lake that a question needs: by the words in it, and in the views that it names."""
    made = {statement.split()[2]: set(_WORD.findall(statement)) for statement in _views()}
    words = {word.lower() for word in _WORD.findall(query)}
    needed = {table for view, told in made.items() if view in words for table in told}
    return {table for table in lake_tables() if table in needed or table in words}


def _cached(lake: Lake, cache: Path) -> Path:
    folder = cache / hashlib.sha256(lake.url.encode()).hexdigest()[:16]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _fetch(lake: Lake, folder: Path, name: str, wanted: Iterable[str]) -> None:
    """Fetch the files of a table that are not here, and remove those that it has no longer."""
    kept = set()
    for path in wanted:
        target = folder / name / path
        kept.add(target)
        if not target.exists():
            data = lake.place.get(f"{name}/{quote(path, safe='/=')}")
            if data is None:
                raise Refused(f"a file of the table `{name}` has gone", hint="it was vacuumed; ask again")
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = target.with_name(f"{target.name}.{os.getpid()}")
            new.write_bytes(data)
            new.replace(target)
    for old in (folder / name).rglob("*.parquet"):
        if old not in kept:
            old.unlink(missing_ok=True)
