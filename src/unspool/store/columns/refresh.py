"""One refresh of the column files: what has changed is derived, written and published (`columns.py` has the rules).

[merged: columns.py] The column files brought up to date: the store in, Parquet out, in time proportional to what has changed.

Rules
  1. One process does it at a time. It may be killed anywhere (`STEPS`): what the manifest named before holds, and the
     next refresh goes on from there.
  2. A file is derived again only when it has changed; what was billed in it also when a file that shares a response
     with it has.
  3. Small parts are made one as they become many, and parts of which half is out of date are written anew: their number
     stays bounded, and so does what is rewritten.
  4. Everything here can be deleted at any time.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from unspool.errors import Unwritable
from unspool.store.columns import manifest as manifests
from unspool.store.columns import store_rows as snapshot
from unspool.store.columns.derive_pool import Made, Rows, Task, all_made, bundles
from unspool.store.columns.manifest import FOLDER, Current, Manifest, Part
from unspool.store.columns.merge import merged, worth_merging
from unspool.store.columns.parquet import File, sync_folder, write
from unspool.store.columns.store_rows import Known
from unspool.store.database import locked

if TYPE_CHECKING:
    from unspool.prices.price_list import Price

STEPS = ("planned", "derived", "named", "billed", "tables", "merged", "recorded", "published", "swept")
"""The places where a refresh may be killed, in order; `derived` to `published` may come more than once."""


class Asked(NamedTuple):
    """How a refresh is to be done."""

    prices: tuple[Price, ...] = ()
    """A person's own."""
    edition: str = ""
    """Of all prices."""
    workers: int | None = None
    begin: Callable[[int], None] = lambda _: None
    """Told how many bytes there are to read."""
    advance: Callable[[int], None] = lambda _: None
    """Told how many were read."""
    at: Callable[[str], None] = lambda _: None
    """Told which of `STEPS` was reached."""
    deep: bool = False
    """Compare every byte of the column files with what was written."""


class Refreshed(NamedTuple):
    """What a refresh did."""

    files_derived: int = 0
    bytes_read: int = 0
    files_billed: int = 0
    """Files whose responses were written again."""
    tables_written: int = 0
    parts_merged: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    lost: int = 0
    """Column files that were damaged or missing."""


def refresh(database: sqlite3.Connection, folder: Path, asked: Asked) -> Refreshed:
    """Bring the column files of a store up to date."""
    columns = folder / FOLDER
    held = manifests.read(columns)
    with reading(database):
        known = snapshot.sources(database)
    if _is_current(columns, held, known, asked):
        return Refreshed()
    pass  # a question about what has not changed needs no decoder

    with telling(columns):
        manifests.make_folders(columns)
        with locked(columns):
            held = manifests.read(columns)
            with reading(database):
                return Refresh(database, folder, held, asked).do()


@contextmanager
def reading(database: sqlite3.Connection) -> Iterator[None]:
    """Read from one state of a database, whatever others write meanwhile."""
    database.execute("BEGIN")
    try:
        yield
    finally:
        with suppress(sqlite3.Error):
            database.execute("ROLLBACK")


@contextmanager
def telling(columns: Path) -> Iterator[None]:
    """Say in our words that column files cannot be written."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "nothing is lost; make room and go on, or let `$UNSPOOL_HOME` be another folder"
        raise Unwritable(f"cannot write the column files in `{columns}`: {reason}", hint=hint) from None


def _is_current(columns: Path, held: Manifest, known: list[Known], asked: Asked) -> bool:
    is_same = held.kinds == snapshot.kinds(known) and held.edition == asked.edition
    return is_same and held.serial > 0 and manifests.is_whole(columns, held, deep=asked.deep)


_ROWS = 50_000
"""Rows of what was billed that are written at once."""


class Refresh:
    """One refresh."""

    def __init__(self, database: sqlite3.Connection, folder: Path, held: Manifest, asked: Asked) -> None:
        self._database, self._folder, self._held, self._asked = database, folder, held, asked
        self._columns = folder / FOLDER
        self._known = snapshot.sources(database)
        self._number, self._token = 0, secrets.token_hex(4)
        self._before, held.kinds = held.kinds, {}  # what is published before the end is not all there is

    def do(self) -> Refreshed:
        """Do all there is to do."""
        held, at = self._held, self._asked.at
        lost = list(manifests.damaged(self._columns, held, deep=self._asked.deep))
        manifests.forget(held, lost)
        manifests.sweep(self._columns, held)
        tasks = list(self._tasks())
        at("planned")
        done = self._derive(tasks)
        billed = self._bill()
        at("billed")
        written = self._tables()
        at("tables")
        failed = tuple(one for made in done for one in made.failed)
        held.edition = self._asked.edition
        if not failed:  # they are to be tried again
            held.kinds = snapshot.kinds(self._known)
        self._drop_dead()
        merged = self._merge()
        at("merged")
        self._publish()
        if manifests.sweep(self._columns, held):
            at("swept")
        read, count = sum(made.bytes_read for made in done), sum(len(made.derived) for made in done)
        return Refreshed(count, read, billed, written, merged, failed, len(lost))

    def _names(self) -> Iterator[str]:
        """Yield names that no part has, whether it holds or was left by a process that was killed."""
        while True:
            self._number += 1
            yield f"parts/{self._token}-{self._number}"

    def _tasks(self) -> Iterator[Task]:
        held = self._held
        for one in self._known:
            if one.kind not in snapshot.LINED or _is_same(held.lines.get(one.path), one):
                continue
            held.revision += 1
            agent = one.agent_id
            if one.kind == "agent" and agent is None:
                agent = Path(one.path).stem
            place = (one.path, one.kind, one.session_id, agent)
            yield Task(*place, one.id, one.generation, one.offset, held.revision)

    def _derive(self, tasks: list[Task]) -> list[Made]:
        """Derive files, and publish each part as it is there: the next refresh need not make it again."""
        self._asked.begin(sum(task.offset for task in tasks))
        done = []
        todo = bundles(self._folder, tasks, self._names())
        for number, made in enumerate(all_made(todo, self._asked.workers), 1):
            self._asked.at("derived")
            self._take(made)
            self._asked.at("named")
            if number < len(todo):
                self._publish()
            self._asked.advance(sum(task.offset for task in made.derived))
            done.append(made)
        return done

    def _take(self, made: Made) -> None:
        """Let the manifest name a part."""
        sync_folder(self._columns / "parts")
        name = made.part.removeprefix("parts/")
        self._held.parts[name] = Part(made.files, made.weight)
        for task in made.derived:
            current = Current(task.source_id, task.generation, task.offset, task.revision, name)
            self._held.lines[task.path] = current

    def _bill(self) -> int:
        """Write what was billed in the files for which that may have changed."""
        held, lined = self._held, {one.id: one for one in self._known if one.kind in snapshot.LINED}
        changed = [id for id, one in lined.items() if not _is_same(held.answers.get(one.path), one)]
        if held.edition != self._asked.edition:
            changed = list(lined)
        wanted = set(changed) if len(changed) == len(lined) else snapshot.touched(self._database, changed)
        if not wanted:
            return 0
        part = next(self._names())
        (self._columns / part).mkdir(mode=0o700)
        rows, count, weight = Rows(self._columns, part), 0, 0
        for id, found in snapshot.answers(self._database, sorted(wanted & set(lined))):
            held.revision += 1
            one = lined[id]
            weight += one.offset + 1
            name = part.removeprefix("parts/")
            held.answers[one.path] = Current(id, one.generation, one.offset, held.revision, name)
            for row in found:
                rows.add("answers", (held.revision, *row))
                count += 1
                if count % _ROWS == 0:
                    rows.flush()
        rows.flush()
        sync_folder(self._columns / part)
        held.parts[part.removeprefix("parts/")] = Part(rows.files, weight)
        return len(wanted)

    def _tables(self) -> int:
        """Write the tables that are written whole, if they may have changed."""
        held, now, before, written = self._held, snapshot.kinds(self._known), self._before, 0
        changed = {kind for kind in {*now, *before} if now.get(kind) != before.get(kind)}
        for table, kinds in snapshot.WHOLE.items():
            if table in held.tables and not (changed & set(kinds) if kinds else changed):
                continue
            rows = snapshot.whole(self._database, table, self._known)
            held.tables[table] = self._table(table, rows)
            written += 1
        if "prices" not in held.tables or held.edition != self._asked.edition:
            held.tables["prices"] = self._table("prices", snapshot.price_rows(self._asked.prices))
            written += 1
        sync_folder(self._columns / "tables")
        return written

    def _table(self, table: str, rows: Iterable[tuple[object, ...]]) -> File:
        return write(self._columns, f"tables/{table}-{self._token}.parquet", table, list(rows))

    def _drop_dead(self) -> None:
        """Forget parts that nothing current is in."""
        alive = {one.part for current in (self._held.lines, self._held.answers) for one in current.values()}
        self._held.parts = {name: part for name, part in self._held.parts.items() if name in alive}

    def _merge(self) -> int:
        chosen = worth_merging(self._held)
        for names in chosen:
            merged(self._columns, self._held, names, next(self._names()))
        return sum(map(len, chosen))

    def _publish(self) -> None:
        manifests.record(self._columns, self._held)
        self._asked.at("recorded")
        manifests.publish(self._columns)
        self._asked.at("published")


def _is_same(current: Current | None, one: Known) -> bool:
    if current is None:
        return False
    return (current.source_id, current.generation, current.offset) == (one.id, one.generation, one.offset)
