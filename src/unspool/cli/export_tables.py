"""`unspool export --parquet` and `--duckdb`: all tables written out for other tools."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from unspool.cli import columns, reading
from unspool.errors import Usage


def export_tables(
    config_dirs: Iterable[str | None], how: reading.How, parquet: str | None, duckdb: str | None, *, raw: bool
) -> None:
    """Write the tables of some folders to a new folder of Parquet files, or to a new database."""
    if parquet and duckdb:
        raise Usage("`--parquet` does not go with `--duckdb`", hint="choose one")
    with columns.opened(config_dirs, how) as tables:
        from unspool.store import dump, snapshot
        from unspool.store.freshness import WITHIN, within

        query, lines = f"SELECT id FROM sources WHERE {WITHIN}", None
        if raw:
            ids = {id for root in tables.roots for (id,) in tables.database.execute(query, within(root))}
            known = [one for one in snapshot.sources(tables.database) if one.id in ids]
            lines = dump.raw_lines(known, tables.folder, _left_out)
        if parquet:
            dump.to_parquet(tables.setup, Path(parquet), lines)
        else:
            dump.to_duckdb(tables.setup, Path(duckdb or ""), lines)


def _left_out(path: str, reason: str) -> None:
    reading.warn(f"left out `{path}`: {reason}")
