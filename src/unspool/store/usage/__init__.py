"""Usage: adds up billed responses, from the store or straight from the files, and reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.store.usage import report
    from unspool.store.usage.ledger import CountedRequest, Ledger, UsageQuery, UsageSum, matches_project
    from unspool.store.usage.ledger_files import FileLedger, read_lines
    from unspool.store.usage.report import (
        PERIODS, UsageFigures, UsageReport, UsageRequest, UsageRow, build_report, parse_request, report_usage,
        total_of_rows, total_of_sums,
    )

__all__ = [
    "PERIODS", "CountedRequest", "FileLedger", "Ledger", "UsageFigures", "UsageQuery", "UsageReport", "UsageRequest",
    "UsageRow", "UsageSum", "build_report", "matches_project", "parse_request", "read_lines", "report", "report_usage",
    "total_of_rows", "total_of_sums",
]

__getattr__ = lazy_door(__name__, {
    "ledger": "CountedRequest Ledger UsageQuery UsageSum matches_project",
    "ledger_files": "FileLedger read_lines",
    "report":
        "PERIODS UsageFigures UsageReport UsageRequest UsageRow build_report parse_request report_usage "
        "total_of_rows total_of_sums",
})
