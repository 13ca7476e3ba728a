"""Compacts and vacuums the tables of a lake.

Rules
  1. Compacting changes no row. It skips the days that still change, whose files would be small again at once.
  2. Writers come first: a table that others change meanwhile is compacted another time.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from unspool.collect.lake.bundles import remove_bundles
from unspool.collect.lake.lake import CommitConflict, Lake, encoding, translate_lake_errors
from unspool.collect.lake.tables import lake_tables, partition_columns

_SIZE = 128 * 1024 * 1024
"""The size in bytes that compacted files should have."""


class CompactionResult(NamedTuple):
    """How many files of a table were replaced by how many."""

    removed: int = 0
    added: int = 0


def compact_tables(lake: Lake, days: int) -> dict[str, CompactionResult]:
    """Merge small files of all tables; of tables partitioned by day, only in days older than `days`."""
    before = (datetime.now(UTC) - timedelta(days=days)).date().isoformat()
    results = {}
    for name in lake_tables():
        filters: Any = [("day", "<", before)] if "day" in partition_columns(name) and days else None
        table = lake.table(name, fresh=True)
        try:
            with translate_lake_errors(lake.url):
                metrics = table.optimize.compact(
                    partition_filters=filters,
                    target_size=_SIZE,
                    writer_properties=encoding(name, level=6),
                )
        except CommitConflict:
            # An ingest was faster. Its rows matter more; the next compaction tries again.
            results[name] = CompactionResult()
            continue
        results[name] = CompactionResult(int(metrics["numFilesRemoved"]), int(metrics["numFilesAdded"]))
    return results


def vacuum_tables(lake: Lake, hours: int, *, really: bool) -> int:
    """Remove files that no version of the last hours needs; return how many. Without `really` only count them."""
    before = datetime.now(UTC) - timedelta(hours=hours)
    count = remove_bundles(lake.object_store, before, really=really)
    for name in lake_tables():
        with translate_lake_errors(lake.url):
            table = lake.table(name, fresh=True)
            count += len(
                table.vacuum(retention_hours=hours, dry_run=not really, enforce_retention_duration=False, full=True)
            )
            if really:
                table.cleanup_metadata()
    return count
