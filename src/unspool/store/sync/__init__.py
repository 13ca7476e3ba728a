"""Sync: reads what is new in the files of a folder and writes it into the store, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.store.sync import side_rows
    from unspool.store.sync.changes import (
        FolderChanges, compare_with_disk, count_unindexed_bytes, find_home, has_prices, is_synced, read_homes,
    )
    from unspool.store.sync.read_file import LineCollector, session_row
    from unspool.store.sync.rebuild import is_archive_sound, salvage_archive, set_aside
    from unspool.store.sync.sync import ARCHIVED_SIDE_KINDS, SyncOptions, SyncReport, combine_reports, update_store

__all__ = [
    "ARCHIVED_SIDE_KINDS", "FolderChanges", "LineCollector", "SyncOptions", "SyncReport", "combine_reports",
    "compare_with_disk", "count_unindexed_bytes", "find_home", "has_prices", "is_archive_sound", "is_synced",
    "read_homes", "salvage_archive", "session_row", "set_aside", "side_rows", "update_store",
]

__getattr__ = lazy_door(__name__, {
    "changes": "FolderChanges compare_with_disk count_unindexed_bytes find_home has_prices is_synced read_homes",
    "read_file": "LineCollector session_row",
    "rebuild": "is_archive_sound salvage_archive set_aside",
    "sync": "ARCHIVED_SIDE_KINDS SyncOptions SyncReport combine_reports update_store",
})
