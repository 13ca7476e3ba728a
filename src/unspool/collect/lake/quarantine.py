"""Records objects that could not be read, or that fit nowhere, in the table `quarantine`.

Rules
  1. There is one row for each bad object. The row of an object that is fine by now, or gone, is deleted.
  2. If two ingests write the table at once, one of them does it, and the other in its next round.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from unspool.collect.lake.lake import CommitConflict, Lake, any_of_predicate
from unspool.collect.lake.streams import BadSegment
from unspool.collect.lake.tables import lake_tables
from unspool.collect.segments import parse_device_segment_name, parse_segment_name
from unspool.store.columns import to_record_batch

_TABLE = "quarantine"


def record_bad_segments(lake: Lake, bad: Sequence[BadSegment], *, is_all: bool) -> None:
    """Record bad objects in `quarantine`; with `is_all` the rows of all other objects are deleted."""
    lake.table(_TABLE, fresh=lake.is_near or bool(bad))
    recorded: dict[str, str] = dict(lake.rows(_TABLE, "SELECT name, reason FROM t"))
    by_name = {segment.name: segment for segment in bad}
    new = [segment for name, segment in by_name.items() if recorded.get(name) != segment.reason]
    gone = [name for name in recorded if name not in by_name] if is_all else []
    try:
        if gone:
            lake.delete(_TABLE, any_of_predicate("name", gone))
        if new:
            where = any_of_predicate("name", (segment.name for segment in new))
            lake.write(_TABLE, [to_record_batch(lake_tables()[_TABLE], list(map(_row, new)))], {}, where)
    except CommitConflict:
        # Another ingest has just recorded its own; this one does so in its next round.
        return


def _row(segment: BadSegment) -> tuple[object, ...]:
    name, in_chain = parse_segment_name(segment.name), parse_device_segment_name(segment.name)
    parts: tuple[object, ...] = name[:4] if name else (None, None, None, None)
    if in_chain:
        parts = (in_chain.org, in_chain.device, None, in_chain.sequence)
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    return (segment.name, *parts, segment.size, segment.reason, now)
