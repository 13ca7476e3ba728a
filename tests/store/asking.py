"""A store, its column files and a connection over them, in a folder of the test's own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import duckdb

from unspool.prices.bill import Price
from unspool.store.archive.archive import Archive
from unspool.store.columns import manifest as manifests
from unspool.store.columns.manifest import ColumnManifest
from unspool.store.columns.refresh import RefreshOptions, RefreshReport, refresh_columns
from unspool.store.database import open_archive, open_store
from unspool.store.sql.client import QueryLimits, SqlEngine
from unspool.store.sql.protocol import ROWS, ResultHeader
from unspool.store.sql.views import EngineSetup, build_setup, resolve_scope
from unspool.store.sync.sync import SyncOptions, sync_folder

PLAIN = RefreshOptions(price_edition="plain", workers=1)


class Columns:
    """What a person would have after `unspool sql`."""

    def __init__(self, folder: Path, *roots: Path, prices: tuple[Price, ...] = ()) -> None:
        self.folder, self.roots, self.prices = folder, list(roots), prices
        self.place = folder / manifests.COLUMNS_FOLDER

    def refresh(self, asked: RefreshOptions = PLAIN, *, archive: bool = True) -> RefreshReport:
        """Bring store and column files up to date."""
        self.sync(archive=archive)
        return self.derive(asked)

    def sync(self, *, archive: bool = True) -> None:
        """Bring the store up to date."""
        with closing(open_store(self.folder)) as database, closing(open_archive(self.folder)) as kept:
            for root in self.roots:
                sync_folder(
                    database,
                    Archive(kept),
                    root,
                    SyncOptions(archive=archive, price_edition="plain", prices=self.prices),
                )

    def derive(self, asked: RefreshOptions = PLAIN) -> RefreshReport:
        """Bring the column files up to date."""
        with closing(open_store(self.folder)) as database:
            return refresh_columns(database, self.folder, asked._replace(prices=self.prices))

    @property
    def manifest(self) -> ColumnManifest:
        """What the column files are."""
        return manifests.read_manifest(self.place)

    def setup(self) -> EngineSetup:
        """Return what a connection must run."""
        with closing(open_store(self.folder)) as database:
            wanted = resolve_scope(database, self.place, self.manifest, self.roots, self.prices)
        return build_setup(self.place, self.manifest, wanted, UTC)

    @contextmanager
    def connection(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a connection with all tables."""
        with duckdb.connect() as connection:
            for statement in self.setup().statements:
                connection.execute(statement)
            yield connection

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query gives."""
        with self.connection() as connection:
            return connection.execute(query).fetchall()

    def dicts(self, query: str) -> list[dict[str, Any]]:
        """Return what a query gives, by name."""
        with self.connection() as connection:
            found = connection.execute(query)
            names = [column[0] for column in found.description or []]
            return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def engine(self, limits: QueryLimits | None = None) -> SqlEngine:
        """Return the locked engine."""
        return SqlEngine(self.setup(), str(self.place), limits)


def answer(engine: SqlEngine, query: str) -> tuple[list[str], bytes]:
    """Return the names of the columns, and the rows as they come."""
    header, *pieces = engine.execute(query, ROWS)
    assert isinstance(header, ResultHeader)
    return header.names, b"".join(piece for piece in pieces if isinstance(piece, bytes))


def digest(folder: Path) -> str:
    """Return what changes when any byte or name in a folder does."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(str(path.relative_to(folder)).encode() + b"\0")
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()
