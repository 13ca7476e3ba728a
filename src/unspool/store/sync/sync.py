"""The store brought up to date: a folder in, rows out, in time proportional to what has changed.

Rules
  1. One process does it at a time; others wait, and then find nothing left to do.
  2. What was read of a file is committed with its offset: killed anywhere, the next sync goes on exactly there.
     `STEPS` names the places.
  3. A file that cannot be read is named and costs no other. A file that has gone keeps its rows.

[merged: deep.py] Whether a file still has the bytes it had when it was read, all of them: for `unspool sync --deep`.

Without the archive only sessions that have not grown since can be compared, by what they say.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from unspool.errors import UnspoolError
from unspool.files.open import MAX_SIDE_FILE, read_whole
from unspool.graph.session_facts import Gathering
from unspool.paths import is_text
from unspool.prices.price_list import Price
from unspool.read.position import START, Change, Position
from unspool.read.scan import LINE_KINDS, Kind, Skipped, Source, Stamp, config_around
from unspool.store.archive.archive import Archive, Archived
from unspool.store.archive.frames import frames_of
from unspool.store.database import transaction
from unspool.store.sync.changes import WITHIN, Freshness, compare, edition_of, home_around, homes, pack, within
from unspool.store.sync.pool import Failed, gathered
from unspool.store.sync.read_file import Batch, Task, batches, task
from unspool.store.sync.write_rows import COLUMNS, OTHERS, Known, Writer
from unspool.store.usage.pricing import Pricing

STEPS = ("refilled", "looked", "read", "archived", "written", "counted", "committed", "missed", "done")
"""The places where a sync may be killed, in order; `read` to `committed` come once for each transaction. `refilled`
comes once for each file that a new store takes from the archive."""

_LINES = frozenset(kind.value for kind in LINE_KINDS)
_PORTION = 32 * 1024 * 1024
"""Bytes of files that are written in one transaction, at least."""
_LITTLE = 1024 * 1024
"""Bytes that may be held for others."""
_FILES = 256
"""Files at most."""

KEPT_WHOLE = frozenset(
    {Kind.AGENT_META, Kind.TOOL_RESULT, Kind.TODOS, Kind.TASK, Kind.PLAN, Kind.TITLE, Kind.WORKFLOW, Kind.MEMORY}
)
"""Side files that the archive keeps too, as they last were. Not settings, which may hold secrets, nor copies of the
user's own files."""


class Report(NamedTuple):
    """What a sync did."""

    files_seen: int
    files_changed: int
    bytes_read: int
    """Of files of lines."""
    lines_parsed: int
    rows_added: int
    generations: int
    """Files that became other files."""
    gone: int
    failed: tuple[Skipped, ...]
    seconds: float
    cpu_seconds: float
    peak_rss_bytes: int


class Wishes(NamedTuple):
    """How a sync is to be done."""

    archive: bool = True
    prices: tuple[Price, ...] = ()
    edition: str = ""
    """Of the prices: what `made_with` should say."""
    deep: bool = False
    """Compare every byte, not only stamps and samples."""
    workers: int | None = None
    advance: Callable[[int], None] = lambda _: None
    """Told how many bytes were read."""
    begin: Callable[[int], None] = lambda _: None
    """Told how many bytes there are to read."""
    at: Callable[[str], None] = lambda _: None
    """Told which of `STEPS` was reached."""
    fresh: dict[str, tuple[int, bytes]] | None = None
    """Takes what was read, by path, and where it begins, if all of it is little: for who would read it again."""


def sync(
    database: sqlite3.Connection, archive: Archive, root: Path, wishes: Wishes, freshness: Freshness | None = None
) -> Report:
    """Bring the store up to date with a folder. The lock is held by the caller."""
    began = (time.perf_counter(), _cpu())
    lost = wishes.archive and _lost(database, archive)
    if lost or freshness is None or freshness.edition != edition_of(database):
        freshness = compare(database, root)
    wishes.at("looked")
    work = _Work(database, archive, root, wishes)
    work.do(freshness)
    wishes.at("done")
    writer, found = work.writer, freshness.look
    return Report(
        files_seen=len(found.changed) + found.unchanged,
        files_changed=work.changed,
        bytes_read=work.bytes_read,
        lines_parsed=work.lines,
        rows_added=writer.added,
        generations=writer.generations,
        gone=len(freshness.gone),
        failed=(*found.skipped, *work.failed),
        seconds=round(time.perf_counter() - began[0], 6),
        cpu_seconds=round(_cpu() - began[1], 6),
        peak_rss_bytes=_peak(),
    )


def _lost(database: sqlite3.Connection, archive: Archive) -> bool:
    """Tell whether the archive was taken away; then all that is there is to be archived again."""
    if not archive.is_empty():
        return False
    kept = ", ".join(f"'{kind.value}'" for kind in KEPT_WHOLE)
    which = f"archived = 1 OR kind IN ({kept})"
    if database.execute(f"SELECT 1 FROM sources WHERE {which} LIMIT 1").fetchone() is None:
        return False
    with transaction(database):
        database.execute(f"UPDATE sources SET archived = 0, size = -1 WHERE ({which}) AND gone IS NULL")
        database.execute("UPDATE sources SET archived = 0 WHERE archived = 1")
    return True


class _Work:
    """One sync."""

    def __init__(self, database: sqlite3.Connection, archive: Archive, root: Path, wishes: Wishes) -> None:
        self._database, self._archive, self._root, self._wishes = database, archive, root, wishes
        self.writer = Writer(database, Pricing(wishes.prices))
        self._homes = homes(database)
        self._known: dict[str, Known] = {}
        self.changed = self.bytes_read = self.lines = 0
        self.failed: list[Skipped] = []

    def do(self, freshness: Freshness) -> None:
        """Do all there is to do."""
        sources = [source for source in freshness.look.changed if self._has_a_name(source)]
        with transaction(self._database):
            home = self._home()
            self._reprice()
        self._load(sources, everything=self._wishes.deep)
        tasks = list(self._tasks([source for source in sources if source.kind in LINE_KINDS]))
        others = [source for source in sources if source.kind not in LINE_KINDS]
        total = sum(size for size, _ in tasks)
        self._wishes.begin(total)
        if self._wishes.fresh is not None and total <= _LITTLE:
            tasks = [(size, replace(task, keep=True)) for size, task in tasks]
        self._lines(tasks, {source.place: source for source in sources})
        self._side_files(others)
        now = int(time.time() * 1000)
        with transaction(self._database):
            mark = "UPDATE sources SET gone = ? WHERE path = ?"
            self._database.executemany(mark, [(now, path) for path in freshness.gone])
            if self._is_whole(home):
                self._database.execute("UPDATE homes SET synced = ? WHERE id = ?", (now, home))
            pack(self._database)
        self._wishes.at("missed")

    def _has_a_name(self, source: Source) -> bool:
        if not is_text(source.place):
            self.failed.append(Skipped(source.path, "its name is not text"))
            return False
        return True

    def _home(self) -> int:
        """Return the home that the folder is in. A new one is the folder, or the config folder that it is a part of."""
        if found := home_around(self._homes, str(self._root)):
            return found.id
        id = self.writer.home(str(config_around(self._root) or self._root))
        self._homes = homes(self._database)
        return id

    def _is_whole(self, home: int) -> bool:
        """Tell whether the folder is all of its home: a part of it says nothing of the rest."""
        return any(row.id == home and row.path == str(self._root) for row in self._homes)

    def _reprice(self) -> None:
        """Count everything again if it was priced with another table."""
        query = "SELECT value FROM made_with WHERE name = 'prices'"
        row = self._database.execute(query).fetchone()
        if row == (self._wishes.edition,):
            return
        for home in self._homes:
            self.writer.reprice(home.id)
        self._database.execute("INSERT OR REPLACE INTO made_with VALUES ('prices', ?)", (self._wishes.edition,))

    def _load(self, sources: list[Source], *, everything: bool) -> None:
        """Look up what is known of the files that have changed."""
        if everything or len(sources) > 1000:
            query = f"SELECT {COLUMNS} FROM sources WHERE {WITHIN}"
            rows: Iterable[tuple[object, ...]] = self._database.execute(query, within(self._root))
        else:
            query = f"SELECT {COLUMNS} FROM sources WHERE path = ?"
            rows = (row for s in sources for row in self._database.execute(query, (s.place,)))
        self._known = {row[2]: Known(*row) for row in rows}  # type: ignore[misc,arg-type]

    def _tasks(self, sources: list[Source]) -> Iterator[tuple[int, Task]]:
        """Yield what is to be read, with how many bytes that is."""
        asked = {source.place for source in sources}
        for source in sources:
            known = self._known.get(source.place)
            if known is None or known.offset == 0:
                yield source.size, task(source, archived=self._wishes.archive)
            else:
                yield self._compared(source.size, known)
        if self._wishes.deep:
            for known in [*self._known.values()]:
                if known.path in asked or known.gone or known.kind not in _LINES:
                    continue
                size, compared = self._compared(known.size, known)
                if compared.rewritten:
                    yield size, compared
        if self._wishes.archive:
            query = f"SELECT {COLUMNS} FROM sources WHERE {WITHIN} AND archived = 0 AND offset > 0 AND gone IS NULL"
            for row in self._database.execute(query, within(self._root)).fetchall():
                known = Known(*row)
                if known.path not in asked and known.kind in _LINES:
                    self._known[known.path] = known
                    yield self._task(known.size, known)

    def _compared(self, size: int, known: Known) -> tuple[int, Task]:
        """Return what is to be read of a file that is known; with `deep`, all of it if a byte has changed."""
        much, task = self._task(size, known)
        if self._wishes.deep:
            pass

            if differs(known, task, self._archive):
                return size, replace(task, rewritten=True)
        return much, task

    def _task(self, size: int, known: Known) -> tuple[int, Task]:
        state = self._database.execute("SELECT state FROM states WHERE source_id = ?", (known.id,)).fetchone()
        again = self._wishes.archive and not known.archived
        position = Position(known.offset, known.device, known.inode, known.head, known.boundary)
        return size if again else max(size - known.offset, 0), Task(
            path=known.path,
            kind=known.kind,
            position=position,
            state=state[0] if state else b"",
            archived=self._wishes.archive,
            again=again,
        )

    def _lines(self, tasks: list[tuple[int, Task]], sources: dict[str, Source]) -> None:
        """Read files of lines and write what they say, a portion at a time."""
        portion: list[Batch] = []
        weight = 0
        for found in gathered(tasks, self._wishes.workers):
            if isinstance(found, Failed):
                self.failed.append(Skipped(Path(found.path), found.reason))
                continue
            portion.append(found)
            weight += found.position.offset - found.start + sum(len(frame.data) for frame in found.frames)
            self._wishes.advance(found.position.offset - found.start)
            if weight >= _PORTION or len(portion) >= _FILES:
                self._write(portion, sources)
                portion, weight = [], 0
        if portion:
            self._write(portion, sources)

    def _write(self, portion: list[Batch], sources: dict[str, Source]) -> None:
        at = self._wishes.at
        at("read")
        touched: dict[int, dict[str, None]] = {}
        known = self._known
        with transaction(self._database):
            for batch in portion:
                if batch.path not in known:
                    known[batch.path] = self._added(sources[batch.path])
            kept = self._keep(portion) if self._wishes.archive else set()
            at("archived")
            for batch in portion:
                row = known[batch.path]
                known[batch.path] = self.writer.batch(row, batch, archived=batch.path in kept)
                if batch.text and self._wishes.fresh is not None:
                    self._wishes.fresh[batch.path] = (batch.start, batch.text)
                touched.setdefault(row.home_id, {}).update(dict.fromkeys(one.id for one in batch.answers))
            self.writer.flush()
            at("written")
            for home_id, ids in touched.items():
                self.writer.recount(home_id, ids)
            at("counted")
        at("committed")
        self.changed += sum(batch.is_last and batch.change is not Change.SAME for batch in portion)
        self.bytes_read += sum(batch.bytes_read for batch in portion)
        self.lines += sum(batch.lines for batch in portion)

    def _added(self, source: Source) -> Known:
        home = home_around(self._homes, source.place)
        assert home is not None
        return self.writer.source(source, home.id)

    def _keep(self, portion: list[Batch]) -> set[str]:
        """Put the frames into the archive, before the store says that the lines were read; return what it has whole."""
        generations = {batch.path: self._known[batch.path].generation for batch in portion}
        kept = set(generations)
        with transaction(self._archive.database):
            for batch in portion:
                known = self._known[batch.path]
                generations[batch.path] += batch.change in OTHERS
                position = batch.position
                stamp = Stamp(batch.size, batch.modified, position.device, position.inode)
                about = self._about(known, generations[batch.path], stamp)
                if not self._archive.put(about, batch.frames, batch.start, position.offset, is_first=batch.is_first):
                    kept.discard(batch.path)
        return kept

    def _about(self, known: Known, generation: int, stamp: Stamp) -> Archived:
        home = home_around(self._homes, known.path)
        return Archived(
            id=0,
            home=home.path if home else str(self._root),
            path=known.path,
            generation=generation,
            kind=known.kind,
            project=known.project,
            session_id=known.session_id,
            agent_id=known.agent_id,
            device=stamp.device,
            inode=stamp.inode,
            modified=stamp.modified,
        )

    def _side_files(self, sources: list[Source]) -> None:
        """Read side files whole and write their rows, a portion at a time."""
        for first in range(0, len(sources), _FILES):
            portion = []
            for source in sources[first : first + _FILES]:
                try:
                    portion.append((source, self._content(source)))
                except UnspoolError as error:
                    self.failed.append(Skipped(source.path, error.message))
            self._wishes.at("read")
            with transaction(self._database):
                for source, _ in portion:
                    if source.place not in self._known:
                        self._known[source.place] = self._added(source)
                self._keep_whole(portion)
                self._wishes.at("archived")
                for source, data in portion:
                    self.writer.side_file(self._known[source.place], source, data)
                self._wishes.at("written")
            self._wishes.at("committed")
            self.changed += len(portion)

    def _content(self, source: Source) -> bytes:
        from unspool.store.sync.side_rows import NEEDS_CONTENT

        wanted = source.kind in NEEDS_CONTENT or (self._wishes.archive and source.kind in KEPT_WHOLE)
        return read_whole(source.path, MAX_SIDE_FILE) if wanted else b""

    def _keep_whole(self, portion: list[tuple[Source, bytes]]) -> None:
        """Put side files into the archive, each in place of what it was."""
        kept = [(source, data) for source, data in portion if source.kind in KEPT_WHOLE]
        if not kept or not self._wishes.archive:
            return
        with transaction(self._archive.database):
            for source, data in kept:
                stamp = Stamp(source.size, source.modified, source.device, source.inode)
                about = self._about(self._known[source.place], 1, stamp)
                self._archive.put(about, frames_of(data), 0, len(data), is_first=True)


def _cpu() -> float:
    """Return the seconds of this process and those it waited for."""
    import resource

    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def _peak() -> int:
    """Return the most memory that this process, or one it waited for, ever had."""
    import resource

    most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return most if sys.platform == "darwin" else most * 1024


def differs(known: Known, task: Task, archive: Archive) -> bool:
    """Tell whether the bytes before the offset have changed: by the archive, else by what they say."""
    try:
        if known.archived:
            return archive.differs(archive.find(known.path, known.generation), known.offset)
        *_, last = batches(replace(task, position=START, state=b"", archived=False))
        if last.position.offset != known.offset or not task.state:
            return False
        return _gathering(last.state) != _gathering(task.state)  # not the bytes: sets are written in any order
    except UnspoolError:  # gone or unreadable meanwhile: the next look will tell
        return False


_gathering = msgspec.msgpack.Decoder(Gathering).decode
