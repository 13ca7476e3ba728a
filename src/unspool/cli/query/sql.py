"""`unspool sql`: runs SQL queries with DuckDB, and writes their rows as a table, CSV, JSON or Parquet.

Rules
  1. `store/sql/format_rows.py` turns values into text. In CSV null is empty, in a table it is `NULL`.
  2. What is written to a terminal passes `display`. Tables are cut to the width of a terminal, never in a pipe or file.
  3. Rows are streamed after the first few megabytes: a query that fails before that has written nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unspool.cli import options, output, store_access
from unspool.cli.main import on_step
from unspool.display import clean, clean_line, table
from unspool.errors import UnspoolError, UsageError
from unspool.store import open_store, preferences
from unspool.store.columns import parquet
from unspool.store.sql import (
    ARROW,
    EngineStopped,
    QueryLimits,
    SqlEngine,
    fetch_text_rows,
    format_csv,
    format_json,
    format_json_lines,
)

if TYPE_CHECKING:
    import sqlite3

    from unspool.store import Preferences
    from unspool.store.sql import SqlTables

FORMATS = ("table", "csv", "json", "ndjson", "parquet")
_HELD = 8 * 1024 * 1024
"""Bytes that are held back, so that a query which fails early writes nothing."""
_MEASURED = 10_000
"""Rows that decide the widths of the columns."""
_UNBOUND = 1 << 30
_MIN_WIDTH = 8
_NUMBERS = ("INT", "DECIMAL", "DOUBLE", "FLOAT", "UHUGEINT")


def format_options(command: options.Command) -> options.Command:
    """Add `--format`, `--output` and `--timeout`."""
    help_text = "End a query that takes longer; 0: any time it takes."
    seconds = click.FloatRange(min=0)
    timeout = click.option("--timeout", metavar="SECONDS", type=seconds, default=60, show_default=True, help=help_text)
    target = click.option("-o", "--output", "target", metavar="FILE", help="Write to a new file instead of stdout.")
    forms = click.Choice(FORMATS)
    form = click.option("--format", "form", type=forms, default="table", show_default=True, help="Of the rows.")
    return form(target(timeout(command)))


@click.command()
@click.argument("query", required=False)
@format_options
@options.store_options
@options.json_option
@options.folders_option
@click.pass_context
def sql(
    ctx: click.Context,
    *,
    query: str | None,
    form: str,
    target: str | None,
    timeout: float,
    access: options.AccessOptions,
    as_json: bool,
    config_dirs: tuple[str | None, ...],
) -> None:
    """Ask in SQL: sessions, messages, tool calls, files, responses and their cost.

    QUERY is one statement that reads, in DuckDB's dialect. Without one it is read from stdin; on a terminal there is a
    prompt. The tables are made from the store when they are first asked for, and after that from what has changed.
    docs/sql.md has them all, with example questions.
    """
    limits = QueryLimits(deadline=timeout or None)
    if query is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        query = sys.stdin.read()
    for attempt in (1, 2):
        with (
            open_sql_tables(config_dirs, access, deep=attempt == 2) as tables,
            SqlEngine(tables.setup, str(tables.columns), limits) as engine,
        ):
            try:
                if query is not None:
                    write_answer(engine, query, "json" if as_json else form, target)
                else:
                    from unspool.cli.query.sql_prompt import run_prompt

                    run_prompt(engine, form, tables.folder)
            except (UsageError, EngineStopped) as error:
                if attempt == 1 and _may_be_damaged(error, str(tables.columns)):
                    continue  # once more, with every byte of the column files compared
                print_query_error(error)
                ctx.exit(error.exit_code)
            break


def _may_be_damaged(error: UnspoolError, folder: str) -> bool:
    """Tell whether damaged column files may be the reason of an error."""
    # Either the message names a column file, or the engine has died on one.
    return isinstance(error, EngineStopped) or folder in error.message


@contextmanager
def open_sql_tables(
    config_dirs: Iterable[str | None], access: options.AccessOptions, *, deep: bool = False
) -> Iterator[SqlTables]:
    """Bring the column files of some folders up to date and open them. Without a store, a temporary one is made."""
    parquet.require_sql_libraries()
    # After the check: without the libraries these imports would fail with a traceback.
    from unspool.store.columns import RefreshOptions, refresh
    from unspool.store.sql import open_tables

    with ExitStack() as stack:
        # Waits for a first sync: the tables are made from a store, there is no answering from the files.
        opened = stack.enter_context(store_access.open_folders(config_dirs, access._replace(wait=True)))
        roots, settings, folder = [each.root for each in opened], opened[0].preferences, opened[0].folder
        database = opened[0].database
        if any(each.database is None for each in opened) or database is None:
            folder, database = _make_temporary_store(roots, settings, stack)
        with ExitStack() as bars:
            begin, advance = store_access.delayed_progress_bar(bars, "making column files")
            options = RefreshOptions(
                prices=settings.prices,
                price_edition=preferences.price_edition(settings),
                begin=begin,
                advance=advance,
                at=on_step(),
                deep=deep,
            )
            refreshed = refresh.refresh_columns(database, folder, options)
        if refreshed.lost:
            output.warn("column files were damaged or missing, and were made again")
        for path, reason in refreshed.failed:
            output.warn_left_out(path, reason)
        yield stack.enter_context(open_tables(database, folder, roots, settings))


def _make_temporary_store(
    roots: list[Path], settings: Preferences, stack: ExitStack
) -> tuple[Path, sqlite3.Connection]:
    """Read folders into a store that is removed afterwards."""
    import tempfile

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="unspool-")))
    database = open_store(folder)
    stack.callback(database.close)
    for root in roots:
        store_access.sync_store(database, root, folder, settings._replace(archive=False))
    return folder, database


def write_answer(engine: SqlEngine, query: str, form: str, target: str | None) -> None:
    """Run a query and write its rows in a format to stdout or to a new file."""
    if form == "parquet":
        _write_parquet(engine, query, target)
        return
    for_terminal = target is None and sys.stdout.isatty()
    pieces = _format_rows(engine, query, form, for_terminal=for_terminal)
    if form == "table" and for_terminal:
        first = next(pieces, "")  # an error is printed before the pager starts
        output.show_pages(chain([first], pieces))
        return
    held = bytearray()
    for piece in pieces:
        held += piece.encode()
        if len(held) >= _HELD:
            break
    with output.open_target(target) as out:
        out.write(held)
        out.writelines(piece.encode() for piece in pieces)


def print_query_error(error: UnspoolError) -> None:
    """Print an error of a query to stderr."""
    # DuckDB's message has several lines, which show the place in the query: `print_error` would join them.
    click.echo(f"unspool: {clean(error.message)}", err=True)
    if error.hint:
        click.echo(f"hint: {clean(error.hint)}", err=True)


def _format_rows(engine: SqlEngine, query: str, form: str, *, for_terminal: bool) -> Iterator[str]:
    match form:
        case "csv":
            return format_csv(engine, query, clean_line if for_terminal else None)
        case "json":
            return format_json(engine, query)
        case "ndjson":
            return format_json_lines(engine, query)
        case _:
            return _format_table(engine, query, for_terminal=for_terminal)


def _format_table(engine: SqlEngine, query: str, *, for_terminal: bool) -> Iterator[str]:
    header, rows = fetch_text_rows(engine, query, null="NULL")
    # The plan of `EXPLAIN` is a drawing of many lines: a table would cut it.
    if header.names == ["explain_key", "explain_value"]:
        yield from (f"{clean(value)}\n" for _, value in rows)
        return
    columns = [
        table.TextColumn(clean_line(name), right=kind.startswith(_NUMBERS) or "INT" in kind, least=_MIN_WIDTH)
        for name, kind in zip(header.names, header.types, strict=True)
    ]
    width = output.terminal_width() if for_terminal else _UNBOUND
    for line in table.format_table(columns, list(islice(rows, _MEASURED)), width, rows):
        yield (line if for_terminal else click.unstyle(line)) + "\n"


def _write_parquet(engine: SqlEngine, query: str, target: str | None) -> None:
    from io import BytesIO

    from arro3.io import read_ipc_stream, write_parquet

    if target is None and sys.stdout.isatty():
        raise UsageError("Parquet is nothing for a terminal", hint="name a file with `-o FILE`, or redirect the output")
    answers = engine.execute(query, ARROW)
    stream = BytesIO(b"".join(answer for answer in answers if isinstance(answer, bytes)))
    file = BytesIO()
    write_parquet(read_ipc_stream(stream), file, compression="zstd(6)")
    with output.open_target(target) as out:
        out.write(file.getbuffer())
