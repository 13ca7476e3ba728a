"""How commands come to the tables of SQL: folders in; the column files up to date, and what to run over them, out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from unspool.cli import output, store_access
from unspool.store.columns import parquet
from unspool.store.database import open_store
from unspool.testing.faults import fault

if TYPE_CHECKING:
    import sqlite3

    from unspool.store.columns.refresh import Asked
    from unspool.store.preferences import Settings
    from unspool.store.sql.views import Tables

LARGE = 16 * 1024 * 1024
"""Bytes whose reading takes long enough to show a bar."""


@contextmanager
def opened(config_dirs: Iterable[str | None], how: store_access.How, *, deep: bool = False) -> Iterator[Tables]:
    """Bring the column files of some folders up to date. Without a store, one is made for the while."""
    parquet.check()
    from unspool.store.columns import refresh as column_files
    from unspool.store.sql.views import tables

    with ExitStack() as stack:
        each = stack.enter_context(store_access.opened_each(config_dirs, how._replace(wait=True)))
        roots, chosen, folder = [one.root for one in each], each[0].settings, each[0].folder
        database = each[0].database
        if any(one.database is None for one in each) or database is None:
            folder, database = _for_the_while(roots, chosen, stack)
        with ExitStack() as bars:
            refreshed = column_files.refresh(database, folder, _asked(chosen, bars, deep=deep))
        if refreshed.lost:
            store_access.warn("column files were damaged or missing, and were made again")
        for path, reason in refreshed.failed:
            store_access.warn(f"left out `{path}`: {reason}")
        yield stack.enter_context(tables(database, folder, roots, chosen))


def _for_the_while(roots: list[Path], chosen: Settings, stack: ExitStack) -> tuple[Path, sqlite3.Connection]:
    """Read folders into a store that is removed afterwards."""
    import tempfile

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="unspool-")))
    database = open_store(folder)
    stack.callback(database.close)
    for root in roots:
        store_access.synced(database, root, folder, chosen._replace(archive=False))
    return folder, database


def _asked(chosen: Settings, stack: ExitStack, *, deep: bool) -> Asked:
    from unspool.store.columns.refresh import Asked

    bar: list[Callable[[int], None]] = []

    def begin(total: int) -> None:
        bar.append(stack.enter_context(output.progress(total if total > LARGE else 0, "making column files")))

    def advance(done: int) -> None:
        bar[0](done)

    return Asked(
        prices=chosen.prices,
        edition=store_access.edition(chosen),
        begin=begin,
        advance=advance,
        at=fault(os.environ),
        deep=deep,
    )


def is_terminal() -> bool:
    """Tell whether a person reads the output."""
    return sys.stdout.isatty()
