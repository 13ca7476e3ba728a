"""What counts among some files, whatever home they are in: the rows of each file in, responses once each out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from unspool.paths import project_name
from unspool.prices.price_list import Price
from unspool.prices.responses import Counting, Response
from unspool.store.sync.write_rows import ANSWER, NAMES, response_of
from unspool.store.usage.ledger import milliseconds
from unspool.store.usage.pricing import Pricing

_SOURCE, _GENERATION = (NAMES.index(name) for name in ("source_id", "generation"))


def counted(
    database: sqlite3.Connection, sources: frozenset[int], prices: Sequence[Price]
) -> Iterator[tuple[object, ...]]:
    """Yield the rows of `answers` in `parts.sql` for the responses that count among some files."""
    query = f"""SELECT {ANSWER}, s.project, s.path FROM answers a JOIN sources s ON s.id = a.source_id
        ORDER BY s.path, a.generation"""
    counting = Counting[str]()
    places: dict[tuple[str, str, int], tuple[int, int, str | None]] = {}
    files: dict[str, set[str]] = {}
    for row in database.execute(query):
        if row[_SOURCE] not in sources:
            continue
        response, path = response_of(row), row[-1]
        counting.add(path, response)
        places[response.id, path, response.offset] = (row[_SOURCE], row[_GENERATION], row[-2])
        files.setdefault(response.id, set()).add(path)
    pricing = Pricing(prices)
    for one in counting.counted():
        best = one.response
        source, generation, project = places[best.id, one.source, best.offset]
        yield 0, source, best.id, generation, True, *cells(best, project, len(files[best.id]), pricing)


def cells(one: Response, project: str | None, copies: int, pricing: Pricing) -> tuple[object, ...]:
    """Return what a row says of a response, from `offset` on; `project` is its folder's key."""
    time = milliseconds(one.timestamp)
    found = pricing.bill((one,))
    return (
        one.offset,
        None if time is None else time * 1000,
        one.session_id,
        one.agent_id,
        project_name(one.cwd, project),
        one.cwd,
        one.branch,
        one.version,
        one.model,
        one.input,
        one.output,
        one.cache_read,
        one.cache_write_5m,
        one.cache_write_1h,
        one.web_searches,
        found.cost_micros,
        found.unpriced_tokens,
        one.final,
        found.estimated_output_tokens,
        found.estimated_cost_micros,
        copies,
        one.sidechain,
        one.retold,
        one.speed,
        one.service_tier,
        one.inference_geo,
    )
