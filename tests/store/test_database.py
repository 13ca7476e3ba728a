"""The store's files: made once, for the user alone, and named when they cannot be used."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

import unspool.store
from tests.store.asking import Columns
from tests.store.older_store import remove_command_turns
from unspool.errors import Refused, Unreadable, UnspoolError, Unwritable
from unspool.store.database import (
    STORE,
    VERSIONS,
    is_locked,
    locked,
    open_archive,
    open_store,
    transaction,
    translate_errors,
)
from unspool.store.sync.changes import count_unindexed_bytes, read_stamps
from unspool.testing.build import assistant, session, user


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_folder_and_files_are_for_the_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "own"
    with closing(open_store(folder)) as store, closing(open_archive(folder)) as archive, locked(folder):
        for database in (store, archive):
            database.execute("CREATE TABLE more (a)")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert modes(folder) == {0o600}


def test_a_store_that_was_not_finished_is_finished(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    with closing(open_store(tmp_path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSIONS[STORE],)
        assert database.execute("SELECT count(*) FROM sources").fetchone() == (0,)


def test_a_store_of_a_newer_unspool_is_left_as_it_is_and_named(tmp_path: Path) -> None:
    for open_it, knows in ((open_store, VERSIONS[STORE]), (open_archive, 1)):
        with closing(open_it(tmp_path)) as database:
            database.execute("PRAGMA user_version = 99")
        with pytest.raises(
            Refused, match=rf"created by a newer version of unspool \(schema 99, this version supports {knows}\)"
        ) as refused:
            open_it(tmp_path)
        assert "upgrade unspool" in (refused.value.hint or "")
        assert ("--rebuild" in (refused.value.hint or "")) == (open_it is open_store)


def test_a_store_that_is_no_database_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(Unreadable, match="is damaged: file is not a database") as damaged:
        open_store(tmp_path)
    assert "unspool sync --rebuild" in (damaged.value.hint or "")
    assert (tmp_path / "store.db").read_bytes().startswith(b"not a database")


def test_a_store_of_a_version_that_never_was_is_named_with_what_to_do(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as database:
        database.execute("PRAGMA user_version = -1")
    with pytest.raises(Unreadable, match="is damaged: unknown schema -1") as damaged:
        open_store(tmp_path)
    assert "unspool sync --rebuild" in (damaged.value.hint or "")


def test_only_one_process_has_the_lock(tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(Refused, match="locked by another unspool process"),
        locked(tmp_path, patience=0),
    ):
        pass
    with locked(tmp_path, patience=0):
        pass


def test_the_lock_of_a_process_ends_with_it_however_that_ends(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from unspool.store.database import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout
    assert process.stdout.readline() == b"locked\n"
    with pytest.raises(Refused), locked(tmp_path, patience=0):
        pass
    process.kill()
    process.communicate()
    with locked(tmp_path, patience=0):
        pass


def test_a_transaction_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    with closing(open_store(tmp_path)) as database:
        with suppress(KeyError), transaction(database):
            database.execute("INSERT INTO homes (path) VALUES ('/a')")
            raise KeyError
        assert database.execute("SELECT count(*) FROM homes").fetchone() == (0,)
        with transaction(database):
            database.execute("INSERT INTO homes (path) VALUES ('/a')")
        assert not database.in_transaction
        assert database.execute("SELECT count(*) FROM homes").fetchone() == (1,)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unwritable, match=r"cannot create the store folder `.*/file/own`: not a directory"):
        open_store(tmp_path / "file" / "own")


def test_a_link_in_the_place_of_the_store_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "store.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unwritable):
        open_store(tmp_path / "own")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (sqlite3.SQLITE_CORRUPT, Unreadable, "is damaged: why"),
        (sqlite3.SQLITE_BUSY, Refused, "is locked by another unspool process"),
        (sqlite3.SQLITE_FULL, Unwritable, "no space left"),
        (sqlite3.SQLITE_READONLY, Unwritable, "cannot write the store"),
        (sqlite3.SQLITE_IOERR | 4 << 8, Unwritable, "cannot write the store"),
        (sqlite3.SQLITE_ERROR, Unreadable, "cannot read the store in `.*`: why"),
    ],
)
def test_what_sqlite_says_is_told_in_our_words(tmp_path: Path, code: int, kind: type[UnspoolError], words: str) -> None:
    error = sqlite3.OperationalError("why")
    error.sqlite_errorcode = code
    with pytest.raises(kind, match=words) as told, translate_errors(tmp_path):
        raise error
    assert told.value.hint


def test_one_can_tell_whether_a_store_is_being_brought_up_to_date(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)


def test_a_store_without_an_index_gets_one_that_knows_what_it_lacks(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as old:
        old.executescript((Path(unspool.store.__file__).parent / "schema.sql").read_text())
        old.execute("INSERT INTO homes VALUES (1, '/c', NULL)")
        for number, kind in enumerate(("session", "agent", "plan"), 1):
            values = (number, f"/c/{number}", kind)
            rest = "NULL, NULL, NULL, 1, 9, 0, 0, 0, 9, x'', x'', 0, 1, NULL"
            old.execute(f"INSERT INTO sources VALUES (?, 1, ?, ?, {rest})", values)
        old.execute("PRAGMA user_version = 1")
    with closing(open_store(tmp_path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSIONS[STORE],)
        assert database.execute("SELECT source_id FROM unindexed").fetchall() == [(1,), (2,)]
        assert database.execute("SELECT count(*) FROM words WHERE words MATCH 'a'").fetchone() == (0,)
        assert count_unindexed_bytes(database, Path("/c")) == 18


def test_a_store_without_stamps_by_folder_knows_that_it_lacks_them(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as old:
        for name in ("schema.sql", "search/index.sql", "catalog/session_stats.sql"):
            old.executescript((Path(unspool.store.__file__).parent / name).read_text())
        old.execute("INSERT INTO homes VALUES (1, '/c', NULL)")
        for number, gone in enumerate(("NULL", "7"), 1):
            rest = f"NULL, NULL, NULL, 1, 9, 8, 7, 6, 9, x'', x'', 0, 1, {gone}"
            old.execute(f"INSERT INTO sources VALUES (?, 1, ?, 'session', {rest})", (number, f"/c/{number}"))
        old.execute("PRAGMA user_version = 3")
    with closing(open_store(tmp_path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (VERSIONS[STORE],)
        # No file has this size: sessions are read again for their turns (`command_turns.sql`).
        assert read_stamps(database, Path("/c")) == {"/c/": {"1": (-1, 8, 7, 6)}}


def test_sessions_of_a_store_that_did_not_count_commands_are_read_again(tmp_path: Path) -> None:
    command = "<command-message>init</command-message><command-name>/init</command-name>"
    story = session(user(command), assistant("I look."), user("thanks"), assistant("Yes."))
    story.save(tmp_path / "config")
    columns = Columns(tmp_path / "own", tmp_path / "config")
    columns.sync()
    with closing(open_store(columns.folder)) as old:
        (before,) = old.execute("SELECT turns, command_turns FROM sessions").fetchall()
        assert before == (1, 1)
        old.execute("UPDATE sessions SET turns = 9")
        remove_command_turns(old)
    columns.sync()
    with closing(open_store(columns.folder)) as database:
        assert database.execute("SELECT turns, command_turns FROM sessions").fetchall() == [(1, 1)]
        assert database.execute("SELECT count(*) FROM answers WHERE counted").fetchone() == (2,)
        assert database.execute("SELECT count(*) FROM unindexed").fetchone() == (1,)
