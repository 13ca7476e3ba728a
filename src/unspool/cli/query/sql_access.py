"""Brings the column files of config folders up to date and opens them for SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.cli import output, store_access
from unspool.cli.main import on_step
from unspool.store import open_store, preferences
from unspool.store.columns import parquet

if TYPE_CHECKING:
    import sqlite3

    from unspool.store import Preferences
    from unspool.store.sql import SqlTables


@contextmanager
def open_sql_tables(
    config_dirs: Iterable[str | None], access: store_access.AccessOptions, *, deep: bool = False
) -> Iterator[SqlTables]:
    """Bring the column files of some folders up to date and open them. Without a store, a temporary one is made."""
    parquet.require_sql_libraries()
    # After the check: without the libraries these imports would fail with a traceback.
    from unspool.store.columns import RefreshOptions, refresh
    from unspool.store.sql import open_tables

    with ExitStack() as stack:
        # Waits for a first sync: the tables are made from a store, there is no answering from the files.
        opened = stack.enter_context(store_access.open_folders(config_dirs, access._replace(wait=True)))
        roots, settings, folder = [each.root for each in opened], opened[0].preferences, opened[0].folder
        database = opened[0].database
        if any(each.database is None for each in opened) or database is None:
            folder, database = _make_temporary_store(roots, settings, stack)
        with ExitStack() as bars:
            begin, advance = store_access.delayed_progress_bar(bars, "making column files")
            options = RefreshOptions(
                prices=settings.prices,
                price_edition=preferences.price_edition(settings),
                begin=begin,
                advance=advance,
                at=on_step(),
                deep=deep,
            )
            refreshed = refresh.refresh_columns(database, folder, options)
        if refreshed.lost:
            output.warn("column files were damaged or missing, and were made again")
        for path, reason in refreshed.failed:
            output.warn_left_out(path, reason)
        yield stack.enter_context(open_tables(database, folder, roots, settings))


def _make_temporary_store(
    roots: list[Path], settings: Preferences, stack: ExitStack
) -> tuple[Path, sqlite3.Connection]:
    """Read folders into a store that is removed afterwards."""
    import tempfile

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="unspool-")))
    database = open_store(folder)
    stack.callback(database.close)
    for root in roots:
        store_access.sync_store(database, root, folder, settings._replace(archive=False))
    return folder, database
