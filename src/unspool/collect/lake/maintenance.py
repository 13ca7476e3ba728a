"""Compacts and vacuums the tables of a lake.

Rules
  1. Compacting changes no row. It leaves alone the days that still change: what is written often is small.
  2. Who is writing comes first: a table that others change meanwhile is compacted another time.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from unspool.collect.lake.lake import CommitConflict, Lake, encoding, translate_lake_errors
from unspool.collect.lake.tables import lake_tables, partition_columns

_SIZE = 128 * 1024 * 1024
"""Bytes that a file should have."""


class CompactionResult(NamedTuple):
    """What became of a table's files."""

    removed: int = 0
    added: int = 0


def compact_tables(lake: Lake, days: int) -> dict[str, CompactionResult]:
    """Make small files one; of tables that are partitioned by day, in days before the last so many."""
    before = (datetime.now(UTC) - timedelta(days=days)).date().isoformat()
    done = {}
    for name in lake_tables():
        filters: Any = [("day", "<", before)] if "day" in partition_columns(name) and days else None
        table = lake.table(name, fresh=True)
        try:
            with translate_lake_errors(lake.url):
                told = table.optimize.compact(
                    partition_filters=filters,
                    target_size=_SIZE,
                    writer_properties=encoding(name, level=6),
                )
        except CommitConflict:
            done[name] = CompactionResult()
            continue
        done[name] = CompactionResult(int(told["numFilesRemoved"]), int(told["numFilesAdded"]))
    return done


def vacuum_tables(lake: Lake, hours: int, *, really: bool) -> int:
    """Remove files that no version of the last hours needs; return how many."""
    found = 0
    for name in lake_tables():
        with translate_lake_errors(lake.url):
            table = lake.table(name, fresh=True)
            found += len(
                table.vacuum(retention_hours=hours, dry_run=not really, enforce_retention_duration=False, full=True)
            )
            if really:
                table.cleanup_metadata()
    return found
