"""Keeps the collector's state and outbox in `collect.db` in the data folder.

Rules
  1. A part and the position that it reaches are written in one transaction: no line is collected twice or left out,
     wherever a process is killed.
  2. The outbox holds parts. Before a segment is sent, one transaction packs parts into it and keeps its name and bytes:
     a process that is killed sends the same bytes under the same name again. Another transaction records that it was
     confirmed, and takes it and its parts out.
  3. Everything is on disk before anything is sent (`synchronous = FULL`).
  4. One collector at a time works on a data folder.
  5. An outbox of an earlier version may hold segments of single streams. They are sent as they are, first.

It is not a part of the store: that can be rebuilt from files and archive, and what was confirmed cannot.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from unspool.collect.manifest import SentStream
from unspool.collect.segments import (
    FIRST,
    FIRST_DAY,
    MOST,
    PartEntry,
    SegmentHeader,
    decode_part_header,
    parse_device_segment_name,
    part_digest,
    unpack_device_segment,
    unpack_header,
)
from unspool.errors import Refused, UnspoolError
from unspool.files import LockTaken, create_private_file, hold_lock
from unspool.store import open_side_database, transaction, translate_errors
from unspool.store.archive import decompress_at_most

NAME, LOCK = "collect.db", "collect.lock"
VERSION = 3
_FREE = 4 * 1024 * 1024
"""Bytes of free pages that are kept for the next segments."""


class StreamState(NamedTuple):
    """A row of `streams`, as far as parts are made by it."""

    id: int
    stream: str
    sequence: int
    digest: str
    done: int


class CollectedSpan(NamedTuple):
    """A row of `spans`, without its stream."""

    generation: int
    end: int
    head: str
    boundary: str
    seen: str


class WaitingPart(NamedTuple):
    """A row of `outbox`; its data is read when it is sent."""

    id: int
    stream_id: int
    sequence: int
    name: str
    digest: str
    priority: int
    lines: int
    redactions: int
    size: int
    length: int
    source_generation: int
    """The store's generation of the file; 0 for a side file, which has none."""


class PackedPart(NamedTuple):
    """A part as it is packed: its entry in the header of the segment, and its text."""

    id: int
    entry: PartEntry
    text: bytes


class PackedSegment(NamedTuple):
    """The row of `packed`: a segment that is being sent."""

    name: str
    digest: str
    next_day: str
    data: bytes


class ChainEnd(NamedTuple):
    """The last segment of the device that was confirmed."""

    day: str
    """In the name of the next one."""
    last: str
    """Its name; nothing if there is none."""
    sequence: int
    digest: str


class CollectorCondition(NamedTuple):
    """How a collector is: some columns of `targets`."""

    confirmed: int | None
    """When something was last confirmed, in milliseconds since 1970."""
    looked: int | None
    """When it last looked at the files."""
    redactions: int
    failed: int
    refused: int


class DropOutcome(NamedTuple):
    """What another collector's segment changes here."""

    streams: list[int]
    fits: bool
    """False if its parts do not continue what was confirmed here: then the store must be asked for everything."""


_STREAM = ", ".join(StreamState._fields)


class CollectorState:
    """The state of collecting to one target: an object store, an org and a device."""

    def __init__(self, database: sqlite3.Connection, target_id: int) -> None:
        self.database = database
        self._target = target_id

    def stream(self, name: str, path: str) -> StreamState:
        """Return a stream; it is created if there is none."""
        query = f"SELECT {_STREAM}, path FROM streams WHERE target_id = ? AND stream = ?"
        row = self.database.execute(query, (self._target, name)).fetchone()
        if row is None:
            insert = "INSERT INTO streams (target_id, stream, path, digest, sent_digest) VALUES (?, ?, ?, ?, ?)"
            row = self.database.execute(
                f"{insert} RETURNING {_STREAM}, path", (self._target, name, path, FIRST, FIRST)
            ).fetchone()
        # A stream that was found in the object store has no path until its file is seen.
        if row[-1] != path and path:
            self.database.execute("UPDATE streams SET path = ? WHERE id = ?", (path, row[0]))
        return StreamState(*row[:-1])

    def seen(self) -> set[tuple[str, int, str]]:
        """Return (stream, done, seen) of all spans: a file for which the store still says the same has nothing new."""
        query = "SELECT stream, done, seen FROM spans JOIN streams ON id = stream_id WHERE target_id = ?"
        return set(self.database.execute(query, (self._target,)))

    def finish(self, stream_id: int, done: int) -> None:
        """Record that the store's generations up to this one are in parts completely."""
        self.database.execute("UPDATE streams SET done = ? WHERE id = ?", (done, stream_id))

    def spans(self, stream_id: int) -> list[CollectedSpan]:
        """Return how far each generation of a stream was collected, the latest first."""
        query = 'SELECT generation, "end", head, boundary, seen FROM spans WHERE stream_id = ? ORDER BY generation DESC'
        return [CollectedSpan(*row) for row in self.database.execute(query, (stream_id,))]

    def put_span(self, stream_id: int, span: CollectedSpan) -> None:
        """Record how far a generation was collected."""
        self.database.execute("INSERT OR REPLACE INTO spans VALUES (?, ?, ?, ?, ?, ?)", (stream_id, *span))

    def keep(self, part: WaitingPart, data: bytes) -> None:
        """Put a part into the outbox, as the last of its stream."""
        values = (*part[1:], data)
        marks = ", ".join("?" * len(values))
        self.database.execute(
            f"INSERT INTO outbox ({', '.join(WaitingPart._fields[1:])}, data) VALUES ({marks})", values
        )
        change = "UPDATE streams SET sequence = ?, digest = ? WHERE id = ?"
        self.database.execute(change, (part.sequence, part.digest, part.stream_id))

    def waiting(self, refuses: Callable[[str], bool] = lambda _: False) -> list[WaitingPart]:
        """Return the parts in the outbox in the order of sending, without those of refused files."""
        names = ", ".join(f"outbox.{name}" for name in WaitingPart._fields)
        query = f"""SELECT path, {names} FROM outbox JOIN streams ON streams.id = stream_id WHERE target_id = ?
            ORDER BY priority, outbox.id"""
        rows = self.database.execute(query, (self._target,))
        return [WaitingPart(*row) for path, *row in rows if not refuses(path)]

    @property
    def has_parts(self) -> bool:
        """Whether the outbox has any part."""
        return bool(self.waiting())

    def data(self, id: int) -> bytes:
        """Return the data of a row of the outbox."""
        row: tuple[bytes] = self.database.execute("SELECT data FROM outbox WHERE id = ?", (id,)).fetchone()
        return row[0]

    def chain_end(self) -> ChainEnd:
        """Return the end of the chain of this device."""
        query = "SELECT chain_day, chain_last, chain_sequence, chain_digest FROM targets WHERE id = ?"
        return ChainEnd(*self.database.execute(query, (self._target,)).fetchone())

    def packed(self) -> PackedSegment | None:
        """Return the segment that is being sent, if there is one."""
        query = "SELECT name, digest, next_day, data FROM packed WHERE target_id = ?"
        row = self.database.execute(query, (self._target,)).fetchone()
        return PackedSegment(*row) if row else None

    def packed_paths(self) -> list[str]:
        """Return the files whose lines are in the segment that is being sent."""
        query = """SELECT DISTINCT path FROM outbox JOIN streams ON streams.id = stream_id
            WHERE target_id = ? AND packed = 1"""
        return [path for (path,) in self.database.execute(query, (self._target,))]

    def streams_with_old_segments(self) -> set[int]:
        """Return the streams of which the outbox has a segment of an earlier version."""
        return {id for (id,) in self.database.execute("SELECT DISTINCT stream_id FROM outbox WHERE name != ''")}

    def parts_to_pack(self, parts: Iterable[WaitingPart], tail: str) -> list[PackedPart]:
        """Return parts with their entries in the header of the segment with this `tail`."""
        entries, before = [], dict[int, str]()
        for part in parts:
            stream, at = self.database.execute(
                'SELECT stream, "at" FROM streams WHERE id = ?', (part.stream_id,)
            ).fetchone()
            text = decompress_at_most(self.data(part.id), MOST)
            at, before[part.stream_id] = before.get(part.stream_id, at), tail
            entries.append(PackedPart(part.id, PartEntry(stream, part.sequence, len(text), at), text))
        return entries

    def keep_packed(self, segment: PackedSegment, parts: Iterable[PackedPart]) -> None:
        """Keep the segment that is to be sent, with its parts."""
        with transaction(self.database):
            self.database.execute("INSERT INTO packed VALUES (?, ?, ?, ?, ?)", (self._target, *segment))
            self.database.executemany("UPDATE outbox SET packed = 1 WHERE id = ?", [(part.id,) for part in parts])

    def unpack(self) -> None:
        """Take the segment that is being sent apart again: its parts wait."""
        with transaction(self.database):
            self._forget_packed()

    def confirm_packed(self, segment: PackedSegment, now: int) -> list[WaitingPart]:
        """Record that the object store has the segment that is being sent; return its parts."""
        name = parse_device_segment_name(segment.name)
        assert name is not None
        query = f"SELECT {', '.join(WaitingPart._fields)}, data FROM outbox WHERE packed = 1 AND stream_id IN "
        query += "(SELECT id FROM streams WHERE target_id = ?) ORDER BY id"
        rows = self.database.execute(query, (self._target,)).fetchall()
        with transaction(self.database):
            for *values, data in rows:
                part = WaitingPart(*values)
                self._record_sent(part, decode_part_header(decompress_at_most(data, MOST)), name.tail)
                self.database.execute("DELETE FROM outbox WHERE id = ?", (part.id,))
            self._forget_packed()
            self._set_chain_end(ChainEnd(segment.next_day, segment.name, name.sequence, segment.digest))
            parts = [WaitingPart(*values) for *values, _ in rows]
            self._note_confirmed(now, sum(part.redactions for part in parts))
        return parts

    def confirm(self, segment: WaitingPart, now: int) -> None:
        """Record that the object store has a segment of an earlier version, and take it out of the outbox."""
        header = unpack_header(self.data(segment.id))
        with transaction(self.database):
            self._record_sent(segment, header, "")
            self.database.execute("DELETE FROM outbox WHERE id = ?", (segment.id,))
            self._note_confirmed(now, segment.redactions)

    def follow_other(self, name: str, digest: str, data: bytes) -> DropOutcome:
        """Continue the chain after a segment that another collector has sent; parts here of its streams are dropped."""
        (header, parts), parsed = unpack_device_segment(data), parse_device_segment_name(name)
        assert parsed is not None
        headers = [decode_part_header(part.text) for part in parts]
        texts = {(one.stream, one.sequence): part.text for one, part in zip(headers, parts, strict=True)}
        streams = dict[str, StreamState]()
        with transaction(self.database):
            self._forget_packed()
            for one in headers:
                if one.stream not in streams:
                    streams[one.stream] = self.stream(one.stream, "")
                    theirs = {other.generation for other in headers if other.stream == one.stream}
                    self._drop_parts(streams[one.stream].id, theirs)
                stream = streams[one.stream]
                (sent,) = self.database.execute("SELECT sent FROM streams WHERE id = ?", (stream.id,)).fetchone()
                if one.sequence != sent + 1:
                    self.database.execute("UPDATE targets SET asked = 0 WHERE id = ?", (self._target,))
                    return DropOutcome([state.id for state in streams.values()], fits=False)
                self._take_over(stream.id, one, texts[one.stream, one.sequence], parsed.tail)
            self._set_chain_end(ChainEnd(header.next_day, name, header.sequence, digest))
            self.database.execute("UPDATE targets SET unpublished = 1 WHERE id = ?", (self._target,))
        return DropOutcome([state.id for state in streams.values()], fits=True)

    def adopt(self, stream_id: int, sent: SentStream, spans: Iterable[CollectedSpan]) -> None:
        """Replace the state of a stream by the segments of an earlier version that the store has of it."""
        with transaction(self.database):
            self.database.execute("DELETE FROM outbox WHERE stream_id = ?", (stream_id,))
            for table in ("spans", "sent_spans"):
                self.database.execute(f"DELETE FROM {table} WHERE stream_id = ?", (stream_id,))
            for span in spans:
                self.put_span(stream_id, span)
                self.database.execute("INSERT INTO sent_spans VALUES (?, ?, ?, ?, ?)", (stream_id, *span[:-1]))
            change = """UPDATE streams SET sequence = :sequence, digest = :digest, sent = :sequence, "at" = '',
                sent_digest = :digest, sent_lines = :lines, adopted = 1 WHERE id = :id"""
            values = {"sequence": sent.sequence, "digest": sent.digest, "lines": sent.lines, "id": stream_id}
            self.database.execute(change, values)
            self.database.execute("UPDATE targets SET unpublished = 1 WHERE id = ?", (self._target,))

    def forget_all(self) -> list[int]:
        """Forget everything that was made and sent, to ask the store; return the streams."""
        ids = [id for (id,) in self.database.execute("SELECT id FROM streams WHERE target_id = ?", (self._target,))]
        with transaction(self.database):
            self._forget_packed()
            for table in ("outbox", "spans", "sent_spans"):
                self.database.executemany(f"DELETE FROM {table} WHERE stream_id = ?", [(id,) for id in ids])
            change = """UPDATE streams SET sequence = 0, digest = ?, sent = 0, sent_digest = ?, sent_lines = 0,
                done = 0, "at" = '' WHERE target_id = ?"""
            self.database.execute(change, (FIRST, FIRST, self._target))
            self._set_chain_end(ChainEnd(FIRST_DAY, "", 0, FIRST))
        return ids

    def remake_waiting(self) -> None:
        """Drop the parts that wait, to make them anew; segments of an earlier version stay."""
        query = """SELECT DISTINCT stream_id FROM outbox JOIN streams ON streams.id = stream_id WHERE target_id = ?
            AND stream_id NOT IN (SELECT stream_id FROM outbox WHERE name != '')"""
        with transaction(self.database):
            self._forget_packed()
            for (stream_id,) in self.database.execute(query, (self._target,)).fetchall():
                self._drop_parts(stream_id, set())

    def ask_again(self) -> None:
        """Forget everything that was made and sent, and record that the store must be asked."""
        self.forget_all()
        self.database.execute("UPDATE targets SET asked = 0 WHERE id = ?", (self._target,))

    @property
    def is_asked(self) -> bool:
        """Whether it is known what this device has sent."""
        query = "SELECT asked FROM targets WHERE id = ?"
        return bool(self.database.execute(query, (self._target,)).fetchone()[0])

    def mark_asked(self) -> None:
        """Record that the store was asked what this device has sent."""
        self.database.execute("UPDATE targets SET asked = 1 WHERE id = ?", (self._target,))

    def sent(self) -> dict[str, SentStream]:
        """Return how far each stream has been confirmed."""
        query = "SELECT stream, sent, sent_lines, sent_digest FROM streams WHERE target_id = ? AND sent > 0"
        return {row[0]: SentStream(*row[1:]) for row in self.database.execute(query, (self._target,))}

    def _record_sent(self, part: WaitingPart, header: SegmentHeader, tail: str) -> None:
        # Only the next number counts: confirming a part a second time must not add its lines again.
        change = """UPDATE streams SET sent = ?, sent_digest = ?, sent_lines = sent_lines + ?, "at" = ?
            WHERE id = ? AND sent = ? - 1"""
        values = (part.sequence, part.digest, part.lines, tail, part.stream_id, part.sequence)
        self.database.execute(change, values)
        self._put_sent_span(part.stream_id, header)

    def _take_over(self, stream_id: int, header: SegmentHeader, text: bytes, tail: str) -> None:
        """Record a part that another collector has sent."""
        change = """UPDATE streams SET sequence = :sequence, digest = :digest, sent = :sequence, sent_digest = :digest,
            sent_lines = sent_lines + :lines, "at" = :tail, adopted = 1 WHERE id = :id"""
        values = {"sequence": header.sequence, "digest": part_digest(header, text), "lines": header.lines}
        self.database.execute(change, {**values, "tail": tail, "id": stream_id})
        self._put_sent_span(stream_id, header)
        self.put_span(stream_id, CollectedSpan(header.generation, header.end, header.head, header.boundary, ""))

    def _drop_parts(self, stream_id: int, theirs: set[int]) -> None:
        """Drop the parts of a stream that wait: what is left is what was confirmed.

        A generation that was over, and of which the other collector has sent nothing, is looked at again.
        """
        execute = self.database.execute
        query = "SELECT source_generation, data FROM outbox WHERE stream_id = ? AND name = ''"
        first = 2**62
        for generation, data in execute(query, (stream_id,)):
            if decode_part_header(decompress_at_most(data, MOST)).generation not in theirs:
                first = min(first, generation)
        execute("DELETE FROM outbox WHERE stream_id = ?", (stream_id,))
        execute("DELETE FROM spans WHERE stream_id = ?", (stream_id,))
        execute("INSERT INTO spans SELECT *, '' FROM sent_spans WHERE stream_id = ?", (stream_id,))
        change = (
            "UPDATE streams SET sequence = sent, digest = sent_digest, adopted = 1, done = min(done, ?) WHERE id = ?"
        )
        execute(change, (max(first - 1, 0), stream_id))

    def _put_sent_span(self, stream_id: int, header: SegmentHeader) -> None:
        values = (stream_id, header.generation, header.end, header.head, header.boundary)
        self.database.execute("INSERT OR REPLACE INTO sent_spans VALUES (?, ?, ?, ?, ?)", values)

    def _note_confirmed(self, now: int, redactions: int) -> None:
        change = "UPDATE targets SET unpublished = 1, confirmed = ?, redactions = redactions + ? WHERE id = ?"
        self.database.execute(change, (now, redactions, self._target))

    def _forget_packed(self) -> None:
        self.database.execute("DELETE FROM packed WHERE target_id = ?", (self._target,))
        change = "UPDATE outbox SET packed = 0 WHERE packed = 1 AND stream_id IN "
        self.database.execute(f"{change}(SELECT id FROM streams WHERE target_id = ?)", (self._target,))

    def _set_chain_end(self, end: ChainEnd) -> None:
        change = "UPDATE targets SET chain_day = ?, chain_last = ?, chain_sequence = ?, chain_digest = ? WHERE id = ?"
        self.database.execute(change, (*end, self._target))

    def release_pages(self) -> None:
        """Give the disk back what parts took that were sent meanwhile, if it is much and nothing waits."""
        free, size = (self.database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_size"))
        if free * size < _FREE or self.database.execute("SELECT 1 FROM outbox LIMIT 1").fetchone():
            return
        # What is left is small: streams and spans. Killed in here, the file is as it was before.
        self.database.execute("VACUUM")
        self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @property
    def is_unpublished(self) -> bool:
        """Whether something was confirmed since the heartbeat was written."""
        query = "SELECT unpublished FROM targets WHERE id = ?"
        return bool(self.database.execute(query, (self._target,)).fetchone()[0])

    def mark_published(self) -> None:
        """Record that the heartbeat was written."""
        self.database.execute("UPDATE targets SET unpublished = 0 WHERE id = ?", (self._target,))

    def note_look(self, now: int, failed: int, *, is_refused: bool) -> None:
        """Record that a collector has looked at the files: how many it could not read, and whether the store failed."""
        change = "UPDATE targets SET looked = ?, failed = ?, refused = iif(?, refused + 1, 0) WHERE id = ?"
        self.database.execute(change, (now, failed, is_refused, self._target))

    def condition(self) -> CollectorCondition:
        """Return how the collector is."""
        query = f"SELECT {', '.join(CollectorCondition._fields)} FROM targets WHERE id = ?"
        return CollectorCondition(*self.database.execute(query, (self._target,)).fetchone())

    def ends(self) -> dict[str, int]:
        """Return how far the newest generation of each file is confirmed, for files with nothing in the outbox."""
        # A span is recorded when its part is made: only without a waiting part is its end a confirmed one.
        query = """SELECT path, "end", max(generation) FROM spans JOIN streams ON id = stream_id WHERE target_id = ?
            AND id NOT IN (SELECT stream_id FROM outbox) GROUP BY id"""
        return {path: end for path, end, _ in self.database.execute(query, (self._target,))}


@contextmanager
def open_state(folder: Path, url: str, org: str, device: str) -> Iterator[CollectorState]:
    """Open the state of a target; it is created on first use."""
    with _translate_state_errors(folder):
        database = _open(folder)
        try:
            query = "SELECT id FROM targets WHERE (url, org, device) = (?, ?, ?)"
            if database.execute(query, (url, org, device)).fetchone() is None:
                insert = "INSERT OR IGNORE INTO targets (url, org, device) VALUES (?, ?, ?)"
                database.execute(insert, (url, org, device))
            yield CollectorState(database, database.execute(query, (url, org, device)).fetchone()[0])
        finally:
            database.close()


def known_targets(folder: Path) -> list[tuple[str, str, str]]:
    """Return the URL, org and device of every target."""
    if not (folder / NAME).exists():
        return []
    with _translate_state_errors(folder):
        database = _open(folder)
        try:
            return database.execute("SELECT url, org, device FROM targets ORDER BY id").fetchall()
        finally:
            database.close()


@contextmanager
def collector_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a data folder; `Refused` if another collector holds it."""
    path = create_private_file(folder, LOCK)
    try:
        with _translate_state_errors(folder), hold_lock(path, timeout=0):
            yield
    except LockTaken:
        message = f"another collector is running in `{folder}`"
        raise Refused(message, hint="see its progress with `unspool collect --status`") from None


def _open(folder: Path) -> sqlite3.Connection:
    # Durable: what was sent must be on disk here even after a power failure. Pages are large because segments are.
    return open_side_database(folder / NAME, VERSION, _load_statements, durable=True, page_size=32768)


def _load_statements(version: int) -> list[str]:
    names = {0: ("state.sql",), 1: ("state_upgrade.sql", "state_upgrade_3.sql"), 2: ("state_upgrade_3.sql",)}[version]
    return [part for name in names for part in Path(__file__).with_name(name).read_text("utf-8").split(";\n")]


@contextmanager
def _translate_state_errors(folder: Path) -> Iterator[None]:
    """Turn SQLite's errors into `UnspoolError`s with a hint for `collect.db`."""
    try:
        with translate_errors(folder):
            yield
    except UnspoolError as error:
        # `--rebuild` is the hint for the store; it would not help here.
        if error.hint and "--rebuild" in error.hint:
            error.hint = f"you can move `{folder / NAME}` away: unspool then asks the object store what was sent"
        raise
