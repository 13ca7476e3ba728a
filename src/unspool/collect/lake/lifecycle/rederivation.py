"""Selects the streams whose rows `lake ingest --again` derives anew: by device, and by when they last grew."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

from unspool.collect.lake.lake import Lake
from unspool.store.columns import sql_literal


class AgainSelection(NamedTuple):
    """Which streams are derived anew; all, if nothing is named."""

    devices: frozenset[str] = frozenset()
    """As `org/device`."""
    since: str | None = None
    """Only streams with a segment that was made on this day (UTC) or later."""

    def has_device(self, home: str) -> bool:
        """Return whether a device is selected."""
        return not self.devices or home in self.devices

    def select_streams(self, lake: Lake, ids: Set[str]) -> frozenset[str]:
        """Return those of some streams that have grown since the day."""
        if self.since is None or not ids:
            return frozenset(ids)
        # Not by id: a device has thousands of streams, and a condition with all of them takes longer than the table.
        query = f"SELECT id FROM t WHERE written >= TIMESTAMP {sql_literal(f'{self.since} 00:00:00')}"
        return frozenset(id for (id,) in lake.rows("sources", query) if id in ids)
