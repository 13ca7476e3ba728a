"""`unspool lake`: makes Delta tables from the segments of many devices and queries them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from unspool.cli import options, output
from unspool.cli.main import step_hook
from unspool.cli.query.sql import format_options, print_query_error, write_answer
from unspool.display import units
from unspool.errors import Unreadable, UsageError
from unspool.paths import data_folder

if TYPE_CHECKING:
    from unspool.collect.lake import IngestReport

_LAKE = click.option("--lake", "url", metavar="PATH|URL", required=True, help="The lake.")
_FROM = click.option("--from", "source", metavar="URL", required=True, help="Where the collectors send segments to.")

_MEMORY = 8 << 30
"""Bytes of address space that a query may use: a lake holds the sessions of many users."""


@click.group()
def lake() -> None:
    """Make Delta tables of what collectors send, and ask them.

    A lake is a folder or URL with one Delta table for each table of `unspool sql`, with `org`, `user` and `device`.
    DuckDB, Polars, Spark and whatever else reads Delta tables can read it; docs/team.md tells how.
    """


@lake.command()
@click.argument("url", metavar="PATH|URL")
@options.json_option
def init(url: str, as_json: bool) -> None:
    """Make an empty lake, or the tables that are missing in one."""
    from unspool.collect.lake import create_lake, lake_tables

    created, tables = create_lake(url, os.environ), list(lake_tables())
    data = {"lake": created.url, "tables": tables}
    output.print_result(data, f"{len(tables)} tables at {created.url}", as_json=as_json)


@lake.command()
@_FROM
@click.option("--to", "url", metavar="PATH|URL", required=True, help="The lake.")
@click.option("--follow", is_flag=True, help="Go on with what comes.")
@click.option(
    "--every", metavar="SECONDS", type=click.FloatRange(min=0.1), default=10, show_default=True,
    help="How often to look, with --follow.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1, 4), default=1, show_default=True, help="Processes that do it together."
)
@click.option("--again", is_flag=True, help="Derive everything anew: with new prices, or after an upgrade.")
@options.json_option
@click.pass_context
def ingest(
    ctx: click.Context,
    source: str,
    url: str,
    *,
    follow: bool,
    every: float,
    workers: int,
    again: bool,
    as_json: bool,
) -> None:
    """Read segments into the tables, each line once.

    Any number may run at the same time, on any machines. What was begun and not finished, the next one finishes. A
    segment that cannot be read is named in the table `quarantine`, and its stream waits; the exit code is 4 then.
    """
    from unspool.collect.lake import IngestJob, IngestReport, run

    job = IngestJob(source, url, again, workers, step_hook())
    if follow:
        for outcome in run.run_forever(job, os.environ, every):
            if isinstance(outcome, IngestReport):
                _print_report(outcome, as_json)
                sys.stdout.flush()
            else:  # the object store did not answer; the job goes on by itself
                output.warn(f"{outcome.message}; trying again")
        return
    report = run.run_once(job, os.environ)
    _print_report(report, as_json)
    if report.bad:
        ctx.exit(Unreadable.exit_code)


def _print_report(report: IngestReport, as_json: bool) -> None:
    if as_json:
        bad = [{"name": segment.name, "size": segment.size, "reason": segment.reason} for segment in report.bad]
        click.echo(output.json_line({**report._asdict(), "bad": bad}))
        return
    waiting = f", {report.waiting:,} streams wait behind a gap" if report.waiting else ""
    ingested = f"{report.lines:,} lines of {report.segments:,} segments, {units.size(report.bytes)}"
    output.print_line(f"{ingested}, {report.seconds:.1f} s{waiting}")
    for segment in report.bad:
        output.warn_left_out(segment.name, segment.reason)


@lake.command()
@_LAKE
@click.option(
    "--older-than", "days", metavar="DAYS", type=click.IntRange(min=0), default=1, show_default=True,
    help="Only partitions of days before: later ones still change.",
)  # fmt: skip
@options.json_option
def compact(url: str, days: int, as_json: bool) -> None:
    """Make one file of many small ones. Nobody who reads or writes has to wait."""
    from unspool.collect.lake import maintenance, open_lake

    compacted = maintenance.compact_tables(open_lake(url, os.environ), days)
    data = {name: result._asdict() for name, result in compacted.items()}
    removed = sum(result.removed for result in compacted.values())
    added = sum(result.added for result in compacted.values())
    output.print_result(data, f"{removed:,} files became {added:,}", as_json=as_json)


@lake.command()
@_LAKE
@click.option(
    "--hours", type=click.IntRange(min=0), default=168, show_default=True,
    help="Keep files that were in use until so many hours ago: whoever reads or writes may still need them.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Remove them; without, only count.")
@options.json_option
def vacuum(url: str, hours: int, yes: bool, as_json: bool) -> None:
    """Remove files that no table needs any more."""
    from unspool.collect.lake import maintenance, open_lake

    count = maintenance.vacuum_tables(open_lake(url, os.environ), hours, really=yes)
    line = f"{count:,} files {'removed' if yes else 'could go; `--yes` removes them'}"
    output.print_result({"files": count, "removed": yes}, line, as_json=as_json)


@lake.command()
@_LAKE
@_FROM
@options.json_option
@click.pass_context
def verify(ctx: click.Context, url: str, source: str, as_json: bool) -> None:
    """Compare manifests, segments and tables: is every line there, once?

    Exits with 0 only when everything that devices say they sent is in the store, and every segment in the tables.
    """
    from unspool.collect.lake import open_lake, open_source, verify_lake

    report = verify_lake(open_lake(url, os.environ), open_source(source, os.environ))
    if as_json:
        problems = [problem._asdict() for problem in report.problems]
        output.write_json({**report._asdict(), "problems": problems, "whole": not problems})
    else:
        for problem in report.problems:
            output.print_line(f"{problem.what}: {problem.where}: {problem.words}")
        result = f"{len(report.problems):,} things are wrong" if report.problems else "whole"
        numbers = f"{report.streams:,} streams, {report.segments:,} segments, {report.lines:,} lines"
        output.print_line(f"{numbers} of {report.devices:,} devices: {result}")
    if report.problems:
        ctx.exit(Unreadable.exit_code)


@lake.command()
@click.argument("query", required=False)
@_LAKE
@format_options
@options.json_option
@click.pass_context
def sql(
    ctx: click.Context,
    query: str | None,
    *,
    url: str,
    form: str,
    target: str | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Ask in SQL. Without a QUERY it is read from stdin.

    The tables are those of `unspool sql`, with `org`, `user` and `device`; `entries` has the lines themselves. The
    engine can open the files that the tables' own logs name, and nothing else.
    """
    from unspool.collect.lake import engine_setup, open_lake
    from unspool.store.sql import EngineStopped, QueryLimits, SqlEngine

    query = sys.stdin.read() if query is None else query
    # Only the tables that the query names are opened: the files of a remote lake must be fetched first.
    setup, folder = engine_setup(open_lake(url, os.environ), data_folder(os.environ) / "lakes", query)
    with SqlEngine(setup, str(folder), QueryLimits(_MEMORY, deadline=timeout or None)) as engine:
        try:
            write_answer(engine, query, "json" if as_json else form, target)
        except (UsageError, EngineStopped) as error:
            print_query_error(error)
            ctx.exit(error.exit_code)
