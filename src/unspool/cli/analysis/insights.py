"""`unspool insights`: where the money and the time of sessions go, and what would have saved some."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from unspool.cli import options, output, store_access
from unspool.cli.query.sql import open_sql_tables
from unspool.display import TextColumn, units
from unspool.errors import NothingFound
from unspool.format import parse_time_range, parse_zone
from unspool.insights import SECTIONS, InsightScope, build_query
from unspool.store import StoreAccess, preferences

if TYPE_CHECKING:
    from unspool.insights.analysis import InsightLayout

InsightFilters: TypeAlias = tuple[str | None, str | None, str | None, str | None]
"""Since, until, project, session."""

DEFAULT_ROWS: Final = 10
MAX_ROWS: Final = 1000
_MAX_WORDS: Final = 72
"""Characters of a file or command in a table."""
_NAMED_PLACES: Final = 2
_LEAST_WIDTH: Final = 16


@click.command()
@click.option("--since", metavar="TIME", help="Only since TIME: a date, an age like `12h` or `7d`, or `last week`")
@click.option("--until", metavar="TIME", help="Only until TIME; a date means the end of that day")
@click.option("-p", "--project", metavar="TEXT", help="Only this project: its name, part of its path, or its key")
@click.option(
    "--session", metavar="SESSION", shell_complete=options.complete_session, help="Only this session and its agents"
)
@click.option(
    "-n",
    "--limit",
    metavar="N",
    type=click.IntRange(min=1, max=MAX_ROWS),
    default=DEFAULT_ROWS,
    show_default=True,
    help="Only the first N rows of each section",
)
@click.option("--sql", "section", type=click.Choice(SECTIONS), help="Print the SQL query of a section, with all rows")
@options.store_options
@options.output_options
@output.paged
def insights(
    *,
    since: str | None,
    until: str | None,
    project: str | None,
    session: str | None,
    limit: int,
    section: str | None,
    access: options.AccessOptions,
    as_json: bool,
) -> None:
    """Report where money and time go: by tool, file, project and failure.

    It also lists repeated reads, lost caches, waits and what filled the context, and suggests what would have saved
    something: a line for `CLAUDE.md`, a permission rule, a trim. Each row names sessions and turns to look at.

    \b
    unspool insights --since 30d
    unspool insights --project shop --json
    unspool insights --sql tools | unspool sql
    """
    now = datetime.now().astimezone()
    with ExitStack() as stack:
        if section is not None:
            opened = stack.enter_context(store_access.open_folders(access)) if session else None
            scope = _make_scope(opened, (since, until, project, session), now)
            for line in build_query(section, scope).splitlines():
                output.print_line(line)
            return
        data, skipped = _read(access, (since, until, project, session), limit, now)
    if as_json:
        output.write_document("insights", {**data, "skipped": skipped})
    if not data["totals"]["responses"] and not data["totals"]["calls"]:
        raise NothingFound("no requests and no tool calls found", hint="list sessions with `unspool ls`")
    if not as_json:
        _print_report(data)


def _read(
    access: options.AccessOptions, filters: InsightFilters, limit: int, now: datetime
) -> tuple[dict[str, Any], list[dict[str, str]]]:
    with open_sql_tables(access) as (tables, skipped):
        # Only now: they need the libraries of the extra `sql`.
        from unspool.insights import read_insights
        from unspool.store.sql import QueryLimits, SqlEngine

        settings = preferences.read_preferences(tables.folder)
        opened = StoreAccess(tables.roots, tables.folder, settings, tables.database)
        scope = _make_scope(opened, filters, now)
        try:
            with SqlEngine(tables.setup, str(tables.columns), QueryLimits(deadline=None)) as engine:
                data = read_insights(engine, opened, scope, limit=limit, now=now)
        finally:
            if "archive" in vars(opened):  # a cached property: only what was opened is closed
                opened.archive.database.close()
        return data, skipped


def _make_scope(opened: StoreAccess | None, filters: InsightFilters, now: datetime) -> InsightScope:
    zone = parse_zone(opened.preferences.timezone) if opened and opened.preferences.timezone else None
    since, until, project, session = filters
    begin, end = parse_time_range(since, until, now, zone)
    return InsightScope(begin, end, project, opened.home.session(session).id if opened and session else None)


def _print_report(data: dict[str, Any]) -> None:
    from unspool.insights import SHOWN
    from unspool.insights.analysis import LAYOUT, describe_unknown

    totals = data["totals"]
    cost = units.cost(totals["cost_micros"], totals["unpriced_tokens"])
    failed = f"{totals['failed']:,} failed" + (
        f", {totals['rejected']:,} of them rejected" if totals["rejected"] else ""
    )
    output.print_line(
        f"{cost} for {units.amount(totals['responses'], 'request')}; "
        f"{units.amount(totals['calls'], 'tool call')} ({failed})"
    )
    _print_suggestions(data["suggestions"])
    for name in SHOWN:
        if data[name]:
            output.print_line()
            _print_section(LAYOUT[name], name, data[name], data["left_out"].get(name, 0))
    sentences = describe_unknown(data["unknown"])
    if sentences:
        output.print_line()
        for sentence in sentences:
            output.print_line(sentence)


def _print_suggestions(suggestions: list[dict[str, Any]]) -> None:
    from unspool.insights.analysis import describe_saving

    if suggestions:
        output.print_line()
        output.print_heading("suggestions")
    for suggestion in suggestions:
        where = f"  [{suggestion['project']}]" if suggestion["project"] else ""
        output.print_line(f"  {suggestion['text']}{where}")
        output.print_line(f"    {suggestion['action']}")
        output.print_line(f"    saves {describe_saving(suggestion['saved'])}: {suggestion['computed']}")
        output.print_line(f"    see {_name_places(suggestion['places'])}")


def _print_section(layout: InsightLayout, name: str, rows: list[dict[str, Any]], rest: int) -> None:
    from unspool.insights.analysis import describe_row, format_value

    first, *others = layout.columns
    columns = [TextColumn(layout.title.upper(), least=_LEAST_WIDTH)]
    columns += [TextColumn(column.heading.upper(), right=column.form != "text") for column in others]
    columns.append(TextColumn("SEE", least=_LEAST_WIDTH))
    cells = []
    for row in rows:
        named = describe_row(name, row)
        words = " ".join(format_value(first.form, named[first.field]).split())
        # The end of a path says more than its beginning.
        shown = f"…{words[-_MAX_WORDS:]}" if first.field == "path" and len(words) > _MAX_WORDS else words[:_MAX_WORDS]
        figures = [format_value(column.form, named[column.field]) for column in others]
        cells.append((shown, *figures, _name_places(row["places"])))
    output.print_table(columns, cells)
    if rest:
        output.print_line(f"and {rest:,} more; list them with `--limit`")


def _name_places(places: list[dict[str, Any]]) -> str:
    """Return sessions and turns to look at, as `unspool show` takes them."""
    names = dict.fromkeys(
        units.short_id(place["session_id"] or "-") + (f" turn {place['turn']}" if place["turn"] else "")
        for place in places
    )
    return ", ".join([*names][:_NAMED_PLACES])
