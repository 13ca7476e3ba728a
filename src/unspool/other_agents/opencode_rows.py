"""Reads the sessions of OpenCode from its database (from 1.2 on) or from its older storage of JSON files.

Rules
  1. The database is opened for reading alone. Its own schema is not trusted: no query runs longer than
     `_MAX_STEPS` steps, and no value is longer than `_MAX_VALUE`.
  2. A session's mark changes with any of its rows, so that only what has changed is read again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from unspool.errors import Unreadable
from unspool.files import MAX_SIDE_FILE, error_reason, open_regular, read_whole
from unspool.format import encode_json
from unspool.other_agents.translate import Row, is_step_end

_MAX_VALUE: Final = 64 * 1024 * 1024
_STEPS_PER_CALL: Final = 100_000
_MAX_STEPS: Final = 20_000


class StoredSession(NamedTuple):
    """A session of OpenCode, and a mark that changes when it does."""

    id: str
    mark: str
    modified: int
    """In nanoseconds since 1970."""


class Database:
    """The database of OpenCode."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> str:
        """Return a text that changes with the file or its log."""
        parts = []
        for name in (self.path, self.path.with_name(self.path.name + "-wal")):
            try:
                status = name.lstat()
            except OSError:
                continue
            parts.append(f"{status.st_size}/{status.st_mtime_ns}/{status.st_ino}")
        return " ".join(parts)

    def sessions(self) -> list[StoredSession]:
        """Return the sessions with their marks."""
        query = """SELECT s.id, s.time_updated, (SELECT count(*) || ':' || coalesce(max(time_updated), 0) FROM message
            WHERE session_id = s.id), (SELECT count(*) || ':' || coalesce(max(time_updated), 0) FROM part
            WHERE session_id = s.id) FROM session s"""
        with self._open() as database:
            rows = database.execute(query).fetchall()
        return [
            StoredSession(_text(id), f"{updated} {_text(messages)} {_text(parts)}", _nanoseconds(updated))
            for id, updated, messages, parts in rows
        ]

    def rows(self, id: str) -> Iterator[Row]:
        """Yield the rows of a session: its own, then each message with its parts."""
        with self._open() as database:
            found = database.execute("SELECT * FROM session WHERE id = ?", (id,))
            session = found.fetchone()
            if session is None:
                return
            names = [column[0] for column in found.description]
            values = {name: _value(value) for name, value in zip(names, session, strict=True)}
            yield Row("session", id, encode_json(values), _number(values.get("time_created")))
            parts: dict[str, list[tuple[Any, ...]]] = {}
            query = "SELECT message_id, id, data, time_created FROM part WHERE session_id = ? ORDER BY id"
            for row in database.execute(query, (id,)):
                parts.setdefault(_text(row[0]), []).append(row[1:])
            query = "SELECT id, data, time_created FROM message WHERE session_id = ? ORDER BY time_created, id"
            for message, data, time in database.execute(query, (id,)):
                own = [Row("part", _text(part[0]), _bytes(part[1]), _number(part[2])) for part in
                       parts.get(_text(message), [])]  # fmt: skip
                steps = any(is_step_end(part.data) for part in own)
                yield Row("message", _text(message), _bytes(data), _number(time), has_steps=steps)
                yield from own

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with open_regular(self.path):  # refuses a link, a FIFO and what is missing
            pass
        try:
            with closing(sqlite3.connect(f"file:{quote(str(self.path))}?mode=ro", uri=True, timeout=5)) as database:
                _limit(database)
                database.text_factory = bytes
                yield database
        except sqlite3.Error as error:
            reason = f"not a database of OpenCode that can be read: {str(error).splitlines()[0] if str(error) else ''}"
            raise Unreadable(f"`{self.path}`: {reason}", reason=reason) from None


def _limit(database: sqlite3.Connection) -> None:
    steps = 0

    def stop_late() -> int:
        nonlocal steps
        steps += 1
        return int(steps > _MAX_STEPS)

    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
    database.execute("PRAGMA trusted_schema = OFF")
    database.execute("PRAGMA query_only = ON")
    database.set_progress_handler(stop_late, _STEPS_PER_CALL)


class Storage:
    """The older storage: a file for each session, message and part."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def stamp(self) -> str:
        """Return no mark: the files themselves have to be looked at."""
        return ""

    def sessions(self) -> list[StoredSession]:
        """Return the sessions with their marks."""
        found = []
        for path in (path for project in _folders(self.path / "session") for path in _files(project)):
            messages = self._messages(path.stem)
            files = [path, *messages, *(part for message in messages for part in self._parts(message.stem))]
            stamps = [stamp for file in files if (stamp := _stamp(file))]
            mark = f"{len(stamps)} {max(stamps, default=(0, 0))} {sum(size for _, size in stamps)}"
            found.append(StoredSession(path.stem, mark, max((time for time, _ in stamps), default=0)))
        return found

    def rows(self, id: str) -> Iterator[Row]:
        """Yield the files of a session: its own, then each message with its parts."""
        own = [path for project in _folders(self.path / "session") for path in _files(project) if path.stem == id]
        for path in own[:1]:
            yield Row("session", id, read_whole(path, MAX_SIDE_FILE))
        for message in self._messages(id):
            parts = [Row("part", part.stem, read_whole(part, MAX_SIDE_FILE)) for part in self._parts(message.stem)]
            steps = any(is_step_end(part.data) for part in parts)
            yield Row("message", message.stem, read_whole(message, MAX_SIDE_FILE), has_steps=steps)
            yield from parts

    def _messages(self, id: str) -> list[Path]:
        return _files(self.path / "message" / id)

    def _parts(self, message: str) -> list[Path]:
        return _files(self.path / "part" / message)


def open_stores(root: Path) -> list[Database | Storage]:
    """Return what a folder of OpenCode, or its database, keeps sessions in."""
    if not root.is_dir():
        return [Database(root)]
    try:
        names = sorted(os.listdir(root))  # noqa: PTH208
    except OSError as error:
        raise Unreadable(f"cannot list `{root}`: {error_reason(error)}", reason=error_reason(error)) from None
    stores: list[Database | Storage] = [
        Database(root / name) for name in names if name.startswith("opencode") and name.endswith(".db")
    ]
    return [*stores, Storage(root / "storage")] if "storage" in names else stores


def _files(folder: Path) -> list[Path]:
    """Return the JSON files of a folder, in the order of their names, which is that of their times."""
    return [Path(path) for path, is_folder in _children(folder) if not is_folder and path.endswith(".json")]


def _folders(folder: Path) -> list[Path]:
    return [Path(path) for path, is_folder in _children(folder) if is_folder]


def _children(folder: Path) -> list[tuple[str, bool]]:
    try:
        with os.scandir(folder) as listing:
            children = [
                (child.path, child.is_dir(follow_symlinks=False)) for child in listing if not child.is_symlink()
            ]
    except OSError:
        return []
    return sorted(children)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _value(value: object) -> object:
    return _text(value) if isinstance(value, bytes) else value


def _text(value: object) -> str:
    return _bytes(value).decode("utf-8", "replace")


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _nanoseconds(value: object) -> int:
    return value * 1_000_000 if isinstance(value, int) and 0 < value < 10**12 * 5 else 0
