"""The store made again: from the archive all that it has, then from the files all that is there.

Rules
  1. Nothing is deleted: a store, or an archive, that is given up is moved aside.
  2. What a damaged archive has that can still be read goes into a new one.
  3. A file that is as it was when it was archived is not read again by the sync that follows.
  4. A new store takes all that the archive has before anything else: killed on the way, the next sync goes on there.
     Else what the archive has of a file would be taken for what is there now, and written over.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

from msgspec.structs import replace

from unspool.errors import UnspoolError
from unspool.read.position import Change
from unspool.read.scan import LINE_KINDS, Kind, Skipped, Source
from unspool.store.archive.archive import Archive, Archived
from unspool.store.database import ARCHIVE, STORE, open_archive, refuse_newer, transaction
from unspool.store.sync.changes import home_around, homes
from unspool.store.sync.read_file import Batch, Task, batches
from unspool.store.sync.sync import Wishes
from unspool.store.sync.write_rows import COLUMNS, Known, Writer
from unspool.store.usage.pricing import Pricing

_LINES = frozenset(kind.value for kind in LINE_KINDS)


def set_aside(folder: Path, name: str) -> Path | None:
    """Move a database, with what belongs to it, out of the way; return where to."""
    if not (folder / name).exists():
        return None
    # All of it is to be in one file, if that can be.
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(folder / name, timeout=0)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    number = next(n for n in range(1, 10_000) if not (folder / f"{name}.old-{n}").exists())
    for ending in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            (folder / f"{name}{ending}").rename(folder / f"{name}.old-{number}{ending}")
    return folder / f"{name}.old-{number}"


def set_store_aside(folder: Path) -> Path | None:
    """Move the store out of the way."""
    return set_aside(folder, STORE)


def is_sound(folder: Path) -> bool:
    """Tell whether the archive can be read, all of it. One made by a newer unspool is refused."""
    path = folder / ARCHIVE
    if not path.exists():
        return True
    try:
        with closing(sqlite3.connect(path)) as database:
            refuse_newer(path, database.execute("PRAGMA user_version").fetchone()[0])
            return bool(database.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.DatabaseError:
        return False


def salvage(folder: Path) -> tuple[int, int]:
    """Make a new archive of what a damaged one still has; return how many files were saved, and lost in part.

    It takes the place of the damaged one when it is finished.
    """
    with TemporaryDirectory(dir=folder, prefix="salvage-") as place:
        with (
            closing(sqlite3.connect(f"{(folder / ARCHIVE).resolve().as_uri()}?mode=ro", uri=True)) as damaged,
            closing(open_archive(Path(place))) as whole,
            transaction(whole),
        ):
            counted = [_saved(damaged, Archive(whole), about) for about in _readable(Archive(damaged))]
        set_aside(folder, ARCHIVE)
        (Path(place) / ARCHIVE).rename(folder / ARCHIVE)
    return counted.count(True), counted.count(False)


def rebuild(database: sqlite3.Connection, archive: Archive, wishes: Wishes, folder: Path) -> list[Skipped]:
    """Fill a new store from the archive, or go on with that; return what could not be read."""
    writer = Writer(database, Pricing(wishes.prices))
    failed = []
    taken = dict(database.execute("SELECT path, generation FROM sources").fetchall())
    for about in sorted(archive.files(), key=lambda about: (about.path, about.generation)):
        if taken.get(about.path, 0) >= about.generation:
            continue
        try:
            with transaction(database):
                holes = _file(database, writer, archive, about, folder)
        except UnspoolError as error:
            holes = [error]
        failed += [Skipped(Path(about.path), hole.message) for hole in holes]
        wishes.at("refilled")
    with transaction(database):
        if not taken:  # else a part was priced by another process, perhaps otherwise
            database.execute("INSERT OR REPLACE INTO made_with VALUES ('prices', ?)", (wishes.edition,))
        database.execute("INSERT OR REPLACE INTO made_with VALUES ('archive', 'taken in')")
    return failed


def _file(
    database: sqlite3.Connection, writer: Writer, archive: Archive, about: Archived, folder: Path
) -> list[UnspoolError]:
    """Take one file; return what is missing of it."""
    known = _known(database, writer, about)
    size = archive.length(about)
    holes: list[UnspoolError] = []
    if about.kind not in _LINES:
        data = b"".join(piece for _, piece in archive.read(about))
        writer.side_file(known, _source(about, size), data)
        return holes
    ids: set[str] = set()
    with NamedTemporaryFile(dir=folder, prefix="rebuild-") as copy:
        for _, piece in archive.read(about, holes):
            copy.write(piece)
        copy.flush()
        if holes:  # no file has this size: if it is there still, it is read and archived again
            size = -1
        for batch in batches(Task(copy.name, about.kind, archived=False, named=about.path)):
            known = writer.batch(known, _as_archived(batch, about, size), archived=not holes)
            ids.update(one.id for one in batch.answers)
    writer.recount(known.home_id, ids)
    return holes


def _known(database: sqlite3.Connection, writer: Writer, about: Archived) -> Known:
    row = database.execute(f"SELECT {COLUMNS} FROM sources WHERE path = ?", (about.path,)).fetchone()
    if row is None:
        found = home_around(homes(database), about.home)
        home_id = found.id if found and found.path == about.home else writer.home(about.home)
        return writer.source(_source(about, 0), home_id)._replace(generation=max(about.generation - 1, 1))
    return Known(*row)._replace(generation=max(about.generation - 1, 1))


def _as_archived(batch: Batch, about: Archived, size: int) -> Batch:
    """Return a batch of the copy as one of the file itself."""
    position = replace(batch.position, device=about.device, inode=about.inode)
    change = Change.REPLACED if batch.is_first and about.generation > 1 else Change.GROWN
    return replace(batch, path=about.path, position=position, change=change, size=size, modified=about.modified)


def _source(about: Archived, size: int) -> Source:
    return Source(
        place=about.path,
        kind=Kind(about.kind),
        size=size,
        modified=about.modified,
        project=about.project,
        session_id=about.session_id,
        agent_id=about.agent_id,
        device=about.device,
        inode=about.inode,
    )


def _saved(damaged: sqlite3.Connection, archive: Archive, about: Archived) -> bool:
    """Copy what can be read of one file; tell whether that is all of it."""
    frames = list(_frames(damaged, about.id))
    archive.put(about, [], 0, 0, is_first=True)
    id = archive.find(about.path, about.generation).id
    insert = "INSERT INTO frames (source_id, start, length, data) VALUES (?, ?, ?, ?)"
    archive.database.executemany(insert, [(id, *frame) for frame in frames])
    return all(start == end for (start, *_), end in zip(frames, _ends(frames), strict=True))


def _readable(archive: Archive) -> Iterator[Archived]:
    with suppress(sqlite3.DatabaseError):
        yield from archive.files()


def _frames(database: sqlite3.Connection, source_id: int) -> Iterator[tuple[int, int, bytes]]:
    starts = []
    with suppress(sqlite3.DatabaseError):
        query = "SELECT rowid FROM frames WHERE source_id = ? ORDER BY start"
        for (rowid,) in database.execute(query, (source_id,)):
            starts.append(rowid)
    for rowid in starts:
        with suppress(sqlite3.DatabaseError):
            yield database.execute("SELECT start, length, data FROM frames WHERE rowid = ?", (rowid,)).fetchone()


def _ends(frames: list[tuple[int, int, bytes]]) -> list[int]:
    return [0, *(start + length for start, length, _ in frames[:-1])] if frames else []
