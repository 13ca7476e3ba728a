"""Opens SQL engines over tables that are up to date: one for one request, or one that is kept between queries.

Rules
  1. Of a kept engine: while neither the store nor the manifest of the column files has changed, the tables are those of
     the last query. A query then costs two `stat` calls more than DuckDB. To compare all files of 1 GB takes 80 ms of
     CPU, and to start an engine 0.3 s.
  2. The column files are kept from being removed during each query.
  3. What has just changed is not relied on: a second change within the resolution of file times would not be seen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from unspool.errors import Unreadable
from unspool.store import STORE, preferences

if TYPE_CHECKING:
    from unspool.store.sql import EngineSetup, SqlEngine, SqlTables
    from unspool.web.serving.site import Site

QUERY_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 120.0
"""After which a kept engine ends: it takes about 100 MB."""
_SETTLED_SECONDS: Final = 0.1
"""After which a change of a file cannot have the time of the change before."""
_FileStates: TypeAlias = tuple[tuple[int, int, int] | None, ...]


@contextmanager
def open_sql_engine(site: Site) -> Iterator[SqlEngine]:
    """Open an engine over the tables, brought up to date."""
    # Only now: they need the libraries of the extra `sql`.
    from unspool.store.columns import parquet

    parquet.require_sql_libraries()
    from unspool.store.sql import QueryLimits, SqlEngine

    with (
        _open_ready_tables(site) as ready,
        SqlEngine(ready.setup, str(ready.columns), QueryLimits(deadline=QUERY_SECONDS, tables_only=True)) as engine,
    ):
        yield engine


@contextmanager
def _open_ready_tables(site: Site) -> Iterator[SqlTables]:
    """Bring the tables up to date, and keep their files from being removed."""
    from unspool.store.columns import refresh
    from unspool.store.sql import open_tables

    edition = preferences.price_edition(site.preferences)
    options = refresh.RefreshOptions(prices=site.preferences.prices, price_edition=edition)
    with site.open() as access:
        if access.database is None:
            hint = "find the reason with `unspool doctor`"
            raise Unreadable("SQL needs the store, which is not available", hint=hint)
        refresh.refresh_columns(access.database, site.store_folder, options)
        with open_tables(access.database, site.store_folder, access.roots, site.preferences) as ready:
            yield ready


class KeptEngine:
    """The engine over the tables of some folders: one query at a time."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._engine: SqlEngine | None = None
        self._setup: EngineSetup | None = None
        self._states: _FileStates | None = None
        """Of the files that the tables were made from; None if they had just changed."""
        self._timer: threading.Timer | None = None

    @contextmanager
    def open(self) -> Iterator[SqlEngine]:
        """Give one thread the engine, over tables that are up to date."""
        from unspool.store.columns import manifest, parquet

        parquet.require_sql_libraries()
        columns = self._site.store_folder / manifest.COLUMNS_FOLDER
        with self._lock:
            self._stop_timer()
            if self._engine is not None and self._engine.is_running and self._states is not None:
                with manifest.keep_files(columns):
                    if self._read_states(columns) == self._states:
                        yield from self._lend(self._engine)
                        return
            yield from self._open_tables(columns)

    def close(self) -> None:
        """End the engine, if it runs; the next query starts another one."""
        with self._lock:
            self._stop_timer()
            if self._engine is not None:
                self._engine.close()

    def _open_tables(self, columns: Path) -> Iterator[SqlEngine]:
        """Bring the tables up to date, and give the engine over them."""
        self._states, before = None, self._read_states(columns)
        # Open during the query: the files that its tables are made of are not removed before it ends.
        with _open_ready_tables(self._site) as ready:
            engine = self._start(ready.setup, str(ready.columns))
            # The same before and after: nothing was written meanwhile. Else the next query looks again.
            self._states = before if before == self._read_states(columns) else None
            yield from self._lend(engine)

    def _lend(self, engine: SqlEngine) -> Iterator[SqlEngine]:
        try:
            yield engine
        finally:
            self._timer = threading.Timer(_IDLE_SECONDS, self._close_idle)
            self._timer.daemon = True
            self._timer.start()

    def _read_states(self, columns: Path) -> _FileStates | None:
        """Return sizes and times of the files that tables are made from; None if one has just changed."""
        from unspool.store.columns import manifest

        store = self._site.store_folder / STORE
        found: list[tuple[int, int, int] | None] = []
        for path in (store, store.with_name(f"{STORE}-wal"), columns / manifest.MANIFEST):
            state = None
            with suppress(OSError):
                status = path.stat()
                if time.time() - status.st_mtime < _SETTLED_SECONDS:
                    return None
                # SQLite makes an empty log whenever a connection opens, and removes it with the last one.
                state = (status.st_ino, status.st_size, status.st_mtime_ns) if status.st_size else None
            found.append(state)
        return tuple(found)

    def _start(self, setup: EngineSetup, folder: str) -> SqlEngine:
        from unspool.store.sql import QueryLimits, SqlEngine

        if self._engine is None or setup != self._setup:
            if self._engine is not None:
                self._engine.close()
            self._engine = SqlEngine(setup, folder, QueryLimits(deadline=QUERY_SECONDS, tables_only=True))
            self._setup = setup
        return self._engine

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_idle(self) -> None:
        with self._lock:
            if self._engine is not None and self._timer is not None:  # none: a query has begun meanwhile
                self._engine.close()
