"""`unspool lake sink`: copies the tables of a lake to Postgres or ClickHouse."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unspool.cli import options, output
from unspool.cli.main import on_step
from unspool.cli.team.credentials import load_credentials
from unspool.display import units
from unspool.extras import require_extras

if TYPE_CHECKING:
    require_extras("sql", "team")
    from unspool.collect.sinks import SinkReport

_EVERY = 60.0


@click.command()
@click.option("--lake", "lake_url", metavar="PATH|URL", required=True, help="Folder or URL of the lake")
@click.option(
    "--to",
    "url",
    metavar="URL",
    required=True,
    help="Database, without a password: postgresql://HOST/DATABASE or clickhouse://HOST",
)
@click.option(
    "--schema", metavar="NAME", default="unspool", show_default=True,
    help="Schema of Postgres or database of ClickHouse; created if missing",
)  # fmt: skip
@click.option("--tables", metavar="NAMES", help="Only these tables, separated by commas")
@click.option("--with-text", is_flag=True, help="Also tables with prompts, answers and code")
@click.option("--again", is_flag=True, help="Replace all rows")
@click.option("--follow", is_flag=True, help="Keep running and copy changes")
@click.option(
    "--every", metavar="SECONDS", type=options.FiniteRange(min=0.1), default=_EVERY, show_default=True,
    help="With --follow: how often to check for changes",
)  # fmt: skip
@click.option(
    "--env-file", metavar="FILE", type=click.Path(path_type=Path), help="File with credentials as NAME=VALUE lines"
)
@options.json_option
def sink(
    *,
    lake_url: str,
    url: str,
    schema: str,
    tables: str | None,
    with_text: bool,
    again: bool,
    follow: bool,
    every: float,
    env_file: Path | None,
    as_json: bool,
) -> None:
    """Copy the tables of a lake to Postgres or ClickHouse.

    A later run copies what has changed, and finishes what an interrupted one began. Tables with prompts, answers or
    code need --with-text. Passwords come from the environment (PGPASSWORD, CLICKHOUSE_PASSWORD), ~/.pgpass or
    --env-file.
    """
    require_extras("sql", "team")
    from unspool.collect.sinks import SinkJob, SinkReport, SinkRunner, choose_tables, parse_address

    load_credentials(env_file)
    address = parse_address(url, schema, os.environ)
    names = [name.strip() for name in tables.split(",") if name.strip()] if tables else []
    chosen = tuple(choose_tables(names, with_text=with_text))
    runner = SinkRunner(SinkJob(lake_url, address, chosen, again, on_step()), os.environ)
    if not follow:
        _print_report(runner.run_once(), as_json)
        return
    for outcome in runner.follow(every):
        if isinstance(outcome, SinkReport):
            _print_report(outcome, as_json)
            sys.stdout.flush()
        else:  # the lake or the database did not answer; the job goes on by itself
            output.warn(f"{outcome.message}; trying again")


def _print_report(report: SinkReport, as_json: bool) -> None:
    if as_json:
        tables = [table._asdict() for table in report.tables]
        document = {"tables": tables, "left": list(report.left), "seconds": report.seconds}
        click.echo(output.json_line(output.make_document("lake-sink", document)))
    else:
        added = sum(table.rows_added for table in report.tables)
        removed = sum(table.rows_removed for table in report.tables)
        changed = f"{units.amount(added, 'row')} added, {removed:,} removed"
        count = units.amount(len(report.tables), "table")
        output.print_line(f"{count}: {changed if report.is_changed else 'nothing new'}, {report.seconds:.1f} s")
    for table in report.tables:
        if table.cells_altered:
            cells = units.amount(table.cells_altered, "cell")
            output.warn(
                f"{cells} of `{table.table}` changed, because the database cannot store them; see docs/sinks.md"
            )
    if report.left:
        names = ", ".join(f"`{name}`" for name in report.left)
        output.warn(f"not brought up to date: {names}, copied by an earlier run with other options")
