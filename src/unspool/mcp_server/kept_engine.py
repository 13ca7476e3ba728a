"""Keeps the SQL engine of the server running between queries, as long as its tables stay the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from unspool.errors import Unreadable
from unspool.store import preferences

if TYPE_CHECKING:
    from unspool.store.sql import EngineSetup, SqlEngine
    from unspool.web.serving import Site

QUERY_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 120.0
"""After which the engine ends. Starting one takes 0.3 s of CPU; keeping one takes about 100 MB."""


class KeptEngine:
    """The engine over the tables of some folders: one query at a time."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = threading.Lock()
        self._engine: SqlEngine | None = None
        self._setup: EngineSetup | None = None
        self._timer: threading.Timer | None = None

    @contextmanager
    def open(self) -> Iterator[SqlEngine]:
        """Give one thread the engine, over tables that are up to date."""
        from unspool.store.columns import parquet

        parquet.require_sql_libraries()
        # Only now: they need the libraries of the extra `sql`.
        from unspool.store.columns import refresh as columns
        from unspool.store.sql import open_tables

        site = self._site
        edition = preferences.price_edition(site.preferences)
        options = columns.RefreshOptions(prices=site.preferences.prices, price_edition=edition)
        with self._lock, site.open() as access:
            self._stop_timer()
            if access.database is None:
                hint = "find the reason with `unspool doctor`"
                raise Unreadable("SQL needs the store, which is not available", hint=hint)
            columns.refresh_columns(access.database, site.folder, options)
            # Open during the query: the files that its tables are made of are not removed before it ends.
            with open_tables(access.database, site.folder, access.roots, site.preferences) as ready:
                try:
                    yield self._start(ready.setup, str(ready.columns))
                finally:
                    self._timer = threading.Timer(_IDLE_SECONDS, self._close_idle)
                    self._timer.daemon = True
                    self._timer.start()

    def _start(self, setup: EngineSetup, folder: str) -> SqlEngine:
        from unspool.store.sql import QueryLimits, SqlEngine

        if self._engine is None or setup != self._setup:
            if self._engine is not None:
                self._engine.close()
            self._engine = SqlEngine(setup, folder, QueryLimits(deadline=QUERY_SECONDS))
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
