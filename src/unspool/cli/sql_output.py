"""The answers to SQL, written: rows in; a table, CSV, JSON or Parquet out.

Rules
  1. JSON has whole numbers and decimals with all their digits; NaN and infinity are null; dates, times and intervals
     are ISO 8601 text, in UTC where nothing else is said; bytes are base64; lists, structs, maps and JSON are nested.
     Of two columns with one name the later gets a number.
  2. CSV and tables have the same, with lists and the like as JSON text. In CSV null is nothing, in a table `NULL`.
  3. What is written for a terminal passes `display`. Tables are cut to a terminal's width, and to nothing else.
  4. Rows go out as they come, after the first few megabytes: an answer that fails before has written nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any

import click
import msgspec

from unspool.cli import output, table
from unspool.display import clean, clean_json, clean_line
from unspool.errors import UnspoolError, Usage
from unspool.store.wire import ARROW, OBJECTS, ROWS, Header

if TYPE_CHECKING:
    from unspool.store.query import Engine

FORMATS = ("table", "csv", "json", "ndjson", "parquet")
_HELD = 8 * 1024 * 1024
"""Bytes that are held back until it is likely that there will be an end."""
_MEASURED = 10_000
"""Rows that the widths of a table are made for."""
_UNBOUND = 1 << 30
_LEAST = 8
_NUMBERS = ("INT", "DECIMAL", "DOUBLE", "FLOAT", "UHUGEINT")


def write(engine: Engine, query: str, form: str, target: str | None) -> None:
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


def complain(error: UnspoolError) -> None:
    """Say what is wrong with a query, in all the lines that DuckDB says it in."""
    click.echo(f"unspool: {clean(error.message)}", err=True)
    if error.hint:
        click.echo(f"hint: {clean(error.hint)}", err=True)


def _out(target: str | None, stack: ExitStack) -> IO[bytes]:
    return stack.enter_context(output.new_file(target)) if target else sys.stdout.buffer


def _lines(answers: Iterable[Header | bytes]) -> Iterator[str]:
    """Yield the lines of an answer, a few at a time."""
    return (clean_json(answer.decode()) for answer in answers if isinstance(answer, bytes))


def _ndjson(engine: Engine, query: str, _: str | None) -> Iterator[str]:
    return _lines(engine.ask(query, OBJECTS))


def _json(engine: Engine, query: str, _: str | None) -> Iterator[str]:
    before = "[\n  "
    for lines in _lines(engine.ask(query, OBJECTS)):
        yield before + ",\n  ".join(lines[:-1].split("\n"))
        before = ",\n  "
    yield "[]\n" if before.startswith("[") else "\n]\n"


def _csv(engine: Engine, query: str, target: str | None) -> Iterator[str]:
    import csv
    from io import StringIO

    for_terminal = target is None and sys.stdout.isatty()
    header, rows = _rows(engine, query, null="")
    head = [header.names]
    while some := list(islice(rows, 1000)):
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in [*head, *some]:
            writer.writerow([clean_line(cell) for cell in row] if for_terminal else row)
        head = []
        yield text.getvalue()
    if head:
        text = StringIO()
        csv.writer(text, lineterminator="\n").writerow(header.names)
        yield text.getvalue()


def _table(engine: Engine, query: str, target: str | None) -> Iterator[str]:
    header, rows = _rows(engine, query, null="NULL")
    if header.names == ["explain_key", "explain_value"]:
        yield from (f"{clean(value)}\n" for _, value in rows)
        return
    columns = [
        table.Column(clean_line(name), right=kind.startswith(_NUMBERS) or "INT" in kind, least=_LEAST)
        for name, kind in zip(header.names, header.types, strict=True)
    ]
    for_terminal = target is None and sys.stdout.isatty()
    width = output.width() if for_terminal else _UNBOUND
    for line in table.lines(columns, list(islice(rows, _MEASURED)), width, rows):
        yield (line if for_terminal else click.unstyle(line)) + "\n"


def _rows(engine: Engine, query: str, *, null: str) -> tuple[Header, Iterator[list[str]]]:
    """Return the columns, and rows of text."""
    answers = engine.ask(query, ROWS)
    header = next(answers)
    assert isinstance(header, Header)

    def rows() -> Iterator[list[str]]:
        decode = msgspec.json.Decoder(list[Any]).decode
        for answer in answers:
            if isinstance(answer, bytes):
                for line in answer.splitlines():
                    yield [_cell(value, null) for value in decode(line)]

    return header, rows()


def _cell(value: Any, null: str) -> str:
    match value:
        case None:
            return null
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            return msgspec.json.encode(value).decode()


def _parquet(engine: Engine, query: str, target: str | None) -> None:
    from io import BytesIO

    from arro3.io import read_ipc_stream, write_parquet

    if target is None and sys.stdout.isatty():
        raise Usage("Parquet is nothing for a terminal", hint="name a file with `-o FILE`, or redirect the output")
    answers = engine.ask(query, ARROW)
    stream = BytesIO(b"".join(answer for answer in answers if isinstance(answer, bytes)))
    file = BytesIO()
    write_parquet(read_ipc_stream(stream), file, compression="zstd(6)")
    with ExitStack() as stack:
        out = _out(target, stack)
        out.write(file.getbuffer())
        out.flush()


_FORMS: dict[str, Callable[[Engine, str, str | None], Iterator[str]]] = {
    "table": _table,
    "csv": _csv,
    "json": _json,
    "ndjson": _ndjson,
}
