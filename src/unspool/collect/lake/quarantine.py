"""Objects that are no segments, or not what they should be: found in, rows of `quarantine` out.

Rules
  1. An object is named once, with what is wrong with it. One that is in order by now, or gone, is named no longer.
  2. Two who record at once: one of them does it, and the other the next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from unspool.collect.lake.opened import Conflict, Lake
from unspool.collect.lake.predicates import one_of
from unspool.collect.lake.streams import Bad
from unspool.collect.lake.tables import tables
from unspool.collect.segments import parse_name
from unspool.store.parquet import batch

_TABLE = "quarantine"


def record(lake: Lake, bad: Sequence[Bad], *, is_all: bool) -> None:
    """Record what is bad; with `is_all`, nothing else is."""
    lake.table(_TABLE, fresh=True)
    there: dict[str, str] = dict(lake.rows(_TABLE, "SELECT name, reason FROM t"))
    found = {one.name: one for one in bad}
    new = [one for name, one in found.items() if there.get(name) != one.reason]
    gone = [name for name in there if name not in found] if is_all else []
    try:
        if gone:
            lake.delete(_TABLE, one_of("name", gone))
        if new:
            where = one_of("name", (one.name for one in new))
            lake.write(_TABLE, [batch(tables()[_TABLE], [_row(one) for one in new])], {}, where)
    except Conflict:
        return


def _row(one: Bad) -> tuple[object, ...]:
    name = parse_name(one.name)
    place = name[:4] if name else (None, None, None, None)
    now = int(datetime.now(UTC).timestamp() * 1_000_000)
    return (one.name, *place, one.size, one.reason, now)
