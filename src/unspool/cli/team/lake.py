"""`unspool lake`: makes Delta tables from the segments of many devices and queries them."""

from __future__ import annotations

import os
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unspool.cli import options, output
from unspool.cli.main import SuggestingGroup, step_hook
from unspool.cli.query.sql import format_options, print_query_error, write_answer
from unspool.cli.team.credentials import load_credentials
from unspool.cli.team.forget import PSEUDONYMS, forget, parse_device
from unspool.cli.team.lake_admin import admin
from unspool.cli.team.lake_sink import sink
from unspool.cli.team.service_install import install_service, list_service_options, uninstall_service
from unspool.collect import INGEST
from unspool.display import TextColumn, clean_line, units
from unspool.errors import NotFound, NothingFound, Unreadable, UsageError, conflicting_options
from unspool.extras import require_extras
from unspool.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    require_extras("sql", "team")
    from unspool.collect.lake import DeviceStatus, IngestReport

_LAKE = click.option("--lake", "url", metavar="PATH|URL", required=True, help="Folder or URL of the lake")
_FROM = click.option("--from", "source", metavar="URL", required=True, help="Destination of the collectors")

_STATUS_COLUMNS = (
    TextColumn("org", least=4),
    TextColumn("user", least=6),
    TextColumn("device"),
    TextColumn("last seen"),
    TextColumn("unspool", expendable=True),
    TextColumn("claude code", expendable=True),
    TextColumn("sent", right=True),
    TextColumn("ingested", right=True),
    TextColumn("backlog", right=True),
    TextColumn("lag", right=True, expendable=True),
    TextColumn("waiting", right=True),
    TextColumn("failed", right=True, expendable=True),
    TextColumn("redacted", right=True, expendable=True),
)

_MAX_SHARDS = 64
_INGEST_MEMORY = "512MiB"
_NOT_FOR_SERVICE = frozenset({"follow", "install", "only_print", "as_json", "again", "devices", "since"})
"""Options of an ingest that are for one run, or that the service has anyway."""
_LEAST_MEMORY = 448 * 1024 * 1024
"""Bytes that an ingest can work with: with less, even the batch of one segment needs more."""
_MEMORY = 8 << 30
"""Bytes of address space that a query may use: a lake holds the sessions of many users."""


@click.group(cls=SuggestingGroup)
def lake() -> None:
    """Build Delta tables from collected sessions, and query them.

    A lake is a folder or URL with one Delta table for each table of `unspool sql`, with `org`, `user` and `device`
    columns. DuckDB, Polars, Spark and other programs that read Delta tables can read it; see docs/team.md.
    """


lake.add_command(admin)


@lake.command()
@click.argument("url", metavar="PATH|URL")
@PSEUDONYMS
@options.json_option
def init(url: str, pseudonyms: Path | None, as_json: bool) -> None:
    """Create an empty lake, or the missing tables of an existing one.

    With --pseudonyms, the tables have a keyed hash in place of each user's name. The command creates the file with the
    key; keep it outside the lake. Each `lake ingest` and `lake forget` needs it.
    """
    require_extras("sql", "team")
    from unspool.collect.lake import create_lake, lake_tables
    from unspool.collect.lake.lifecycle import mark_lake

    created, tables = create_lake(url, os.environ), list(lake_tables())
    if pseudonyms is not None:
        mark_lake(created, pseudonyms)
    data = {"lake": created.url, "tables": tables}
    output.print_result("lake-init", data, f"{len(tables)} tables at {created.url}", as_json=as_json)


@lake.command()
@_FROM
@click.option("--to", "url", metavar="PATH|URL", required=True, help="Folder or URL of the lake")
@click.option("--follow", is_flag=True, help="Keep running and ingest new segments")
@click.option(
    "--every", metavar="SECONDS", type=options.FiniteRange(min=0.1), default=10, show_default=True,
    help="With --follow: how often to check for new segments",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 4), default=1, show_default=True, help="Number of worker processes")
@click.option(
    "--shard", metavar="I/N", callback=lambda _, __, value: _parse_shard(value),
    help="Only the I-th of N parts of the devices, so that several machines share the work",
)  # fmt: skip
@click.option(
    "--memory", metavar="SIZE", default=_INGEST_MEMORY, show_default=True,
    callback=lambda _, __, value: _parse_memory(value),
    help="Memory that each worker may use; less means smaller batches",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Rebuild all derived rows, with new prices or after an upgrade")
@click.option(
    "--device", "devices", metavar="ORG/DEVICE", multiple=True, help="With --again: only of this device; repeatable"
)
@click.option(
    "--since", metavar="DAY", callback=lambda _, __, value: _parse_day(value),
    help="With --again: only of files that got new lines on this day (UTC) or later",
)  # fmt: skip
@PSEUDONYMS
@click.option(
    "--env-file", metavar="FILE", type=click.Path(path_type=Path), help="File with credentials as NAME=VALUE lines"
)
@click.option("--install", is_flag=True, help="Write a service that runs this with --follow at every login")
@click.option("--print", "only_print", is_flag=True, help="With --install: print the service unit, write nothing")
@click.option(
    "--uninstall", is_flag=True, is_eager=True, expose_value=False, help="Remove that service",
    callback=lambda ctx, _, value: _uninstall_ingest(ctx) if value else None,
)  # fmt: skip
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
    shard: tuple[int, int],
    memory: int,
    again: bool,
    devices: tuple[str, ...],
    since: str | None,
    pseudonyms: Path | None,
    env_file: Path | None,
    install: bool,
    only_print: bool,
    as_json: bool,
) -> None:
    """Read segments into the tables, each line once.

    Several ingests can run at the same time, on different machines. Each one also finishes what an interrupted one
    started. An unreadable segment goes to the table `quarantine` and its device waits; the exit code is then 4.
    """
    require_extras("sql", "team")
    from unspool.collect.lake import AgainSelection, IngestJob, IngestReport, IngestShard, run

    if (devices or since) and not again:
        raise UsageError("--device and --since need --again", hint="add `--again`")
    for device in devices:
        parse_device(device)
    if only_print and not install:
        raise UsageError("--print is for --install", hint="add `--install`")
    if install:
        if again:
            raise conflicting_options("--install", "--again")
        install_service(INGEST, _service_arguments(ctx), only_print=only_print)
        return
    load_credentials(env_file)
    selection = AgainSelection(frozenset(devices), since)
    job = IngestJob(source, url, again, workers, IngestShard(*shard), memory, selection, pseudonyms, step_hook())
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


def _service_arguments(ctx: click.Context) -> list[str]:
    values = dict(ctx.params)
    # As they were given, not as they were parsed.
    values["shard"] = "{}/{}".format(*ctx.params["shard"]) if ctx.params["shard"] != (1, 1) else None
    values["memory"] = None if ctx.params["memory"] == _parse_memory(_INGEST_MEMORY) else str(ctx.params["memory"])
    return ["lake", "ingest", "--follow", *list_service_options(values, _NOT_FOR_SERVICE)]


def _uninstall_ingest(ctx: click.Context) -> None:
    uninstall_service(INGEST)
    ctx.exit()


@lake.command("spark-ingest")
@_FROM
@click.option("--to", "url", metavar="PATH|URL", required=True, help="Folder or URL of the lake")
@click.option(
    "--master", metavar="URL", help="Spark master, as for `spark-submit`; by default what Spark is set up with"
)
@click.option(
    "--memory", metavar="SIZE", default="2GiB", show_default=True, callback=lambda _, __, value: _parse_memory(value),
    help="Memory that the driver may use; more means larger batches, with more tasks each",
)  # fmt: skip
@PSEUDONYMS
@options.json_option
@click.pass_context
def spark_ingest(
    ctx: click.Context,
    source: str,
    url: str,
    *,
    master: str | None,
    memory: int,
    pseudonyms: Path | None,
    as_json: bool,
) -> None:
    """Read segments into the tables with Spark, each line once.

    Executors read and derive the segments, one task for each device; the driver commits, exactly as `lake ingest`
    does. Both can work on one lake. It needs PySpark, and unspool on every executor: see docs/spark.md.
    """
    require_extras("sql", "team")
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise NotFound("PySpark is not installed", hint="see docs/spark.md, or use `unspool lake ingest`") from None
    from unspool.collect.lake import IngestJob, ingest_with_spark

    builder = SparkSession.builder.appName("unspool lake ingest")
    spark = (builder.master(master) if master else builder).getOrCreate()
    try:
        job = IngestJob(source, url, memory=memory, pseudonyms=pseudonyms, fault=step_hook())
        report = ingest_with_spark(spark.sparkContext, job, os.environ)
    finally:
        spark.stop()
    _print_report(report, as_json)
    if report.bad:
        ctx.exit(Unreadable.exit_code)


def _parse_shard(value: str | None) -> tuple[int, int]:
    """Return the number of a shard and how many there are."""
    if value is None:
        return 1, 1
    number, _, count = value.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) <= _MAX_SHARDS):
        raise UsageError(f"not a shard: `{value}`", hint=f"use `1/4` for the first of four; at most {_MAX_SHARDS}")
    return int(number), int(count)


def _parse_memory(value: str) -> int:
    """Return a number of bytes."""
    hint = "use for example `512MiB` or `1GB`"
    size = options.parse_size(value, hint)
    if size < _LEAST_MEMORY:
        raise UsageError(f"too little memory for an ingest: `{value}`", hint="use at least `448MiB`")
    return size


def _parse_day(value: str | None) -> str | None:
    """Return a day as ISO 8601 writes it."""
    try:
        return value and date.fromisoformat(value).isoformat()
    except ValueError:
        raise UsageError(f"invalid day: `{value}`", hint="write it as `2026-01-31`") from None


def _print_report(report: IngestReport, as_json: bool) -> None:
    if as_json:
        bad = [{"name": segment.name, "size": segment.size, "reason": segment.reason} for segment in report.bad]
        oversized = [one._asdict() for one in report.large]
        data = {**report._asdict(), "bad": bad, "large": oversized}
        click.echo(output.json_line(output.make_document("lake-ingest", data)))
        return
    waiting = f", {report.waiting:,} devices or streams wait for a missing segment" if report.waiting else ""
    of = units.amount(report.segments, "segment")
    ingested = f"{units.amount(report.lines, 'line')} of {of}, {units.size(report.bytes)}"
    output.print_line(f"{ingested}, {report.seconds:.1f} s{waiting}")
    for segment in report.bad:
        output.warn_left_out(segment.name, segment.reason)
    for large in report.large:
        words = f"its streams have {units.size(large.bytes)}, more than `--memory` allows for; it was ingested at once"
        output.warn(f"`{large.name}`: {words}")


@lake.command()
@_LAKE
@click.option(
    "--older-than", "days", metavar="DAYS", type=click.IntRange(min=0), default=1, show_default=True,
    help="Only partitions before this day; later ones still change",
)  # fmt: skip
@options.json_option
def compact(url: str, days: int, as_json: bool) -> None:
    """Merge small files into larger ones, without blocking readers or writers."""
    require_extras("sql", "team")
    from unspool.collect.lake import maintenance, open_lake

    compacted = maintenance.compact_tables(open_lake(url, os.environ), days)
    data = {"tables": [{"table": name, **result._asdict()} for name, result in compacted.items()]}
    removed = sum(result.removed for result in compacted.values())
    added = sum(result.added for result in compacted.values())
    output.print_result("lake-compact", data, f"{removed:,} files became {added:,}", as_json=as_json)


@lake.command()
@_LAKE
@click.option(
    "--hours", type=click.IntRange(min=0), default=168, show_default=True,
    help="Keep files that were in use during the last N hours; running queries may need them",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Remove the files; without it, only count them")
@options.json_option
def vacuum(url: str, hours: int, yes: bool, as_json: bool) -> None:
    """Remove files that no table needs."""
    require_extras("sql", "team")
    from unspool.collect.lake import maintenance, open_lake

    count = maintenance.vacuum_tables(open_lake(url, os.environ), hours, really=yes)
    line = f"{count:,} files {'removed' if yes else 'can be removed; add `--yes` to remove them'}"
    output.print_result("lake-vacuum", {"files": count, "removed": yes}, line, as_json=as_json)


@lake.command()
@_LAKE
@_FROM
@click.option("--full", is_flag=True, help="Read every segment and row again; by default only new and changed ones")
@options.json_option
@click.pass_context
def verify(ctx: click.Context, url: str, source: str, *, full: bool, as_json: bool) -> None:
    """Check that every line is in the tables exactly once.

    Compares manifests, segments and tables. Exits with 0 only if the store has everything that the devices sent, and
    the tables have every segment. The result is recorded in the lake: the next run reads only new and changed segments
    and rows, and lists everything else.
    """
    require_extras("sql", "team")
    from unspool.collect.lake import open_lake, open_source, verify_lake

    report = verify_lake(open_lake(url, os.environ), open_source(source, os.environ), is_full=full)
    if as_json:
        problems = [problem._asdict() for problem in report.problems]
        output.write_document("lake-verify", {**report._asdict(), "problems": problems, "whole": not problems})
    else:
        for problem in report.problems:
            output.print_line(f"{problem.what}: {problem.where}: {problem.words}")
        result = f"{len(report.problems):,} problems" if report.problems else "whole"
        things = {"stream": report.streams, "segment": report.segments, "line": report.lines}
        numbers = ", ".join(units.amount(number, name) for name, number in things.items())
        output.print_line(f"{numbers} of {units.amount(report.devices, 'device')}: {result}")
    if not report.is_recorded and not any(problem.what == "missing file" for problem in report.problems):
        output.warn("cannot write to the lake: the next run reads all of this again")
    if report.problems:
        ctx.exit(Unreadable.exit_code)


@lake.command()
@_LAKE
@click.option("--set", "bound", metavar="ORG/DEVICE=USER", multiple=True, help="Bind a device to a user; repeatable")
@click.option("--remove", "unbound", metavar="ORG/DEVICE", multiple=True, help="Remove a binding; repeatable")
@PSEUDONYMS
@click.option("--from", "source", metavar="URL", help="With --pseudonyms: show whose they are")
@options.json_option
def users(
    *,
    url: str,
    bound: tuple[str, ...],
    unbound: tuple[str, ...],
    pseudonyms: Path | None,
    source: str | None,
    as_json: bool,
) -> None:
    """List or change which user each device belongs to.

    A segment names its own user, and a device can write any name. Where a device is bound here, an ingest uses this
    user instead, and `lake verify` reports the difference. In an organization with administrators you sign the
    bindings with your key (`lake admin`).
    """
    require_extras("sql", "team")
    from unspool.collect.lake import bind_users, open_lake, open_source, read_users
    from unspool.collect.lake.lifecycle import open_pseudonyms, reveal_users
    from unspool.collect.trust import read_administrator_key

    changes: dict[str, str | None] = dict(options.parse_assignments(bound))
    changes |= dict.fromkeys(unbound)
    for device in changes:
        parse_device(device)
    opened = open_lake(url, os.environ)
    # To list bindings nobody needs the key.
    key = open_pseudonyms(opened, pseudonyms) if changes or pseudonyms or source else None
    if source and key is None:
        raise UsageError("--from shows whose pseudonyms are", hint="add `--pseudonyms FILE`")
    if key is not None:
        changes = {device: user and key.name_user(user) for device, user in changes.items()}
    folder = data_folder(os.environ)
    if changes:
        devices = bind_users(opened, changes, lambda org: read_administrator_key(folder, org))
    else:
        devices = read_users(opened)
    if key is not None and source:
        _print_revealed(reveal_users(open_source(source, os.environ), key), as_json=as_json)
        return
    if as_json:
        items = [{"device": device, "user": user} for device, user in devices.items()]
        output.write_document("lake-users", {"items": items})
    else:
        output.print_pairs(devices.items(), indent=0)


def _print_revealed(revealed: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        people = [{"pseudonym": pseudonym, "user": user} for pseudonym, user in revealed.items()]
        output.write_document("lake-pseudonyms", {"items": people})
    else:
        output.print_pairs(revealed.items(), indent=0)


@lake.command()
@_LAKE
@options.json_option
def migrate(url: str, as_json: bool) -> None:
    """Add the columns that came since the lake was created, and say what else has changed.

    An ingest adds columns too. Existing rows do not change. A store with a chain of segments for each file needs no
    migration: an ingest reads both layouts, and upgraded collectors continue with one chain for each device.
    """
    require_extras("sql", "team")
    from unspool.collect.lake import LAKE_VERSION, open_lake

    opened = open_lake(url, os.environ)
    added = opened.add_missing_columns()
    is_current = opened.version == LAKE_VERSION
    data = {"lake": opened.url, "version": opened.version, "added": added, "is_current": is_current}
    line = f"{units.amount(len(added), 'column')} added; version {opened.version} of {LAKE_VERSION}"
    output.print_result("lake-migrate", data, line, as_json=as_json)
    if not is_current:
        output.warn(
            "in a lake of version 1 a device can take the name of another's stream; "
            "make a new one with `unspool lake init`, ingest into it, and remove this one"
        )


@lake.command()
@_LAKE
@_FROM
@click.option("--prometheus", is_flag=True, help="Print metrics in Prometheus' text format")
@options.json_option
@click.pass_context
def status(ctx: click.Context, url: str, source: str, *, prometheus: bool, as_json: bool) -> None:
    """Show for each device when it was last seen, and what of it is not in the tables yet.

    Reads manifests, heartbeats and one table, no segments. A device's numbers may be a minute old.
    """
    require_extras("sql", "team")
    from unspool.collect import format_metrics
    from unspool.collect.lake import open_lake, open_source, read_status, status_metrics

    if prometheus and as_json:
        raise conflicting_options("--prometheus", "--json")
    found = read_status(open_lake(url, os.environ), open_source(source, os.environ))
    if prometheus:
        click.echo(format_metrics(status_metrics(found)), nl=False)
        return
    if as_json:
        data = {"items": [device._asdict() for device in found.devices], "quarantined": found.quarantined}
        output.write_document("lake-status", {**data, "damaged_manifests": found.damaged})
    elif found.devices:
        output.print_table(_STATUS_COLUMNS, [_status_cells(device) for device in found.devices])
    for name in found.damaged:
        output.warn_left_out(name, "its manifest cannot be read")
    if found.quarantined and not as_json:
        output.warn(f"{units.amount(found.quarantined, 'object')} in quarantine: see `unspool lake verify`")
    if not found.devices:
        ctx.exit(NothingFound.exit_code)


def _status_cells(device: DeviceStatus) -> list[str]:
    state = "left" if device.left else (device.seen_at or "never")
    names = (device.org, device.user, device.device, state, device.collector or "", device.claude_code or "")
    sent = (f"{number:,}" for number in (device.sent_segments, device.segments, device.backlog_segments))
    rest = (f"{number:,}" for number in (device.pending, device.failed, device.redactions))
    return [*map(clean_line, names), *sent, units.duration(timedelta(seconds=device.lag_seconds)), *rest]


@lake.command()
@click.argument("query", required=False)
@_LAKE
@options.json_or_lines_options
@format_options
@click.pass_context
def sql(
    ctx: click.Context,
    query: str | None,
    *,
    url: str,
    form: str,
    target: str | None,
    timeout: float,
) -> None:
    """Run an SQL query. Without QUERY, read it from stdin.

    The tables are those of `unspool sql`, with `org`, `user` and `device` columns; `entries` has the raw lines. The SQL
    engine can open only the files that the tables' logs name.
    """
    require_extras("sql", "team")
    from unspool.collect.lake import engine_setup, open_lake
    from unspool.store.sql import EngineStopped, QueryLimits, SqlEngine

    query = sys.stdin.read() if query is None else query
    # Only the tables that the query names are opened: the files of a remote lake must be fetched first.
    setup, folder = engine_setup(open_lake(url, os.environ), data_folder(os.environ) / "lakes", query)
    with SqlEngine(setup, str(folder), QueryLimits(_MEMORY, deadline=timeout or None)) as engine:
        try:
            write_answer(engine, query, form, target)
        except (UsageError, EngineStopped) as error:
            print_query_error(error)
            ctx.exit(error.exit_code)


lake.add_command(forget)
lake.add_command(sink)
