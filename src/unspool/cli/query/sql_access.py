"""Brings the column files of config folders up to date and opens them for SQL."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
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
    from unspool.store.columns import RefreshOptions
    from unspool.store.sql import SqlTables

LARGE_BYTES = 16 * 1024 * 1024
"""Bytes whose reading takes long enough to show a bar."""


@contextmanager
def open_sql_tables(
    config_dirs: Iterable[str | None], how: store_access.AccessOptions, *, deep: bool = False
) -> Iterator[SqlTables]:
    """Bring the column files of some folders up to date. Without a store, one is made for the while."""
    parquet.require_sql_libraries()
    from unspool.store.columns import refresh as column_files
    from unspool.store.sql import open_tables

    with ExitStack() as stack:
        each = stack.enter_context(store_access.open_folders(config_dirs, how._replace(wait=True)))
        roots, chosen, folder = [one.root for one in each], each[0].preferences, each[0].folder
        database = each[0].database
        if any(one.database is None for one in each) or database is None:
            folder, database = _for_the_while(roots, chosen, stack)
        with ExitStack() as bars:
            refreshed = column_files.refresh_columns(database, folder, _asked(chosen, bars, deep=deep))
        if refreshed.lost:
            store_access.warn("column files were damaged or missing, and were made again")
        for path, reason in refreshed.failed:
            store_access.warn(f"left out `{path}`: {reason}")
        yield stack.enter_context(open_tables(database, folder, roots, chosen))


def _for_the_while(roots: list[Path], chosen: Preferences, stack: ExitStack) -> tuple[Path, sqlite3.Connection]:
    """Read folders into a store that is removed afterwards."""
    import tempfile

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="unspool-")))
    database = open_store(folder)
    stack.callback(database.close)
    for root in roots:
        store_access.sync_store(database, root, folder, chosen._replace(archive=False))
    return folder, database


def _asked(chosen: Preferences, stack: ExitStack, *, deep: bool) -> RefreshOptions:
    from unspool.store.columns import RefreshOptions

    bar: list[Callable[[int], None]] = []

    def begin(total: int) -> None:
        bar.append(stack.enter_context(output.progress_bar(total if total > LARGE_BYTES else 0, "making column files")))

    def advance(done: int) -> None:
        bar[0](done)

    return RefreshOptions(
        prices=chosen.prices,
        price_edition=preferences.price_edition(chosen),
        begin=begin,
        advance=advance,
        at=on_step(),
        deep=deep,
    )


def is_terminal() -> bool:
    """Tell whether a person reads the output."""
    return sys.stdout.isatty()
