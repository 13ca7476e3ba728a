"""Answers to SQL as text: a query in; rows of words, CSV or JSON out, a piece at a time.

Rules
  1. JSON has whole numbers and decimals with all their digits; NaN and infinity are null; dates, times and intervals
     are ISO 8601 text, in UTC where nothing else is said; bytes are base64; lists, structs, maps and JSON are nested.
     Of two columns with one name the later gets a number.
  2. Rows of words have the same, with lists and the like as JSON text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.display.safe import clean_json
from unspool.store.sql.protocol import OBJECTS, ROWS, Header

if TYPE_CHECKING:
    from unspool.store.sql.client import Engine

_AT_ONCE = 1000


def text_rows(engine: Engine, query: str, *, null: str | None) -> tuple[Header, Iterator[list[Any]]]:
    """Return the columns, and rows of text, with `null` for what is not there."""
    answers = engine.ask(query, ROWS)
    header = next(answers)
    assert isinstance(header, Header)

    def rows() -> Iterator[list[Any]]:
        decode = msgspec.json.Decoder(list[Any]).decode
        for answer in answers:
            if isinstance(answer, bytes):
                for line in answer.splitlines():
                    yield [_cell(value, null) for value in decode(line)]

    return header, rows()


def csv_text(engine: Engine, query: str, clean: Callable[[str], str] | None = None) -> Iterator[str]:
    """Yield an answer as CSV: a line of names, then the rows; null is nothing."""
    import csv
    from io import StringIO

    header, rows = text_rows(engine, query, null="")
    some: list[list[Any]] = [header.names]
    while some:
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in some:
            writer.writerow([clean(cell) for cell in row] if clean else row)
        yield text.getvalue()
        some = list(islice(rows, _AT_ONCE))


def json_lines(engine: Engine, query: str) -> Iterator[str]:
    """Yield an answer as lines of JSON, an object for each row."""
    return (clean_json(answer.decode()) for answer in engine.ask(query, OBJECTS) if isinstance(answer, bytes))


def json_text(engine: Engine, query: str) -> Iterator[str]:
    """Yield an answer as one list of JSON objects."""
    before = "[\n  "
    for lines in json_lines(engine, query):
        yield before + ",\n  ".join(lines[:-1].split("\n"))
        before = ",\n  "
    yield "[]\n" if before.startswith("[") else "\n]\n"


def _cell(value: Any, null: str | None) -> str | None:
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
