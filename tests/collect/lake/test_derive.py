"""Whatever a segment says, there are rows: its lines once each, and all that can be made of them."""

from __future__ import annotations

import os
from typing import Any

from arro3.core import Table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import objects, written
from unspool.collect.lake.derive import RowBuffer, day_of, derive_stream
from unspool.collect.lake.streams import ReadSegment
from unspool.collect.lake.tables import lake_tables, partition_columns, tables_filled_by
from unspool.collect.segments import FIRST, VERSION, Segment, SegmentHeader, SegmentLine
from unspool.read.source_tree import Kind

EXAMPLES = int(os.environ.get("UNSPOOL_FUZZ_EXAMPLES", "60"))
TIMES = ("", "2026-01-05T09:00:00.000Z", "2026-01-07", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z", "soon")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(str.strip)
lines = objects.map(lambda value: written(value).decode(errors="replace")) | texts
timed = st.builds(
    lambda value, time: written({**value, "timestamp": time}).decode(errors="replace"), objects, st.sampled_from(TIMES)
)
generations = st.lists(st.lists(lines | timed, min_size=1, max_size=4), min_size=1, max_size=5)
kinds = st.sampled_from([kind.value for kind in Kind] + ["brand-new"])


def reads(kind: str, texts: list[list[str]], time: str) -> list[ReadSegment]:
    """Return segments, two for each generation."""
    found: list[ReadSegment] = []
    offset = 0
    for number, some in enumerate(texts, 1):
        offset = offset if number % 2 == 0 else 0
        told, start = [], offset
        for text in some:
            length = len(text.encode())
            told.append(SegmentLine(offset, length, text))
            offset += length + 1
        header = SegmentHeader(
            version=VERSION, org="acme", user="ada", device="laptop", key_id="k", stream="0" * 32, sequence=number,
            previous=FIRST, source="projects/-p/a.jsonl", kind=kind, generation=(number + 1) // 2, start=start,
            end=offset, lines=len(told), rules="r", written=time, head="", boundary="",
        )  # fmt: skip
        found.append(ReadSegment(Segment(header, told), f"{number:064d}", 1))
    return found


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(kinds, generations, st.sampled_from(TIMES), st.integers(0, 4))
def test_every_line_is_a_row_that_depends_on_its_segment_alone(
    kind: str, texts: list[list[str]], time: str, since: int
) -> None:
    out = RowBuffer()
    derived = derive_stream(reads(kind, texts, time), "0" * 32, since, out)
    added = [row for name in ("entries", "side_files") for row in _rows(out, name)]
    assert [row["raw"] for row in added] == [text for some in texts[since:] for text in some]
    assert derived.lines == len(added)
    every = RowBuffer()
    derive_stream(reads(kind, texts, time), "0" * 32, 0, every)
    assert added == [row for name in ("entries", "side_files") for row in _rows(every, name) if row["sequence"] > since]
    assert len(_rows(out, "sources")) == 1
    for name in lake_tables():
        rows = _rows(out, name)
        assert not rows or name in {"entries", "side_files", "sources", *tables_filled_by(kind)}
        if derived.days and name in tables_filled_by(kind) and "day" in partition_columns(name):
            assert {row["day"].toordinal() - 719_163 for row in rows} <= derived.days


@given(st.integers(-(2**70), 2**70) | st.none() | st.text())
def test_a_day_is_one_that_can_be_meant(value: object) -> None:
    day = day_of(value)
    assert day is None or 10_957 <= day < 47_482


def _rows(out: RowBuffer, name: str) -> list[dict[str, Any]]:
    """Return rows without their times: some are before or after all that Python knows."""
    times = [column.name for column in lake_tables()[name].columns if column.type == "TIMESTAMPTZ"]
    found = [Table.from_batches([batch]).drop_columns(times) for batch in out.batches(name)]
    return [row for table in found for row in table.to_struct_array().to_pylist()]
