"""The tables of SQL in a connection of one's own: a notebook, a script.

    import duckdb, unspool

    connection = duckdb.connect()
    unspool.register(connection)
    connection.sql("SELECT date, cost_micros FROM daily").show()

Rules
  1. The tables are as new as the call; another call brings them up to date.
  2. Nothing is written to the connection's own database: they are temporary views over one in memory.
  3. The column files stay as they are until the process ends, whatever other processes do meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.paths import config_folder, data_folder, existing
from unspool.store import manifest as manifests
from unspool.store import parquet, settings
from unspool.store.archive import Archive
from unspool.store.columns import Asked, refresh
from unspool.store.database import locked, open_archive, open_store, telling
from unspool.store.freshness import compare, is_filled, is_synced
from unspool.store.rebuild import rebuild
from unspool.store.scopes import scope
from unspool.store.settings import Settings, edition
from unspool.store.sync import Wishes, sync
from unspool.store.tables import public
from unspool.store.usage import zone_of
from unspool.store.views import Setup, setup

if TYPE_CHECKING:
    import duckdb

_DATABASE = "unspool_tables"


def register(
    connection: duckdb.DuckDBPyConnection, config_dir: str | Path | Sequence[str | Path] | None = None
) -> None:
    """Give a DuckDB connection the tables of `unspool sql`: of a config folder, any tree, or several of them.

    Without a folder it is `$CLAUDE_CONFIG_DIR`, else `~/.claude`. The store is brought up to date first.
    """
    parquet.check()
    named = [config_dir] if config_dir is None or isinstance(config_dir, str | Path) else list(config_dir)
    roots = [existing(config_folder(str(one) if one else None, os.environ)) for one in named]
    made = _setup(data_folder(os.environ), list(dict.fromkeys(roots)))
    catalog, schema = connection.execute("SELECT current_catalog(), current_schema()").fetchone() or ("", "")
    connection.execute(f"DETACH DATABASE IF EXISTS {_DATABASE}")
    connection.execute(f"ATTACH ':memory:' AS {_DATABASE}")
    connection.execute(f"USE {_DATABASE}")
    try:
        for statement in made.statements:
            connection.execute(statement)
    finally:
        connection.execute(f'USE "{catalog}"."{schema}"')
    for name in public():
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM {_DATABASE}.main.{name}")


def _setup(folder: Path, roots: list[Path]) -> Setup:
    chosen = settings.read(folder)
    with telling(folder), closing(open_store(folder)) as database:
        for root in roots:
            _sync(database, root, folder, chosen)
        refresh(database, folder, Asked(prices=chosen.prices, edition=edition(chosen)))
        columns = folder / manifests.FOLDER
        manifests.hold(columns)  # until the process ends: nobody tells when a connection is not used any more
        manifest = manifests.read(columns)
        wanted = scope(database, columns, manifest, roots, chosen.prices)
        return setup(columns, manifest, wanted, zone_of(chosen.timezone or "local"))


def _sync(database: sqlite3.Connection, root: Path, folder: Path, chosen: Settings) -> None:
    """Bring the store up to date with a folder, if it is not."""
    priced = database.execute("SELECT value FROM made_with WHERE name = 'prices'").fetchone()
    fresh = compare(database, root).is_fresh and is_synced(database, root)
    if fresh and priced == (edition(chosen),):
        return
    wishes = Wishes(archive=chosen.archive, prices=chosen.prices, edition=edition(chosen))
    with closing(open_archive(folder)) as kept, locked(folder):
        archive = Archive(kept)
        if not is_filled(database):
            rebuild(database, archive, wishes, folder)
        sync(database, archive, root, wishes)
