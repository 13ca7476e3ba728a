"""Brings the store up to date with a folder, in time proportional to what has changed.

Rules
  1. One process does it at a time; others wait, and then find nothing left to do.
  2. What was read of a file is committed with its offset: killed anywhere, the next sync goes on exactly there.
     `STEPS` names the places. The order is: archive, then rows, then (with the rows) the position.
  3. A file that cannot be read is named and costs no other. A file that has gone keeps its rows.
  4. A new store first takes in all that the archive has (`rebuild.py`).
  5. `unspool sync --deep` compares every byte that was read with the archive. Without the archive only sessions that
     have not grown since can be compared, by the facts read from them.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from unspool.errors import UnspoolError
from unspool.files import MAX_SIDE_FILE, open_regular, read_whole
from unspool.graph import FactsCollector
from unspool.paths import is_encodable
from unspool.prices import Price
from unspool.read import LINE_KINDS, START, Change, Kind, Position, Skipped, Source, Stamp, find_config_folder
from unspool.store.answer_rows import PriceLookup
from unspool.store.archive.archive import Archive, ArchivedFile, split_into_frames
from unspool.store.database import IN_FOLDER, folder_parameters, locked, open_archive, transaction
from unspool.store.sync.changes import (
    SOURCE_COLUMNS,
    FolderChanges,
    SourceRow,
    compare_with_disk,
    data_version,
    find_home,
    has_prices,
    is_filled,
    pack_stamps,
    read_homes,
)
from unspool.store.sync.read_file import Batch, FailedRead, ReadTask, read_batches, read_or_fail
from unspool.store.sync.write_rows import NEW_GENERATION_CHANGES, RowWriter, update_largest_windows

STEPS = ("refilled", "looked", "read", "archived", "written", "counted", "committed", "missed", "done")
"""The places where a sync may be killed, in order; `read` to `committed` come once for each transaction. `refilled`
comes once for each file that a new store takes from the archive."""

ARCHIVED_SIDE_KINDS = frozenset(
    {Kind.AGENT_META, Kind.TOOL_RESULT, Kind.TODOS, Kind.TASK, Kind.PLAN, Kind.TITLE, Kind.WORKFLOW, Kind.MEMORY}
)
"""Side files that the archive keeps too, as they last were. Not settings, which may hold secrets, nor copies of the
user's own files."""

_LINE_KINDS = frozenset(kind.value for kind in LINE_KINDS)
_TRANSACTION_BYTES = 32 * 1024 * 1024
"""Bytes of files that are written in one transaction, at least."""
_TRANSACTION_FILES = 256
"""Files that are written in one transaction, at most."""
_MAX_KEPT_TEXT = 1024 * 1024
"""Bytes that are kept for the text index."""

_decode_gathering = msgspec.msgpack.Decoder(FactsCollector).decode


class SyncReport(NamedTuple):
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


def combine_reports(reports: Sequence[SyncReport]) -> SyncReport:
    """Return what the syncs of several folders did, as one."""
    sums = {name: sum(getattr(report, name) for report in reports) for name in SyncReport._fields if name not in _APART}
    failed = tuple(sorted(failed for report in reports for failed in report.failed))
    return SyncReport(**sums, failed=failed, peak_rss_bytes=max(report.peak_rss_bytes for report in reports))


_APART = ("failed", "peak_rss_bytes")
"""Fields of a report that are not added up."""


class SyncOptions(NamedTuple):
    """How a sync is done, and callbacks for its progress."""

    archive: bool = True
    prices: tuple[Price, ...] = ()
    price_edition: str = ""
    """The id of the prices, kept in `made_with`."""
    deep: bool = False
    """Compare every byte, not only stamps and samples."""
    workers: int | None = None
    on_progress: Callable[[int], None] = lambda _: None
    """Called with how many bytes were read."""
    on_start: Callable[[int], None] = lambda _: None
    """Called with how many bytes there are to read."""
    on_step: Callable[[str], None] = lambda _: None
    """Called with each of `STEPS` that is reached."""
    texts: dict[str, tuple[int, bytes]] | None = None
    """Filled with what was read, by path, and where it begins, if all of it is little: the text index needs it next."""


def update_store(
    database: sqlite3.Connection,
    root: Path,
    folder: Path,
    options: SyncOptions,
    changes: FolderChanges | None = None,
    *,
    on_lost: Callable[[Skipped], None] = lambda _: None,
) -> SyncReport:
    """Bring the store in a folder up to date with a root, under its lock.

    `on_lost` is called with each file that a new store could not take whole from the archive.
    """
    with closing(open_archive(folder)) as archive_database, locked(folder):
        archive = Archive(archive_database)
        if not is_filled(database):
            # The store is new, or was deleted. What Claude Code has deleted meanwhile is only in the archive, and the
            # changes were found before it is taken in.
            changes = None
            for lost in fill_from_archive(database, archive, options, folder):
                on_lost(lost)
        return sync_folder(database, archive, root, options, changes)


def sync_folder(
    database: sqlite3.Connection,
    archive: Archive,
    root: Path,
    options: SyncOptions,
    changes: FolderChanges | None = None,
) -> SyncReport:
    """Bring the store up to date with a folder. The lock is held by the caller."""
    began, (cpu_before, _) = time.perf_counter(), _measure_resources()
    was_lost = options.archive and _forget_lost_archive(database, archive)
    if was_lost or changes is None or changes.edition != data_version(database):
        changes = compare_with_disk(database, root)
    options.on_step("looked")
    sync = _Sync(database, archive, root, options)
    sync.run(changes)
    options.on_step("done")
    cpu_seconds, peak_bytes = _measure_resources()
    return SyncReport(
        files_seen=len(changes.look.changed) + changes.look.unchanged,
        files_changed=sync.changed,
        bytes_read=sync.bytes_read,
        lines_parsed=sync.lines,
        rows_added=sync.writer.added,
        generations=sync.writer.generations,
        gone=len(changes.gone),
        failed=(*changes.look.skipped, *sync.failed),
        seconds=round(time.perf_counter() - began, 6),
        cpu_seconds=round(cpu_seconds - cpu_before, 6),
        peak_rss_bytes=peak_bytes,
    )


def fill_from_archive(
    database: sqlite3.Connection, archive: Archive, options: SyncOptions, folder: Path
) -> list[Skipped]:
    """Take all that the archive has into a new store, or go on with that; return what could not be read."""
    is_new = database.execute("SELECT 1 FROM sources LIMIT 1").fetchone() is None
    failed = []
    if not archive.is_empty():
        # Nearly every new store has an empty archive: only the others load what reads it.
        from unspool.store.sync.rebuild import restore_files

        failed = restore_files(database, archive, folder, options.prices, options.on_step)
    with transaction(database):
        if is_new:  # else a part was priced by another process, perhaps otherwise
            database.execute("INSERT OR REPLACE INTO made_with VALUES ('prices', ?)", (options.price_edition,))
        database.execute("INSERT OR REPLACE INTO made_with VALUES ('archive', 'taken in')")
    return failed


def _forget_lost_archive(database: sqlite3.Connection, archive: Archive) -> bool:
    """Tell whether the archive was taken away; then all that is there is marked to be archived again."""
    if not archive.is_empty():
        return False
    kinds = ", ".join(f"'{kind.value}'" for kind in ARCHIVED_SIDE_KINDS)
    which = f"archived = 1 OR kind IN ({kinds})"
    if database.execute(f"SELECT 1 FROM sources WHERE {which} LIMIT 1").fetchone() is None:
        return False
    with transaction(database):
        database.execute(f"UPDATE sources SET archived = 0, size = -1 WHERE ({which}) AND gone IS NULL")
        database.execute("UPDATE sources SET archived = 0 WHERE archived = 1")
    return True


def read_files(tasks: Sequence[tuple[int, ReadTask]], workers: int | None = None) -> Iterator[Batch | FailedRead]:
    """Yield the batches of files, read by several processes if that pays; a task comes with the bytes to read."""
    if len(tasks) > 1:
        from unspool.store.worker_processes import choose_workers  # most syncs read one file

        workers = choose_workers(sum(size for size, _ in tasks), workers)
        if workers > 1:
            from unspool.store.sync.pool import read_in_processes  # most syncs read little

            yield from read_in_processes(tasks, workers)
            return
    for _, task in tasks:
        yield from read_or_fail(task)


class _Sync:
    """One sync."""

    def __init__(self, database: sqlite3.Connection, archive: Archive, root: Path, options: SyncOptions) -> None:
        self._database, self._archive, self._root, self._options = database, archive, root, options
        self.writer = RowWriter(database, PriceLookup(options.prices))
        self._homes = read_homes(database)
        self._known: dict[str, SourceRow] = {}
        self.changed = self.bytes_read = self.lines = 0
        self.failed: list[Skipped] = []

    def run(self, changes: FolderChanges) -> None:
        """Do all there is to do."""
        sources = []
        for source in changes.look.changed:
            if is_encodable(source.place):
                sources.append(source)
            else:
                self.failed.append(Skipped(source.path, "its name is not valid UTF-8"))
        with transaction(self._database):
            home = self._find_or_add_home()
            self._reprice_if_needed()
        self._load_known(sources)
        tasks = list(self._plan([source for source in sources if source.kind in LINE_KINDS]))
        total = sum(size for size, _ in tasks)
        self._options.on_start(total)
        if self._options.texts is not None and total <= _MAX_KEPT_TEXT:
            tasks = [(size, replace(task, keep_text=True)) for size, task in tasks]
        self._sync_lines(tasks, {source.place: source for source in sources})
        self._sync_side_files([source for source in sources if source.kind not in LINE_KINDS])
        now = int(time.time() * 1000)
        with transaction(self._database):
            gone = [(now, path) for path in changes.gone]
            self._database.executemany("UPDATE sources SET gone = ? WHERE path = ?", gone)
            # Only a sync of all of a home makes it synced: a part of it says nothing of the rest.
            synced = "UPDATE homes SET synced = ? WHERE id = ? AND path = ?"
            self._database.execute(synced, (now, home, str(self._root)))
            pack_stamps(self._database)
            update_largest_windows(self._database, self._homes_without_windows())
        self._options.on_step("missed")

    def _homes_without_windows(self) -> set[int]:
        """Return the homes whose largest window may be another one now; a killed sync leaves them without a row."""
        query = "SELECT id FROM homes WHERE id NOT IN (SELECT home_id FROM largest_windows)"
        return self.writer.changed_homes | {id for (id,) in self._database.execute(query)}

    def _find_or_add_home(self) -> int:
        """Return the home that the folder is in. A new one is the folder, or the config folder that it is a part of."""
        if home := find_home(self._homes, str(self._root)):
            return home.id
        id = self.writer.add_home(str(find_config_folder(self._root) or self._root))
        self._homes = read_homes(self._database)
        return id

    def _reprice_if_needed(self) -> None:
        """Price and count everything again if it was priced with another table."""
        edition = self._options.price_edition
        if has_prices(self._database, edition):
            return
        for home in self._homes:
            self.writer.reprice(home.id)
        self._database.execute("INSERT OR REPLACE INTO made_with VALUES ('prices', ?)", (edition,))

    def _load_known(self, sources: list[Source]) -> None:
        """Look up what is known of the files that have changed; of all files if every byte is to be compared."""
        rows: Iterable[SourceRow]
        if self._options.deep or len(sources) > 1000:
            rows = self._select(IN_FOLDER, folder_parameters(self._root))
        else:
            rows = (row for source in sources for row in self._select("path = :path", {"path": source.place}))
        self._known = {row.path: row for row in rows}

    def _select(self, where: str, parameters: dict[str, str]) -> Iterator[SourceRow]:
        query = f"SELECT {SOURCE_COLUMNS} FROM sources WHERE {where}"
        return map(SourceRow._make, self._database.execute(query, parameters))

    def _plan(self, sources: list[Source]) -> Iterator[tuple[int, ReadTask]]:
        """Yield what is to be read, with how many bytes that is."""
        changed = {source.place for source in sources}
        archived = self._options.archive
        for source in sources:
            known = self._known.get(source.place)
            if known is None or known.offset == 0:
                yield source.size, ReadTask(source.place, source.kind.value, archived=archived)
            else:
                yield self._plan_known(source.size, known)
        if self._options.deep:
            for known in [*self._known.values()]:
                if known.path in changed or known.gone or known.kind not in _LINE_KINDS:
                    continue
                size, task = self._plan_known(known.size, known)
                if task.is_rewritten:
                    yield size, task
        if archived:  # what was read while the archive was off
            where = f"{IN_FOLDER} AND archived = 0 AND offset > 0 AND gone IS NULL"
            for known in list(self._select(where, folder_parameters(self._root))):
                if known.path not in changed and known.kind in _LINE_KINDS:
                    self._known[known.path] = known
                    yield self._continue(known.size, known)

    def _plan_known(self, size: int, known: SourceRow) -> tuple[int, ReadTask]:
        """Return what is to be read of a file that is known; with `deep`, all of it if a byte has changed."""
        unread, task = self._continue(size, known)
        if self._options.deep and has_changed_bytes(known, task, self._archive):
            return size, replace(task, is_rewritten=True)
        return unread, task

    def _continue(self, size: int, known: SourceRow) -> tuple[int, ReadTask]:
        state = self._database.execute("SELECT state FROM states WHERE source_id = ?", (known.id,)).fetchone()
        # A session without a state: its facts were made by other rules (`command_turns.sql`).
        lacks_facts = known.kind == Kind.SESSION.value and known.offset > 0 and not state
        reread = (self._options.archive and not known.archived) or lacks_facts
        return size if reread else max(size - known.offset, 0), ReadTask(
            path=known.path,
            kind=known.kind,
            position=Position(known.offset, known.device, known.inode, known.head, known.boundary),
            state=state[0] if state else b"",
            archived=self._options.archive,
            reread=reread,
        )

    def _sync_lines(self, tasks: list[tuple[int, ReadTask]], sources: dict[str, Source]) -> None:
        """Read files of lines and write their rows, one transaction after another."""
        portion: list[Batch] = []
        weight = 0
        for result in read_files(tasks, self._options.workers):
            if isinstance(result, FailedRead):
                self.failed.append(Skipped(Path(result.path), result.reason))
                continue
            if result.unread:
                self.failed.append(Skipped(Path(result.path), result.unread))
            portion.append(result)
            length = result.position.offset - result.start
            weight += length + sum(len(frame.data) for frame in result.frames)
            self._options.on_progress(length)
            if weight >= _TRANSACTION_BYTES or len(portion) >= _TRANSACTION_FILES:
                self._write(portion, sources)
                portion, weight = [], 0
        if portion:
            self._write(portion, sources)

    def _write(self, portion: list[Batch], sources: dict[str, Source]) -> None:
        on_step, known = self._options.on_step, self._known
        on_step("read")
        ids_by_home: dict[int, dict[str, None]] = {}
        with transaction(self._database):
            for batch in portion:
                if batch.path not in known:
                    self._add_source(sources[batch.path])
            # The archive commits first: killed in between, the same bytes are archived again in the same place. The
            # other way round they would be lost.
            whole = self._archive_batches(portion) if self._options.archive else set()
            on_step("archived")
            for batch in portion:
                row = known[batch.path]
                known[batch.path] = self.writer.write_batch(row, batch, archived=batch.path in whole)
                if batch.text and self._options.texts is not None:
                    self._options.texts[batch.path] = (batch.start, batch.text)
                ids_by_home.setdefault(row.home_id, {}).update(
                    dict.fromkeys(response.id for response in batch.responses)
                )
            self.writer.flush()
            on_step("written")
            for home_id, ids in ids_by_home.items():
                self.writer.recount(home_id, ids)
            on_step("counted")
        on_step("committed")
        self.changed += sum(batch.is_last and batch.change is not Change.SAME for batch in portion)
        self.bytes_read += sum(batch.bytes_read for batch in portion)
        self.lines += sum(batch.lines for batch in portion)

    def _add_source(self, source: Source) -> None:
        home = find_home(self._homes, source.place)
        assert home is not None
        self._known[source.place] = self.writer.add_source(source, home.id)

    def _archive_batches(self, portion: list[Batch]) -> set[str]:
        """Put the frames of batches into the archive; return the files that it has without a gap."""
        generations = {batch.path: self._known[batch.path].generation for batch in portion}
        whole = set(generations)
        with transaction(self._archive.database):
            for batch in portion:
                generations[batch.path] += batch.change in NEW_GENERATION_CHANGES
                position = batch.position
                stamp = Stamp(batch.size, batch.modified, position.device, position.inode)
                file = self._archived_file(self._known[batch.path], generations[batch.path], stamp)
                if not self._archive.put(file, batch.frames, batch.start, position.offset, is_first=batch.is_first):
                    whole.discard(batch.path)
        return whole

    def _archived_file(self, known: SourceRow, generation: int, stamp: Stamp) -> ArchivedFile:
        home = find_home(self._homes, known.path)
        place = (home.path if home else str(self._root), known.path, generation, known.kind)
        owner = (known.project, known.session_id, known.agent_id)
        return ArchivedFile(0, *place, *owner, stamp.device, stamp.inode, stamp.modified)

    def _sync_side_files(self, sources: list[Source]) -> None:
        """Read side files whole and write their rows, one transaction after another."""
        on_step = self._options.on_step
        for first in range(0, len(sources), _TRANSACTION_FILES):
            portion = []
            for source in sources[first : first + _TRANSACTION_FILES]:
                try:
                    portion.append((source, self._read_side_file(source)))
                except UnspoolError as error:
                    self.failed.append(Skipped(source.path, error.reason))
            on_step("read")
            with transaction(self._database):
                for source, _ in portion:
                    if source.place not in self._known:
                        self._add_source(source)
                if self._options.archive:
                    self._archive_side_files(portion)
                on_step("archived")
                for source, data in portion:
                    self.writer.write_side_file(self._known[source.place], source, data)
                on_step("written")
            on_step("committed")
            self.changed += len(portion)

    def _read_side_file(self, source: Source) -> bytes:
        from unspool.store.sync.side_rows import NEEDS_CONTENT  # most syncs have no side file

        is_archived = self._options.archive and source.kind in ARCHIVED_SIDE_KINDS
        if is_archived or source.kind in NEEDS_CONTENT:
            return read_whole(source.path, MAX_SIDE_FILE)
        with open_regular(source.path):  # it is not read, but whether it can be is reported as for all others
            return b""

    def _archive_side_files(self, portion: list[tuple[Source, bytes]]) -> None:
        """Put side files into the archive, each in place of what it was."""
        kept = [(source, data) for source, data in portion if source.kind in ARCHIVED_SIDE_KINDS]
        if not kept:
            return
        with transaction(self._archive.database):
            for source, data in kept:
                stamp = Stamp(source.size, source.modified, source.device, source.inode)
                file = self._archived_file(self._known[source.place], 1, stamp)
                self._archive.put(file, split_into_frames(data), 0, len(data), is_first=True)


def has_changed_bytes(known: SourceRow, task: ReadTask, archive: Archive) -> bool:
    """Tell whether the bytes before the offset have changed: by the archive, else by the facts read from them."""
    try:
        if known.archived:
            return archive.differs(archive.find(known.path, known.generation), known.offset)
        *_, last = read_batches(replace(task, position=START, state=b"", archived=False))
        if last.position.offset != known.offset or not task.state:
            return False
        # Decoded, not the bytes: sets are written in any order.
        return _decode_gathering(last.state) != _decode_gathering(task.state)
    except UnspoolError:  # gone or unreadable meanwhile: the next sync will find that out
        return False


def _measure_resources() -> tuple[float, int]:
    """Return the processor seconds and the largest memory, in bytes, of this process and those it waited for."""
    import resource

    own, ended = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024  # kilobytes everywhere but on macOS
    return time.process_time() + ended.ru_utime + ended.ru_stime, max(own.ru_maxrss, ended.ru_maxrss) * unit
