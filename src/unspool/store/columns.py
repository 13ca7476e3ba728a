"""The column files brought up to date: the store in, Parquet out, in time proportional to what has changed.

Rules
  1. One process does it at a time. It may be killed anywhere (`STEPS`): what the manifest named before holds, and the
     next refresh goes on from there.
  2. A file is derived again only when it has changed; what was billed in it also when a file that shares a response
     with it has.
  3. Small parts are made one as they become many, and parts of which half is out of date are written anew: their number
     stays bounded, and so does what is rewritten.
  4. Everything here can be deleted at any time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unspool.errors import Unwritable
from unspool.store import manifest as manifests
from unspool.store import snapshot
from unspool.store.database import locked
from unspool.store.manifest import FOLDER, Manifest
from unspool.store.snapshot import Known

if TYPE_CHECKING:
    from unspool.prices.table import Price

STEPS = ("planned", "derived", "named", "billed", "tables", "merged", "recorded", "published", "swept")
"""The places where a refresh may be killed, in order; `derived` to `published` may come more than once."""


class Asked(NamedTuple):
    """How a refresh is to be done."""

    prices: tuple[Price, ...] = ()
    """A person's own."""
    edition: str = ""
    """Of all prices."""
    workers: int | None = None
    begin: Callable[[int], None] = lambda _: None
    """Told how many bytes there are to read."""
    advance: Callable[[int], None] = lambda _: None
    """Told how many were read."""
    at: Callable[[str], None] = lambda _: None
    """Told which of `STEPS` was reached."""
    deep: bool = False
    """Compare every byte of the column files with what was written."""


class Refreshed(NamedTuple):
    """What a refresh did."""

    files_derived: int = 0
    bytes_read: int = 0
    files_billed: int = 0
    """Files whose responses were written again."""
    tables_written: int = 0
    parts_merged: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    lost: int = 0
    """Column files that were damaged or missing."""


def refresh(database: sqlite3.Connection, folder: Path, asked: Asked) -> Refreshed:
    """Bring the column files of a store up to date."""
    columns = folder / FOLDER
    held = manifests.read(columns)
    with reading(database):
        known = snapshot.sources(database)
    if _is_current(columns, held, known, asked):
        return Refreshed()
    from unspool.store.refreshing import Refresh  # a question about what has not changed needs no decoder

    with telling(columns):
        manifests.make_folders(columns)
        with locked(columns):
            held = manifests.read(columns)
            with reading(database):
                return Refresh(database, folder, held, asked).do()


@contextmanager
def reading(database: sqlite3.Connection) -> Iterator[None]:
    """Read from one state of a database, whatever others write meanwhile."""
    database.execute("BEGIN")
    try:
        yield
    finally:
        with suppress(sqlite3.Error):
            database.execute("ROLLBACK")


@contextmanager
def telling(columns: Path) -> Iterator[None]:
    """Say in our words that column files cannot be written."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "nothing is lost; make room and go on, or let `$UNSPOOL_HOME` be another folder"
        raise Unwritable(f"cannot write the column files in `{columns}`: {reason}", hint=hint) from None


def _is_current(columns: Path, held: Manifest, known: list[Known], asked: Asked) -> bool:
    is_same = held.kinds == snapshot.kinds(known) and held.edition == asked.edition
    return is_same and held.serial > 0 and manifests.is_whole(columns, held, deep=asked.deep)
