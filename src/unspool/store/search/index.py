"""Brings the full-text index up to date, and with it the statistics of each file (`catalog/session_stats.py`).

Rules
  1. `index_text.py` says what is indexed. The rest is searched byte by byte when needed (`scan.py`).
  2. What is indexed of a file is committed together with how far that is: killed anywhere, the next update continues
     exactly there.
  3. The index is never ahead of the rows: it reads no further than `sources.offset`. A file that was rewritten since is
     left for the next sync.
  4. Files come in the order of their last change, so that the newest passages have the highest ids.
  5. Much text is extracted by several processes (`index_pool.py`), in the same order and with the same outcome.
  6. The statistics have a position of their own: where they are behind the index, or the index behind them, lines go
     only to the one that lacks them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from unspool.errors import UnspoolError
from unspool.files import open_regular
from unspool.format import Entry, decode, milliseconds
from unspool.graph import Passage, PromptTracker
from unspool.read import Change, Kind, LineChunk, Position, Stamp, detect_change, stamp_of
from unspool.store.archive.archive import Archive
from unspool.store.catalog.session_stats import FileChangeCounts, FileStatsUpdate, decode_file_stats, write_file_stats
from unspool.store.database import IN_FOLDER, Roots, folder_parameters, transaction
from unspool.store.search.corpus import CorpusReader, SearchedFile
from unspool.store.search.index_text import WHOLE_NAMES, extract_texts, shorten_line
from unspool.store.search.terms import identifier_parts, separate_unspaced
from unspool.store.worker_processes import choose_workers

STEPS = ("indexing", "indexed")
"""The places where an update may be killed: before a transaction ends, and after."""

_BATCH_CHARACTERS = 16 * 1024 * 1024
"""Characters that are written in one transaction, at least."""
_PARALLEL_BYTES = 32 * 1024 * 1024
"""Bytes to read that are worth two more processes."""
_MAX_OPEN_CALLS = 1000
"""Tool calls without a result that are remembered at most."""


class UnindexedFile(NamedTuple):
    """A file of which something is not indexed yet."""

    source_id: int
    generation: int
    path: str
    kind: str
    start: int
    """How far it is indexed."""
    stats_start: int
    """How far its statistics reach."""
    end: int
    """How far the store has read it."""
    position: Position | None
    """Of the file on disk; null if only the archive has it."""
    stamp: Stamp
    """Of the file when it was read: while it is the same, the file is."""
    state: bytes | None
    stats: bytes | None
    is_final: bool
    """Whether it is an earlier generation: no more will be added, and nobody needs its statistics."""

    @property
    def first(self) -> int:
        """The offset from which on lines are needed."""
        return min(self.start, self.stats_start)


class _State(msgspec.Struct, omit_defaults=True):
    """What is stored of the lines of a file for those that follow. The names of the fields are in the store."""

    calls: dict[str, tuple[str | None, str | None]] = {}
    """Tool calls that wait for their result: name and target."""
    starts: PromptTracker = msgspec.field(default_factory=PromptTracker)


class IndexBatch(msgspec.Struct):
    """What was extracted from some files: rows of the index and of the statistics."""

    passages: list[tuple[Any, ...]] = []
    """Rows of `passages`, with ids from 1 on; those in the store follow the last one there."""
    words: list[tuple[int, str, str | None]] = []
    prompts: list[tuple[Any, ...]] = []
    dropped_prompts: list[tuple[int, int, int]] = []
    indexed: dict[tuple[int, int], tuple[int, bytes | None]] = {}
    stats: dict[int, FileStatsUpdate] = {}
    characters: int = 0
    bytes_read: int = 0

    def add_positions(self, later: IndexBatch) -> None:
        """Take over all of a later batch but its texts, which are in the store already."""
        self.prompts += later.prompts
        self.dropped_prompts += later.dropped_prompts
        self.indexed |= later.indexed
        self.characters += later.characters
        for id, update in later.stats.items():
            if id in self.stats:
                self.stats[id].merge(update)
            else:
                self.stats[id] = update


_DELETE_INDEXED = """DELETE FROM unindexed WHERE source_id = ?1 AND (SELECT s.offset <= min(i.offset, d.offset)
    FROM sources s JOIN indexed i ON i.source_id = s.id AND i.generation = s.generation
    JOIN digests d ON d.source_id = s.id AND d.generation = s.generation WHERE s.id = ?1)"""
"""Takes a file off the list when its index and its statistics reach as far as the store has read it."""

_encode_state = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(_State).decode


def find_unindexed(database: sqlite3.Connection, roots: Roots) -> list[UnindexedFile]:
    """Return the files of a folder of which something is not indexed, in the order of their last change."""
    query = f"""SELECT s.id, s.generation, s.path, s.kind, coalesce(i.offset, 0), coalesce(d.offset, 0), s.offset,
        s.gone IS NULL, s.device, s.inode, s.head, s.boundary, s.size, s.modified, i.state, d.state
        FROM unindexed u CROSS JOIN sources s ON s.id = u.source_id
        LEFT JOIN indexed i ON i.source_id = s.id AND i.generation = s.generation
        LEFT JOIN digests d ON d.source_id = s.id AND d.generation = s.generation
        WHERE {IN_FOLDER} ORDER BY s.modified, s.path"""
    files = []
    for row in database.execute(query, folder_parameters(roots)).fetchall():
        (*about, end), (exists, device, inode, head, boundary, size, modified), states = row[:7], row[7:14], row[14:]
        position = Position(end, device, inode, head, boundary) if exists else None
        newest = UnindexedFile._make((*about, end, position, Stamp(size, modified, device, inode), *states, False))
        files += [*_earlier_generations(database, newest), newest]
    return files


def _earlier_generations(database: sqlite3.Connection, newest: UnindexedFile) -> Iterator[UnindexedFile]:
    """Yield earlier generations that were not indexed to their end: only the archive may have them."""
    if newest.generation == 1:
        return
    query = "SELECT generation, offset, state FROM indexed WHERE source_id = ?"
    indexed = {row[0]: row[1:] for row in database.execute(query, (newest.source_id,))}
    for generation in range(1, newest.generation):
        offset, state = indexed.get(generation, (0, b""))
        if state is not None:
            earlier = newest._replace(generation=generation, start=offset, stats_start=offset, end=0, position=None)
            yield earlier._replace(state=state, stats=None, is_final=True)


def update_index(
    database: sqlite3.Connection,
    archive: Callable[[], Archive],
    files: list[UnindexedFile],
    *,
    advance: Callable[[int], None] = lambda _: None,
    at: Callable[[str], None] = lambda _: None,
    fresh: Mapping[str, tuple[int, bytes]] = MappingProxyType({}),
    workers: int | None = None,
) -> int:
    """Index what is not indexed yet; return how many passages were added. The caller holds the lock of the store.

    `advance` is called with the number of bytes read since the last call, `at` with each of `STEPS` as it is reached.
    `fresh` has by path what a sync has just read, and the offset at which it begins. `workers` is the number of
    processes; by default several if there is much to read.
    """
    reader = CorpusReader(archive)
    workers = choose_workers(sum(file.end - file.first for file in files), workers, _PARALLEL_BYTES)
    if workers < 2 or len(files) < 2:
        batches = extract_batches(files, reader, fresh, _BATCH_CHARACTERS)
    else:
        from unspool.store.search.index_pool import extract_in_processes  # most updates are small

        batches = extract_in_processes(files, reader, workers)
    return _write_batches(database, batches, advance, at)


def extract_batches(
    files: Iterable[UnindexedFile], reader: CorpusReader, fresh: Mapping[str, tuple[int, bytes]], characters: int
) -> Iterator[IndexBatch]:
    """Yield what is to be indexed of files, at least so many characters at a time."""
    extraction = _Extraction(reader)
    for file in files:
        for length in extraction.read_file(_FileProgress(file), fresh):
            extraction.batch.bytes_read += length
            if extraction.batch.characters >= characters:
                yield extraction.take_batch()
    if (batch := extraction.take_batch()).indexed or batch.stats:
        yield batch


def _write_batches(
    database: sqlite3.Connection,
    batches: Iterator[IndexBatch],
    advance: Callable[[int], None],
    at: Callable[[str], None],
) -> int:
    """Write batches, so many in a transaction as have `_BATCH_CHARACTERS`; return how many passages they have."""
    last_id = first_id = database.execute("SELECT coalesce(max(id), 0) FROM passages").fetchone()[0]
    batch = next(batches, None)
    while batch is not None:
        with transaction(database):
            whole = IndexBatch()
            # Texts are written as they come: while the next ones are extracted, if other processes do that.
            while batch is not None:
                _insert_texts(database, batch, last_id)
                last_id += len(batch.passages)
                whole.add_positions(batch)
                advance(batch.bytes_read)
                if whole.characters >= _BATCH_CHARACTERS:
                    break
                batch = next(batches, None)
            _insert_positions(database, whole)
            at("indexing")
        at("indexed")
        if batch is not None:
            batch = next(batches, None)
    return int(last_id - first_id)


def _insert_texts(database: sqlite3.Connection, batch: IndexBatch, last_id: int) -> None:
    run = database.executemany
    run(f"INSERT INTO passages VALUES (? + {last_id}, ?, ?, ?, ?, ?, ?, ?, ?, ?)", batch.passages)
    run(f"INSERT INTO words (rowid, text, parts) VALUES (? + {last_id}, ?, ?)", batch.words)


def _insert_positions(database: sqlite3.Connection, batch: IndexBatch) -> None:
    run = database.executemany
    run("INSERT OR REPLACE INTO prompts VALUES (?, ?, ?, ?)", batch.prompts)
    run("DELETE FROM prompts WHERE source_id = ? AND generation = ? AND offset = ?", batch.dropped_prompts)
    reached = [(*key, *value) for key, value in batch.indexed.items()]
    run("INSERT OR REPLACE INTO indexed VALUES (?, ?, ?, ?)", reached)
    write_file_stats(database, batch.stats)
    run(_DELETE_INDEXED, [(id,) for id in {*batch.stats, *(id for id, _ in batch.indexed)}])


class _FileProgress:
    """How far a file is indexed, and what its next lines need to know."""

    def __init__(self, file: UnindexedFile) -> None:
        self.file = file
        self.state = _decode_state(file.state) if file.state else _State()
        self.stats = decode_file_stats(file.stats)
        self.reached = file.first
        self.both = max(file.start, file.stats_start)
        """From where on lines go to both the index and the statistics."""
        self.changed: dict[str, FileChangeCounts] = {}
        self.is_first_update = file.stats_start == 0
        """Whether the statistics begin with the file and were not written yet: nothing known before is valid."""
        self.is_session = file.kind == Kind.SESSION.value

    def add_to_stats(self, passage: Passage, line: memoryview) -> None:
        """Count a tool call or its result."""
        assert passage.call
        if passage.kind == "tool_result":
            self.stats.add_result(passage.call, None if passage.failed else line, self.changed)
        else:
            self.stats.add_call(passage.call, passage.tool, passage.target, self.changed)

    def find_tool(self, passage: Passage) -> tuple[str | None, str | None]:
        """Return the tool of a call and the file it works on; a result has them from its call."""
        assert passage.call
        calls = self.state.calls
        if passage.kind == "tool_result":
            return calls.pop(passage.call, (None, None))
        calls[passage.call] = (passage.tool, passage.target)
        if len(calls) > _MAX_OPEN_CALLS:
            del calls[next(iter(calls))]
        return passage.tool, passage.target


class _Extraction:
    """Extracts what is to be indexed of files, one after the other."""

    def __init__(self, reader: CorpusReader) -> None:
        self._reader = reader
        self.batch = IndexBatch()

    def take_batch(self) -> IndexBatch:
        """Return what was extracted since the last time. Between two files or chunks of a file it is complete."""
        batch, self.batch = self.batch, IndexBatch()
        return batch

    def read_file(self, progress: _FileProgress, fresh: Mapping[str, tuple[int, bytes]]) -> Iterator[int]:
        """Extract what is to be indexed of a file; yield how many bytes were read each time."""
        file = progress.file
        try:
            for offset, data, at, end in self._lines(file, fresh):
                view, find = memoryview(data), data.find
                if file.end and offset + end > file.end:
                    end = file.end - offset
                while at < end:
                    stop = find(b"\n", at, end) + 1 or end
                    # The index or the statistics may reach into a line, which was the end of the file then.
                    if offset + at < progress.both < offset + stop:
                        stop = progress.both - offset
                    self._add_line(view[at:stop], offset + at, progress)
                    at = stop
                if offset + end > progress.reached:
                    yield self._record(progress, offset + end)
                del view, find, data  # a line may be long: it is not held while the next one is read
        except UnspoolError:  # what was read stays, and the next update continues there
            return
        if file.position is None:  # if archiving was off, there will never be more
            progress.stats.is_whole = progress.stats.is_whole and progress.reached >= file.end
            yield self._record(progress, max(file.end, progress.reached), is_finished=file.is_final)
        elif progress.reached == file.first:
            yield self._record(progress, file.first)

    def _lines(self, file: UnindexedFile, fresh: Mapping[str, tuple[int, bytes]]) -> Iterator[LineChunk]:
        """Return the lines that are not indexed yet; none if the file has been rewritten since the store read it."""
        if file.position is not None:
            start, data = fresh.get(file.path, (0, b""))
            if start <= file.first and file.end <= start + len(data):
                return iter([LineChunk(start, data, file.first - start, file.end - start)])
            with open_regular(file.path) as opened:
                is_same = stamp_of(os.fstat(opened)) == file.stamp
                if not is_same and detect_change(opened, file.position) not in (Change.SAME, Change.GROWN):
                    return iter(())
        about = SearchedFile(file.path, file.kind, None, None, None, 0, generation=file.generation)
        return self._reader.lines(about._replace(is_archived=int(file.position is None)), file.first)

    def _add_line(self, line: memoryview, offset: int, progress: _FileProgress) -> None:
        file, stats = progress.file, progress.stats
        batch, may_start_turn = self.batch, False
        id = len(batch.passages)
        is_new, needs_stats = offset >= file.start, offset >= file.stats_start and not file.is_final
        if needs_stats and progress.is_session and stats.beginning is None:
            stats.find_beginning(shorten_line(line))
        add_passage, add_words = batch.passages.append, batch.words.append
        for at, timestamp, texts, may_start, is_compaction in extract_texts(line, offset):
            may_start_turn = may_start_turn or may_start
            if is_compaction and needs_stats:
                stats.compactions.append(at)
            time = milliseconds(timestamp) if texts else None
            for number, passage in enumerate(texts):
                kind, _, text, call, tool, target, failed = passage
                if call and needs_stats:
                    progress.add_to_stats(passage, line)
                if not is_new:
                    continue
                if call:
                    tool, target = progress.find_tool(passage)
                id += 1
                add_passage((id, file.source_id, file.generation, at, number, kind, tool, target, failed, time))
                parts = identifier_parts(text) if kind not in WHOLE_NAMES else None
                add_words((id, separate_unspaced(text), parts))
                batch.characters += len(text)
        if may_start_turn and is_new and progress.is_session:  # only these few lines have to be decoded in full
            for item in decode(shorten_line(line), offset):
                if isinstance(item, Entry):
                    progress.state.starts.add(item)

    def _record(self, progress: _FileProgress, offset: int, *, is_finished: bool = False) -> int:
        """Record how far a file is indexed; return how many bytes further that is."""
        file, batch, starts = progress.file, self.batch, progress.state.starts
        key = (file.source_id, file.generation)
        batch.prompts += [(*key, start, milliseconds(time)) for start, time in starts.found]
        batch.dropped_prompts += [(*key, start) for start in starts.taken_back]
        starts.found, starts.taken_back = [], []
        if offset >= file.start:
            batch.indexed[key] = (offset, None if is_finished else _encode_state(progress.state))
        if offset >= file.stats_start and not file.is_final:
            if file.source_id not in batch.stats:
                batch.stats[file.source_id] = FileStatsUpdate(*key, is_new=progress.is_first_update)
                progress.is_first_update = False
            batch.stats[file.source_id].add(offset, progress.stats, progress.changed)
            progress.changed = {}
        length, progress.reached = offset - progress.reached, offset
        return length
