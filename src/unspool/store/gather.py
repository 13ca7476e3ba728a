"""What a file has to say since it was last read: a task in, batches out. Reads files, writes nothing.

Rules
  1. Only bytes after the task's position are read, and what is needed to know that the file is still that file: its
     head and the bytes before the position. If it is not, it is read from the start, as a new generation.
  2. A batch is whole: with its rows the file is known up to its position, whatever happens to the batches after it.
  3. Of a line without an end the whole documents are read. A torn one after them stays for the next time; its bytes
     are in the frames all the same.
  4. A frame begins at every batch's position.
  5. Memory is bounded by the size of a batch and the longest line held.
"""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from unspool.graph.gathering import Facts, Gathering
from unspool.prices.answers import Response
from unspool.read.files import open_regular
from unspool.read.lines import Line, LineBuffer, LongLine
from unspool.read.position import SAMPLE, START, Change, Position, changed, has_head, position_at, position_in
from unspool.read.scan import Source
from unspool.read.text import LIMITS, read_at
from unspool.store.frames import Frame, Framing
from unspool.store.taking import Taken

BATCH = 16 * 1024 * 1024
"""Bytes of lines after which a batch ends; of frames a quarter of it."""


class Task(msgspec.Struct, frozen=True):
    """A file to read on in."""

    path: str
    kind: str
    position: Position = START
    state: bytes = b""
    archived: bool = True
    """Whether frames are wanted."""
    rewritten: bool = False
    """Whether it is known already that the file is not what it was."""
    again: bool = False
    """Whether all of it is to be read once more, even if it is what it was."""
    named: str | None = None
    """The path it is known by, if that is another."""
    keep: bool = False
    """Whether the bytes are wanted too: they are few, and somebody else would read them again."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What a part of a file says."""

    path: str
    change: Change
    start: int
    """Where it begins: the position before."""
    position: Position
    size: int
    modified: int
    lines: int
    bytes_read: int
    answers: list[Response]
    limits: list[tuple[int, int | None, str]]
    bad: list[tuple[int, int, str]]
    history: list[Any]
    frames: list[Frame]
    facts: Facts | None
    """Of a session: all that was read so far."""
    state: bytes
    owners: list[str]
    """Of an agent: the sessions its lines name."""
    is_first: bool
    """The first of a reading: what the archive has after its start is out of date."""
    again: bool
    """The same generation read once more: all its rows are to be replaced."""
    is_last: bool
    text: bytes
    """What was read, if that was asked for."""


_encode_state = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(Gathering).decode


def task(source: Source, **fields: Any) -> Task:
    """Return what is to be read of a source."""
    return Task(source.place, source.kind.value, **fields)


def batches(task: Task) -> Iterator[Batch]:
    """Yield what a file says that was not known yet: one batch at least."""
    with open_regular(task.path) as file:
        change = Change.REWRITTEN if task.rewritten else changed(file, task.position)
        reading = _Reading(task, file, change, again=task.again)
        for batch in reading.batches():
            if reading.is_stale:
                break
            yield batch
        if reading.is_stale:
            yield from _Reading(task, file, change, again=True).batches()


class _Reading:
    """One pass over a file."""

    def __init__(self, task: Task, file: int, change: Change, *, again: bool = False) -> None:
        self._task, self._file, self._change, self._again = task, file, change, again
        self._status = os.fstat(file)  # before anything is read: what is written meanwhile is for the next time
        self._goes_on = goes_on = change in (Change.SAME, Change.GROWN) and not again
        self._start = task.position.offset if goes_on else 0
        self._gathering = _decode_state(task.state) if goes_on and task.state else Gathering()
        self._framing = Framing(self._start) if task.archived else None
        self._bytes_read = 2 * min(SAMPLE, task.position.offset)
        self._rows = Taken(task.kind, task.named or task.path, self._gathering)
        self._is_first = True
        self._text = b""
        self._first = b""
        """The first bytes of the file, if they were read."""

    @property
    def is_stale(self) -> bool:
        """Whether only reading all of it again will tell the facts."""
        return self._gathering.is_stale

    def batches(self) -> Iterator[Batch]:
        """Yield what was read."""
        buffer, reached = LineBuffer(self._start, LIMITS.line), self._start
        while reached < self._status.st_size:
            data = read_at(self._file, reached, min(LIMITS.piece, self._status.st_size - reached), self._task.path)
            if not data:  # cut off meanwhile
                break
            if reached == 0:
                self._first = data
            reached += len(data)
            self._bytes_read += len(data)
            if self._task.keep:
                self._text += data
            self._rows.take(buffer.feed(data))
            if self._framing:
                self._framing.feed(data, buffer.offset)
            if buffer.offset - self._start >= BATCH or (self._framing and self._framing.weight >= BATCH // 4):
                yield self._batch(buffer.offset, is_last=False)
        rest = buffer.finish()
        end = self._take_unfinished(rest, buffer.offset) if rest else buffer.offset
        yield self._batch(end, is_last=True)

    def _take_unfinished(self, lines: list[Line | LongLine], end: int) -> int:
        """Take the whole documents of a line without an end; return where the torn one begins."""
        from unspool.format.entry import BadLine

        rest = self._rows.decoded(lines)
        if rest and isinstance(rest[-1], BadLine):
            end = rest.pop().offset
        self._rows.take_items(rest)
        return end

    def _batch(self, offset: int, *, is_last: bool) -> Batch:
        status, rows, start = self._status, self._rows, self._start
        rows.tally.finish()
        position = self._position(offset)
        is_session = self._task.kind == "session"
        frames = self._framing.take(offset, is_last=is_last) if self._framing else []
        batch = Batch(
            path=self._task.path,
            change=self._change,
            start=start,
            position=position,
            size=status.st_size,
            modified=status.st_mtime_ns,
            lines=rows.lines,
            bytes_read=self._bytes_read,
            answers=rows.answers(),
            limits=rows.limits(),
            bad=rows.bad,
            history=rows.history,
            frames=frames,
            facts=self._gathering.facts() if is_session else None,
            state=_encode_state(self._gathering.written_down()) if is_session else b"",
            owners=list(rows.owners),
            is_first=self._is_first,
            again=self._again and self._is_first,
            is_last=is_last,
            text=self._text,
        )
        if not is_last:
            self._rows = Taken(self._task.kind, self._task.named or self._task.path, self._gathering)
            self._start, self._bytes_read = offset, 0
            self._change, self._is_first = Change.GROWN, False
        return batch

    def _position(self, offset: int) -> Position:
        """Return where to go on. Of a small file that was just read, the samples need not be read again."""
        if offset <= len(self._first):
            return position_in(self._first, offset, self._status)
        before = self._task.position if self._goes_on else START
        self._bytes_read += SAMPLE if has_head(before) else 2 * min(SAMPLE, offset)
        return position_at(self._file, offset, before)
