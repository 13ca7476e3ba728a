"""Batches and side files to rows. Everything about one batch is written in the transaction that is open.

Rules
  1. A file that became another one starts a new generation; what the old one had stays.
  2. The offset of a file and the rows of the lines before it are written together.
  3. Each response is counted once for each home (`recount`).

[merged: repeats.py] Which responses several files may have. In: the responses of each batch. Out: the ids that are to be looked up.

Rules
  1. In a home that had none before, a response that was met once is in one file. In any other home nobody knows.
  2. No more ids are held than memory allows; beyond that, all are looked up.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from unspool.paths import project_name
from unspool.prices.responses import Counting, Response, stem
from unspool.read.position import Change
from unspool.read.scan import Source
from unspool.store.sync.changes import SEARCHED
from unspool.store.sync.read_file import Batch, session_row
from unspool.store.usage.ledger import milliseconds
from unspool.store.usage.pricing import Pricing

if TYPE_CHECKING:
    from unspool.graph.session_facts import Facts

HELD = 200_000
"""Ids: some 30 MB."""


def repeats_in(database: sqlite3.Connection, home_id: int) -> Repeats:
    """Return what is known of a home before anything is met."""
    query = "SELECT 1 FROM sources WHERE home_id = ? AND offset > 0 LIMIT 1"
    return Repeats(is_all=database.execute(query, (home_id,)).fetchone() is None)


class Repeats:
    """The responses of a home that were met; `is_all` as long as there are no others."""

    def __init__(self, *, is_all: bool) -> None:
        self._is_all = is_all
        self._once: set[str] = set()
        self._again: set[str] = set()

    def meet(self, responses: Iterable[Response]) -> None:
        """Take what a batch has."""
        if self._is_all:
            ids = {response.id for response in responses}
            self._again |= self._once & ids
            self._once |= ids
            self._is_all = len(self._once) <= HELD

    def again(self, ids: Collection[str]) -> Collection[str]:
        """Return those that may be in several files."""
        return [id for id in ids if id in self._again] if self._is_all else ids


_AT_ONCE = 400
"""How many ids one query asks for."""


class Known(NamedTuple):
    """What the store knows of a file: a row of `sources`."""

    id: int
    home_id: int
    path: str
    kind: str
    project: str | None
    session_id: str | None
    agent_id: str | None
    generation: int
    size: int
    modified: int
    device: int
    inode: int
    offset: int = 0
    head: bytes = b""
    boundary: bytes = b""
    archived: int = 0
    lines: int = 0
    gone: int | None = None


COLUMNS = ", ".join(Known._fields)
OTHERS = frozenset({Change.REPLACED, Change.TRUNCATED, Change.REWRITTEN})
"""The changes that make a file another one."""


class Writer:
    """Writes rows and counts them."""

    def __init__(self, database: sqlite3.Connection, pricing: Pricing) -> None:
        self._database, self._pricing = database, pricing
        self._waiting: dict[str, list[tuple[object, ...]]] = {}
        """Rows by their table that are still to be written, many at a time."""
        self._sources: dict[int, Known] = {}
        """The same for files."""
        self._last_id = 0
        self._unsummed: set[int] = set()
        """Files whose sums are to be made again."""
        self._repeats: dict[int, Repeats] = {}
        """The responses of homes that had none before: only those that are met twice need to be looked up."""
        self.added = 0
        self.generations = 0

    def home(self, path: str) -> int:
        """Add a folder that was asked for; return its id."""
        (id,) = self._database.execute("INSERT INTO homes (path) VALUES (?) RETURNING id", (path,)).fetchone()
        return int(id)

    def source(self, source: Source, home_id: int) -> Known:
        """Add a file that was not known. Until it has been read it has no size, so that it will be looked at again."""
        if not self._last_id:
            self._last_id = self._database.execute("SELECT coalesce(max(id), 0) FROM sources").fetchone()[0]
        self._last_id += 1
        known = Known(
            id=self._last_id,
            home_id=home_id,
            path=source.place,
            kind=source.kind.value,
            project=source.project,
            session_id=source.session_id,
            agent_id=source.agent_id,
            generation=1,
            size=-1,
            modified=0,
            device=source.device,
            inode=source.inode,
        )
        self._sources[known.id] = known
        self.added += 1
        return known

    def batch(self, known: Known, batch: Batch, *, archived: bool) -> Known:
        """Write what a part of a file says; return what is known of the file now."""
        generation = known.generation + (batch.change in OTHERS)
        if generation != known.generation:
            self.generations += 1
        if batch.start or batch.again:
            self.flush()  # earlier parts of the file may be among them
        if batch.again and batch.is_first:
            for table in ("answers", "limits", "bad_lines", "history"):
                self._database.execute(
                    f"DELETE FROM {table} WHERE source_id = ? AND generation = ?", (known.id, generation)
                )
        key = (known.id, generation)
        self._answers(known, generation, batch)
        self._add("limits", [(*key, *row) for row in batch.limits])
        self._add("bad_lines", [(*key, *row) for row in batch.bad])
        self._add("history", [(*key, *row) for row in batch.history])
        if batch.facts is not None:
            self._session(known, batch.facts, batch.state)
        if known.kind == "agent":
            owners = [known.session_id] if known.session_id else batch.owners
            self._add("agents", [(known.id, owner, known.agent_id or "") for owner in owners])
        return self._reached(known, generation, batch, archived=archived)

    def side_file(self, known: Known, source: Source, data: bytes) -> None:
        """Replace the rows of a side file; one that cannot be read keeps those it had, and is a bad line."""
        from unspool.store.sync.side_rows import TABLES, rows

        database = self._database
        self.flush()
        database.execute("DELETE FROM bad_lines WHERE source_id = ?", (known.id,))
        try:
            found = list(rows(source, data))
        except msgspec.DecodeError as error:
            self._add("bad_lines", [(known.id, known.generation, 0, len(data), str(error))])
        else:
            for table in TABLES.get(source.kind, ()):
                database.execute(f"DELETE FROM {table} WHERE source_id = ?", (known.id,))
            for table, values in found:
                self._add(table, [(known.id, *values)])
        self.looked(known, source)
        self.flush()

    def looked(self, known: Known, source: Source) -> None:
        """Note what the system says of a file that was read whole."""
        query = "UPDATE sources SET size = ?, modified = ?, device = ?, inode = ?, gone = NULL WHERE id = ?"
        self._database.execute(query, (source.size, source.modified, source.device, source.inode, known.id))

    def recount(self, home_id: int, ids: Collection[str]) -> None:
        """See to it that of the responses that several files of a home have one counts."""
        self._recount(home_id, self._repeats[home_id].again(ids) if home_id in self._repeats else ids)

    def _recount(self, home_id: int, ids: Collection[str]) -> None:
        self.flush()
        several = "AND home_id = ? GROUP BY id HAVING count(*) > 1"
        for some in _portions(ids, _AT_ONCE):
            query = f"SELECT id FROM answers WHERE id IN ({_marks(len(some))}) {several}"
            for (id,) in self._database.execute(query, (*some, home_id)).fetchall():
                self._count(home_id, id)
        self.flush()

    def reprice(self, home_id: int) -> None:
        """Price everything in a home again."""
        self.flush()
        query = f"SELECT {ANSWER}, s.project FROM answers a JOIN sources s ON s.id = a.source_id WHERE a.home_id = ?"
        rows = [
            _row(_Place(*row[1:6]), response_of(row), row[-1], self._pricing)
            for row in self._database.execute(query, (home_id,))
        ]
        self._unsummed.update(int(str(row[1])) for row in rows)
        self._database.executemany(f"INSERT OR REPLACE INTO answers VALUES ({_marks(len(NAMES))})", rows)
        self._recount(home_id, {str(row[0]) for row in rows if row[NAMES.index("copies")] != 1})

    def _count(self, home_id: int, id: str) -> None:
        """Choose among the files that have a response; the one that counts is dated by the earliest line of all."""
        query = f"""SELECT {ANSWER}, s.project, s.path FROM answers a JOIN sources s ON s.id = a.source_id
            WHERE a.id = ? AND a.home_id = ?"""
        counting = Counting[str]()
        candidates = {}
        for row in self._database.execute(query, (id, home_id)):
            place = f"{row[-1]}\0{row[2]:09}"
            candidates[place] = row
            counting.add(place, response_of(row))
        (counted,) = counting.counted()
        rows = []
        for place, row in candidates.items():
            counts = place == counted.source
            response = counted.response if counts else response_of(row)
            where = _Place(*row[1:6])._replace(counted=int(counts), copies=len(candidates))
            made = _row(where, response, row[-2], self._pricing)
            rows.append((*made[:_SIZE], row[_SIZE], *made[_SIZE + 1 :]))
            self._unsummed.add(where.source_id)
        self._database.executemany(f"INSERT OR REPLACE INTO answers VALUES ({_marks(len(NAMES))})", rows)

    def _answers(self, known: Known, generation: int, batch: Batch) -> None:
        place = _Place(known.id, generation, known.home_id, 1, 1)
        found = batch.answers
        if batch.start:
            found = [self._merged(known.id, generation, response) for response in found]
        if found:
            self._unsummed.add(known.id)
            if known.home_id not in self._repeats:
                self._repeats[known.home_id] = repeats_in(self._database, known.home_id)
            self._repeats[known.home_id].meet(found)
            self._add("answers", [_row(place, response, known.project, self._pricing) for response in found])

    def _merged(self, source_id: int, generation: int, response: Response) -> Response:
        """Return what a file says of a response, with what it said before."""
        query = f"SELECT {ANSWER} FROM answers a WHERE id = ? AND source_id = ? AND generation = ?"
        before = self._database.execute(query, (response.id, source_id, generation)).fetchone()
        if before is None:
            return response
        counting = Counting[int]()
        counting.add(0, response_of(before))
        counting.add(0, response)
        (counted,) = counting.counted()
        return counted.response

    def _session(self, known: Known, facts: Facts, state: bytes) -> None:
        row = (known.id, *session_row(facts, known.session_id or stem(known.path), known.project))
        self._add("sessions", [row])
        self._waiting.setdefault("states", []).append((known.id, state))

    def _reached(self, known: Known, generation: int, batch: Batch, *, archived: bool) -> Known:
        goes_on = generation == known.generation and not batch.again
        whole = archived and (batch.start == 0 or bool(known.archived))
        position = batch.position
        row = known._replace(
            generation=generation,
            size=batch.size if batch.is_last else -1,
            modified=batch.modified,
            device=position.device,
            inode=position.inode,
            offset=position.offset,
            head=position.head,
            boundary=position.boundary,
            archived=int(whole),
            lines=batch.lines + (known.lines if goes_on else 0),
            gone=None,
        )
        self._sources[row.id] = row
        return row

    def _add(self, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        if rows:
            self._waiting.setdefault(table, []).extend(rows)
            self.added += len(rows)

    def flush(self) -> None:
        """Write the rows that wait: before anything is asked of them, and before the transaction ends."""
        if self._sources:
            query = f"INSERT OR REPLACE INTO sources ({COLUMNS}) VALUES ({_marks(len(Known._fields))})"
            self._database.executemany(query, self._sources.values())
            grown = [(row.id,) for row in self._sources.values() if row.kind in SEARCHED]
            self._database.executemany("INSERT OR IGNORE INTO unindexed VALUES (?)", grown)
            self._sources.clear()
        if self._unsummed:
            add = "INSERT OR IGNORE INTO unsummed VALUES (?)"
            if self._database.executemany(add, [(id,) for id in self._unsummed]).rowcount:
                self._database.execute("DELETE FROM remembered")
            self._unsummed.clear()
        for table, waiting in self._waiting.items():
            self._database.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({_marks(len(waiting[0]))})", waiting)
        self._waiting.clear()


class _Place(NamedTuple):
    """Where an answer is, and whether it counts."""

    source_id: int
    generation: int
    home_id: int
    counted: int
    copies: int


NAMES = (
    "id", *_Place._fields, "offset", "time", "timestamp", "counted_at", "model", "session_id", "agent_id", "project",
    "cwd", "branch", "version", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens",
    "cache_write_1h_tokens", "web_searches", "final", "size", "estimated_output_tokens", "cost_micros",
    "estimated_cost_micros", "unpriced_tokens", "marks", "speed", "service_tier", "inference_geo",
)  # fmt: skip
"""The columns of `answers`."""

ANSWER, _SIZE = ", ".join(f"a.{name}" for name in NAMES), NAMES.index("size")
_SIDECHAIN, _RETOLD, _AT_HOME = 1, 2, 4


def _row(place: _Place, response: Response, key: str | None, pricing: Pricing) -> tuple[object, ...]:
    """Return a row of `answers`."""
    found = pricing.bill((response,))
    marks = response.sidechain * _SIDECHAIN + response.retold * _RETOLD + response.at_home * _AT_HOME
    return (
        response.id,
        *place,
        response.offset,
        milliseconds(response.timestamp),
        response.timestamp,
        None if response.counted_at == response.timestamp else response.counted_at or "",
        response.model,
        response.session_id,
        response.agent_id,
        project_name(response.cwd, key),
        response.cwd,
        response.branch,
        response.version,
        response.input,
        response.output,
        response.cache_read,
        response.cache_write_5m,
        response.cache_write_1h,
        response.web_searches,
        int(response.final),
        response.size,
        found.estimated_output_tokens,
        found.cost_micros,
        found.estimated_cost_micros,
        found.unpriced_tokens,
        marks,
        response.speed,
        response.service_tier,
        response.inference_geo,
    )


def response_of(row: Sequence[Any]) -> Response:
    """Return what a row of `answers` was made from."""
    cell = dict(zip(NAMES, row, strict=False))
    return response_from(
        cell,
        id=cell["id"],
        counted_at=cell["timestamp"] if cell["counted_at"] is None else cell["counted_at"] or None,
        sidechain=bool(cell["marks"] & _SIDECHAIN),
        retold=bool(cell["marks"] & _RETOLD),
        at_home=bool(cell["marks"] & _AT_HOME),
    )


def response_from(cell: Mapping[str, Any], **rest: Any) -> Response:
    """Return a response by the names that columns have; the rest is said otherwise from table to table."""
    return Response(
        model=cell["model"],
        session_id=cell["session_id"],
        agent_id=cell["agent_id"],
        timestamp=cell["timestamp"],
        cwd=cell["cwd"],
        branch=cell["branch"],
        version=cell["version"],
        input=cell["input_tokens"],
        output=cell["output_tokens"],
        cache_read=cell["cache_read_tokens"],
        cache_write_5m=cell["cache_write_5m_tokens"],
        cache_write_1h=cell["cache_write_1h_tokens"],
        web_searches=cell["web_searches"],
        final=bool(cell["final"]),
        size=cell["size"],
        speed=cell["speed"],
        service_tier=cell["service_tier"],
        inference_geo=cell["inference_geo"],
        offset=cell["offset"],
        **rest,
    )


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _portions(ids: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(ids)
    while some := list(islice(rest, size)):
        yield some
