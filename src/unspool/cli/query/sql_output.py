"""Writes the rows that a SQL query returns: as a table, CSV, JSON or Parquet.

Rules
  1. Rows are worded in `store/sql/format_rows.py`. In CSV null is nothing, in a table `NULL`.
  2. What is written for a terminal passes `display`. Tables are cut to a terminal's width, and to nothing else.
  3. Rows go out as they come, after the first few megabytes: an answer that fails before has written nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from unspool.cli import output
from unspool.display import clean, clean_line, table
from unspool.errors import UnspoolError, UsageError
from unspool.store.sql import ARROW, fetch_text_rows, format_csv, format_json, format_json_lines

if TYPE_CHECKING:
    from unspool.store.sql import SqlEngine

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("table", "csv", "json", "ndjson", "parquet")
_HELD = 8 * 1024 * 1024
"""Bytes that are held back until it is likely that there will be an end."""
_MEASURED = 10_000
"""Rows that the widths of a table are made for."""
_UNBOUND = 1 << 30
_LEAST = 8
_NUMBERS = ("INT", "DECIMAL", "DOUBLE", "FLOAT", "UHUGEINT")


def format_options(command: F) -> F:
    """Add `--format`, `--output` and `--timeout`."""
    words = "End a query that takes longer; 0: any time it takes."
    seconds = click.FloatRange(min=0)
    timeout = click.option("--timeout", metavar="SECONDS", type=seconds, default=60, show_default=True, help=words)
    target = click.option("-o", "--output", "target", metavar="FILE", help="Write to a new file instead of stdout.")
    forms = click.Choice(FORMATS)
    form = click.option("--format", "form", type=forms, default="table", show_default=True, help="Of the rows.")
    return form(target(timeout(command)))


def write_answer(engine: SqlEngine, query: str, form: str, target: str | None) -> None:
    """Ask, and write the answer in a format to stdout or to a new file."""
    if form == "parquet":
        _parquet(engine, query, target)
        return
    pieces = _FORMS[form](engine, query, target)
    if form == "table" and target is None and sys.stdout.isatty():
        first = next(pieces, "")  # what is wrong is said before a pager starts
        click.echo_via_pager(chain([first], pieces), color=False if os.environ.get("NO_COLOR") else None)
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


def print_error(error: UnspoolError) -> None:
    """Say what is wrong with a query, in all the lines that DuckDB says it in."""
    click.echo(f"unspool: {clean(error.message)}", err=True)
    if error.hint:
        click.echo(f"hint: {clean(error.hint)}", err=True)


def _out(target: str | None, stack: ExitStack) -> IO[bytes]:
    return stack.enter_context(output.create_file(target)) if target else sys.stdout.buffer


def _ndjson(engine: SqlEngine, query: str, _: str | None) -> Iterator[str]:
    return format_json_lines(engine, query)


def _json(engine: SqlEngine, query: str, _: str | None) -> Iterator[str]:
    return format_json(engine, query)


def _csv(engine: SqlEngine, query: str, target: str | None) -> Iterator[str]:
    return format_csv(engine, query, clean_line if target is None and sys.stdout.isatty() else None)


def _table(engine: SqlEngine, query: str, target: str | None) -> Iterator[str]:
    header, rows = fetch_text_rows(engine, query, null="NULL")
    if header.names == ["explain_key", "explain_value"]:
        yield from (f"{clean(value)}\n" for _, value in rows)
        return
    columns = [
        table.TextColumn(clean_line(name), right=kind.startswith(_NUMBERS) or "INT" in kind, least=_LEAST)
        for name, kind in zip(header.names, header.types, strict=True)
    ]
    for_terminal = target is None and sys.stdout.isatty()
    width = output.terminal_width() if for_terminal else _UNBOUND
    for line in table.format_table(columns, list(islice(rows, _MEASURED)), width, rows):
        yield (line if for_terminal else click.unstyle(line)) + "\n"


def _parquet(engine: SqlEngine, query: str, target: str | None) -> None:
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


_FORMS: dict[str, Callable[[SqlEngine, str, str | None], Iterator[str]]] = {
    "table": _table,
    "csv": _csv,
    "json": _json,
    "ndjson": _ndjson,
}
