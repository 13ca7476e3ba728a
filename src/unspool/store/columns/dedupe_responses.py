"""Counts each response once among a selection of files: rows of `answers` for queries about parts of a config folder.

The store marks which copy of a response counts in a whole config folder. For a query about a part of one, or about
several, the marks do not apply and the copies are compared again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from unspool.paths import project_name
from unspool.prices import Price, Response, ResponseCounter
from unspool.store.answer_rows import ANSWER_COLUMNS, ANSWER_SELECT, PriceLookup, response_from_row
from unspool.store.times import milliseconds

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
    pricing = PriceLookup(prices)
    for counted in counting.counted():
        best = counted.response
        source, generation, project = places[best.id, counted.source, best.offset]
        yield 0, source, best.id, generation, True, *response_values(best, project, len(paths[best.id]), pricing)


def response_values(response: Response, project: str | None, copies: int, pricing: PriceLookup) -> tuple[object, ...]:
    """Return the values of a row of `answers` from `offset` on; `project` is the key of the project's folder."""
    time = milliseconds(response.timestamp)
    bill = pricing.bill((response,))
    return (
        response.offset,
        None if time is None else time * 1000,
        response.session_id,
        response.agent_id,
        project_name(response.cwd, project),
        response.cwd,
        response.branch,
        response.version,
        response.model,
        response.input,
        response.output,
        response.cache_read,
        response.cache_write_5m,
        response.cache_write_1h,
        response.web_searches,
        bill.cost_micros,
        bill.unpriced_tokens,
        response.final,
        bill.estimated_output_tokens,
        bill.estimated_cost_micros,
        copies,
        response.sidechain,
        response.from_progress,
        response.speed,
        response.service_tier,
        response.inference_geo,
    )
