"""Reads rows for the column files (`parts.sql`) from the SQLite database of the store.

Rules
  1. A caller reads everything in one transaction: the state of a file and the responses billed in it belong together.
  2. A table that is written whole is made from files of certain kinds; if none of those has changed, neither has it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from unspool.store.columns.tables import part_tables
from unspool.store.columns.values import epoch_days, epoch_micros, milliseconds_to_micros
from unspool.store.sync.changes import INDEXED_KINDS, SOURCE_COLUMNS, SourceRow

if TYPE_CHECKING:
    from unspool.prices import Price

Row = tuple[object, ...]

LINE_KINDS: Final = INDEXED_KINDS
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

_TABLES: Final = {
    "agent_owners": "agents",
    "agent_meta": "agent_meta JOIN sources ON id = source_id",
    "history": "history ORDER BY source_id, generation, offset",
}
"""Where the rows of a table come from, if that is not the table of its name."""
_COLUMNS: Final = {
    "response_id": "id",
    "is_sidechain": "marks & 1",
    "retold": "marks & 2",
    # What has no price is not known: null, and not 0.
    "cost_micros": "CASE WHEN unpriced_tokens = 0 THEN cost_micros END",
    "estimated_cost_micros": "CASE WHEN unpriced_tokens = 0 THEN estimated_cost_micros END",
    "ended": "last",
    "agent_path": "substr(path, 1, length(path) - length('.meta.json')) || '.jsonl'",
}
"""Columns that the store has under another name, or in another form."""


_shown = attrgetter(
    "id", "path", "kind", "project", "session_id", "agent_id", "generation", "size", "offset", "lines", "modified",
    "archived", "gone",
)  # fmt: skip
"""What the column files have of a file, or are made from."""


def read_sources(database: sqlite3.Connection) -> list[SourceRow]:
    """Return every file that the store has read."""
    query = f"SELECT {SOURCE_COLUMNS} FROM sources ORDER BY id"
    return [SourceRow._make(row) for row in database.execute(query)]


def hash_kinds(sources: Iterable[SourceRow]) -> dict[str, str]:
    """Return for each kind of file a hash that changes when any of its files does."""
    hashes: dict[str, hashlib.blake2b] = {}
    for source in sources:
        if source.kind not in hashes:
            hashes[source.kind] = hashlib.blake2b(digest_size=12)
        # A path may hold bytes that are not UTF-8, which Python has as lone surrogates.
        hashes[source.kind].update(repr(_shown(source)).encode(errors="surrogatepass"))
    return {kind: found.hexdigest() for kind, found in hashes.items()}


def read_table(database: sqlite3.Connection, table: str, sources: Sequence[SourceRow]) -> list[Row]:
    """Return all rows of a table that is written whole."""
    if table == "sources":
        return [_source_row(source) for source in sources]
    return _select(database, table, _TABLES.get(table, table))


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
    for id in source_ids:
        yield id, _select(database, "answers", "answers WHERE source_id = ? ORDER BY generation, offset", (id,))


def sources_sharing_responses(database: sqlite3.Connection, changed: Iterable[int]) -> set[int]:
    """Return the changed files and all that share a response with them: another copy may be the one that counts now."""
    sharing: set[int] = set()
    query = "SELECT DISTINCT b.source_id FROM answers a JOIN answers b ON b.id = a.id WHERE a.source_id = ?"
    for id in changed:
        sharing.add(id)
        sharing.update(other for (other,) in database.execute(query, (id,)))
    return sharing


def _source_row(source: SourceRow) -> Row:
    # `size` is from the last look at the file, which may have been read further since.
    size = max(source.size, source.offset)
    gone = (source.gone is not None, milliseconds_to_micros(source.gone))
    about = (source.id, source.path, source.kind, source.project, source.session_id, source.agent_id)
    read = (source.generation, size, source.offset, source.lines)
    return (*about, *read, source.modified // 1000, bool(source.archived), *gone)


def _select(database: sqlite3.Connection, table: str, rows: str, values: tuple[object, ...] = ()) -> list[Row]:
    """Return rows of the store as rows of a table of the column files."""
    columns = [column for column in part_tables()[table].columns if column.name != "revision"]
    names = ", ".join(_COLUMNS.get(column.name, column.name) for column in columns)
    conversions = [
        (place, _CONVERSIONS[column.type]) for place, column in enumerate(columns) if column.type in _CONVERSIONS
    ]
    converted = []
    for row in database.execute(f"SELECT {names} FROM {rows}", values):
        cells = list(row)
        for at, convert in conversions:
            cells[at] = convert(cells[at])
        converted.append(tuple(cells))
    return converted


def _to_micros(time: str | int | None) -> int | None:
    """Return a time as the store has it, as text or in milliseconds, in microseconds."""
    return milliseconds_to_micros(time) if isinstance(time, int) else epoch_micros(time)


_CONVERSIONS: Final[dict[str, Callable[[Any], object]]] = {"TIMESTAMP": _to_micros, "DATE": epoch_days, "BOOLEAN": bool}
"""By type of a column: what turns a value of the store into one of the column files."""
