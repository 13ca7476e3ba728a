"""What the store knows, as rows of the column files: its database in, rows of `parts.sql` out.

Rules
  1. All of it is read in one transaction: what is told of a file and what was billed in it belong together.
  2. A table that is written whole is made from files of certain kinds; if none of those has changed, neither has it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from unspool.store.columns.values import days, micros

if TYPE_CHECKING:
    from unspool.prices.price_list import Price, Rates

Row = tuple[object, ...]

LINED: Final = ("session", "agent", "journal")
"""Kinds of files whose lines are derived."""

WHOLE: Final[dict[str, tuple[str, ...]]] = {
    "sources": (),
    "sessions": ("session",),
    "agent_owners": ("agent",),
    "agent_meta": ("agent-meta",),
    "bad_lines": (),
    "history": ("history",),
    "todos": ("todos",),
    "plans": ("plan",),
    "stats_days": ("stats",),
}
"""Tables that are written whole, and the kinds of files they are made from; none: any."""

_SELECTS = {
    "sessions": """SELECT source_id, session_id, title, titled_by, first_prompt, cwd, project, branch, slug, versions,
        models, started, last, wall_seconds, active_seconds, turns, messages, tool_calls, errors, images, compactions,
        pull_requests, context_tokens, hidden FROM sessions""",
    "agent_owners": "SELECT source_id, session_id FROM agents",
    "agent_meta": """SELECT source_id, path, agent_type, description, tool_use_id
        FROM agent_meta JOIN sources ON id = source_id""",
    "bad_lines": "SELECT source_id, generation, offset, length, reason FROM bad_lines",
    "history": """SELECT source_id, generation, offset, time, display, project, session_id, pasted FROM history
        ORDER BY source_id, generation, offset""",
    "todos": """SELECT source_id, session_id, agent_id, position, content, status, active_form, id, priority
        FROM todos""",
    "plans": "SELECT source_id, name, slug, title, content, size, created, modified FROM plans",
    "stats_days": "SELECT source_id, date, message_count, session_count, tool_call_count FROM stats_days",
}


class Known(NamedTuple):
    """What the store knows of a file."""

    id: int
    path: str
    kind: str
    project: str | None
    session_id: str | None
    agent_id: str | None
    generation: int
    size: int
    offset: int
    lines: int
    modified: int
    archived: int
    gone: int | None


def sources(database: sqlite3.Connection) -> list[Known]:
    """Return every file."""
    query = f"SELECT {', '.join(Known._fields)} FROM sources ORDER BY id"
    return [Known._make(row) for row in database.execute(query)]


def kinds(known: Iterable[Known]) -> dict[str, str]:
    """Return for each kind of file what changes when any of them does."""
    hashes: dict[str, hashlib.blake2b] = {}
    for one in known:
        if one.kind not in hashes:
            hashes[one.kind] = hashlib.blake2b(digest_size=12)
        hashes[one.kind].update(repr(one).encode(errors="surrogatepass"))
    return {kind: found.hexdigest() for kind, found in hashes.items()}


def whole(database: sqlite3.Connection, table: str, known: Sequence[Known]) -> list[Row]:
    """Return all rows of a table."""
    if table == "sources":
        return [_source(one) for one in known]
    rows = database.execute(_SELECTS[table])
    return [_MADE[table](row) for row in rows] if table in _MADE else list(rows)


def price_rows(own: Sequence[Price]) -> Iterator[Row]:
    """Yield what models cost."""
    from unspool.prices.price_list import LONG, prices

    for price in (*own, *prices()):
        for above, rates in ((0, price.rates), *([(LONG, price.long)] if price.long else [])):
            yield _price(price, above, rates, own=price in own)


def answers(database: sqlite3.Connection, source_ids: Iterable[int]) -> Iterator[tuple[int, list[Row]]]:
    """Yield what each of some files says of responses, without the first column of the table."""
    query = f"SELECT {', '.join(_ANSWERS)} FROM answers WHERE source_id = ? ORDER BY generation, offset"
    for id in source_ids:
        yield id, [answer(row) for row in database.execute(query, (id,))]


def answer(row: Sequence[object]) -> Row:
    """Return the values of a row, `_ANSWERS` in."""
    cell = dict(zip(_ANSWERS, row, strict=True))
    marks = cell["marks"]
    assert isinstance(marks, int)
    cell |= {"is_sidechain": bool(marks & 1), "retold": bool(marks & 2)}
    cell |= {"counted": bool(cell["counted"]), "final": bool(cell["final"]), "time": _times(1000, cell["time"])}
    return tuple(cell[name] for name in _ANSWER_CELLS)


def touched(database: sqlite3.Connection, changed: Iterable[int]) -> set[int]:
    """Return the files that share a response with one that has changed: what counts in them may be another now."""
    found: set[int] = set()
    query = "SELECT DISTINCT b.source_id FROM answers a JOIN answers b ON b.id = a.id WHERE a.source_id = ?"
    for id in changed:
        found.add(id)
        found.update(other for (other,) in database.execute(query, (id,)))
    return found


def _source(one: Known) -> Row:
    place = (one.id, one.path, one.kind, one.project, one.session_id, one.agent_id, one.generation)
    gone = (one.gone is not None, _times(1000, one.gone))
    return (*place, max(one.size, one.offset), one.offset, one.lines, one.modified // 1000, bool(one.archived), *gone)


def _times(factor: int, number: object) -> int | None:
    return number * factor if isinstance(number, int) else None


def _session(row: Row) -> Row:
    started, ended = (micros(cell) if isinstance(cell, str) else None for cell in row[11:13])
    return (*row[:11], started, ended, *row[13:])


def _agent_meta(row: Row) -> Row:
    return (row[0], str(row[1]).removesuffix(".meta.json") + ".jsonl", *row[2:])


def _plan(row: Row) -> Row:
    return (*row[:-2], _times(1000, row[-2]), _times(1000, row[-1]))


def _history(row: Row) -> Row:
    return (*row[:3], _times(1000, row[3]), *row[4:])


def _stats_day(row: Row) -> Row:
    return (row[0], days(row[1] if isinstance(row[1], str) else None), *row[2:])


_MADE: dict[str, Callable[[Row], Row]] = {
    "sessions": _session,
    "agent_meta": _agent_meta,
    "plans": _plan,
    "history": _history,
    "stats_days": _stats_day,
}


def _price(price: Price, above: int, rates: Rates, *, own: bool) -> Row:
    from unspool.prices.price_list import ONCE

    micros = [rate * 100 for rate in rates]
    factors = (price.us / ONCE, price.fast / ONCE)
    return (price.model, days(price.since), above, *micros, price.web_search, *factors, own, price.source)


_ANSWER_CELLS = (
    "source_id", "id", "generation", "counted", "offset", "time", "session_id", "agent_id", "project", "cwd", "branch",
    "version", "model", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens",
    "cache_write_1h_tokens", "web_searches", "cost_micros", "unpriced_tokens", "final", "estimated_output_tokens",
    "estimated_cost_micros", "copies", "is_sidechain", "retold", "speed", "service_tier", "inference_geo",
)  # fmt: skip
"""The columns of `answers` in `parts.sql`, as the store calls them."""
_ANSWERS = (*(name for name in _ANSWER_CELLS if name not in ("is_sidechain", "retold")), "marks")
"""What is asked of the store for them."""
