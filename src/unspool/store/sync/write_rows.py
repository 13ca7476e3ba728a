"""Writes the content of files as rows: batches of lines and side files in, rows of the open transaction out.

Rules
  1. A file that became another one starts a new generation; what the old one had stays.
  2. The offset of a file and the rows of the lines before it are written together.
  3. Each response is counted once for each home (`recount`), and has the session that pays for it
     (`prices/bill.py`).
  4. In a home that was empty before, a response that was met once is in one file, and only those met twice are looked
     up. In any other home all are looked up, and so they are when there are more ids than memory allows.
  5. A home keeps the largest 5-hour window: as much as its limit has allowed so far. The newest window is left out: it
     may be the one that is compared with the others. The row is extended by the windows since it was made, and made
     anew only if an earlier response has changed: it is deleted in the transaction that changes the response.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence

import msgspec

from unspool.prices import Response, ResponseCounter, attribute_responses, file_stem, find_active_window, find_windows
from unspool.read import Change, Source
from unspool.store.answer_rows import (
    ANSWER_COLUMNS,
    ANSWER_SELECT,
    AnswerPlace,
    PriceLookup,
    answer_row,
    response_from_row,
)
from unspool.store.sync.changes import INDEXED_KINDS, SOURCE_COLUMNS, SourceRow
from unspool.store.sync.read_file import Batch, session_row

MAX_HELD_IDS = 200_000
"""Ids of responses that are held in memory: some 30 MB."""

_IDS_PER_QUERY = 400
_SIZE = ANSWER_COLUMNS.index("size")
_TIME = ANSWER_COLUMNS.index("time")
_TOKENS = "input_tokens + output_tokens + cache_read_tokens + cache_write_5m_tokens + cache_write_1h_tokens"


NEW_GENERATION_CHANGES = frozenset({Change.REPLACED, Change.TRUNCATED, Change.REWRITTEN})
"""The changes that make a file another one."""


class RepeatedIds:
    """Finds ids of responses that were met more than once in a home; `is_complete` if all of its responses are met."""

    def __init__(self, *, is_complete: bool) -> None:
        self._is_complete = is_complete
        self._once: set[str] = set()
        self._repeated: set[str] = set()

    def add(self, responses: Iterable[Response]) -> None:
        """Take the responses of one batch."""
        if self._is_complete:
            ids = {response.id for response in responses}
            self._repeated |= self._once & ids
            self._once |= ids
            self._is_complete = len(self._once) <= MAX_HELD_IDS

    def filter(self, ids: Collection[str]) -> Collection[str]:
        """Return those ids that may be in several files."""
        return [id for id in ids if id in self._repeated] if self._is_complete else ids


class RowWriter:
    """Writes rows, many at a time, and counts them."""

    def __init__(self, database: sqlite3.Connection, prices: PriceLookup) -> None:
        self._database, self._prices = database, prices
        self._pending: dict[str, list[tuple[object, ...]]] = {}
        """Rows by their table that are still to be written."""
        self._pending_sources: dict[int, SourceRow] = {}
        self._last_id = 0
        self._unsummed: set[int] = set()
        """Files whose sums are out of date."""
        self._repeated_ids: dict[int, RepeatedIds] = {}
        """By home."""
        self._changed_since: dict[int, int | None] = {}
        """By home, the time of the earliest response that has changed; None: it may be any."""
        self.changed_homes: set[int] = set()
        """Homes whose responses have changed."""
        self.added = 0
        self.generations = 0

    def add_home(self, path: str) -> int:
        """Add a home; return its id."""
        (id,) = self._database.execute("INSERT INTO homes (path) VALUES (?) RETURNING id", (path,)).fetchone()
        return int(id)

    def add_source(self, source: Source, home_id: int) -> SourceRow:
        """Add a file that was not known."""
        if not self._last_id:
            self._last_id = self._database.execute("SELECT coalesce(max(id), 0) FROM sources").fetchone()[0]
        self._last_id += 1
        place = (self._last_id, home_id, source.place, source.kind.value)
        owner = (source.project, source.session_id, source.agent_id)
        # No file has this size: until it has been read, it will be looked at again.
        row = SourceRow(*place, *owner, generation=1, size=-1, modified=0, device=source.device, inode=source.inode)
        self._pending_sources[row.id] = row
        self.added += 1
        return row

    def write_batch(self, source: SourceRow, batch: Batch, *, archived: bool) -> SourceRow:
        """Write the rows of a part of a file; return what is known of the file now."""
        generation = source.generation + (batch.change in NEW_GENERATION_CHANGES)
        if generation != source.generation:
            self.generations += 1
        if batch.start or batch.replaces_rows:
            self.flush()  # earlier parts of the file may be among what is pending
        key = (source.id, generation)
        if batch.replaces_rows and batch.is_first:
            for table in ("answers", "limits", "bad_lines", "history"):
                self._database.execute(f"DELETE FROM {table} WHERE source_id = ? AND generation = ?", key)
            self._note_change(source.home_id, None)
        self._add_answers(source, generation, batch)
        self._add("limits", [(*key, *row) for row in batch.limits])
        self._add("bad_lines", [(*key, *row) for row in batch.bad_lines])
        self._add("history", [(*key, *row) for row in batch.history])
        if batch.facts is not None:
            row = session_row(batch.facts, source.session_id or file_stem(source.path), source.project)
            self._add("sessions", [(source.id, *row)])
            self._pending.setdefault("states", []).append((source.id, batch.state))
        if source.kind == "agent":
            owners = [source.session_id] if source.session_id else batch.owners
            self._add("agents", [(source.id, owner, source.agent_id or "") for owner in owners])
        return self._move_on(source, generation, batch, archived=archived)

    def write_side_file(self, row: SourceRow, source: Source, data: bytes) -> None:
        """Replace the rows of a side file; one that cannot be parsed keeps those it had, and is a bad line."""
        from unspool.store.sync.side_rows import TABLES, side_file_rows

        database = self._database
        self.flush()
        database.execute("DELETE FROM bad_lines WHERE source_id = ?", (row.id,))
        try:
            rows = side_file_rows(source, data)
        except msgspec.DecodeError as error:
            self._add("bad_lines", [(row.id, row.generation, 0, len(data), str(error))])
        else:
            for table in TABLES.get(source.kind, ()):
                database.execute(f"DELETE FROM {table} WHERE source_id = ?", (row.id,))
            for table, values in rows:
                self._add(table, [(row.id, *values)])
        stamp = "UPDATE sources SET size = ?, modified = ?, device = ?, inode = ?, gone = NULL WHERE id = ?"
        database.execute(stamp, (source.size, source.modified, source.device, source.inode, row.id))
        self.flush()

    def recount(self, home_id: int, ids: Collection[str]) -> None:
        """Mark for each response that several files of a home have the one that counts."""
        repeated = self._repeated_ids.get(home_id)
        self._recount(home_id, repeated.filter(ids) if repeated else ids)

    def reprice(self, home_id: int) -> None:
        """Price everything in a home again."""
        self.flush()
        query = f"""SELECT {ANSWER_SELECT}, s.project FROM answers a JOIN sources s ON s.id = a.source_id
            WHERE a.home_id = ?"""
        rows = [
            answer_row(AnswerPlace(*row[1:6]), response_from_row(row), row[-1], self._prices)
            for row in self._database.execute(query, (home_id,))
        ]
        self._unsummed.update(int(str(row[1])) for row in rows)
        self._note_change(home_id, None)
        self._replace_answers(rows)
        self._recount(home_id, {str(row[0]) for row in rows if row[ANSWER_COLUMNS.index("copies")] != 1})

    def _recount(self, home_id: int, ids: Collection[str]) -> None:
        self.flush()
        every = list(ids)
        for start in range(0, len(every), _IDS_PER_QUERY):
            some = every[start : start + _IDS_PER_QUERY]
            query = f"""SELECT id FROM answers WHERE id IN ({_placeholders(len(some))})
                AND home_id = ? GROUP BY id HAVING count(*) > 1"""
            for (id,) in self._database.execute(query, (*some, home_id)).fetchall():
                self._choose(home_id, id)
        self.flush()

    def _choose(self, home_id: int, id: str) -> None:
        """Choose among the files that have a response; the one that counts is dated by the earliest line of all."""
        query = f"""SELECT {ANSWER_SELECT}, s.project, s.path FROM answers a JOIN sources s ON s.id = a.source_id
            WHERE a.id = ? AND a.home_id = ?"""
        counting = ResponseCounter[str]()
        candidates = {}
        for row in self._database.execute(query, (id, home_id)):
            key = f"{row[-1]}\0{row[2]:09}"  # path and generation decide between equal copies
            candidates[key] = row
            counting.add(key, response_from_row(row))
        (counted,) = counting.counted()
        rows = []
        for key, row in candidates.items():
            counts = key == counted.source
            response = counted.response if counts else response_from_row(row)
            place = AnswerPlace(*row[1:6])._replace(counted=int(counts), copies=len(candidates))
            new = answer_row(place, response, row[-2], self._prices)
            rows.append((*new[:_SIZE], row[_SIZE], *new[_SIZE + 1 :]))  # the size is that of this file
            self._unsummed.add(place.source_id)
            for time in (row[_TIME], new[_TIME]):
                if isinstance(time, int):
                    self._note_change(home_id, time)
        self._replace_answers(rows)

    def _replace_answers(self, rows: Iterable[Sequence[object]]) -> None:
        self._database.executemany(
            f"INSERT OR REPLACE INTO answers VALUES ({_placeholders(len(ANSWER_COLUMNS))})", rows
        )

    def _add_answers(self, source: SourceRow, generation: int, batch: Batch) -> None:
        session_id = source.session_id or (file_stem(source.path) if source.kind == "session" else None)
        responses = attribute_responses(batch.responses, source.path, session_id)
        if batch.start:
            responses = [self._merge(source.id, generation, response) for response in responses]
        if responses:
            self._unsummed.add(source.id)
            if source.home_id not in self._repeated_ids:
                query = "SELECT 1 FROM sources WHERE home_id = ? AND offset > 0 LIMIT 1"
                was_empty = self._database.execute(query, (source.home_id,)).fetchone() is None
                self._repeated_ids[source.home_id] = RepeatedIds(is_complete=was_empty)
            self._repeated_ids[source.home_id].add(responses)
            place = AnswerPlace(source.id, generation, source.home_id, 1, 1)
            rows = [answer_row(place, response, source.project, self._prices) for response in responses]
            self._add("answers", rows)
            if times := [time for row in rows if isinstance(time := row[_TIME], int)]:
                self._note_change(source.home_id, min(times))

    def _note_change(self, home_id: int, time: int | None) -> None:
        """Note when the earliest response was that has changed."""
        known = self._changed_since.get(home_id, time)
        self._changed_since[home_id] = None if known is None or time is None else min(known, time)

    def _merge(self, source_id: int, generation: int, response: Response) -> Response:
        """Return a response merged with the earlier lines of the same file."""
        query = f"SELECT {ANSWER_SELECT} FROM answers a WHERE id = ? AND source_id = ? AND generation = ?"
        before = self._database.execute(query, (response.id, source_id, generation)).fetchone()
        if before is None:
            return response
        counting = ResponseCounter[int]()
        counting.add(0, response_from_row(before))
        counting.add(0, response)
        (counted,) = counting.counted()
        return counted.response

    def _move_on(self, source: SourceRow, generation: int, batch: Batch, *, archived: bool) -> SourceRow:
        """Return a file's row with the position that a batch has reached."""
        goes_on = generation == source.generation and not batch.replaces_rows
        is_archived = archived and (batch.start == 0 or bool(source.archived))
        position = batch.position
        row = source._replace(
            generation=generation,
            size=batch.size if batch.is_last else -1,
            modified=batch.modified,
            device=position.device,
            inode=position.inode,
            offset=position.offset,
            head=position.head,
            boundary=position.boundary,
            archived=int(is_archived),
            lines=batch.lines + (source.lines if goes_on else 0),
            gone=None,
        )
        self._pending_sources[row.id] = row
        return row

    def _add(self, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        if rows:
            self._pending.setdefault(table, []).extend(rows)
            self.added += len(rows)

    def flush(self) -> None:
        """Write the rows that are pending: before they are queried, and before the transaction ends."""
        if self._pending_sources:
            rows = self._pending_sources.values()
            query = (
                f"INSERT OR REPLACE INTO sources ({SOURCE_COLUMNS}) VALUES ({_placeholders(len(SourceRow._fields))})"
            )
            self._database.executemany(query, rows)
            grown = [(row.id,) for row in rows if row.kind in INDEXED_KINDS]
            self._database.executemany("INSERT OR IGNORE INTO unindexed VALUES (?)", grown)
            self._pending_sources.clear()
        if self._unsummed:
            query = "INSERT OR IGNORE INTO unsummed VALUES (?)"
            if self._database.executemany(query, [(id,) for id in self._unsummed]).rowcount:
                # Remembered sums leave out the files in `unsummed`: with another one in there they are wrong.
                self._database.execute("DELETE FROM remembered")
            self._unsummed.clear()
        for home_id, since in self._changed_since.items():
            forget_largest_windows(self._database, home_id, since)
            self.changed_homes.add(home_id)
        self._changed_since.clear()
        for table, rows_of in self._pending.items():
            query = f"INSERT OR REPLACE INTO {table} VALUES ({_placeholders(len(rows_of[0]))})"
            self._database.executemany(query, rows_of)
        self._pending.clear()


def _placeholders(count: int) -> str:
    return ", ".join("?" * count)


def forget_largest_windows(database: sqlite3.Connection, home_id: int, since: int | None) -> None:
    """Forget a folder's largest window if a response before its newest one has changed; None: any may have."""
    if since is None:
        database.execute("DELETE FROM largest_windows WHERE home_id = ?", (home_id,))
    else:
        database.execute("DELETE FROM largest_windows WHERE home_id = ? AND newest > ?", (home_id, since))


def update_largest_windows(database: sqlite3.Connection, home_ids: Iterable[int]) -> None:
    """Bring the largest windows of folders up to date; call it in a transaction."""
    for home_id in home_ids:
        _update_largest_window(database, home_id)


def _update_largest_window(database: sqlite3.Connection, home_id: int) -> None:
    def earliest_between(start: int, end: int) -> int | None:
        query = "SELECT min(time) FROM answers WHERE counted = 1 AND home_id = ? AND time >= ? AND time < ?"
        time: int | None = database.execute(query, (home_id, start, end)).fetchone()[0]
        return time

    (last,) = database.execute("SELECT max(time) FROM answers WHERE counted = 1 AND home_id = ?", (home_id,)).fetchone()
    newest = None if last is None else find_active_window(last, earliest_between)
    if newest is None:
        forget_largest_windows(database, home_id, None)
        return
    query = "SELECT newest, cost_micros, total_tokens FROM largest_windows WHERE home_id = ?"
    since, cost, tokens = database.execute(query, (home_id,)).fetchone() or (None, 0, 0)
    if since == newest.start:
        return
    query = f"""SELECT time, cost_micros, {_TOKENS} FROM answers
        WHERE counted = 1 AND home_id = ? AND time >= ? AND time < ? ORDER BY time"""
    oldest = -(2**63) if since is None else since
    rows = database.execute(query, (home_id, oldest, newest.start)).fetchall()
    windows = [window for window in find_windows(time for time, _, _ in rows) if not window.is_gap]
    at, used = 0, [(0, 0)] * len(windows)
    for time, micros, count in rows:
        while time >= windows[at].end:
            at += 1
        used[at] = used[at][0] + micros, used[at][1] + count
    cost = max([cost, *(micros for micros, _ in used)])
    tokens = max([tokens, *(count for _, count in used)])
    row = (home_id, newest.start, cost, tokens)
    database.execute("INSERT OR REPLACE INTO largest_windows VALUES (?, ?, ?, ?)", row)
