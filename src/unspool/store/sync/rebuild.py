"""Fills a new store from the archive, and saves what a damaged archive still has.

Rules
  1. Nothing is deleted: a store, or an archive, that is given up is moved aside.
  2. What a damaged archive has that can still be read goes into a new one.
  3. A file that is as it was when it was archived is not read again by the sync that follows.
  4. A new store takes all that the archive has before anything else: killed on the way, the next sync goes on there.
     Else what the archive has of a file would be taken for what is there now, and written over.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

from msgspec.structs import replace

from unspool.errors import UnspoolError
from unspool.prices import Price
from unspool.read import LINE_KINDS, Change, Kind, Skipped, Source
from unspool.store.answer_rows import PriceLookup
from unspool.store.archive.archive import Archive, ArchivedFile
from unspool.store.database import ARCHIVE, open_archive, refuse_newer, transaction
from unspool.store.sync.changes import SOURCE_COLUMNS, SourceRow, find_home, read_homes
from unspool.store.sync.read_file import Batch, ReadTask, read_batches
from unspool.store.sync.write_rows import RowWriter

_LINE_KINDS = frozenset(kind.value for kind in LINE_KINDS)


def set_aside(folder: Path, name: str) -> Path | None:
    """Move a database, with what belongs to it, out of the way; return where to."""
    if not (folder / name).exists():
        return None
    if (folder / name).is_file():
        # Else the last transactions would stay behind in the write-ahead log, which has another name.
        with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(folder / name, timeout=0)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    number = next(n for n in range(1, 10_000) if not (folder / f"{name}.old-{n}").exists())
    for ending in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            (folder / f"{name}{ending}").rename(folder / f"{name}.old-{number}{ending}")
    return folder / f"{name}.old-{number}"


def is_archive_sound(folder: Path) -> bool:
    """Tell whether the archive can be read, all of it. One made by a newer unspool is refused."""
    path = folder / ARCHIVE
    if not path.exists():
        return True
    if not path.is_file():
        return False
    try:
        with closing(sqlite3.connect(path)) as database:
            refuse_newer(path, database.execute("PRAGMA user_version").fetchone()[0])
            return bool(database.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.DatabaseError:
        return False


def salvage_archive(folder: Path) -> tuple[int, int]:
    """Make a new archive of what a damaged one still has; return how many files were saved, and lost in part.

    It takes the place of the damaged one when it is finished.
    """
    if not (folder / ARCHIVE).is_file():  # a folder, or a pipe, on which SQLite would wait for ever
        set_aside(folder, ARCHIVE)
        return 0, 0
    with TemporaryDirectory(dir=folder, prefix="salvage-") as place:
        with (
            closing(sqlite3.connect(f"{(folder / ARCHIVE).resolve().as_uri()}?mode=ro", uri=True)) as damaged,
            closing(open_archive(Path(place))) as whole,
            transaction(whole),
        ):
            counted = [_copy_frames(damaged, Archive(whole), file) for file in _readable_files(Archive(damaged))]
        set_aside(folder, ARCHIVE)  # only now: killed before, the damaged one is still in its place
        (Path(place) / ARCHIVE).rename(folder / ARCHIVE)
    return counted.count(True), counted.count(False)


def restore_files(
    database: sqlite3.Connection,
    archive: Archive,
    folder: Path,
    prices: Sequence[Price],
    on_step: Callable[[str], None],
) -> list[Skipped]:
    """Write the rows of all files in the archive that the store does not have; return what could not be read."""
    writer = RowWriter(database, PriceLookup(prices))
    failed = []
    restored = dict(database.execute("SELECT path, generation FROM sources").fetchall())
    for file in sorted(archive.files(), key=lambda file: (file.path, file.generation)):
        if restored.get(file.path, 0) >= file.generation:
            continue
        try:
            with transaction(database):
                holes = _restore(database, writer, archive, file, folder)
        except UnspoolError as error:
            holes = [error]
        failed += [Skipped(Path(file.path), hole.message) for hole in holes]
        on_step("refilled")
    return failed


def _restore(
    database: sqlite3.Connection, writer: RowWriter, archive: Archive, file: ArchivedFile, folder: Path
) -> list[UnspoolError]:
    """Write the rows of one file; return what is missing of it."""
    known = _find_or_add_source(database, writer, file)
    size = archive.length(file)
    holes: list[UnspoolError] = []
    if file.kind not in _LINE_KINDS:
        data = b"".join(piece for _, piece in archive.read(file))
        writer.write_side_file(known, _source(file, size), data)
        return holes
    ids: set[str] = set()
    with NamedTemporaryFile(dir=folder, prefix="rebuild-") as copy:
        for _, piece in archive.read(file, holes):
            copy.write(piece)
        copy.flush()
        if holes:  # no file has this size: if it is there still, it is read and archived again
            size = -1
        for batch in read_batches(ReadTask(copy.name, file.kind, archived=False, known_path=file.path)):
            known = writer.write_batch(known, _as_archived(batch, file, size), archived=not holes)
            ids.update(response.id for response in batch.responses)
    writer.recount(known.home_id, ids)
    return holes


def _find_or_add_source(database: sqlite3.Connection, writer: RowWriter, file: ArchivedFile) -> SourceRow:
    row = database.execute(f"SELECT {SOURCE_COLUMNS} FROM sources WHERE path = ?", (file.path,)).fetchone()
    if row is None:
        home = find_home(read_homes(database), file.home)
        home_id = home.id if home and home.path == file.home else writer.add_home(file.home)
        known = writer.add_source(_source(file, 0), home_id)
    else:
        known = SourceRow(*row)
    return known._replace(generation=max(file.generation - 1, 1))


def _as_archived(batch: Batch, file: ArchivedFile, size: int) -> Batch:
    """Return a batch of the temporary copy as one of the file itself."""
    position = replace(batch.position, device=file.device, inode=file.inode)
    change = Change.REPLACED if batch.is_first and file.generation > 1 else Change.GROWN
    return replace(batch, path=file.path, position=position, change=change, size=size, modified=file.modified)


def _source(file: ArchivedFile, size: int) -> Source:
    owner = (file.project, file.session_id, file.agent_id)
    return Source(file.path, Kind(file.kind), size, file.modified, *owner, file.device, file.inode)


def _copy_frames(damaged: sqlite3.Connection, archive: Archive, file: ArchivedFile) -> bool:
    """Copy what can be read of one file; tell whether that is all of it."""
    frames = list(_readable_frames(damaged, file.id))
    archive.put(file, [], 0, 0, is_first=True)
    id = archive.find(file.path, file.generation).id
    insert = "INSERT INTO frames (source_id, start, length, data) VALUES (?, ?, ?, ?)"
    archive.database.executemany(insert, [(id, *frame) for frame in frames])
    ends = [0, *(start + length for start, length, _ in frames)]
    return all(start == end for (start, *_), end in zip(frames, ends, strict=False))


def _readable_files(archive: Archive) -> Iterator[ArchivedFile]:
    with suppress(sqlite3.DatabaseError, UnspoolError):
        yield from archive.files()


def _readable_frames(database: sqlite3.Connection, source_id: int) -> Iterator[tuple[int, int, bytes]]:
    rowids = []
    with suppress(sqlite3.DatabaseError):
        query = "SELECT rowid FROM frames WHERE source_id = ? ORDER BY start"
        for (rowid,) in database.execute(query, (source_id,)):
            rowids.append(rowid)
    for rowid in rowids:  # one by one: a damaged page costs the frames on it and no other
        with suppress(sqlite3.DatabaseError):
            frame = database.execute("SELECT start, length, data FROM frames WHERE rowid = ?", (rowid,)).fetchone()
            if frame is not None:  # an index may name rows that a damaged table has lost
                yield frame
