"""Removes texts of a session from the store, its index, the archive, the column files, and the rest of the data folder.

    earlier = list(read_archived(folder, scope))      # what the archive holds of the session, all generations
    report = remove_from_store(folder, scope, removal)
    compact_databases(folder)                         # after the next sync: no free page keeps what was deleted

Rules
  1. The archive keeps its lines and their offsets: what is removed is replaced by as many bytes (`redact/removal.py`).
  2. Rows that hold a text to remove lose the text; those that cannot are deleted. All of them can be made again.
  3. The text index holds words and not where they came from. It is emptied; the next sync fills it again. So are the
     column files: the next query writes them again.
  4. Freed pages keep their bytes until SQLite uses them again. So the databases are written anew at the end, and their
     write-ahead logs cut off.
  5. Each step can be done again. What a killed process left undone, the same command does later.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from unspool.errors import UnspoolError
from unspool.files import LockTaken, hold_lock, read_pieces, read_whole, write_atomically
from unspool.redact import MARKER, TextRemoval
from unspool.store.archive import Archive, ArchivedFile, split_into_frames
from unspool.store.database import ARCHIVE, STORE, locked, open_archive, open_store, transaction, translate_errors

_LINE_KINDS = frozenset({"session", "agent", "journal"})
_OWN_FILES = ("annotations.jsonl", "inbox.json", "sql_history")
"""Files of the data folder, beside the databases, that hold words of the user."""
_INDEXED_KINDS = "('session', 'agent', 'journal')"
_INDEX = ("passages", "prompts", "indexed", "remembered")
"""Tables that are emptied; the next sync and the next report fill them."""
_READER_PATIENCE = 5.0
"""Seconds that an SQL query may take to end before its column files are left as they are."""
_MAX_FILE = 512 * 1024 * 1024


class RemovalScope(NamedTuple):
    """Which files of the store belong to the session."""

    session_id: str
    paths: frozenset[str]
    whole_files: frozenset[str] = frozenset()
    """Paths of files of which nothing stays."""
    owns_history_line: Callable[[bytes], bool] = bool

    def has(self, path: str, session_id: str | None) -> bool:
        """Tell whether a file belongs to the session."""
        return session_id == self.session_id or self.session_id in path or path in self.paths


class RemovalReport(NamedTuple):
    """What was removed from the data folder."""

    archived: int = 0
    """Contents of files in the archive that were changed."""
    rows: int = 0
    """Rows of the store that were changed or deleted."""
    files: tuple[str, ...] = ()
    """Other files of the data folder that were changed."""
    unreached: tuple[str, ...] = ()
    """What could not be done, in words."""


def read_archived(folder: Path, scope: RemovalScope) -> Iterator[bytes]:
    """Yield what the archive holds of the session's files, each generation by itself."""
    if not (folder / ARCHIVE).exists():
        return
    with translate_errors(folder), closing(open_archive(folder)) as database:
        archive = Archive(database)
        for file in list(archive.files()):
            if scope.has(file.path, file.session_id):
                # A damaged archive is refused here, before anything is changed.
                yield b"".join(data for _, data in archive.read(file))


def remove_from_store(
    folder: Path, scope: RemovalScope, removal: TextRemoval, at: Callable[[str], None] = lambda _: None
) -> RemovalReport:
    """Remove texts from everything in the data folder but the backups of edits."""
    archived, rows, unreached = 0, 0, list[str]()
    with translate_errors(folder):
        if (folder / ARCHIVE).exists():
            archived = _clean_archive(folder, scope, removal)
            at("archive cleaned")
        if (folder / STORE).exists():
            rows = _clean_rows(folder, scope, removal)
            at("rows cleaned")
    if not _remove_columns(folder):
        unreached.append("column files that an SQL query is using: run the command again when it has ended")
    at("columns removed")
    files = tuple(_clean_own_files(folder, removal))
    at("files cleaned")
    return RemovalReport(archived, rows, files, tuple(unreached))


def compact_databases(folder: Path, at: Callable[[str], None] = lambda _: None) -> list[str]:
    """Write the databases anew, without free pages and write-ahead logs; return what could not be done (rule 4)."""
    unreached = []
    for name in (STORE, ARCHIVE):
        if not (folder / name).exists():
            continue
        with translate_errors(folder), locked(folder), closing(sqlite3.connect(folder / name, timeout=30)) as database:
            database.isolation_level = None
            if name == STORE:
                # The index merges words lazily: deleted ones stay in its segments until they are merged.
                database.execute("INSERT INTO words (words) VALUES ('optimize')")
            try:
                database.execute("VACUUM")
                busy = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            except sqlite3.OperationalError:
                busy = 1
        if busy:
            unreached.append(f"free pages of `{name}`: another process has it open; run the command again")
        at("compacted")
    for path in sorted(folder.glob("*.db.old-*")):
        unreached.append(f"`{path}`, which `sync --rebuild` kept: delete it")
    if (folder / "collect.db").exists():
        unreached.append("segments that `unspool collect` has made or sent: delete them in the object store")
    return unreached


def find_left(folder: Path, scope: RemovalScope, removal: TextRemoval) -> list[str]:
    """Search every file of the data folder, byte by byte, and what the archive holds of the session."""
    left = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and "edits" not in path.relative_to(folder).parts[:1]:
            with suppress(OSError, UnspoolError):
                if path.stat().st_size <= _MAX_FILE and removal.matches(b"".join(read_pieces(path))):
                    left.append(str(path))
    if any(removal.matches(data) for data in read_archived(folder, scope)):
        left.append(str(folder / ARCHIVE))
    return list(dict.fromkeys(left))


def _clean_archive(folder: Path, scope: RemovalScope, removal: TextRemoval) -> int:
    changed = 0
    with locked(folder), closing(open_archive(folder)) as database:
        database.execute("PRAGMA secure_delete = ON")
        archive = Archive(database)
        for file in list(archive.files()):
            if not (scope.has(file.path, file.session_id) or file.kind == "history"):
                continue
            before = b"".join(data for _, data in archive.read(file))
            after = _clean_archived(file, before, scope, removal)
            if after == before:
                continue
            with transaction(database):
                database.execute("DELETE FROM frames WHERE source_id = ?", (file.id,))
                database.executemany(
                    "INSERT INTO frames (source_id, start, length, data) VALUES (?, ?, ?, ?)",
                    [(file.id, frame.start, frame.length, frame.data) for frame in split_into_frames(after)],
                )
            changed += 1
    return changed


def _clean_archived(file: ArchivedFile, data: bytes, scope: RemovalScope, removal: TextRemoval) -> bytes:
    if file.path in scope.whole_files:
        return f"{MARKER}\n".encode()
    if file.kind == "history":
        lines = data.split(b"\n")
        return b"\n".join(
            removal.clean_line(line, same_length=True) if scope.owns_history_line(line) else line for line in lines
        )
    if file.kind in _LINE_KINDS:
        whole = file.agent_id is not None and file.agent_id in removal.whole_agents
        return removal.clean_lines(data, same_length=True, whole=whole)
    return removal.clean_file(data)


def _clean_rows(folder: Path, scope: RemovalScope, removal: TextRemoval) -> int:
    changed = 0
    with locked(folder), closing(open_store(folder)) as database:
        database.execute("PRAGMA secure_delete = ON")
        ids = [
            id
            for id, path, session_id, kind in database.execute("SELECT id, path, session_id, kind FROM sources")
            if scope.has(path, session_id) or kind == "history"
        ]
        with transaction(database):
            database.execute("CREATE TEMP TABLE IF NOT EXISTS removed_from (id INTEGER PRIMARY KEY)")
            database.execute("DELETE FROM removed_from")
            database.executemany("INSERT INTO removed_from VALUES (?)", [(id,) for id in ids])
            database.execute("INSERT INTO words (words) VALUES ('delete-all')")
            for table in _INDEX:
                database.execute(f"DELETE FROM {table}")
            database.execute(f"INSERT OR IGNORE INTO unindexed SELECT id FROM sources WHERE kind IN {_INDEXED_KINDS}")
            for table, columns in _text_tables(database):
                changed += _clean_table(database, table, columns, removal)
            # No file has this size: the next sync looks at all of them again.
            database.execute("UPDATE sources SET size = -1 WHERE gone IS NULL AND id IN (SELECT id FROM removed_from)")
    return changed


def _text_tables(database: sqlite3.Connection) -> list[tuple[str, list[str]]]:
    """Return the tables with rows of files, or names of files, and their columns of text."""
    tables = []
    query = (
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'words%'"
    )
    for (table,) in list(database.execute(query)):
        info = list(database.execute(f"PRAGMA table_info ({table})"))
        names = {row[1] for row in info}
        columns = [row[1] for row in info if row[2] in ("TEXT", "BLOB")]
        if columns and ("source_id" in names or table in ("paths", "tallies")):
            tables.append((table, columns))
    return tables


def _clean_table(database: sqlite3.Connection, table: str, columns: Iterable[str], removal: TextRemoval) -> int:
    names = [row[1] for row in database.execute(f"PRAGMA table_info ({table})")]
    where = "WHERE source_id IN (SELECT id FROM removed_from)" if "source_id" in names else ""
    keys = [row[1] for row in database.execute(f"PRAGMA table_info ({table})") if row[5]] or ["rowid"]
    listed = ", ".join([*keys, *columns])
    changed = 0
    for row in list(database.execute(f"SELECT {listed} FROM {table} {where}")):
        key, values = row[: len(keys)], row[len(keys) :]
        cleaned = [_clean_value(value, removal) for value in values]
        if cleaned == list(values):
            continue
        condition = " AND ".join(f"{name} IS ?" for name in keys)
        changed += 1
        if None not in [new for new, old in zip(cleaned, values, strict=True) if old is not None]:
            settings = ", ".join(f"{name} = ?" for name in columns)
            with suppress(sqlite3.IntegrityError):  # two names have become the same
                database.execute(f"UPDATE {table} SET {settings} WHERE {condition}", (*cleaned, *key))
                continue
        database.execute(f"DELETE FROM {table} WHERE {condition}", key)
    return changed


def _clean_value(value: object, removal: TextRemoval) -> object:
    """Return a value without what is to be removed; None if only its row can be deleted."""
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        cleaned = removal.clean_file(data)
        return value if cleaned == data else cleaned.decode("utf-8", "replace")
    if isinstance(value, bytes):
        return None if removal.matches(value) else value
    return value


def _remove_columns(folder: Path) -> bool:
    """Delete the column files; return whether nobody uses them any more."""
    columns = folder / "columns"
    if not columns.is_dir():
        return True
    try:
        with locked(columns), hold_lock(columns / "readers.lock", timeout=_READER_PATIENCE):
            for name in ("manifest", "manifest.new"):
                (columns / name).unlink(missing_ok=True)
            for name in ("parts", "tables", "scopes", "spilled"):
                shutil.rmtree(columns / name, ignore_errors=True)
    except LockTaken:
        return False
    return True


def _clean_own_files(folder: Path, removal: TextRemoval) -> Iterator[str]:
    for name in _OWN_FILES:
        path = folder / name
        if not path.is_file() or path.is_symlink():
            continue
        with hold_lock(folder):  # the lock of `user_annotations.py`
            data = read_whole(path, _MAX_FILE)
            cleaned = removal.clean_lines(data)
            if cleaned != data:
                write_atomically(path, cleaned)
                yield str(path)
