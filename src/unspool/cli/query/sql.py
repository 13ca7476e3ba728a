"""`unspool sql`: runs SQL queries with DuckDB, and writes their rows as a table, CSV, JSON or Parquet.

Rules
  1. `store/sql/format_rows.py` turns values into text. In CSV null is empty, in a table it is `NULL`.
  2. What is written to a terminal passes `display`. Tables are cut to the width of a terminal, never in a pipe or file.
  3. A query names tables, never their files: these also hold rows of config folders that were not named, and rows that
     are no longer current.
  4. Rows are streamed after the first few megabytes: a query that fails before that has written nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unspool.cli import options, output, store_access
from unspool.cli.main import on_step
from unspool.display import clean, clean_line, table
from unspool.errors import UnspoolError, UsageError, conflicting_options
from unspool.read import Skipped
from unspool.store import StoreAccess, open_store, preferences
from unspool.store.columns import parquet
from unspool.store.sql import (
    ARROW,
    EngineStopped,
    QueryLimits,
    SqlEngine,
    fetch_text_rows,
    format_csv,
    format_json,
    format_json_document,
    format_json_lines,
)

if TYPE_CHECKING:
    import sqlite3

    from unspool.store.sql import SqlTables

FORMATS = ("table", "csv", "json", "ndjson", "parquet")
DOCUMENT = "document"
"""The JSON document of `--json`; `--format json` is the rows alone."""
_SUFFIXES = {
    ".csv": "csv", ".json": "json", ".jsonl": "ndjson", ".ndjson": "ndjson", ".parquet": "parquet", ".txt": "table",
}  # fmt: skip
_HELD = 8 * 1024 * 1024
"""Bytes that are held back, so that a query which fails early writes nothing."""
_MEASURED = 10_000
"""Rows that decide the widths of the columns."""
_UNBOUND = 1 << 30
_MIN_WIDTH = 8
_WHOLE = ("DATE", "TIME", "BOOLEAN", "UUID")
"""The beginnings of types, besides numbers, whose values mean nothing if they are cut."""
_NUMBERS = ("INT", "DECIMAL", "DOUBLE", "FLOAT", "UHUGEINT")


def format_options(command: options.Command) -> options.Command:
    """Add `--format`, `--output` and `--timeout`."""
    help_text = "Stop a query after this time; 0: no limit"
    seconds = options.FiniteRange(min=0)
    timeout = click.option("--timeout", metavar="SECONDS", type=seconds, default=60, show_default=True, help=help_text)
    target = click.option("-o", "--output", "target", metavar="FILE", help="Write to a new file instead of stdout")
    forms = click.Choice(FORMATS)
    form = click.option("--format", "form", type=forms, help="Output format. Default: by the suffix of -o, else table")

    @form
    @target
    @timeout
    @wraps(command)
    def run(*, form: str | None, target: str | None, as_json: bool, as_lines: bool, **options: Any) -> None:
        command(form=_choose_format(form, target, as_json=as_json, as_lines=as_lines), target=target, **options)

    return run


def _choose_format(form: str | None, target: str | None, *, as_json: bool, as_lines: bool) -> str:
    """Return the format that the options name, or the suffix of the file to write."""
    flag = "--json" if as_json else "--jsonl" if as_lines else None
    if form is not None and flag is not None:
        raise conflicting_options(flag, f"--format {form}")
    if flag is not None:
        return DOCUMENT if as_json else "ndjson"
    return form or _SUFFIXES.get(Path(target).suffix.lower() if target else "", "table")


@click.command()
@click.argument("query", required=False)
@options.list_output_options
@format_options
@options.store_options
@click.pass_context
def sql(
    ctx: click.Context,
    *,
    query: str | None,
    form: str,
    target: str | None,
    timeout: float,
    access: options.AccessOptions,
) -> None:
    """Run SQL on sessions, messages, tool calls, files and costs.

    QUERY is one read-only statement in DuckDB's dialect. Without it, the query comes from stdin, or from a prompt on a
    terminal. The first query builds the tables from the store, later ones add what changed. docs/sql.md describes the
    tables and has example queries.
    """
    limits = QueryLimits(deadline=timeout or None, tables_only=True)
    if query is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        query = sys.stdin.read()
    for attempt in (1, 2):
        with (
            open_sql_tables(access, deep=attempt == 2) as (tables, skipped),
            SqlEngine(tables.setup, str(tables.columns), limits) as engine,
        ):
            try:
                if query is not None:
                    write_answer(engine, query, form, target, skipped)
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
    access: options.AccessOptions, *, deep: bool = False
) -> Iterator[tuple[SqlTables, list[dict[str, str]]]]:
    """Bring the column files of some folders up to date and open them; also return what was left out of them.

    Without a store, a temporary one is made.
    """
    parquet.require_sql_libraries()
    # After the check: without the libraries these imports would fail with a traceback.
    from unspool.store.columns import RefreshOptions, refresh
    from unspool.store.sql import open_tables

    with ExitStack() as stack:
        # Waits for a first sync: the tables are made from a store, there is no answering from the files.
        opened = stack.enter_context(store_access.open_folders(access._replace(wait=True)))
        settings, folder, database = opened.preferences, opened.folder, opened.database
        if database is None:
            folder, database = _make_temporary_store(opened, stack)
        with ExitStack() as bars:
            begin, advance = store_access.delayed_progress_bar(bars, "writing column files")
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
            output.warn("column files were damaged or missing; wrote them again")
        opened.skip(*(Skipped(Path(path), reason) for path, reason in refreshed.failed))
        skipped = output.skipped_as_json(opened.skipped)
        yield stack.enter_context(open_tables(database, folder, opened.roots, settings)), skipped


def _make_temporary_store(opened: StoreAccess, stack: ExitStack) -> tuple[Path, sqlite3.Connection]:
    """Read folders into a store that is removed afterwards."""
    import tempfile

    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="unspool-")))
    database = open_store(folder)
    stack.callback(database.close)
    for root in opened.roots:
        report = store_access.sync_store(database, root, folder, opened.preferences._replace(archive=False))
        opened.skip(*report.failed)
    return folder, database


def write_answer(
    engine: SqlEngine, query: str, form: str, target: str | None, skipped: Sequence[Mapping[str, str]] = ()
) -> None:
    """Run a query and write its rows in a format to stdout or to a new file."""
    if form == "parquet":
        _write_parquet(engine, query, target)
        return
    for_terminal = target is None and sys.stdout.isatty()
    if form == DOCUMENT:
        pieces = format_json_document(engine, query, skipped)
    else:
        pieces = _format_rows(engine, query, form, for_terminal=for_terminal)
    if form == "table" and for_terminal:
        with output.paging():
            for piece in pieces:
                click.echo(piece, nl=False)
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
    columns = [_make_column(name, kind) for name, kind in zip(header.names, header.types, strict=True)]
    width = output.terminal_width() if for_terminal else _UNBOUND
    for line in table.format_table(columns, list(islice(rows, _MEASURED)), width, rows):
        yield (line if for_terminal else click.unstyle(line)) + "\n"


def _make_column(name: str, kind: str) -> table.TextColumn:
    """Return a column of a result: text may be cut, numbers, dates and times may not."""
    is_number = kind.startswith(_NUMBERS) or "INT" in kind
    is_whole = is_number or kind.startswith(_WHOLE)
    return table.TextColumn(clean_line(name), right=is_number, least=None if is_whole else _MIN_WIDTH)


def _write_parquet(engine: SqlEngine, query: str, target: str | None) -> None:
    from io import BytesIO

    from arro3.io import read_ipc_stream, write_parquet

    if target is None and sys.stdout.isatty():
        raise UsageError(
            "cannot write Parquet to a terminal", hint="write to a file with `-o FILE`, or redirect the output"
        )
    answers = engine.execute(query, ARROW)
    stream = BytesIO(b"".join(answer for answer in answers if isinstance(answer, bytes)))
    file = BytesIO()
    write_parquet(read_ipc_stream(stream), file, compression="zstd(6)")
    with output.open_target(target) as out:
        out.write(file.getbuffer())
