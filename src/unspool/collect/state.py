"""Keeps the collector's state and outbox in `collect.db` in the data folder.

Rules
  1. A segment and the position that it reaches are written in one transaction: no line is collected twice or left out,
     wherever a process is killed.
  2. A confirmed segment leaves the outbox in the transaction that records the confirmation.
  3. Everything is on disk before anything is sent (`synchronous = FULL`).
  4. One collector at a time works on a data folder.

It is not a part of the store: that can be rebuilt from files and archive, and what was confirmed cannot.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from unspool.collect.manifest import SentStream
from unspool.collect.segments import FIRST
from unspool.errors import Refused, UnspoolError
from unspool.files import LockTaken, hold_lock, make_data_folder, raise_unwritable
from unspool.store import transaction, translate_errors

NAME, LOCK = "collect.db", "collect.lock"
VERSION = 1
_PATIENCE = 60.0
_FREE = 4 * 1024 * 1024
"""Bytes of free pages that are kept for the next segments."""


class StreamState(NamedTuple):
    """A row of `streams`, as far as segments are made by it."""

    id: int
    stream: str
    sequence: int
    digest: str
    done: int


class CollectedSpan(NamedTuple):
    """A row of `spans`, without its stream."""

    generation: int
    end: int
    head: str
    boundary: str
    seen: str


class WaitingSegment(NamedTuple):
    """A row of `outbox`; its data is read when it is sent."""

    id: int
    stream_id: int
    sequence: int
    name: str
    digest: str
    priority: int
    lines: int
    redactions: int
    size: int


_STREAM = ", ".join(StreamState._fields)
_WAITING = ", ".join(WaitingSegment._fields)


class CollectorState:
    """The state of collecting to one target: an object store, an org and a device."""

    def __init__(self, database: sqlite3.Connection, target_id: int) -> None:
        self.database = database
        self._target = target_id

    def stream(self, name: str, path: str) -> StreamState:
        """Return a stream; it is created if there is none."""
        query = f"SELECT {_STREAM} FROM streams WHERE target_id = ? AND stream = ?"
        row = self.database.execute(query, (self._target, name)).fetchone()
        if row is None:
            insert = "INSERT INTO streams (target_id, stream, path, digest, sent_digest) VALUES (?, ?, ?, ?, ?)"
            row = self.database.execute(
                f"{insert} RETURNING {_STREAM}", (self._target, name, path, FIRST, FIRST)
            ).fetchone()
        return StreamState(*row)

    def seen(self) -> set[tuple[str, int, str]]:
        """Return (stream, done, seen) of all spans: a file for which the store still says the same has nothing new."""
        query = "SELECT stream, done, seen FROM spans JOIN streams ON id = stream_id WHERE target_id = ?"
        return set(self.database.execute(query, (self._target,)))

    def finish(self, stream_id: int, done: int) -> None:
        """Record that the store's generations up to this one are in segments completely."""
        self.database.execute("UPDATE streams SET done = ? WHERE id = ?", (done, stream_id))

    def spans(self, stream_id: int) -> list[CollectedSpan]:
        """Return how far each generation of a stream was collected, the latest first."""
        query = 'SELECT generation, "end", head, boundary, seen FROM spans WHERE stream_id = ? ORDER BY generation DESC'
        return [CollectedSpan(*row) for row in self.database.execute(query, (stream_id,))]

    def put_span(self, stream_id: int, span: CollectedSpan) -> None:
        """Record how far a generation was collected."""
        self.database.execute("INSERT OR REPLACE INTO spans VALUES (?, ?, ?, ?, ?, ?)", (stream_id, *span))

    def keep(self, segment: WaitingSegment, data: bytes) -> None:
        """Put a segment into the outbox, as the last of its stream."""
        values = (*segment[1:], data)
        marks = ", ".join("?" * len(values))
        self.database.execute(
            f"INSERT INTO outbox ({', '.join(WaitingSegment._fields[1:])}, data) VALUES ({marks})", values
        )
        change = "UPDATE streams SET sequence = ?, digest = ? WHERE id = ?"
        self.database.execute(change, (segment.sequence, segment.digest, segment.stream_id))

    def waiting(self, refuses: Callable[[str], bool] = lambda _: False) -> list[WaitingSegment]:
        """Return the segments in the outbox in the order of sending, without those of refused files."""
        names = ", ".join(f"outbox.{name}" for name in WaitingSegment._fields)
        query = f"""SELECT path, {names} FROM outbox JOIN streams ON streams.id = stream_id WHERE target_id = ?
            ORDER BY priority, outbox.id"""
        rows = self.database.execute(query, (self._target,))
        return [WaitingSegment(*row) for path, *row in rows if not refuses(path)]

    def data(self, id: int) -> bytes:
        """Return the bytes of a segment in the outbox."""
        row: tuple[bytes] = self.database.execute("SELECT data FROM outbox WHERE id = ?", (id,)).fetchone()
        return row[0]

    def confirm(self, segments: Iterable[WaitingSegment], now: int) -> None:
        """Record that the object store has these segments, and take them out of the outbox."""
        rows = [segment._asdict() for segment in segments]
        with transaction(self.database):
            self.database.executemany("DELETE FROM outbox WHERE id = :id", rows)
            # Only the next number counts: confirming a segment a second time must not add its lines again.
            change = """UPDATE streams SET sent = :sequence, sent_digest = :digest, sent_lines = sent_lines + :lines
                WHERE id = :stream_id AND sent = :sequence - 1"""
            self.database.executemany(change, rows)
            change = "UPDATE targets SET unpublished = 1, confirmed = ? WHERE id = ?"
            self.database.execute(change, (now, self._target))

    def adopt(self, stream_id: int, sent: SentStream, spans: Iterable[CollectedSpan]) -> None:
        """Replace the state of a stream by what another collector has sent; its segments here are made anew."""
        # The segments in the outbox continue a chain that lost: their names are taken, so they can never be sent.
        with transaction(self.database):
            self.database.execute("DELETE FROM outbox WHERE stream_id = ?", (stream_id,))
            self.database.execute("DELETE FROM spans WHERE stream_id = ?", (stream_id,))
            for span in spans:
                self.put_span(stream_id, span)
            change = """UPDATE streams SET sequence = :sequence, digest = :digest, sent = :sequence,
                sent_digest = :digest, sent_lines = :lines, adopted = 1 WHERE id = :id"""
            values = {"sequence": sent.sequence, "digest": sent.digest, "lines": sent.lines, "id": stream_id}
            self.database.execute(change, values)
            self.database.execute("UPDATE targets SET unpublished = 1 WHERE id = ?", (self._target,))

    def sent(self) -> dict[str, SentStream]:
        """Return how far each stream has been confirmed."""
        query = "SELECT stream, sent, sent_lines, sent_digest FROM streams WHERE target_id = ? AND sent > 0"
        return {row[0]: SentStream(*row[1:]) for row in self.database.execute(query, (self._target,))}

    def release_pages(self) -> None:
        """Give the disk back what segments took that were sent meanwhile, if it is much and nothing waits."""
        free, size = (self.database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size"))
        if free * size < _FREE or self.database.execute("SELECT 1 FROM outbox LIMIT 1").fetchone():
            return
        # What is left is small: streams and spans. Killed in here, the file is as it was before.
        self.database.execute("VACUUM")
        self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def count_sent(self) -> int:
        """Return how many streams have been confirmed."""
        query = "SELECT count(*) FROM streams WHERE target_id = ? AND sent > 0"
        count: int = self.database.execute(query, (self._target,)).fetchone()[0]
        return count

    @property
    def is_unpublished(self) -> bool:
        """Whether something was confirmed since the manifest was written."""
        query = "SELECT unpublished FROM targets WHERE id = ?"
        return bool(self.database.execute(query, (self._target,)).fetchone()[0])

    def mark_published(self) -> None:
        """Record that the manifest was written."""
        self.database.execute("UPDATE targets SET unpublished = 0 WHERE id = ?", (self._target,))

    @property
    def last_confirmed(self) -> int | None:
        """When something was last confirmed, in milliseconds since 1970."""
        query = "SELECT confirmed FROM targets WHERE id = ?"
        confirmed: int | None = self.database.execute(query, (self._target,)).fetchone()[0]
        return confirmed

    def ends(self) -> dict[str, int]:
        """Return how far the newest generation of each file is confirmed, for files with nothing in the outbox."""
        # A span is recorded when its segment is made: only without a waiting segment is its end a confirmed one.
        query = """SELECT path, "end", max(generation) FROM spans JOIN streams ON id = stream_id WHERE target_id = ?
            AND id NOT IN (SELECT stream_id FROM outbox) GROUP BY id"""
        return {path: end for path, end, _ in self.database.execute(query, (self._target,))}


@contextmanager
def open_state(folder: Path, url: str, org: str, device: str) -> Iterator[CollectorState]:
    """Open the state of a target; it is created on first use."""
    with _translate_state_errors(folder):
        database = _open(folder)
        try:
            query = "SELECT id FROM targets WHERE (url, org, device) = (?, ?, ?)"
            if database.execute(query, (url, org, device)).fetchone() is None:
                insert = "INSERT OR IGNORE INTO targets (url, org, device) VALUES (?, ?, ?)"
                database.execute(insert, (url, org, device))
            yield CollectorState(database, database.execute(query, (url, org, device)).fetchone()[0])
        finally:
            database.close()


def known_targets(folder: Path) -> list[tuple[str, str, str]]:
    """Return the URL, org and device of every target."""
    if not (folder / NAME).exists():
        return []
    with _translate_state_errors(folder):
        database = _open(folder)
        try:
            return database.execute("SELECT url, org, device FROM targets ORDER BY id").fetchall()
        finally:
            database.close()


@contextmanager
def collector_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a data folder; `Refused` if another collector holds it."""
    path = _create_private(folder, LOCK)
    try:
        with _translate_state_errors(folder), hold_lock(path, timeout=0):
            yield
    except LockTaken:
        message = f"another collector is running in `{folder}`"
        raise Refused(message, hint="see its progress with `unspool collect --status`") from None


def _open(folder: Path) -> sqlite3.Connection:
    path = _create_private(folder, NAME)
    database = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    # Segments are large; the page size only counts before the first table is made.
    database.execute("PRAGMA page_size = 32768")
    database.execute("PRAGMA journal_mode = WAL")
    # Not NORMAL: what was sent must be on disk here even after a power failure.
    database.execute("PRAGMA synchronous = FULL")
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        script = Path(__file__).with_name("state.sql").read_text("utf-8")
        with transaction(database):
            # Asked again inside the transaction: another process may have made the tables meanwhile.
            if database.execute("PRAGMA user_version").fetchone()[0] == 0:
                for statement in script.split(";\n"):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {VERSION}")
    elif version > VERSION:
        database.close()
        raise Refused(f"`{path}` was created by a newer version of unspool", hint="upgrade unspool")
    return database


def _create_private(folder: Path, name: str) -> Path:
    """Create a file that only its owner may read, if there is none."""
    path = folder / name
    with raise_unwritable(f"cannot write `{path}`", "set `$UNSPOOL_HOME` to use another folder"):
        make_data_folder(folder)
        path.touch(mode=0o600)
    return path


@contextmanager
def _translate_state_errors(folder: Path) -> Iterator[None]:
    """Turn SQLite's errors into `UnspoolError`s with a hint for `collect.db`."""
    try:
        with translate_errors(folder):
            yield
    except UnspoolError as error:
        # `--rebuild` is the hint for the store; it would not help here.
        if error.hint and "--rebuild" in error.hint:
            error.hint = f"you can move `{folder / NAME}` away: unspool then asks the object store what was sent"
        raise
