"""Derives session files into parts of the column files, in several processes.

Rules
  1. A part is written by one process into a folder of its own, under a name that no manifest contains yet.
  2. Rows are written as they come: a process holds the rows of 16 MB of lines, and what needs the end of a file.
  3. A file that cannot be read does not keep the others from being derived.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from unspool.errors import NotFound, Unreadable, UnspoolError
from unspool.files import flush_folder, open_with_status, read_at
from unspool.format import Item
from unspool.read import LIMITS, LineBuffer, decode_lines
from unspool.store.columns.derive import FileDerivation, SourceFile
from unspool.store.columns.manifest import COLUMNS_FOLDER
from unspool.store.columns.parquet import ColumnFile, PartWriter
from unspool.store.database import open_archive
from unspool.store.sync.changes import SourceRow
from unspool.store.worker_processes import answer_messages, bundle_tasks, choose_workers

_BUNDLE_BYTES = 32 * 1024 * 1024
"""Bytes of session files that make a part."""
_BUNDLE_FILES = 2000


class DeriveTask(msgspec.Struct, frozen=True):
    """A session file to derive, as far as the store has read it."""

    source: SourceRow
    revision: int
    """What marks its new rows."""


class DeriveBundle(msgspec.Struct, frozen=True):
    """The session files whose rows make one part."""

    folder: str
    """The folder of the store."""
    name: str
    """The name of the part."""
    tasks: list[DeriveTask]


class DerivedPart(msgspec.Struct, frozen=True):
    """A part that was written, and what became of each session file in its bundle."""

    name: str
    files: list[ColumnFile]
    derived: list[DeriveTask]
    failed: list[tuple[str, str]]
    """Paths that could not be read, and why."""
    bytes_read: int
    weight: int
    """Of all its session files: one that failed midway has left rows that are not current."""


def derive_bundle(bundle: DeriveBundle) -> DerivedPart:
    """Derive the session files of a bundle and write their rows."""
    columns = Path(bundle.folder) / COLUMNS_FOLDER
    folder = columns / "parts" / bundle.name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    writer = PartWriter(columns, f"parts/{bundle.name}")
    derived, failed, read = [], [], 0
    for task in bundle.tasks:
        try:
            read += _derive_file(task, writer, Path(bundle.folder))
        except NotFound:
            pass  # deleted, and not in the archive: there will never be more of it, so it counts as derived
        except UnspoolError as error:
            failed.append((task.source.path, error.reason))
            continue
        derived.append(task)
    writer.flush()
    flush_folder(folder)
    weight = sum(task.source.offset + 1 for task in bundle.tasks)
    return DerivedPart(bundle.name, writer.files, derived, failed, read, weight)


def _derive_file(task: DeriveTask, writer: PartWriter, folder: Path) -> int:
    """Derive one session file; return how many bytes were read."""
    source, agent = task.source, task.source.agent_id
    if source.kind == "agent" and agent is None:  # its name has no id
        agent = Path(source.path).stem
    file = SourceFile(source.path, source.kind, source.session_id, agent)
    key = (task.revision, source.id)
    derivation = FileDerivation(file, lambda table, row: writer.add(table, key + row))
    read = 0
    for length, items in read_items(source, folder):
        read += length
        for item in items:
            derivation.add(item)
        writer.add_source_bytes(length)
    derivation.finish()
    return read


def read_items(source: SourceRow, folder: Path) -> Iterator[tuple[int, list[Item]]]:
    """Yield a session file as far as the store has read it, in chunks: the bytes read, and the decoded lines."""
    buffer = LineBuffer()
    for data in _read_bytes(source, folder):
        yield len(data), decode_lines(buffer.feed(data))
    yield 0, decode_lines(buffer.finish())


def _read_bytes(source: SourceRow, folder: Path) -> Iterator[bytes]:
    """Yield the bytes of a session file as far as the store has read it; from the archive if it cannot be opened."""
    try:
        file, _ = open_with_status(source.path)
    except (NotFound, Unreadable) as error:  # deleted, or the right to read it was taken away since the store read it
        if source.offset or not isinstance(error, NotFound):
            yield from _read_archived(source, folder, error)
        return
    try:
        reached = 0
        while data := read_at(file, reached, min(LIMITS.piece, source.offset - reached), source.path):
            reached += len(data)
            yield data
    finally:
        os.close(file)


def _read_archived(source: SourceRow, folder: Path, error: UnspoolError) -> Iterator[bytes]:
    """Yield what the archive has of a session file, as far as the store has read it; raise the error if it has none."""
    from unspool.store.archive.archive import Archive  # hardly ever needed

    with closing(open_archive(folder)) as database:
        archive = Archive(database)
        try:
            found = archive.find(source.path, source.generation)
        except NotFound:
            raise error from None
        for start, data in archive.read(found):
            if start < source.offset:
                yield data[: source.offset - start]


def plan_bundles(folder: Path, tasks: Sequence[DeriveTask], names: Iterator[str]) -> list[DeriveBundle]:
    """Group tasks into bundles, each of which makes a part."""
    groups = bundle_tasks(tasks, lambda task: task.source.offset, _BUNDLE_BYTES, _BUNDLE_FILES)
    return [DeriveBundle(str(folder), next(names), group) for group in groups]


def derive_bundles(bundles: Sequence[DeriveBundle], workers: int | None = None) -> Iterator[DerivedPart]:
    """Derive bundles, in several processes if that pays, and yield the parts in the order they are ready."""
    workers = choose_workers(sum(task.source.offset for bundle in bundles for task in bundle.tasks), workers)
    if workers < 2 or len(bundles) < 2:
        return map(derive_bundle, bundles)
    return _derive_in_processes(bundles, min(workers, len(bundles)))


_encode = msgspec.msgpack.Encoder().encode
_decode_bundle = msgspec.msgpack.Decoder(DeriveBundle).decode
_decode_part = msgspec.msgpack.Decoder(DerivedPart).decode


def _derive_in_processes(bundles: Sequence[DeriveBundle], workers: int) -> Iterator[DerivedPart]:
    message = "a worker process that wrote column files was killed"
    lost = Unreadable(message, hint="finished files are complete; the next `unspool sql` continues from there")
    messages = list(map(_encode, bundles))
    # None ahead: a bundle takes long, and another process may be free for the next one.
    yield from map(_decode_part, answer_messages(messages, workers, _answer, lost, ahead=0))


def _answer(message: bytes) -> Iterator[tuple[bytes, bool]]:
    """Derive a bundle, in a worker process."""
    yield _encode(derive_bundle(_decode_bundle(message))), True
