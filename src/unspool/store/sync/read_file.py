"""What a file has to say since it was last read: a task in, batches out. Reads files, writes nothing.

Rules
  1. Only bytes after the task's position are read, and what is needed to know that the file is still that file: its
     head and the bytes before the position. If it is not, it is read from the start, as a new generation.
  2. A batch is whole: with its rows the file is known up to its position, whatever happens to the batches after it.
  3. Of a line without an end the whole documents are read. A torn one after them stays for the next time; its bytes
     are in the frames all the same.
  4. A frame begins at every batch's position.
  5. Memory is bounded by the size of a batch and the longest line held.

[merged: taking.py] What lines of a file say: lines in; billed responses, bad lines, facts of a session out. No files, no database.

Rules
  1. Of most lines a glance is enough. What decodes the others whole is loaded when there is one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from unspool.files.open import open_regular
from unspool.format.base import UNDECODABLE
from unspool.format.json_edit import encode
from unspool.format.projections import Glance, Label, glance
from unspool.graph.session_facts import Facts, Gathering
from unspool.paths import project_name
from unspool.prices.line_counter import Tally
from unspool.prices.responses import BilledLine, Counting, Response, billed_line
from unspool.read.chunks import LIMITS, read_at
from unspool.read.lines import Line, LineBuffer, LongLine
from unspool.read.position import SAMPLE, START, Change, Position, changed, has_head, position_at, position_in
from unspool.read.scan import Kind, Source
from unspool.store.archive.frames import Frame, Framing
from unspool.store.usage.ledger import milliseconds

if TYPE_CHECKING:
    from unspool.format.entry import Entry, Item


class Taken:
    """What the lines of a file said so far."""

    def __init__(
        self,
        kind: str,
        file: str,
        gathering: Gathering,
        lengths: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self._kind, self._gathering = kind, gathering
        self._lengths = lengths
        """By offset: how long lines were that are not as they were written."""
        self.lines = 0
        self._counting = Counting[int]()
        self.tally = Tally(self._counting, 0, file)
        self.bad: list[tuple[int, int, str]] = []
        self.history: list[Any] = []
        self.owners: dict[str, None] = {}

    def take(self, lines: list[Line | LongLine]) -> None:
        """Take the next lines of the file."""
        match self._kind:
            case Kind.SESSION.value:
                self._take_glances(lines)
            case Kind.AGENT.value:
                self._take_agents(lines)
            case _:
                self.take_items(self.decoded(lines))

    def answers(self) -> list[Response]:
        """Return what was billed, each once; after `tally.finish`."""
        return [response for _, response in self._counting.billed()]

    def limits(self) -> list[tuple[int, int | None, str]]:
        """Return where the program said that a limit was reached, when, and in which words."""
        return [(one.offset, milliseconds(one.timestamp), one.notice) for one in self.tally.dropped if one.notice]

    def decoded(self, lines: list[Line | LongLine]) -> list[Item]:
        """Return lines decoded whole."""
        from unspool.format.codec import HISTORY, SESSION
        from unspool.read.tail import decode_lines

        return decode_lines(lines, HISTORY if self._kind == Kind.HISTORY.value else SESSION)

    def take_items(self, items: list[Item]) -> None:
        """Take lines that were decoded whole."""
        from unspool.format.entry import BadLine, Entry
        from unspool.graph.session_facts_from_entries import take
        from unspool.prices.from_entries import BILLED, take_entry

        for item in items:
            if type(item) is Entry:
                self.lines += 1
                if self._kind == Kind.SESSION.value:
                    take(self._gathering, item)
                elif self._kind == Kind.HISTORY.value:
                    self._take_history(item)
                    continue
                elif item.record.session_id:
                    self.owners[item.record.session_id] = None
                if type(item.record) in BILLED:
                    take_entry(self.tally, item)
            elif isinstance(item, BadLine):
                self.lines += 1
                self.bad.append((item.offset, item.length, item.reason))

    def _take_glances(self, lines: list[Line | LongLine]) -> None:
        gather = self._gathering.take_glance
        for line in lines:
            try:
                seen = glance(line.data) if type(line) is Line else None
            except UNDECODABLE:
                seen = None
            if seen is None or (seen.data and _tells_of_agent(seen.data, line)) or not gather(line.offset, seen):
                self.take_items(self.decoded([line]))
                continue
            self.lines += 1
            if seen.type == "assistant":
                self._bill(seen, line)

    def _take_agents(self, lines: list[Line | LongLine]) -> None:
        """Take lines of an agent: only what was billed matters, and whose it is."""
        for line in lines:
            try:
                answer = billed_line(line.data) if type(line) is Line else None
            except UNDECODABLE:
                answer = None
            if answer is None or (answer.type == "progress" and _has_usage(line)):
                self.take_items(self.decoded([line]))
                continue
            self.lines += 1
            if answer.session_id:
                self.owners[answer.session_id] = None
            if answer.type == "assistant":
                self._bill(answer, line)

    def _bill(self, answer: Glance | BilledLine, line: Line | LongLine) -> None:
        assert type(line) is Line
        length = self._lengths.get(line.offset) if self._lengths else None
        if length is not None and (answer.message.id or answer.uuid):  # its size counts, and it is known by an id
            self.tally.take(answer, bytes(length), line.offset)
        else:
            self.tally.take(answer, line.data, line.offset)

    def _take_history(self, entry: Entry) -> None:
        from unspool.store.sync.side_rows import history_row  # of one file in a thousand

        self.history.append(history_row(entry))


def session_row(facts: Facts, session_id: str, project_key: str | None) -> tuple[object, ...]:
    """Return a row of `sessions`, without its file."""
    return (
        session_id,
        facts.title,
        facts.titled_by,
        facts.first_prompt,
        facts.cwd,
        project_name(facts.cwd, project_key),
        facts.branch,
        facts.slug,
        encode(facts.versions).decode(),
        encode(facts.models).decode(),
        facts.started,
        facts.last,
        facts.wall,
        facts.active,
        facts.turns,
        facts.messages,
        facts.tool_calls,
        facts.errors,
        facts.images,
        facts.compactions,
        encode(facts.pull_requests).decode(),
        facts.context_tokens,
        facts.hidden,
    )


def _tells_of_agent(told: Label, line: Line | LongLine) -> bool:
    """Tell whether a progress line may repeat an agent's answer."""
    return told.type == "agent_progress" and _has_usage(line)


def _has_usage(line: Line | LongLine) -> bool:
    """Tell whether a line may bill something. Asked of few: what tells of a hook or a command bills nothing."""
    return type(line) is not Line or b'"usage"' in bytes(line.data)


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
