"""Damages the files that unspool keeps itself: databases, archive frames, settings, column files, journals, notes.

In: a data folder that commands have filled. The same seed does the same damage, so that a failure can be made again.
Links lead nowhere, to themselves, or to a file beside the folder; nothing is ever written through one.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from tests.fuzz.hostile_tree import VALUES, damage_line
from tests.fuzz.surfaces import Failure, run_everything
from unspool.live.hook_signals import HOOK_EVENTS, SIGNALS_FOLDER
from unspool.store.user_annotations import SessionAnnotation, change_annotation, save_filter
from unspool.web.address import read_address
from unspool.web.serving.seen import SeenFile

SETTINGS = [
    {"archive": False},
    {"timezone": "Europe/Berlin", "background": False, "indexing": False},
    {"prices": {"claude-opus-4-1": {"input": 3, "output": 15}, "x": {"input": 1e308, "output": 1e308}}},
    {"prices": {"x": {"input": 10**40, "output": 1}}},
    {"prices": {"x": {"input": -1, "output": "NaN"}, "": {}, "y": []}},
    {"timezone": "\0"},
    {"timezone": "../../outside"},
    {"new": {"of": "tomorrow"}},
]
SQLITE_VALUES = [None, 0, -1, 2**63 - 1, -(2**63), 1.5, float("inf"), "", "x", "\0", b"", b"\xff\xfe", b"x" * 5000,
                 "9" * 400, "../outside/of/it", "\x1b[2J", "[]", "{}", "null", '{"a":', b"\x81\xa1x"]  # fmt: skip


def damage_own_files(folder: Path, seed: int, only: str | None = None) -> list[str]:
    """Damage up to three files of a data folder, or one file again and again; return what was done to which."""
    rng = random.Random(seed)
    (folder.parent / "outside-of-it").write_bytes(b"{}")
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        files = sorted(path for path in folder.rglob(only or "*") if path.is_file() and not path.is_symlink())
        # Each kind of file as often as any other: there are a hundred journals, and one archive.
        kinds = sorted({_kind_of(path, folder) for path in files} | {only or "settings.json"})
        kind = rng.choice(kinds)
        path = rng.choice([path for path in files if _kind_of(path, folder) == kind] or [folder / kind])
        actions = [*_ANY, *(_DATABASE * 3 if path.suffix == ".db" else _JSON if _is_json(path) else [])]
        action = rng.choice(actions)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            continue  # an earlier damage has put a link, a folder or a pipe there
        done.append(f"{action.__name__.removeprefix('_')} {path.relative_to(folder)}")
        action(path, rng)
    return done


def write_user_files(folder: Path, session_ids: list[str]) -> None:
    """Write the files of a data folder that no command writes: they come of forms on pages, of hooks, of the user."""
    moment = "2026-01-05T09:00:00Z"
    for id in session_ids:
        change_annotation(
            folder, id, lambda _: SessionAnnotation(starred=True, tags=("tide", "fix"), note="high"), moment
        )
        for event in HOOK_EVENTS:
            signal = folder / SIGNALS_FOLDER / f"{id}.{event}.json"
            signal.parent.mkdir(exist_ok=True)
            signal.write_text(json.dumps({"session_id": id, "hook_event_name": event, "tool_name": "Bash"}))
    save_filter(folder, "tides", "q=tide", moment)
    SeenFile(folder).mark(session_ids, 1)
    read_address(folder)
    rules = {"rules": [{"kind": "tide-table", "pattern": "tide[0-9]+", "literal": "tide"}], "emails": True}
    (folder / "redact.json").write_text(json.dumps(rules))
    (folder / "settings.json").write_text(json.dumps({"prices": {"x": {"input": 3, "output": 15}}}))


def find_archives(folder: Path) -> set[int]:
    """Return the inodes of the archive and of archives that were set aside: none may ever go."""
    return {path.lstat().st_ino for path in folder.glob("archive.db*") if not path.name.endswith(("-wal", "-shm"))}


def _kind_of(path: Path, folder: Path) -> str:
    """Return what a file is: its name, or for one of many its folder and ending."""
    place = path.relative_to(folder)
    if len(place.parts) == 1:
        return path.name
    inner = place.parts[1] if place.parts[0] == "columns" and len(place.parts) > 2 else ""
    return f"{place.parts[0]}/{inner}{path.suffix}"


def _is_json(path: Path) -> bool:
    return path.suffix in (".json", ".jsonl")


def _empty(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


def _truncate(path: Path, rng: random.Random) -> None:
    if path.exists():
        os.truncate(path, rng.randrange(path.stat().st_size + 1))


def _fill_with_noise(path: Path, rng: random.Random) -> None:
    path.write_bytes(rng.randbytes(rng.choice((1, 100, 5000))))


def _overwrite_bytes(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes() if path.exists() else b"")
    for _ in range(rng.choice((1, 3, 30))):
        if data:
            at = rng.randrange(len(data))
            data[at : at + rng.choice((1, 8, 200))] = rng.randbytes(rng.choice((1, 8, 200)))
    path.write_bytes(data)


def _zero_a_page(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes() if path.exists() else b"")
    if data:
        at = rng.randrange(0, len(data), 4096)
        data[at : at + 4096] = bytes(len(data[at : at + 4096]))
        path.write_bytes(data)


def _append(path: Path, rng: random.Random) -> None:
    with path.open("ab") as file:
        file.write(rng.randbytes(5000))


def _remove(path: Path, _: random.Random) -> None:
    path.unlink(missing_ok=True)


def _replace_with_folder(path: Path, _: random.Random) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def _replace_with_fifo(path: Path, _: random.Random) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _replace_with_link(path: Path, rng: random.Random) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(rng.choice(("/nowhere/at/all", "../outside-of-it", path.name, ".")))


def _make_sparse(path: Path, _: random.Random) -> None:
    with path.open("ab") as file:
        file.truncate(100 * 1000**3)


def _damage_json(path: Path, rng: random.Random) -> None:
    if path.name == "settings.json":
        path.write_text(json.dumps(rng.choice(SETTINGS)))
        if rng.random() < 0.5:
            return
    lines = path.read_bytes().splitlines(keepends=True) if path.suffix == ".jsonl" else []
    whole = path.read_bytes() if path.exists() else b"{}"
    path.write_bytes(b"".join(damage_line(line, rng, often=1.0) for line in lines or [whole]))


def _write_any_json(path: Path, rng: random.Random) -> None:
    path.write_bytes(json.dumps(rng.choice(VALUES)(rng)).encode("utf-8", "surrogatepass"))


def _change_rows(path: Path, rng: random.Random) -> None:
    """Put other values into columns of a database that stays a valid one."""
    with _OpenDatabase(path) as database:
        for _ in range(rng.choice((1, 1, 3, 10))):
            table = _any_table(database, rng)
            columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
            if not columns:
                continue
            some = rng.choice(("1", "1", "rowid % 2 = 0", "rowid = (SELECT max(rowid) FROM (SELECT rowid FROM t))"))
            some = some.replace(" FROM t)", f' FROM "{table}")')
            try:
                change = f'UPDATE OR IGNORE "{table}" SET "{rng.choice(columns)}" = ? WHERE {some}'
                database.execute(change, (rng.choice(SQLITE_VALUES),))
            except sqlite3.Error:  # a table without rowid, a view, or a check
                continue


def _delete_rows(path: Path, rng: random.Random) -> None:
    with _OpenDatabase(path) as database:
        try:
            database.execute(f'DELETE FROM "{_any_table(database, rng)}" WHERE random() % 2 = 0')
        except sqlite3.Error:
            return


def _change_tables(path: Path, rng: random.Random) -> None:
    with _OpenDatabase(path) as database:
        table = _any_table(database, rng)
        statement = rng.choice(
            (f'DROP TABLE "{table}"', f'ALTER TABLE "{table}" RENAME TO other', f'ALTER TABLE "{table}" ADD COLUMN new',
             f"PRAGMA user_version = {rng.choice((0, 1, 2, 3, 99, -1, 2**31 - 1))}")
        )  # fmt: skip
        try:
            database.execute(statement)
        except sqlite3.Error:
            return


def _any_table(database: sqlite3.Connection, rng: random.Random) -> str:
    names = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
    return str(rng.choice(names)[0]) if names else "none"


class _OpenDatabase:
    """An open database; one that another damage has made unreadable is left as it is."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path)

    def __enter__(self) -> sqlite3.Connection:
        return self._database

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        with suppress(sqlite3.Error):
            if kind is None:
                self._database.commit()
        self._database.close()
        return kind is not None and issubclass(kind, sqlite3.Error)


Damage = Callable[[Path, random.Random], None]
_ANY: list[Damage] = [
    _empty, _truncate, _fill_with_noise, _overwrite_bytes, _zero_a_page, _append, _remove, _replace_with_folder,
    _replace_with_fifo, _replace_with_link, _make_sparse,
]  # fmt: skip
_JSON: list[Damage] = [*[_damage_json] * 6, *[_write_any_json] * 3]
_DATABASE: list[Damage] = [_change_rows, _change_rows, _delete_rows, _change_tables, _overwrite_bytes]


class FilledFolder:
    """A config folder and a data folder that commands have filled, put back as they were for each round."""

    def __init__(self, folder: Path) -> None:
        self.config, self.data = folder / "claude", folder / "data"
        self._kept = folder / "kept"

    @property
    def is_kept(self) -> bool:
        """Whether there is something to put back."""
        return self._kept.exists()

    def keep(self) -> None:
        """Remember how both are now."""
        # Hard links keep inode and time, by which the store knows a file. Edits replace files and never write to them.
        shutil.copytree(self.config, self._kept / "claude", copy_function=os.link, symlinks=True)
        shutil.copytree(self.data, self._kept / "data", symlinks=True)

    def put_back(self) -> None:
        """Make both as they were."""
        for folder in (self.config, self.data):
            shutil.rmtree(folder)
        shutil.copytree(self._kept / "claude", self.config, copy_function=os.link, symlinks=True)
        shutil.copytree(self._kept / "data", self.data, symlinks=True)


def run_damaged(
    filled: FilledFolder, seed: int, *, slow: bool, sessions: int, only: str | None = None
) -> Iterator[Failure]:
    """Damage the data folder, run everything, and yield what failed, with what was done; an archive that went too."""
    done = "; ".join(damage_own_files(filled.data, seed, only))
    archives = find_archives(filled.data)
    for failure in run_everything(filled.config, filled.data, slow=slow, sessions=sessions, may_refuse=True):
        yield failure._replace(detail=f"{done}\n{failure.detail}")
    if not archives <= find_archives(filled.data):
        yield Failure("all commands", f"{done}\nthe archive is gone")
