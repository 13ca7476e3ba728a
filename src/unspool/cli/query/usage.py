"""`unspool usage`: reports tokens and cost."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from unspool.cli import options, output, store_access
from unspool.errors import NothingFound, UsageError
from unspool.paths import data_folder
from unspool.store import parse_zone, preferences
from unspool.store.usage import PERIODS, UsageReport, UsageRequest, report

if TYPE_CHECKING:
    from unspool.store.usage import Ledger

_NOTHING = "no billed responses found"

# Kept until the process ends, which it does without freeing memory (`__main__.py`, rule 2): freeing takes time.
_HELD: list[Ledger] = []


@click.command()
@click.argument("period", type=click.Choice(list(PERIODS)), default="daily", metavar="[PERIOD]")
@click.option("--since", metavar="WHEN", help="Only from then on: a date, or `12h`, `7d`, `2w` ago.")
@click.option("--until", metavar="WHEN", help="Only up to then; a date means the end of that day.")
@click.option("--tz", metavar="ZONE", help="Whose days and hours: Europe/Berlin, UTC, +05:30. Default: the machine's.")
@click.option("--project", metavar="TEXT", help="Only of this project: its name, a part of its path, or its key.")
@click.option("--order", type=click.Choice(["asc", "desc"]), help="By time; where rows have none, by cost.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="The first N rows only. Totals are of all.")
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV: a header and the rows, no totals.")
@click.option("--explain", is_flag=True, help="Say which lines were counted, merged and dropped, and why.")
@options.store_options
@options.output_options
def usage(
    *,
    period: str,
    since: str | None,
    until: str | None,
    tz: str | None,
    project: str | None,
    order: str | None,
    limit: int | None,
    as_csv: bool,
    explain: bool,
    access: options.AccessOptions,
    as_json: bool,
) -> None:
    """Add up tokens and cost: by day, session, model, 5-hour block and more.

    PERIOD is daily (if none is given), weekly, monthly, session, model, project, branch, agent or blocks.

    Every response is counted once, whichever lines and files repeat it. Costs are those of the public price list; those
    of a subscription are what the same use would cost by the token. docs/usage.md tells what the numbers mean.
    """
    if as_csv and (as_json or explain):
        hint = "choose one; `--explain --json` is fine"
        raise UsageError("`--csv` does not go with `--json` or `--explain`", hint=hint)
    zone = parse_zone(tz or preferences.read_preferences(data_folder(os.environ)).timezone or "local")
    request = report.parse_request(period, datetime.now(UTC), zone, since=since, until=until)
    request = request._replace(project=project, order=order)
    with store_access.open_folder(access) as opened:
        ledger = opened.ledger
        _HELD.append(ledger)
        if explain:
            _explain(ledger, request, as_json)
            return
        form = "json" if as_json else "csv" if as_csv else "table"
        _write_report(report.report_usage(ledger, request), request, limit, form)


def _write_report(usage_report: UsageReport, request: UsageRequest, limit: int | None, form: str) -> None:
    shown = usage_report._replace(rows=usage_report.rows[:limit])
    if form == "json":
        output.write_json(shown.data())
        return
    # Only a table is for people: without rows a program still gets an empty result, and exit code 0.
    if form == "table" and not usage_report.rows:
        raise NothingFound(_NOTHING)
    from unspool.cli.query import usage_table  # start-up: JSON needs no table

    if form == "csv":
        click.echo(usage_table.csv_text(shown), nl=False)
        return
    left_out = len(usage_report.rows) - len(shown.rows)
    usage_table.print_report(shown, left_out, request.zone)


def _explain(ledger: Ledger, request: UsageRequest, as_json: bool) -> None:
    from unspool.cli.query import usage_table
    from unspool.store.usage import UsageQuery

    lines = ledger.explain(UsageQuery(since=request.since, until=request.until, project=request.project))
    if as_json:
        output.write_json(lines)
    elif not any(lines.values()):
        raise NothingFound(_NOTHING)
    else:
        usage_table.print_explanation(lines)
