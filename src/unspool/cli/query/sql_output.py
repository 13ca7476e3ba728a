"""Writes the rows that a SQL query returns: as a table, CSV, JSON or Parquet.

Rules
  1. `store/sql/format_rows.py` turns values into text. In CSV null is empty, in a table it is `NULL`.
  2. What is written to a terminal passes `display`. Tables are cut to the width of a terminal, never in a pipe or file.
  3. Rows are streamed after the first few megabytes: a query that fails before that has written nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice
from typing import IO, TYPE_CHECKING

import click

from unspool.cli import output
from unspool.display import clean, clean_line, table
from unspool.errors import UnspoolError, UsageError
from unspool.store.sql import ARROW, fetch_text_rows, format_csv, format_json, format_json_lines

if TYPE_CHECKING:
    from unspool.store.sql import SqlEngine

FORMATS = ("table", "csv", "json", "ndjson", "parquet")
_HELD = 8 * 1024 * 1024
"""Bytes that are held back, so that a query which fails early writes nothing."""
_MEASURED = 10_000
"""Rows that decide the widths of the columns."""
_UNBOUND = 1 << 30
_MIN_WIDTH = 8
_NUMBERS = ("INT", "DECIMAL", "DOUBLE", "FLOAT", "UHUGEINT")


def format_options(command: output.Command) -> output.Command:
    """Add `--format`, `--output` and `--timeout`."""
    help_text = "End a query that takes longer; 0: any time it takes."
    seconds = click.FloatRange(min=0)
    timeout = click.option("--timeout", metavar="SECONDS", type=seconds, default=60, show_default=True, help=help_text)
    target = click.option("-o", "--output", "target", metavar="FILE", help="Write to a new file instead of stdout.")
    forms = click.Choice(FORMATS)
    form = click.option("--format", "form", type=forms, default="table", show_default=True, help="Of the rows.")
    return form(target(timeout(command)))


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
    with ExitStack() as stack:
        held: list[bytes] = []
        size, out = 0, None
        for piece in pieces:
            data = piece.encode()
            if out is None:
                held.append(data)
                size += len(data)
                if size < _HELD:
                    continue
                data, out = b"".join(held), _out(target, stack)
            out.write(data)
        if out is None:
            out = _out(target, stack)
            out.write(b"".join(held))
        out.flush()


def print_query_error(error: UnspoolError) -> None:
    """Print an error of a query to stderr."""
    # DuckDB's message has several lines, which show the place in the query: `print_error` would join them.
    click.echo(f"unspool: {clean(error.message)}", err=True)
    if error.hint:
        click.echo(f"hint: {clean(error.hint)}", err=True)


def _out(target: str | None, stack: ExitStack) -> IO[bytes]:
    return stack.enter_context(output.create_file(target)) if target else sys.stdout.buffer


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
    with ExitStack() as stack:
        out = _out(target, stack)
        out.write(file.getbuffer())
        out.flush()
