"""Creates, opens and locks the SQLite databases of the store, and explains why they cannot be used.

Rules
  1. Folder and files are for the user alone (0700, 0600).
  2. Any number of processes may make and open a store at once. Making it happens under the lock, in one transaction.
  3. One process at a time brings a store up to date. It holds the lock, which ends with the process, however that ends.
  4. A store that is damaged, or made by a newer unspool, is left as it is and named.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from unspool.errors import Refused, Unreadable, UnspoolError, Unwritable
from unspool.files import LockTaken, create_private_file, hold_lock, make_data_folder, raise_unwritable

STORE, ARCHIVE, LOCK = "store.db", "archive.db", "sync.lock"
VERSIONS: Final = {STORE: 7, ARCHIVE: 1}
"""Of the tables. A database of an earlier version is brought to this one by `_MIGRATIONS`; a later one is refused."""

LOCK_TIMEOUT = 600.0
"""Seconds to wait for another process."""

_SCRIPTS: Final = (
    "schema.sql",
    "search/index.sql",
    "catalog/session_stats.sql",
    "sync/stamps.sql",
    "sync/command_turns.sql",
    "sync/windows.sql",
)
_MIGRATIONS: Final = {
    (STORE, 1): "search/index.sql",
    (STORE, 2): "catalog/session_stats.sql",
    (STORE, 3): "sync/stamps.sql",
    (STORE, 4): "usage/paying_sessions.sql",
    (STORE, 5): "sync/command_turns.sql",
    (STORE, 6): "sync/windows.sql",
}
"""The script that brings the tables of a version to the next."""

IN_FOLDER = """(path = :root OR (path >= :first AND path < :after) OR path IN (
    SELECT inside.path FROM json_each(:others) other CROSS JOIN sources inside
    ON inside.path = json_extract(other.value, '$[0]')
    OR (inside.path >= json_extract(other.value, '$[1]') AND inside.path < json_extract(other.value, '$[2]'))
    ))"""
"""The condition for the files of some folders, or the files themselves. Ranges, because `LIKE` would not use the index;
the first folder by itself, because nearly always there is no other and SQLite plans for that."""

Roots: TypeAlias = Path | Sequence[Path]
"""A folder or file that is read, or several, of which none lies in another."""

_SIDE_TIMEOUT = 60.0
_MIN_FREE_BYTES = 128 * 1024
_REBUILD = "rebuild it with `unspool sync --rebuild`, or read the files with `--no-store`"
_ELSEWHERE = "set `$UNSPOOL_HOME` to another folder, or read the files with `--no-store`"


def folder_parameters(roots: Roots) -> dict[str, str]:
    """Return the parameters of `IN_FOLDER`."""
    first, *others = [_path_range(root) for root in list_roots(roots)]
    # Without others, which is nearly always, nothing loads `json`.
    text = "[]"
    if others:
        import json

        text = json.dumps(others)
    return dict(zip(("root", "first", "after", "others"), (*first, text), strict=True))


def list_roots(roots: Roots) -> tuple[Path, ...]:
    """Return one folder or several as a tuple."""
    return (roots,) if isinstance(roots, Path) else tuple(roots)


def _path_range(root: Path) -> tuple[str, str, str]:
    """Return a path, and between which texts all paths inside of it are."""
    folder = str(root).rstrip(os.sep) + os.sep
    return str(root), folder, folder[:-1] + chr(ord(os.sep) + 1)


def open_store(folder: Path, *, any_thread: bool = False) -> sqlite3.Connection:
    """Open the store in a folder; create it if there is none. With `any_thread`, threads may use it one at a time."""
    return _open(folder, STORE, _SCRIPTS, durable=False, any_thread=any_thread)


def open_in_memory() -> sqlite3.Connection:
    """Create an empty store that ends with the process."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.executescript("".join(map(_script, _SCRIPTS)))
    return database


def open_archive(folder: Path) -> sqlite3.Connection:
    """Open the archive in a folder; create it if there is none."""
    return _open(folder, ARCHIVE, ("archive/archive.sql",), durable=True)


@contextmanager
def locked(folder: Path, patience: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold the lock of a store."""
    _make_folder(folder)
    _touch(folder / LOCK)
    try:
        with translate_errors(folder), hold_lock(folder / LOCK, timeout=patience):
            yield
    except LockTaken:
        raise _refuse_busy(folder) from None


def is_locked(folder: Path) -> bool:
    """Tell whether a process is bringing the store up to date just now."""
    if not (folder / LOCK).exists():
        return False
    try:
        with hold_lock(folder / LOCK, timeout=0):
            return False
    except LockTaken:
        return True


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Commit what is written inside all at once; roll it back if there is an exception."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    finally:
        if database.in_transaction:  # it did not come to the end; a full disk may have rolled it back already
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")


@contextmanager
def snapshot(database: sqlite3.Connection) -> Iterator[None]:
    """Let several queries see one state, whoever writes meanwhile."""
    database.execute("BEGIN")
    try:
        yield
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


@contextmanager
def translate_errors(folder: Path) -> Iterator[None]:
    """Turn errors of SQLite into errors that name the store and what to do."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise _translate(error, folder) from None


def _open(
    folder: Path, name: str, scripts: tuple[str, ...], *, durable: bool, any_thread: bool = False
) -> sqlite3.Connection:
    path = folder / name
    with translate_errors(folder):
        if not os.path.exists(path):  # noqa: PTH110 - a folder that may not be entered is for SQLite to name
            _create(folder, name, scripts)
        database = _connect(path, durable=durable, any_thread=any_thread)
        version = _read_version(database)
        if version == 0:  # created, but not finished, by a process that was killed
            database.close()
            _create(folder, name, scripts)
            database = _connect(path, durable=durable, any_thread=any_thread)
            version = _read_version(database)
        if version > VERSIONS[name]:
            database.close()
            refuse_newer(path, version)
        if version < VERSIONS[name] and (name, version) not in _MIGRATIONS:  # no unspool has ever written it
            database.close()
            raise Unreadable(f"the store in `{folder}` is damaged: unknown schema {version}", hint=_REBUILD)
        _migrate(database, name, version)
    return database


def open_side_database(
    path: Path, version: int, load_statements: Callable[[int], Iterable[str]], *, durable: bool, page_size: int = 4096
) -> sqlite3.Connection:
    """Open a database that is no part of the store, beside it; its tables are brought to a version.

    `load_statements` returns what makes the tables of an earlier version (0: none) those of today. A newer database is
    refused. Errors of SQLite are left to the caller, who knows what the database is for.
    """
    database = sqlite3.connect(create_private_file(path.parent, path.name), timeout=_SIDE_TIMEOUT, isolation_level=None)
    database.execute(f"PRAGMA page_size = {page_size}")  # counts only before the first table is made
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    found = _read_version(database)
    if found > version:
        database.close()
        raise Refused(f"`{path}` was created by a newer version of unspool", hint="upgrade unspool")
    if found < version:
        with transaction(database):
            # Asked again inside the transaction: another process may have made the tables meanwhile.
            if _read_version(database) == found:
                for statement in load_statements(found):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {version}")
    return database


def refuse_newer(path: Path, version: int) -> None:
    """Raise an error if a database was made by a newer unspool."""
    if version > VERSIONS[path.name]:
        message = (
            f"`{path}` was created by a newer version of unspool (schema {version}, this version supports "
            f"{VERSIONS[path.name]})"
        )
        # Only the store can be made again; an archive cannot.
        raise Refused(message, hint=f"upgrade unspool, or {_REBUILD if path.name == STORE else _ELSEWHERE}")


def _connect(path: Path, *, durable: bool, any_thread: bool = False) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=not any_thread)
    # What the store has can be made again from the files and the archive; what the archive has cannot.
    database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    database.execute("PRAGMA wal_autocheckpoint = 4000")
    return database


def _create(folder: Path, name: str, scripts: tuple[str, ...]) -> None:
    path = folder / name
    with locked(folder):
        _touch(path)
        database = sqlite3.connect(path, timeout=LOCK_TIMEOUT, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            if _read_version(database) == 0:
                statements = "\n".join(map(_script, scripts))
                version = f"PRAGMA user_version = {VERSIONS[name]};"
                database.executescript(f"BEGIN IMMEDIATE; {statements} {version} COMMIT;")
        finally:
            database.close()


def _migrate(database: sqlite3.Connection, name: str, first: int) -> None:
    """Bring tables to today's version, one version after the other."""
    for version in range(first, VERSIONS[name]):
        with transaction(database):
            if _read_version(database) == version:  # else another process has done it meanwhile
                for statement in _statements(_script(_MIGRATIONS[name, version])):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {version + 1}")


def _read_version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _script(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script, because `executescript` would end the transaction."""
    held = ""
    for line in script.splitlines(keepends=True):
        held += line
        if sqlite3.complete_statement(held):
            yield held
            held = ""


def _make_folder(folder: Path) -> None:
    with raise_unwritable(f"cannot create the store folder `{folder}`", _ELSEWHERE):
        make_data_folder(folder)


def _touch(path: Path) -> None:
    """Create a file that nobody else may read, if there is none."""
    with raise_unwritable(f"cannot write the store `{path}`", _ELSEWHERE):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600))


def _is_full(folder: Path) -> bool:
    """Tell whether the disk is full. SQLite says so of a database, but not of the files it keeps beside it."""
    import shutil

    with suppress(OSError):
        return shutil.disk_usage(folder).free < _MIN_FREE_BYTES
    return False


def _refuse_busy(folder: Path) -> Refused:
    return Refused(
        f"the store in `{folder}` is locked by another unspool process", hint="try again when that process has finished"
    )


def _translate(error: sqlite3.DatabaseError, folder: Path) -> UnspoolError:
    words = str(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return Unreadable(f"the store in `{folder}` is damaged: {words}", hint=_REBUILD)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return _refuse_busy(folder)
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(folder)):
        return Unwritable(
            f"no space left for the store in `{folder}`", hint="no data is lost; free some space and try again"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM):
        return Unwritable(f"cannot write the store in `{folder}`: {words}", hint=_ELSEWHERE)
    return Unreadable(f"cannot read the store in `{folder}`: {words}", hint=_REBUILD)
