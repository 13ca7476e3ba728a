"""The text index brought up to date, and digests with it: lines that the store has read in; passages, their words and
what lists show of a file (`digests.py`) out.

Rules
  1. `excerpts.py` says what is indexed. The rest is not worth its words: `scanning.py` looks through it when asked.
  2. What is indexed of a file is committed with how far that is: killed anywhere, it goes on exactly there.
  3. The index is never ahead of the rows: it reads no further than `sources.offset`. A file that was written anew since
     then is left for the next sync.
  4. Files come in the order they were last changed, so that the newest passages have the highest numbers.
  5. A digest has a position of its own: where it is behind the index, or the index behind it, lines go to the one that
     lacks them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from unspool.errors import UnspoolError
from unspool.files.open import open_regular
from unspool.format.codec import decode
from unspool.format.entry import Entry
from unspool.graph.turns import Starts
from unspool.read.chunks import Lines
from unspool.read.position import Change, Position, changed
from unspool.read.scan import Kind, Stamp, stamp_of
from unspool.store.archive.archive import Archive
from unspool.store.catalog.session_stats import Changed, Written, read_digest, write_digests
from unspool.store.database import transaction
from unspool.store.search.corpus import Haystack, Reader
from unspool.store.search.index_text import WHOLE_NAMES, excerpts
from unspool.store.search.terms import indexed, parts
from unspool.store.sync.changes import WITHIN, within
from unspool.store.usage.ledger import milliseconds

STEPS = ("indexing", "indexed")
"""The places where it may be killed: before a transaction ends, and after."""

_PORTION = 16 * 1024 * 1024
"""Characters that are written in one transaction, at least."""
_CALLS = 1000
"""Tool calls without a result that are remembered at most."""


class Behind(NamedTuple):
    """A file of which something is not indexed yet."""

    source_id: int
    generation: int
    path: str
    kind: str
    start: int
    """How far it is indexed."""
    digested: int
    """How far its digest goes."""
    end: int
    """How far it was read."""
    position: Position | None
    """Of the file; nothing if only the archive has it."""
    stamp: Stamp
    """Of the file when it was read: while it has that, it is what it was."""
    state: bytes | None
    digest: bytes | None
    is_final: bool
    """No more will come: the file has become another one. Nobody asks for its digest."""

    @property
    def first(self) -> int:
        """Where to begin."""
        return min(self.start, self.digested)


class Indexing(NamedTuple):
    """How the index is to be brought up to date."""

    advance: Callable[[int], None] = lambda _: None
    """Told how many were read."""
    at: Callable[[str], None] = lambda _: None
    """Told which of `STEPS` was reached."""
    fresh: Mapping[str, tuple[int, bytes]] = MappingProxyType({})
    """What a sync has just read, by path, and where it begins."""


class _State(msgspec.Struct, omit_defaults=True):
    """What the next lines of a file need to know of those before."""

    calls: dict[str, tuple[str | None, str | None]] = {}
    """Tool calls that wait for their result: name and target."""
    starts: Starts = msgspec.field(default_factory=Starts)


class _Portion(msgspec.Struct):
    """What is to be written in one transaction."""

    passages: list[tuple[object, ...]] = []
    words: list[tuple[int, str, str | None]] = []
    prompts: list[tuple[object, ...]] = []
    taken_back: list[tuple[int, int, int]] = []
    reached: dict[tuple[int, int], tuple[int, bytes | None]] = {}
    digests: dict[int, Written] = {}
    weight: int = 0


_DONE = """DELETE FROM unindexed WHERE source_id = ?1 AND (SELECT s.offset <= min(i.offset, d.offset) FROM sources s
    JOIN indexed i ON i.source_id = s.id AND i.generation = s.generation
    JOIN digests d ON d.source_id = s.id AND d.generation = s.generation WHERE s.id = ?1)"""
"""Forgets a file that is indexed and digested as far as it was read."""

_encode_state = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(_State).decode


def behind(database: sqlite3.Connection, root: Path) -> list[Behind]:
    """Return the files of a folder of which something is not indexed, the one changed first first."""
    query = f"""SELECT s.id, s.generation, s.path, s.kind, coalesce(i.offset, 0), coalesce(d.offset, 0), s.offset,
        s.gone IS NULL, s.device, s.inode, s.head, s.boundary, s.size, s.modified, i.state, d.state
        FROM unindexed u CROSS JOIN sources s ON s.id = u.source_id
        LEFT JOIN indexed i ON i.source_id = s.id AND i.generation = s.generation
        LEFT JOIN digests d ON d.source_id = s.id AND d.generation = s.generation
        WHERE {WITHIN} ORDER BY s.modified, s.path"""
    found = []
    for row in database.execute(query, within(root)).fetchall():
        (*about, end), (is_there, device, inode, head, boundary, size, modified), states = row[:7], row[7:14], row[14:]
        position = Position(end, device, inode, head, boundary) if is_there else None
        newest = Behind._make((*about, end, position, Stamp(size, modified, device, inode), *states, False))
        found += [*_given_up(database, newest), newest]
    return found


def _given_up(database: sqlite3.Connection, newest: Behind) -> Iterator[Behind]:
    """Yield earlier generations that were not indexed to their end: the archive has them, or nobody."""
    if newest.generation == 1:
        return
    known = "SELECT generation, offset, state FROM indexed WHERE source_id = ?"
    reached = {row[0]: row[1:] for row in database.execute(known, (newest.source_id,))}
    for generation in range(1, newest.generation):
        offset, state = reached.get(generation, (0, b""))
        if state is not None:
            given_up = newest._replace(generation=generation, start=offset, digested=offset, end=0, position=None)
            yield given_up._replace(state=state, digest=None, is_final=True)


def index(
    database: sqlite3.Connection, archive: Callable[[], Archive], files: list[Behind], how: Indexing | None = None
) -> int:
    """Index what is to be indexed; return how many passages were added. The lock is held by the caller."""
    work = _Work(database, archive, how or Indexing())
    for file in files:
        work.file(file)
    work.write()
    return work.added


class _Work:
    """One go at the index."""

    def __init__(self, database: sqlite3.Connection, archive: Callable[[], Archive], how: Indexing) -> None:
        self._database, self._how = database, how
        self._reader = Reader(archive)
        self._portion = _Portion()
        self._last_id = database.execute("SELECT coalesce(max(id), 0) FROM passages").fetchone()[0]
        self.added = 0

    def file(self, file: Behind) -> None:
        """Index a file."""
        taken = _Taken(file)
        try:
            for offset, data, at, end in self._lines(file):
                view, find = memoryview(data), data.find
                if file.end and offset + end > file.end:
                    end = file.end - offset
                while at < end:
                    stop = find(b"\n", at, end) + 1 or end
                    if offset + at < taken.both < offset + stop:  # what one of them has was the end of the file once
                        stop = taken.both - offset
                    self._line(view[at:stop], offset + at, file, taken)
                    at = stop
                if offset + end > taken.reached:
                    self._reach(file, offset + end, taken)
        except UnspoolError:  # what was read of it stays, and the next time goes on
            return
        if file.position is None:  # if the archive was off, there is no more to come
            taken.digest.is_whole = taken.digest.is_whole and taken.reached >= file.end
            self._reach(file, max(file.end, taken.reached), taken, is_final=file.is_final)
        elif taken.reached == file.first:
            self._reach(file, file.first, taken)

    def _lines(self, file: Behind) -> Iterator[Lines]:
        """Return the lines that are not indexed yet; none if the file is not what it was."""
        if file.position is not None:
            begins, data = self._how.fresh.get(file.path, (0, b""))
            if begins <= file.first and file.end <= begins + len(data):
                return iter([Lines(begins, data, file.first - begins, file.end - begins)])
            with open_regular(file.path) as opened:
                is_same = stamp_of(os.fstat(opened)) == file.stamp
                if not is_same and changed(opened, file.position) not in (Change.SAME, Change.GROWN):
                    return iter(())
        kept = int(file.position is None)
        haystack = Haystack(file.path, file.kind, None, None, None, 0, 0, generation=file.generation, kept=kept)
        return self._reader.lines(haystack, file.first)

    def _line(self, line: memoryview, offset: int, file: Behind, taken: _Taken) -> None:
        portion, begins, id = self._portion, False, self._last_id
        is_new, digesting = offset >= file.start, offset >= file.digested and not file.is_final
        if digesting and taken.seeks:
            taken.seek(line)
        add, index = portion.passages.append, portion.words.append
        for at, timestamp, found, may_begin, compacts in excerpts(line, offset):
            begins = begins or may_begin
            if compacts and digesting:
                taken.digest.compactions.append(at)
            time = milliseconds(timestamp) if found else None
            for number, kind, text, call, tool, target, failed in found:
                if call and digesting:
                    taken.told(kind, call, tool, target, line if not failed else None)
                if not is_new:
                    continue
                if call:
                    tool, target = taken.called(kind, call, tool, target)
                id += 1
                add((id, file.source_id, file.generation, at, number, kind, tool, target, failed, time))
                index((id, indexed(text), parts(text) if kind not in WHOLE_NAMES else None))
                portion.weight += len(text)
        self._last_id = id
        if begins and is_new:
            taken.look(line, offset)

    def _reach(self, file: Behind, offset: int, taken: _Taken, *, is_final: bool = False) -> None:
        """Note how far a file is indexed."""
        portion, key, starts = self._portion, (file.source_id, file.generation), taken.state.starts
        portion.prompts += [(*key, offset, milliseconds(time)) for offset, time in starts.found]
        portion.taken_back += [(*key, offset) for offset in starts.taken_back]
        starts.found, starts.taken_back = [], []
        if offset >= file.start:
            portion.reached[key] = (offset, None if is_final else _encode_state(taken.state))
        if offset >= file.digested and not file.is_final:
            if file.source_id not in portion.digests:
                portion.digests[file.source_id] = Written(*key, is_new=taken.is_new(file))
            portion.digests[file.source_id].take(offset, taken.digest, taken.drained())
        self._how.advance(offset - taken.reached)
        taken.reached = offset
        if portion.weight >= _PORTION:
            self.write()

    def write(self) -> None:
        """Write what was gathered."""
        portion, self._portion = self._portion, _Portion()
        if not portion.reached and not portion.digests:
            return
        run = self._database.executemany
        with transaction(self._database):
            run("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", portion.passages)
            run("INSERT INTO words (rowid, text, parts) VALUES (?, ?, ?)", portion.words)
            run("INSERT OR REPLACE INTO prompts VALUES (?, ?, ?, ?)", portion.prompts)
            run("DELETE FROM prompts WHERE source_id = ? AND generation = ? AND offset = ?", portion.taken_back)
            reached = [(*key, *value) for key, value in portion.reached.items()]
            run("INSERT OR REPLACE INTO indexed VALUES (?, ?, ?, ?)", reached)
            write_digests(self._database, portion.digests)
            run(_DONE, [(id,) for id in {*portion.digests, *(id for id, _ in portion.reached)}])
            self._how.at("indexing")
        self.added += len(portion.passages)
        self._how.at("indexed")


class _Taken:
    """What was taken of a file so far."""

    def __init__(self, file: Behind) -> None:
        self.state = _decode_state(file.state) if file.state else _State()
        self.digest = read_digest(file.digest)
        self.reached = file.first
        self.both = max(file.start, file.digested)
        """From where on lines go to both, index and digest."""
        self._changed: dict[str, Changed] = {}
        self._is_first = True
        self._is_session = file.kind == Kind.SESSION.value
        self.seeks = self._is_session and self.digest.beginning is None
        """Whether no line of the conversation has been seen yet."""

    def is_new(self, file: Behind) -> bool:
        """Tell, once, whether the digest begins with the file: then nothing that was known before holds."""
        first, self._is_first = self._is_first and file.digested == 0, False
        return first

    def seek(self, line: memoryview) -> None:
        """Look whether the conversation begins with a line."""
        self.digest.begins(line)
        self.seeks = self.digest.beginning is None

    def told(self, kind: str, call: str, tool: str | None, target: str | None, line: memoryview | None) -> None:
        """Take a tool call or its result into the digest; without the line, if it failed."""
        if kind == "tool_result":
            self.digest.result(call, line, self._changed)
        else:
            self.digest.call(call, tool, target, self._changed)

    def drained(self) -> dict[str, Changed]:
        """Return what was changed since this was last asked."""
        changed, self._changed = self._changed, {}
        return changed

    def look(self, line: memoryview, offset: int) -> None:
        """Look whether a turn begins with a line: only few need be decoded for that."""
        if self._is_session:
            for item in decode(line, offset):
                if isinstance(item, Entry):
                    self.state.starts.take(item)

    def called(self, kind: str, call: str, tool: str | None, target: str | None) -> tuple[str | None, str | None]:
        """Return the tool of a call and the file it was aimed at; a result has them from the call."""
        calls = self.state.calls
        if kind == "tool_result":
            return calls.pop(call, (None, None))
        calls[call] = (tool, target)
        if len(calls) > _CALLS:
            del calls[next(iter(calls))]
        return tool, target
