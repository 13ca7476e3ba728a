"""Files of lines to a part of the column files, in several processes: tasks in, what was written out.

Rules
  1. A part is written by one process into a folder of its own, under a name that nobody reads yet.
  2. Rows go to the disk as they come: a process holds those of 16 MB of lines, and what a file's own end is needed for.
  3. A file that cannot be read costs no other. Processes end when the one that asked ends, however that ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from unspool.errors import NotFound, Unreadable, UnspoolError
from unspool.files.open import open_regular
from unspool.format.entry import Item
from unspool.read.chunks import LIMITS, read_at
from unspool.read.lines import LineBuffer
from unspool.read.tail import decode_lines
from unspool.store.columns.derive import Derivation, Place
from unspool.store.columns.parquet import File, sync_folder, write
from unspool.store.database import open_archive

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

CHUNK = 16 * 1024 * 1024
"""Bytes of lines whose rows are held at once."""
_BUNDLE = 32 * 1024 * 1024
"""Bytes of files that make a part."""
_FILES = 2000
WORTH_IT = 8 * 1024 * 1024
"""Bytes to read that are worth a second process."""


class Task(msgspec.Struct, frozen=True):
    """A file to derive."""

    path: str
    kind: str
    session_id: str | None
    agent_id: str | None
    source_id: int
    generation: int
    offset: int
    """How far it is to be read."""
    revision: int


class Bundle(msgspec.Struct, frozen=True):
    """The files of a part."""

    folder: str
    """Of the store."""
    part: str
    """Where to write, in the folder of the column files."""
    tasks: list[Task]


class Made(msgspec.Struct, frozen=True):
    """What became of a bundle."""

    part: str
    files: list[File]
    derived: list[Task]
    failed: list[tuple[str, str]]
    bytes_read: int
    weight: int
    """Of all its files: one that failed midway has left rows that are not current."""


class Rows:
    """Takes rows of many files and writes them."""

    def __init__(self, columns: Path, part: str) -> None:
        self._columns, self._part = columns, part
        self._held: dict[str, list[tuple[object, ...]]] = {}
        self._chunk = 0
        self.weight = 0
        """Bytes that the rows which are held were made from."""
        self.files: list[File] = []

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """Take a row."""
        self._held.setdefault(table, []).append(row)

    def flush(self) -> None:
        """Write what is held."""
        for table, rows in self._held.items():
            name = f"{self._part}/{table}.{self._chunk}.parquet"
            self.files.append(write(self._columns, name, table, rows))
        self._held, self.weight = {}, 0
        self._chunk += 1


def made(bundle: Bundle) -> Made:
    """Derive the files of a bundle and write them."""
    columns = Path(bundle.folder) / "columns"
    place = columns / bundle.part
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    rows = Rows(columns, bundle.part)
    derived, failed, read = [], [], 0
    for task in bundle.tasks:
        try:
            read += _derive(task, rows, Path(bundle.folder))
        except NotFound:  # gone, and not in the archive: there is nothing more to be had of it
            derived.append(task)
        except UnspoolError as error:
            failed.append((task.path, error.message))
        else:
            derived.append(task)
        if rows.weight >= CHUNK:
            rows.flush()
    rows.flush()
    sync_folder(place)
    weight = sum(task.offset + 1 for task in bundle.tasks)
    return Made(bundle.part, rows.files, derived, failed, read, weight)


def _derive(task: Task, rows: Rows, folder: Path) -> int:
    """Derive one file; return how many bytes were read."""
    place = Place(task.path, task.kind, task.session_id, task.agent_id)
    first = (task.revision, task.source_id)
    derivation = Derivation(place, lambda table, row: rows.add(table, first + row))
    read = 0
    for length, items in pieces(task, folder):
        read += length
        for item in items:
            derivation.take(item)
        rows.weight += length
        if rows.weight >= CHUNK:
            rows.flush()
    derivation.finish()
    return read


def pieces(task: Task, folder: Path) -> Iterator[tuple[int, list[Item]]]:
    """Yield what a file holds, as far as the store knows it: how many bytes were read, and items."""
    buffer = LineBuffer()
    for data in _bytes(task, folder):
        yield len(data), decode_lines(buffer.feed(data))
    yield 0, decode_lines(buffer.finish())


def _bytes(task: Task, folder: Path) -> Iterator[bytes]:
    """Yield the bytes of a file as far as the store knows them, from the archive if it has gone."""
    try:
        with open_regular(task.path) as file:
            reached = 0
            while data := read_at(file, reached, min(LIMITS.piece, task.offset - reached), task.path):
                reached += len(data)
                yield data
    except NotFound:
        if not task.offset:
            return
        yield from _archived(task, folder)


def _archived(task: Task, folder: Path) -> Iterator[bytes]:
    from unspool.store.archive.archive import Archive

    database = open_archive(folder)
    try:
        archive = Archive(database)
        for start, data in archive.read(archive.find(task.path, task.generation)):
            if start < task.offset:
                yield data[: task.offset - start]
    finally:
        database.close()


def bundles(folder: Path, tasks: Sequence[Task], names: Iterator[str]) -> list[Bundle]:
    """Return the tasks in bundles, the largest files first, so that no process is left with one at the end."""
    found: list[Bundle] = []
    room = 0
    for task in sorted(tasks, key=lambda task: -task.offset):
        if room < task.offset or not found or len(found[-1].tasks) == _FILES:
            found.append(Bundle(str(folder), next(names), []))
            room = _BUNDLE
        found[-1].tasks.append(task)
        room -= task.offset
    return found


def all_made(bundles: Sequence[Bundle], workers: int | None = None) -> Iterator[Made]:
    """Yield what became of each bundle, in whatever order they are ready."""
    if workers is None:
        much = sum(task.offset for bundle in bundles for task in bundle.tasks) > WORTH_IT
        workers = min(os.cpu_count() or 1, 8) if much else 1
    if workers < 2 or len(bundles) < 2:
        yield from map(made, bundles)
    else:
        yield from _by_workers(bundles, min(workers, len(bundles)))


_encode = msgspec.msgpack.Encoder().encode
_decode_bundle = msgspec.msgpack.Decoder(Bundle).decode
_decode_made = msgspec.msgpack.Decoder(Made).decode


def _by_workers(bundles: Sequence[Bundle], workers: int) -> Iterator[Made]:
    import multiprocessing
    from multiprocessing.connection import wait

    forks = sys.platform == "linux"
    context = multiprocessing.get_context("fork" if forks else "spawn")
    waiting, busy, processes = list(reversed(bundles)), list["Connection"](), []
    try:
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, [ours, *busy] if forks else []), daemon=True)  # type: ignore[attr-defined]
            process.start()
            theirs.close()
            busy.append(ours)
            processes.append(process)
        working = {connection for connection in busy if _gave(connection, waiting)}
        while working:
            for ready in wait(list(working)):
                connection = cast("Connection", ready)
                yield _decode_made(connection.recv_bytes())
                if not _gave(connection, waiting):
                    working.discard(connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        message = "a process that was making column files was ended from outside"
        raise Unreadable(message, hint="what was made is whole; the next `sql` goes on from there") from None
    finally:
        for connection in busy:
            connection.close()
        for process in processes:
            process.join()


def _gave(connection: Connection, waiting: list[Bundle]) -> bool:
    if waiting:
        connection.send_bytes(_encode(waiting.pop()))
        return True
    return False


def _work(connection: Connection, others: list[Connection]) -> None:
    """Make what is asked for until nobody asks any more."""
    for other in others:  # copies of the asker's own ends: held open here, they would hide that it has gone
        other.close()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        while True:
            connection.send_bytes(_encode(made(_decode_bundle(connection.recv_bytes()))))
    if sys.platform == "linux":
        os._exit(0)  # what was inherited with the fork is not ours to close
