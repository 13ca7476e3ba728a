"""Keeps the collector's state and outbox in `collect.db` in the data folder.

Rules
  1. A segment and the position it was made up to are written in one transaction: nothing is cut twice, nothing is
     passed over, wherever a process is killed.
  2. What is confirmed goes from the outbox in the transaction that says so.
  3. On disk before anything is sent (`synchronous = FULL`).
  4. One collector at a time works on a data folder.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from unspool.collect.manifest import SentStream
from unspool.collect.segments import FIRST
from unspool.errors import Refused, UnspoolError, Unwritable
from unspool.store import transaction, translate_errors

NAME, LOCK = "collect.db", "collect.lock"
VERSION = 1
_PATIENCE = 60.0


class StreamState(NamedTuple):
    """A row of `streams`."""

    id: int
    stream: str
    path: str
    sequence: int
    digest: str
    sent: int
    sent_digest: str
    sent_lines: int
    done: int
    adopted: int


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
    """What is known of one target."""

    def __init__(self, database: sqlite3.Connection, target_id: int) -> None:
        self.database = database
        self._target = target_id

    def stream(self, name: str, path: str) -> StreamState:
        """Return a stream; a new one if there is none."""
        query = f"SELECT {_STREAM} FROM streams WHERE target_id = ? AND stream = ?"
        row = self.database.execute(query, (self._target, name)).fetchone()
        if row is None:
            made = "INSERT INTO streams (target_id, stream, path, digest, sent_digest) VALUES (?, ?, ?, ?, ?)"
            row = self.database.execute(
                f"{made} RETURNING {_STREAM}", (self._target, name, path, FIRST, FIRST)
            ).fetchone()
        return StreamState(*row)

    def seen(self) -> set[tuple[str, int, str]]:
        """Return what was seen of the files, by stream: where the store says the same, nothing is to be done."""
        query = "SELECT stream, done, seen FROM spans JOIN streams ON id = stream_id WHERE target_id = ?"
        return set(self.database.execute(query, (self._target,)))

    def finish(self, stream_id: int, done: int) -> None:
        """Note that nothing more is to come of the store's generations up to this one."""
        self.database.execute("UPDATE streams SET done = ? WHERE id = ?", (done, stream_id))

    def spans(self, stream_id: int) -> list[CollectedSpan]:
        """Return how far the generations of a stream are, the latest first."""
        query = 'SELECT generation, "end", head, boundary, seen FROM spans WHERE stream_id = ? ORDER BY generation DESC'
        return [CollectedSpan(*row) for row in self.database.execute(query, (stream_id,))]

    def put_span(self, stream_id: int, span: CollectedSpan) -> None:
        """Note how far a generation is."""
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
        """Return what is to be sent, what matters most first; not what is of a file that somebody refuses."""
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
        """Note that the store has segments."""
        rows = [one._asdict() for one in segments]
        with transaction(self.database):
            self.database.executemany("DELETE FROM outbox WHERE id = :id", rows)
            change = """UPDATE streams SET sent = :sequence, sent_digest = :digest, sent_lines = sent_lines + :lines
                WHERE id = :stream_id AND sent = :sequence - 1"""
            self.database.executemany(change, rows)
            change = "UPDATE targets SET unpublished = 1, confirmed = ? WHERE id = ?"
            self.database.execute(change, (now, self._target))

    def adopt(self, stream_id: int, sent: SentStream, spans: Iterable[CollectedSpan]) -> None:
        """Take over what somebody else has sent of a stream; what was made of it here is made anew."""
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

    @property
    def is_unpublished(self) -> bool:
        """Whether the manifest is behind."""
        query = "SELECT unpublished FROM targets WHERE id = ?"
        return bool(self.database.execute(query, (self._target,)).fetchone()[0])

    def published(self) -> None:
        """Note that the manifest was written."""
        self.database.execute("UPDATE targets SET unpublished = 0 WHERE id = ?", (self._target,))

    @property
    def last_confirmed(self) -> int | None:
        """When something was last confirmed, in milliseconds since 1970."""
        query = "SELECT confirmed FROM targets WHERE id = ?"
        confirmed: int | None = self.database.execute(query, (self._target,)).fetchone()[0]
        return confirmed

    def ends(self) -> dict[str, int]:
        """Return how far the newest generation of each file is confirmed, for files of which nothing waits."""
        query = """SELECT path, "end", max(generation) FROM spans JOIN streams ON id = stream_id WHERE target_id = ?
            AND id NOT IN (SELECT stream_id FROM outbox) GROUP BY id"""
        return {path: end for path, end, _ in self.database.execute(query, (self._target,))}


@contextmanager
def open_state(folder: Path, url: str, org: str, device: str) -> Iterator[CollectorState]:
    """Open what is known of a target; made if there is nothing."""
    with _telling(folder):
        database = _open(folder)
        try:
            query = "SELECT id FROM targets WHERE (url, org, device) = (?, ?, ?)"
            if database.execute(query, (url, org, device)).fetchone() is None:
                made = "INSERT OR IGNORE INTO targets (url, org, device) VALUES (?, ?, ?)"
                database.execute(made, (url, org, device))
            yield CollectorState(database, database.execute(query, (url, org, device)).fetchone()[0])
        finally:
            database.close()


def known_streams(folder: Path) -> list[tuple[str, str, str]]:
    """Return the URL, org and device of every target there is."""
    if not (folder / NAME).exists():
        return []
    with _telling(folder):
        database = _open(folder)
        try:
            return database.execute("SELECT url, org, device FROM targets ORDER BY id").fetchall()
        finally:
            database.close()


@contextmanager
def collector_lock(folder: Path) -> Iterator[None]:
    """Be the only collector of a data folder, or say that there is one."""
    with _telling(folder):
        _private(folder, LOCK)
        lock = sqlite3.connect(folder / LOCK, timeout=0, isolation_level=None)
        try:
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
                message = f"another collector works in `{folder}`"
                raise Refused(message, hint="one is enough; `unspool collect --status` tells how far it is") from None
            yield
        finally:
            lock.close()


def _open(folder: Path) -> sqlite3.Connection:
    path = _private(folder, NAME)
    database = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    database.execute("PRAGMA page_size = 32768")  # segments are large; counts before the first table is made
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    found = database.execute("PRAGMA user_version").fetchone()[0]
    if found == 0:
        script = Path(__file__).with_name("state.sql").read_text("utf-8")
        with transaction(database):
            if database.execute("PRAGMA user_version").fetchone()[0] == 0:
                for statement in script.split(";\n"):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {VERSION}")
    elif found > VERSION:
        database.close()
        raise Refused(f"`{path}` was made by a newer unspool", hint="upgrade unspool")
    return database


def _private(folder: Path, name: str) -> Path:
    """Make a file that nobody else may read, if there is none."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / name
        path.touch(mode=0o600)
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise Unwritable(f"cannot write `{folder / name}`: {reason}", hint="`$UNSPOOL_HOME` names the folder") from None
    return path


@contextmanager
def _telling(folder: Path) -> Iterator[None]:
    """Say in our words what SQLite cannot do."""
    try:
        with translate_errors(folder):
            yield
    except UnspoolError as error:
        if error.hint and "--rebuild" in error.hint:  # that is of the store, and would not help here
            error.hint = f"`{folder / NAME}` may be moved away: what was sent is asked of the object store then"
        raise
