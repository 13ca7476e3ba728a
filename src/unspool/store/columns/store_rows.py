"""Reads rows for the column files (`parts.sql`) from the SQLite database of the store.

Rules
  1. A caller reads everything in one transaction: the state of a file and the responses billed in it belong together.
  2. A table that is written whole is made from files of certain kinds; if none of those has changed, neither has it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from unspool.store.columns.values import epoch_days, epoch_micros

if TYPE_CHECKING:
    from unspool.prices import Price

Row = tuple[object, ...]

LINE_KINDS: Final = ("session", "agent", "journal")
"""Kinds of files that consist of lines, which are derived one by one."""

WHOLE_TABLES: Final[dict[str, tuple[str, ...]]] = {
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
"""Tables that are written whole, and the kinds of files they are made from; an empty tuple means every kind."""

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


_ANSWER_COLUMNS = (
    "source_id", "id", "generation", "counted", "offset", "time", "session_id", "agent_id", "project", "cwd", "branch",
    "version", "model", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens",
    "cache_write_1h_tokens", "web_searches", "cost_micros", "unpriced_tokens", "final", "estimated_output_tokens",
    "estimated_cost_micros", "copies", "marks & 1", "marks & 2", "speed", "service_tier", "inference_geo",
)  # fmt: skip
"""The columns of `answers` in `parts.sql` without the first, as the store has them; `marks` is two of them."""


class StoredSource(NamedTuple):
    """A row of `sources`: a file that the store has read."""

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


def read_sources(database: sqlite3.Connection) -> list[StoredSource]:
    """Return every file that the store has read."""
    query = f"SELECT {', '.join(StoredSource._fields)} FROM sources ORDER BY id"
    return [StoredSource._make(row) for row in database.execute(query)]


def hash_kinds(sources: Iterable[StoredSource]) -> dict[str, str]:
    """Return for each kind of file a hash that changes when any of its files does."""
    hashes: dict[str, hashlib.blake2b] = {}
    for source in sources:
        if source.kind not in hashes:
            hashes[source.kind] = hashlib.blake2b(digest_size=12)
        # A path may hold bytes that are not UTF-8, which Python has as lone surrogates.
        hashes[source.kind].update(repr(source).encode(errors="surrogatepass"))
    return {kind: found.hexdigest() for kind, found in hashes.items()}


def read_table(database: sqlite3.Connection, table: str, sources: Sequence[StoredSource]) -> list[Row]:
    """Return all rows of a table that is written whole."""
    if table == "sources":
        return [_source_row(source) for source in sources]
    return _convert(table, database.execute(_SELECTS[table]))


def price_rows(own: Sequence[Price]) -> Iterator[Row]:
    """Yield the prices of all models, the user's own first."""
    from unspool.prices import FACTOR_ONE, LONG_PROMPT_TOKENS, load_price_list

    for price in (*own, *load_price_list()):
        for above, rates in ((0, price.rates), *([(LONG_PROMPT_TOKENS, price.long)] if price.long else [])):
            micros = (rate * 100 for rate in rates)
            about = (price.model, epoch_days(price.since), above, *micros, price.web_search)
            yield (*about, price.us / FACTOR_ONE, price.fast / FACTOR_ONE, price in own, price.source)


def read_answers(database: sqlite3.Connection, source_ids: Iterable[int]) -> Iterator[tuple[int, list[Row]]]:
    """Yield for each file the responses on its lines: rows of `answers` without the first column."""
    query = f"SELECT {', '.join(_ANSWER_COLUMNS)} FROM answers WHERE source_id = ? ORDER BY generation, offset"
    for id in source_ids:
        yield id, _convert("answers", database.execute(query, (id,)))


def sources_sharing_responses(database: sqlite3.Connection, changed: Iterable[int]) -> set[int]:
    """Return the changed files and all that share a response with them: another copy may be the one that counts now."""
    sharing: set[int] = set()
    query = "SELECT DISTINCT b.source_id FROM answers a JOIN answers b ON b.id = a.id WHERE a.source_id = ?"
    for id in changed:
        sharing.add(id)
        sharing.update(other for (other,) in database.execute(query, (id,)))
    return sharing


def _source_row(source: StoredSource) -> Row:
    # `size` is from the last look at the file, which may have been read further since.
    size = max(source.size, source.offset)
    gone = (source.gone is not None, _from_milliseconds(source.gone))
    return (*source[:7], size, source.offset, source.lines, source.modified // 1000, bool(source.archived), *gone)


def _convert(table: str, rows: Iterable[Row]) -> list[Row]:
    """Convert the values of rows for which the store and the column files differ."""
    conversions = _CONVERSIONS.get(table)
    if conversions is None:
        return list(rows)
    converted = []
    for row in rows:
        values = list(row)
        for column, convert in conversions.items():
            values[column] = convert(values[column])
        converted.append(tuple(values))
    return converted


def _from_milliseconds(time: int | None) -> int | None:
    return None if time is None else time * 1000


def _path_of_agent(meta_path: str) -> str:
    return meta_path.removesuffix(".meta.json") + ".jsonl"


_CONVERSIONS: Final[dict[str, dict[int, Callable[[Any], object]]]] = {
    "sessions": {11: epoch_micros, 12: epoch_micros},
    "agent_meta": {1: _path_of_agent},
    "plans": {6: _from_milliseconds, 7: _from_milliseconds},
    "history": {3: _from_milliseconds},
    "stats_days": {1: epoch_days},
    "answers": {3: bool, 5: _from_milliseconds, 21: bool, 25: bool, 26: bool},
}
"""By table and column: what turns a value of the store into one of the column files."""
