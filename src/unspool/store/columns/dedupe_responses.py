"""Counts each response once among a selection of files: rows of `answers` for queries about parts of a config folder.

The store marks which copy of a response counts in a whole config folder. For a query about a part of one, or about
several, the marks do not apply and the copies are compared again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from operator import itemgetter

from unspool.prices import Price, Response, ResponseCounter
from unspool.store.answer_rows import (
    ANSWER_COLUMNS,
    ANSWER_SELECT,
    BILLED_COLUMNS,
    PriceLookup,
    billed_values,
    response_from_row,
)
from unspool.store.columns.tables import part_tables
from unspool.store.columns.values import milliseconds_to_micros

_SOURCE, _GENERATION = (ANSWER_COLUMNS.index(name) for name in ("source_id", "generation"))


def deduplicated_rows(
    database: sqlite3.Connection, sources: frozenset[int], prices: Sequence[Price]
) -> Iterator[tuple[object, ...]]:
    """Yield a row of `answers` in `parts.sql` for each response in some files, with the copy that counts among them."""
    query = f"""SELECT {ANSWER_SELECT}, s.project, s.path FROM answers a JOIN sources s ON s.id = a.source_id
        ORDER BY s.path, a.generation"""
    counting = ResponseCounter[str]()
    places: dict[tuple[str, str, int], tuple[int, int, str | None]] = {}
    paths: dict[str, set[str]] = {}
    for row in database.execute(query):
        if row[_SOURCE] not in sources:
            continue
        response, path = response_from_row(row), row[-1]
        counting.add(path, response)
        places[response.id, path, response.offset] = (row[_SOURCE], row[_GENERATION], row[-2])
        paths.setdefault(response.id, set()).add(path)
    pricing, select = PriceLookup(prices), itemgetter(*part_tables()["answers"].names)
    for counted in counting.counted():
        best = counted.response
        source, generation, project = places[best.id, counted.source, best.offset]
        cells = response_column_cells(best, project, len(paths[best.id]), pricing)
        yield select({**cells, "revision": 0, "source_id": source, "generation": generation})


def response_column_cells(
    response: Response, project_key: str | None, copies: int, pricing: PriceLookup
) -> dict[str, object]:
    """Return a response that counts as values by column of `answers`; `project_key` is the name of its folder."""
    cells = dict(zip(BILLED_COLUMNS, billed_values(response, project_key, pricing), strict=True))
    if cells["unpriced_tokens"]:  # what has no price is not known
        cells |= {"cost_micros": None, "estimated_cost_micros": None}
    return cells | {"counted": True, "copies": copies, "time": milliseconds_to_micros(cells["time"])}
