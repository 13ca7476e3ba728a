"""Which files a question is about, and what counts in them: folders in, a `Scope` out.

Rules
  1. What counts is what `unspool usage` counts. Where the question is about one home, the marks in `answers` say so;
     about a part of a home, or several folders, it is found anew among the files that are there.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from unspool.paths import project_name
from unspool.prices.responses import Counted, Counting
from unspool.prices.table import Price
from unspool.store.freshness import WITHIN, homes, within
from unspool.store.manifest import Manifest
from unspool.store.parquet import write
from unspool.store.pricing import Pricing, priced
from unspool.store.rows import ANSWER, NAMES, response_of
from unspool.store.views import Scope

_SOURCE, _GENERATION, _OFFSET = (NAMES.index(name) for name in ("source_id", "generation", "offset"))


def scope(
    database: sqlite3.Connection, columns: Path, manifest: Manifest, roots: Sequence[Path], prices: Sequence[Price]
) -> Scope:
    """Return what a question about some folders is about."""
    query = f"SELECT id FROM sources WHERE {WITHIN}"
    sources = frozenset(id for root in roots for (id,) in database.execute(query, within(root)))
    every = database.execute("SELECT count(*) FROM sources").fetchone()[0]
    chosen = None if len(sources) == every else sources
    if len(roots) == 1 and _is_home(database, roots[0]):
        return Scope(chosen)
    key = "\0".join(map(str, sorted(roots))).encode(errors="surrogateescape")
    name = f"scopes/{manifest.serial}-{hashlib.blake2b(key, digest_size=12).hexdigest()}.parquet"
    if not (columns / name).exists():
        new = f"{name}.{hashlib.blake2b(repr(id(sources)).encode(), digest_size=4).hexdigest()}.new"
        write(columns, new, "answers", list(_counted(database, sources, Pricing(prices))))
        (columns / new).replace(columns / name)
    return Scope(chosen, str(columns / name))


def _is_home(database: sqlite3.Connection, root: Path) -> bool:
    """Tell whether a folder is a home and no other is inside."""
    found = homes(database)
    inner = within(root)["first"]
    return any(row.path == str(root) for row in found) and not any(row.path.startswith(inner) for row in found)


def _counted(database: sqlite3.Connection, sources: frozenset[int], pricing: Pricing) -> Iterator[tuple[object, ...]]:
    """Yield the rows of responses that count among some files."""
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
    for counted in counting.counted():
        place = places[counted.response.id, counted.source, counted.response.offset]
        yield _row(counted, place, len(files[counted.response.id]), pricing)


def _row(
    counted: Counted[str], place: tuple[int, int, str | None], copies: int, pricing: Pricing
) -> tuple[object, ...]:
    from unspool.store.billed import milliseconds

    one = counted.response
    time = milliseconds(one.timestamp)
    found = priced(one, pricing)
    return (
        0,
        place[0],
        one.id,
        place[1],
        True,
        one.offset,
        None if time is None else time * 1000,
        one.session_id,
        one.agent_id,
        project_name(one.cwd, place[2]),
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
