"""Reads what is new in a session file: a task in; batches of responses, facts, bad lines and archive frames out.

Rules
  1. Only bytes after the task's position are read, and what is needed to know that the file is still that file: its
     head and the bytes before the position. If it is not, it is read from the start, as a new generation.
  2. A batch is whole: with its rows the file is known up to its position, whatever happens to the batches after it.
  3. Of a line without an end the whole documents are read. A torn one after them stays for the next time; its bytes
     are in the frames all the same.
  4. A frame begins at every batch's position.
  5. Memory is bounded by the size of a batch and the longest line held.
  6. Most lines are only glanced at (`format/projections.py`); what decodes the others is loaded when there is one.
  7. Nothing is written, neither files nor rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import astuple

from unspool.errors import UnspoolError
from unspool.files import data_end, modified_time, open_regular, read_at
from unspool.format import (
    DECODE_ERRORS,
    LONG_TEXT,
    BilledLine,
    decode_billed_line,
    decode_glance,
    decode_long_glance,
    encode_json,
    milliseconds,
)
from unspool.graph import FactsCollector, SessionFacts
from unspool.paths import project_name
from unspool.prices import LineCounter, Response, ResponseCounter
from unspool.read import (
    LIMITS,
    SAMPLE_SIZE,
    START,
    Change,
    Kind,
    Line,
    LineBuffer,
    LongLine,
    Position,
    detect_change,
    endless_reason,
    has_head,
    position_at,
    position_from_data,
)
from unspool.store.archive.archive import ArchiveFrame, FrameBuilder

if TYPE_CHECKING:
    from unspool.format import Item


BATCH_BYTES = 16 * 1024 * 1024
"""Bytes of lines after which a batch ends; of frames a quarter of it."""


class ReadTask(msgspec.Struct, frozen=True):
    """A file to read on in."""

    path: str
    kind: str
    position: Position = START
    state: bytes = b""
    archived: bool = True
    """Whether to make frames for the archive."""
    is_rewritten: bool = False
    """Whether it is known already that the file is not what it was."""
    reread: bool = False
    """Whether all of it is to be read once more, even if it is what it was."""
    known_path: str | None = None
    """The path that the store knows the file by, if that is another."""
    keep_text: bool = False
    """Whether to return the bytes too: they are few, and the text index would read them again."""


class Batch(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The content of a part of a file."""

    path: str
    change: Change
    start: int
    """Where it begins: the position before."""
    position: Position
    size: int
    modified: int
    lines: int
    bytes_read: int
    responses: list[Response]
    limits: list[tuple[int, int | None, str]]
    bad_lines: list[tuple[int, int, str]]
    history: list[Any]
    frames: list[ArchiveFrame]
    facts: SessionFacts | None
    """Of a session: all that was read so far."""
    state: bytes
    owners: list[str]
    """Of an agent: the sessions its lines name."""
    is_first: bool
    """The first of a reading: what the archive has after its start is out of date."""
    replaces_rows: bool
    """Whether the same generation was read once more, so that all its rows are to be replaced."""
    is_last: bool
    text: bytes
    """The bytes that were read, if the task has `keep_text`."""
    unread: str = ""
    """Of the last batch: why the file was not read to its end, if a line has none. Sparse files are found by a scan."""


class FailedRead(msgspec.Struct, frozen=True, tag=True):
    """A file that could not be read."""

    path: str
    reason: str


class LineCollector:
    """Collects responses, bad lines, prompts and owners from the lines of a file, and the facts of a session."""

    def __init__(
        self,
        kind: str,
        file: str,
        gathering: FactsCollector,
        lengths: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self._kind, self._gathering = kind, gathering
        self._lengths = lengths
        """By offset: how long lines were that are not as they were written."""
        self._counting = ResponseCounter[int]()
        self._tally = LineCounter(self._counting, 0, file)
        self.lines = 0
        self.bad_lines: list[tuple[int, int, str]] = []
        self.history: list[Any] = []
        self.owners: dict[str, None] = {}

    def add_lines(self, lines: list[Line | LongLine]) -> None:
        """Take the next lines of the file."""
        match self._kind:
            case Kind.SESSION.value:
                self._add_session_lines(lines)
            case Kind.AGENT.value:
                self._add_agent_lines(lines)
            case _:
                self.add_items(self.decode(lines))

    def decode(self, lines: list[Line | LongLine]) -> list[Item]:
        """Return lines decoded whole."""
        from unspool.format import HISTORY, SESSION
        from unspool.read import decode_lines

        return decode_lines(lines, HISTORY if self._kind == Kind.HISTORY.value else SESSION)

    def add_items(self, items: list[Item]) -> None:
        """Take lines that were decoded whole."""
        from unspool.format import BadLine, Entry
        from unspool.graph import add_entry_facts
        from unspool.prices import BILLED_RECORDS, add_entry

        for item in items:
            if type(item) is Entry:
                self.lines += 1
                if self._kind == Kind.SESSION.value:
                    add_entry_facts(self._gathering, item)
                elif self._kind == Kind.HISTORY.value:
                    from unspool.store.sync.side_rows import history_row  # of one file in a thousand

                    if (row := history_row(item)) is not None:
                        self.history.append(row)
                    continue
                elif item.record.session_id:
                    self.owners[item.record.session_id] = None
                if type(item.record) in BILLED_RECORDS:
                    add_entry(self._tally, item)
            elif isinstance(item, BadLine):
                self.lines += 1
                self.bad_lines.append((item.offset, item.length, item.reason))

    def finish(self) -> list[Response]:
        """Return what was billed, each response once; no line may be added after."""
        self._tally.finish()
        return [response for _, response in self._counting.responses()]

    def limits(self) -> list[tuple[int, int | None, str]]:
        """Return the notices of Claude Code that a limit was reached: offset, time, words."""
        notices = (line for line in self._tally.unbilled if line.notice)
        return [(line.offset, milliseconds(line.timestamp), line.notice) for line in notices]

    def _add_session_lines(self, lines: list[Line | LongLine]) -> None:
        add_glance = self._gathering.add_glance
        for line in lines:
            try:
                if type(line) is not Line:
                    record = None
                elif len(line.data) > LONG_TEXT:
                    record = decode_long_glance(line.data)
                else:
                    record = decode_glance(line.data)
            except DECODE_ERRORS:
                record = None
            # A progress line may repeat an agent's response, which is billed to the session.
            if (
                record is None
                or (record.data and record.data.type == "agent_progress" and _may_bill(line))
                or not add_glance(line.offset, record)
            ):
                self.add_items(self.decode([line]))
                continue
            self.lines += 1
            if record.type == "assistant":
                self._bill(record, line)

    def _add_agent_lines(self, lines: list[Line | LongLine]) -> None:
        """Take lines of an agent: only what was billed matters, and whose it is."""
        for line in lines:
            try:
                answer = decode_billed_line(line.data) if type(line) is Line else None
            except DECODE_ERRORS:
                answer = None
            if answer is None or (answer.type == "progress" and _may_bill(line)):
                self.add_items(self.decode([line]))
                continue
            self.lines += 1
            if answer.session_id:
                self.owners[answer.session_id] = None
            if answer.type == "assistant":
                self._bill(answer, line)

    def _bill(self, answer: BilledLine, line: Line | LongLine) -> None:
        assert type(line) is Line
        length = self._lengths.get(line.offset) if self._lengths else None
        if length is not None and (answer.message.id or answer.uuid):
            # Of a line with an id only the size counts: zeros stand for the bytes that it had.
            self._tally.add_line(answer, bytes(length), line.offset)
        else:
            self._tally.add_line(answer, line.data, line.offset)


def _may_bill(line: Line | LongLine) -> bool:
    """Tell whether a progress line may bill something: those of hooks and commands do not."""
    return type(line) is not Line or b'"usage"' in bytes(line.data)


def session_row(facts: SessionFacts, session_id: str, project_key: str | None) -> tuple[object, ...]:
    """Return a row of `sessions`, without its file."""
    # The fields of the facts are in the order of the columns; the project comes after the folder.
    values = [encode_json(value).decode() if isinstance(value, tuple) else value for value in astuple(facts)]
    place = SessionFacts.__struct_fields__.index("cwd") + 1
    return (session_id, *values[:place], project_name(facts.cwd, project_key), *values[place:])


_encode_state = msgspec.msgpack.Encoder().encode
_decode_state = msgspec.msgpack.Decoder(FactsCollector).decode


def read_batches(task: ReadTask) -> Iterator[Batch]:
    """Yield the new content of a file: one batch at least."""
    with open_regular(task.path) as file:
        change = Change.REWRITTEN if task.is_rewritten else detect_change(file, task.position)
        reading = _Reading(task, file, change, reread=task.reread)
        for batch in reading.batches():
            if reading.is_stale:
                break
            yield batch
        if reading.is_stale:
            yield from _Reading(task, file, change, reread=True).batches()


def read_or_fail(task: ReadTask) -> Iterator[Batch | FailedRead]:
    """Yield the new content of a file, or why it cannot be read."""
    try:
        yield from read_batches(task)
    except UnspoolError as error:
        yield FailedRead(task.path, error.reason)


class _Reading:
    """One pass over a file."""

    def __init__(self, task: ReadTask, file: int, change: Change, *, reread: bool) -> None:
        self._task, self._file, self._change, self._reread = task, file, change, reread
        self._status = os.fstat(file)  # before anything is read: what is written meanwhile is for the next time
        goes_on = change in (Change.SAME, Change.GROWN) and not reread
        self._before = task.position if goes_on else START
        self._start = self._before.offset
        self._gathering = _decode_state(task.state) if goes_on and task.state else FactsCollector()
        self._frames = FrameBuilder(self._start) if task.archived else None
        self._bytes_read = 2 * min(SAMPLE_SIZE, task.position.offset)
        self._rows = LineCollector(task.kind, task.known_path or task.path, self._gathering)
        self._is_first = True
        self._text = b""
        self._unread = ""
        self._first_bytes = b""
        """The first bytes of the file, if they were read."""

    @property
    def is_stale(self) -> bool:
        """Whether only reading all of it again gives the facts."""
        return self._gathering.is_stale

    def batches(self) -> Iterator[Batch]:
        """Yield what was read."""
        buffer, reached = LineBuffer(self._start, LIMITS.line), self._start
        end = data_end(self._file, self._status)
        while reached < end:
            data = read_at(self._file, reached, min(LIMITS.piece, end - reached), self._task.path)
            if not data:  # cut off meanwhile
                break
            if reached == 0:
                self._first_bytes = data
            reached += len(data)
            self._bytes_read += len(data)
            if self._task.keep_text:
                self._text += data
            self._rows.add_lines(buffer.feed(data))
            if self._frames:
                self._frames.feed(data, buffer.offset)
            if buffer.offset - self._start >= BATCH_BYTES or (self._frames and self._frames.weight >= BATCH_BYTES // 4):
                yield self._batch(buffer.offset, is_last=False)
            if buffer.is_endless:
                self._unread = endless_reason(buffer.offset, self._status.st_size)
                break
        rest = buffer.finish()
        end = self._add_unfinished(rest, buffer.offset) if rest else buffer.offset
        yield self._batch(end, is_last=True)

    def _add_unfinished(self, lines: list[Line | LongLine], end: int) -> int:
        """Take the whole documents of a line without an end; return where the torn one begins."""
        from unspool.format import BadLine

        rest = self._rows.decode(lines)
        if rest and isinstance(rest[-1], BadLine):
            end = rest.pop().offset
        self._rows.add_items(rest)
        return end

    def _batch(self, offset: int, *, is_last: bool) -> Batch:
        status, rows = self._status, self._rows
        position = self._position(offset)
        is_session = self._task.kind == Kind.SESSION.value
        batch = Batch(
            path=self._task.path,
            change=self._change,
            start=self._start,
            position=position,
            size=status.st_size,
            modified=modified_time(status),
            lines=rows.lines,
            bytes_read=self._bytes_read,
            responses=rows.finish(),
            limits=rows.limits(),
            bad_lines=rows.bad_lines,
            history=rows.history,
            frames=self._frames.take(offset, is_last=is_last) if self._frames else [],
            facts=self._gathering.facts() if is_session else None,
            state=_encode_state(self._gathering.without_uuids()) if is_session else b"",
            owners=list(rows.owners),
            is_first=self._is_first,
            replaces_rows=self._reread and self._is_first,
            is_last=is_last,
            text=self._text,
            unread=self._unread,
        )
        if not is_last:
            self._rows = LineCollector(self._task.kind, self._task.known_path or self._task.path, self._gathering)
            self._start, self._bytes_read = offset, 0
            self._change, self._is_first = Change.GROWN, False
        return batch

    def _position(self, offset: int) -> Position:
        """Return where to go on. Of a small file that was just read, the samples need not be read again."""
        if offset <= len(self._first_bytes):
            return position_from_data(self._first_bytes, offset, self._status)
        self._bytes_read += SAMPLE_SIZE if has_head(self._before) else 2 * min(SAMPLE_SIZE, offset)
        return position_at(self._file, offset, self._before)
