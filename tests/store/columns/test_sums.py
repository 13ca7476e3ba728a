"""What SQL adds up is what `unspool usage` adds up, to the micro-dollar."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC
from pathlib import Path

import pytest

from tests.store.asking import Columns
from unspool.format import zone_offsets
from unspool.store.archive.archive import Archive
from unspool.store.database import open_archive, open_store
from unspool.store.usage.ledger import StoreLedger, UsageQuery
from unspool.store.usage.ledger_files import FileLedger, read_stored_lines
from unspool.store.usage.report import PERIODS, build_report

CASES = Path(__file__).parents[2] / "conformance" / "cases"


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_every_case_of_the_conformance_set_adds_up_to_the_same(case: str, tmp_path: Path) -> None:
    root = (CASES / case / "config").resolve()
    columns = Columns(tmp_path, root)
    columns.refresh()
    agrees(columns)
    for part in sorted(path for path in root.rglob("projects/*")):
        columns.roots = [part]
        agrees(columns)


def agrees(columns: Columns) -> None:
    """Compare days, models, projects and branches with the reports."""
    (root,) = columns.roots
    with closing(open_store(columns.folder)) as database, closing(open_archive(columns.folder)) as kept:
        archive = Archive(kept)
        ledger = StoreLedger(database, root, lambda: FileLedger(read_stored_lines(database, root, lambda: archive)))
        told = ledger.sums(UsageQuery(PERIODS["daily"].keys, days=zone_offsets(UTC)))
        daily = [row.data() for row in build_report("daily", told, UTC).rows]
        every = ledger.sums(UsageQuery(frozenset({"project", "branch"}), exact=True))
    with columns.connection() as connection:
        asked = connection.execute("FROM daily")
        names = [column[0] for column in asked.description or []]
        found = [dict(zip(names, row, strict=True)) for row in asked.fetchall()]
        groups = {
            column: connection.execute(
                f"SELECT {column}, sum(cost_micros)::BIGINT, count(*) FROM responses GROUP BY ALL"
            ).fetchall()
            for column in ("model", "project", "branch")
        }
    for row in found:
        row["date"] = row["date"] and row["date"].isoformat()
        row["models"] = tuple(row["models"])
    assert found == [{name: row[name] for name in names} for row in daily]
    for column, rows in groups.items():
        expected: dict[str | None, tuple[int | None, int]] = {}
        for one in every:
            cost, count = expected.get(getattr(one, column), (None, 0))
            # What has no price is null, and a sum of nothing else is null.
            if not one.bill.unpriced_tokens:
                cost = (cost or 0) + one.bill.cost_micros
            expected[getattr(one, column)] = (cost, count + one.bill.responses)
        assert {name: (cost, count) for name, cost, count in rows} == expected
