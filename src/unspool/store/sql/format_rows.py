"""Formats the results of SQL queries as rows of text, CSV or JSON, a piece at a time.

Rules
  1. JSON has integers and decimals with all their digits; NaN and infinity are null; dates, times and intervals are ISO
     8601 text, in UTC unless they say otherwise; bytes are base64; lists, structs, maps and JSON are nested. A column
     that has the name of an earlier one gets a number.
  2. Rows of text have the same values, with lists and other nested values as JSON text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.display import clean_json
from unspool.store.sql.protocol import OBJECTS, ROWS, ResultHeader

if TYPE_CHECKING:
    from unspool.store.sql.client import SqlEngine

_ROWS_AT_ONCE = 1000


def fetch_text_rows(engine: SqlEngine, query: str, *, null: str | None) -> tuple[ResultHeader, Iterator[list[Any]]]:
    """Return the columns of a result, and its rows as text; `null` stands for NULL."""
    output = engine.execute(query, ROWS)
    header = next(output)
    assert isinstance(header, ResultHeader)
    decode = msgspec.json.Decoder(list[Any]).decode
    lines = (line for piece in output if isinstance(piece, bytes) for line in piece.splitlines())
    return header, ([_format_value(value, null) for value in decode(line)] for line in lines)


def fetch_objects(engine: SqlEngine, query: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a result as objects: lists and structs are nested, times are text."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    pieces = (piece for piece in engine.execute(query, OBJECTS) if isinstance(piece, bytes))
    return (decode(line) for piece in pieces for line in piece.splitlines())


def format_csv(engine: SqlEngine, query: str, clean: Callable[[str], str] | None = None) -> Iterator[str]:
    """Yield a result as CSV: a line of names, then the rows; NULL is an empty cell."""
    import csv  # only needed for this form
    from io import StringIO

    header, rows = fetch_text_rows(engine, query, null="")
    chunk: list[list[Any]] = [header.names]
    while chunk:
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in chunk:
            writer.writerow([clean(cell) for cell in row] if clean else row)
        yield text.getvalue()
        chunk = list(islice(rows, _ROWS_AT_ONCE))


def format_json_lines(engine: SqlEngine, query: str) -> Iterator[str]:
    """Yield a result as lines of JSON, an object for each row."""
    return (clean_json(piece.decode()) for piece in engine.execute(query, OBJECTS) if isinstance(piece, bytes))


def format_json(engine: SqlEngine, query: str) -> Iterator[str]:
    """Yield a result as one list of JSON objects."""
    before = "[\n  "
    for lines in format_json_lines(engine, query):
        yield before + ",\n  ".join(lines[:-1].split("\n"))
        before = ",\n  "
    yield "[]\n" if before.startswith("[") else "\n]\n"


def format_json_document(engine: SqlEngine, query: str, skipped: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield a result as one JSON document: the columns, the rows in `items`, and the files that were left out."""
    answers = engine.execute(query, OBJECTS)
    header, first = next(answers, None), ""
    names, types = (header.names, header.types) if isinstance(header, ResultHeader) else ((), ())
    columns = [{"name": one, "type": kind} for one, kind in zip(names, types, strict=True)]
    head = f'{{\n  "schema": "unspool/sql/1",\n  "columns": {_encode(columns)},\n  "items": ['
    for piece in answers:
        if isinstance(piece, bytes):
            lines = clean_json(piece.decode())
            yield f"{head}{first}\n    " + ",\n    ".join(lines[:-1].split("\n"))
            head, first = "", ","
    yield f"{head}],\n" if head else "\n  ],\n"
    yield f'  "skipped": {_encode(skipped)}\n}}\n'


def _encode(value: Any) -> str:
    return clean_json(msgspec.json.encode(value).decode())


def _format_value(value: Any, null: str | None) -> str | None:
    match value:
        case None:
            return null
        case str():
            return value
        case float():
            return str(value)
        case _:
            return msgspec.json.encode(value).decode()
