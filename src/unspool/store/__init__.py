"""The store: what unspool knows of every session file ever seen, kept in SQLite, zstd frames and Parquet.

From top to bottom, each importing only what stands below it:

    sql, removal      DuckDB over the tables, in a process of its own; removal of texts from everything
    search, columns   full-text search; Parquet files derived from session files
    catalog           lists and statistics of sessions, side documents, the health of the store
    access            one way to a folder's data: the store, or the files themselves
    usage             sums of billed responses, and reports of them
    sync              files to rows
    archive           raw bytes kept after files have gone
    answer_rows, database, preferences, times, user_annotations, worker_processes
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.store import preferences, user_annotations
    from unspool.store.access import StoreAccess
    from unspool.store.answer_rows import PriceLookup, response_cells, response_from_cells
    from unspool.store.database import (
        IN_FOLDER, STORE, Roots, folder_parameters, is_locked, list_roots, locked, open_archive,
        open_side_database, open_store, transaction, translate_errors,
    )
    from unspool.store.preferences import Preferences
    from unspool.store.removal import (
        RemovalReport, RemovalScope, compact_databases, find_left, read_archived, remove_from_store,
    )
    from unspool.store.worker_processes import start_workers, wait_for

__all__ = [
    "IN_FOLDER", "STORE", "Preferences", "PriceLookup", "RemovalReport", "RemovalScope", "Roots", "StoreAccess",
    "compact_databases", "find_left", "folder_parameters", "is_locked", "list_roots", "locked", "open_archive",
    "open_side_database", "open_store", "preferences", "read_archived", "remove_from_store", "response_cells",
    "response_from_cells", "start_workers", "transaction", "translate_errors", "user_annotations", "wait_for",
]

__getattr__ = lazy_door(__name__, {
    "access": "StoreAccess",
    "answer_rows": "PriceLookup response_cells response_from_cells",
    "database":
        "IN_FOLDER STORE Roots folder_parameters is_locked list_roots locked open_archive "
        "open_side_database open_store transaction translate_errors",
    "preferences": "Preferences",
    "removal": "RemovalReport RemovalScope compact_databases find_left read_archived remove_from_store",
    "worker_processes": "start_workers wait_for",
})
