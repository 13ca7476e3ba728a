"""Keeps in `otlp.db` in the data folder what each receiver has confirmed, so that only what changed is sent.

Rules
  1. A span or point is recorded after the receiver has confirmed it. A process that is killed in between sends it
     again: its id is the same, so it counts once.
  2. A session is done when all of it was confirmed. Its fingerprint is recorded then: while that stays, the session is
     not even read.
  3. Without this file everything is sent again. Nothing of a session can be read from it: it holds digests.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from unspool.errors import Refused, Unreadable
from unspool.files import LockTaken, create_private_file, hold_lock
from unspool.store import open_side_database, transaction

NAME: Final = "otlp.db"
LOCK: Final = "otlp.lock"
VERSION: Final = 1
_TABLES: Final = (
    "CREATE TABLE targets (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE)",
    """CREATE TABLE sessions (target_id INTEGER, session BLOB, fingerprint BLOB NOT NULL,
        PRIMARY KEY (target_id, session)) WITHOUT ROWID""",
    """CREATE TABLE items (target_id INTEGER, session BLOB, item BLOB, digest BLOB NOT NULL,
        PRIMARY KEY (target_id, session, item)) WITHOUT ROWID""",
)


class SentItem(NamedTuple):
    """A span or point that was confirmed: its session, what it is known by, and a digest of all of it."""

    session: bytes
    item: bytes
    digest: bytes


class SentPositions:
    """What one receiver has confirmed."""

    def __init__(self, database: sqlite3.Connection, target: int, folder: Path) -> None:
        self._database, self._target, self._folder = database, target, folder

    def fingerprint(self, session: bytes) -> bytes | None:
        """Return the fingerprint that a session had when all of it was confirmed."""
        query = "SELECT fingerprint FROM sessions WHERE target_id = ? AND session = ?"
        with _translated(self._folder):
            row = self._database.execute(query, (self._target, session)).fetchone()
        return row[0] if row else None

    def digests(self, session: bytes) -> dict[bytes, bytes]:
        """Return the digests of what was confirmed of a session."""
        query = "SELECT item, digest FROM items WHERE target_id = ? AND session = ?"
        with _translated(self._folder):
            return dict(self._database.execute(query, (self._target, session)).fetchall())

    def record(self, items: Iterable[SentItem]) -> None:
        """Record what was confirmed."""
        with _translated(self._folder), transaction(self._database):
            rows = ((self._target, *item) for item in items)
            self._database.executemany("INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?)", rows)

    def finish(self, session: bytes, fingerprint: bytes, items: Collection[bytes]) -> None:
        """Record that all of a session was confirmed, and forget what is no longer of it."""
        with _translated(self._folder), transaction(self._database):
            gone = [(self._target, session, item) for item in self.digests(session) if item not in items]
            self._database.executemany("DELETE FROM items WHERE (target_id, session, item) = (?, ?, ?)", gone)
            self._database.execute(
                "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", (self._target, session, fingerprint)
            )


def session_key(session_id: str) -> bytes:
    """Return what a session is known by in the file."""
    return blake2b(session_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@contextmanager
def open_positions(folder: Path, identity: str) -> Iterator[SentPositions]:
    """Open what a receiver has confirmed, and keep other processes from sending meanwhile."""
    try:
        with hold_lock(create_private_file(folder, LOCK), timeout=0), ExitStack() as stack:
            with _translated(folder):
                # Not durable: what is lost with the power is sent again.
                database = open_side_database(folder / NAME, VERSION, lambda _: _TABLES, durable=False)
                stack.callback(database.close)
                database.execute("INSERT OR IGNORE INTO targets (identity) VALUES (?)", (identity,))
                (target,) = database.execute("SELECT id FROM targets WHERE identity = ?", (identity,)).fetchone()
            yield SentPositions(database, target, folder)
    except LockTaken:
        raise Refused("another unspool process is sending telemetry", hint="wait until it has finished") from None


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    """Turn SQLite's errors into errors that name `otlp.db`."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        words = " ".join(str(error).split())
        hint = "delete the file: everything is then sent again, under the same ids"
        raise Unreadable(f"cannot use `{folder / NAME}`: {words}", hint=hint) from None
