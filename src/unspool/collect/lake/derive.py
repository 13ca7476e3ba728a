"""Derives the rows of all tables from the segments of a stream.

Rules
  1. The rows are those that `unspool sql` would have, by the same code: `store/columns/derive.py` and
     `store/sync/read_file.py`.
  2. `entries` and billed responses have rows of every generation. All other rows are of the last generation.
  3. Offsets and lengths are those of the source, also where redaction has changed a line.
  4. The same segments give the same rows, whoever derives them and when: the row of a line depends only on its
     segment.
  5. Values are in the order of `parts.sql`, without the first two columns.
  6. An unreadable side file has a row in `bad_lines` and no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unspool.collect.lake.streams import ReadSegment
from unspool.collect.lake.tables import TIMES, device_bucket, lake_tables, partition_columns
from unspool.collect.segments import Segment, SegmentHeader, SegmentLine
from unspool.format.side_files import AgentMeta, parse_object
from unspool.graph import FactsCollector
from unspool.prices import DIGEST, Response, attribute_responses, file_stem
from unspool.read import Kind, Line, LongLine, Source, decode_lines
from unspool.store.columns import (
    LINE_KINDS,
    FileDerivation,
    SourceFile,
    epoch_days,
    epoch_micros,
    part_tables,
    to_record_batch,
)
from unspool.store.sync import LineCollector, session_row, side_rows

_CHUNK = 16 * 1024 * 1024
"""Bytes of lines whose rows are held as Python objects; then they become Arrow batches, which are smaller."""

_FIRST_DAY, _END_DAY = 10_957, 47_482
"""Days since 1970 of 2000-01-01 and 2100-01-01. A time outside cannot be when a line was written."""
_DAY = 86_400_000_000


class StreamOwner(NamedTuple):
    """The device and the stream that rows belong to."""

    org: str
    user: str
    device: str
    stream: str

    @property
    def home(self) -> str:
        """The device with its organisation: `org/device`."""
        return f"{self.org}/{self.device}"

    @property
    def bucket(self) -> int:
        """The partition of the device."""
        return device_bucket(self.org, self.device)


class RowBuffer:
    """Collects rows by table and turns them into Arrow batches."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[object, ...]]] = {}
        self._weight = 0
        self._batches: dict[str, list[Any]] = {}

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """Add a row."""
        held = self._held.get(table)
        if held is None:
            self._held[table] = [row]
        else:
            held.append(row)

    def extend(self, table: str, batches: Sequence[Any]) -> None:
        """Add Arrow batches that another buffer made."""
        if batches:
            self._batches.setdefault(table, []).extend(batches)

    def weigh(self, length: int) -> None:
        """Add to the number of source bytes that the held rows come from; flush if they are too many."""
        self._weight += length
        if self._weight >= _CHUNK:
            self._flush()

    def batches(self, table: str) -> Sequence[Any]:
        """Return the Arrow batches of a table."""
        if self._held:
            self._flush()
        return self._batches.get(table, ())

    def discard(self, table: str) -> None:
        """Forget the batches of a table."""
        self._batches.pop(table, None)

    def _flush(self) -> None:
        for table, rows in self._held.items():
            self._batches.setdefault(table, []).append(to_record_batch(lake_tables()[table], rows))
        self._held, self._weight = {}, 0


def day_of(micros: object) -> int | None:
    """Return the day of a time as days since 1970; None for a time that cannot be right.

    >>> day_of(1_767_225_600_000_000)
    20454
    """
    if not isinstance(micros, int):
        return None
    day = micros // _DAY
    return day if _FIRST_DAY <= day < _END_DAY else None


Row = tuple[str, tuple[object, ...]]

_KINDS = {kind.value: kind for kind in Kind}
_NOWHERE = Path("/\0")
"""A folder that cannot exist: the side files are another machine's, and none of this machine may be looked at."""


def side_file_table_rows(segments: list[Segment]) -> Iterator[Row]:
    """Yield the rows of a side file."""
    header = segments[-1].header
    kind = _KINDS.get(header.kind)
    if kind is Kind.HISTORY:
        yield from _history_rows(segments)
        return
    text = "\n".join(line.raw for segment in segments for line in segment.lines)
    if kind is None:
        return
    try:
        yield from _whole_file_rows(header, kind, text.encode("utf-8", "surrogatepass"))
    except msgspec.DecodeError as error:
        yield "bad_lines", (header.generation, 0, header.end, str(error))


def _whole_file_rows(header: SegmentHeader, kind: Kind, data: bytes) -> Iterator[Row]:
    if kind is Kind.AGENT_META:
        meta = parse_object(data, AgentMeta)
        path = header.source.removesuffix(".meta.json") + ".jsonl"
        yield "agent_meta", (path, meta.agent_type, meta.description, meta.tool_use_id)
        return
    written = epoch_micros(header.written) or 0
    owner = (header.project, header.session, header.agent)
    source = Source(str(_NOWHERE / header.source), kind, header.end, written * 1000, *owner)
    for table, values in side_rows.side_file_rows(source, data):
        match table:
            case "todos":
                yield table, values
            case "plans":
                yield table, (*values[:-2], None, written)
            case "stats_days":
                date = values[0]
                yield table, (epoch_days(date if isinstance(date, str) else None), *values[1:])
            case _:
                pass


def _history_rows(segments: list[Segment]) -> Iterator[Row]:
    collector = LineCollector(Kind.HISTORY.value, segments[-1].header.source, FactsCollector())
    for segment in segments:
        for line in segment.lines:
            data = line.raw.encode("utf-8", "surrogatepass") + b"\n"
            collector.add_lines([Line(line.offset, memoryview(data))])
    generation = segments[-1].header.generation
    for offset, time, *rest in collector.history:
        yield "history", (generation, offset, None if time is None else time * 1000, *rest)
    for offset, length, reason in collector.bad_lines:
        yield "bad_lines", (generation, offset, length, reason)


MADE_WITH = f"2 {DIGEST[:12]}"
"""The version of the derivation and of the price list; `lake ingest --again` derives anew after a change."""

_TIMESTAMP = re.compile(r'"timestamp":\s?"([0-9T:.Z+-]{10,40})"')
_ENVELOPE = slice(3, 20)
"""The values of a row of `lines` that `entries` has too: from `type` to `entrypoint`."""
_NO_ENVELOPE = (None,) * 17
_TIME = 9
"""The index of the time in a row of `lines`."""


class DerivedStream(NamedTuple):
    """A stream whose rows were derived."""

    owner: StreamOwner
    kind: str
    sequence: int
    days: frozenset[int]
    """Every day that a row of it belongs to, or belonged to earlier; empty if that is not known."""
    answers: list[tuple[int, Response]]
    """The billed responses, with their generation."""
    source: str
    project: str | None
    lines: int
    """The number of new lines."""
    length: int
    """Bytes of the new lines in the source."""


def derive_stream(reads: list[ReadSegment], id: str, since: int, out: RowBuffer) -> DerivedStream:
    """Derive all rows of the stream that has this id in the tables. Lines of the segments after `since` are new."""
    last = reads[-1].segment.header
    owner = StreamOwner(last.org, last.user, last.device, id)
    derivation = _StreamDerivation(owner, last, since, out)
    for generation, group in groupby(reads, lambda read: read.segment.header.generation):
        segments = list(group)
        # Of a forgotten stream there is nothing to derive: not even a session without lines.
        if last.is_forgotten:
            continue
        if last.kind in LINE_KINDS:
            derivation.add_lines(segments, is_last=generation == last.generation)
        else:
            derivation.add_side_file(segments, is_last=generation == last.generation)
    out.add("sources", _source_row(owner, reads))
    # On which days lines were that have been forgotten since, nobody knows.
    has_all_days = last.kind in LINE_KINDS and not any(read.segment.header.original for read in reads)
    return DerivedStream(
        owner,
        last.kind,
        last.sequence,
        frozenset(derivation.days) if has_all_days else frozenset(),
        derivation.answers,
        last.source,
        last.project,
        derivation.new,
        derivation.length,
    )


class _StreamDerivation:
    """One pass over all segments of a stream."""

    def __init__(self, owner: StreamOwner, last: SegmentHeader, since: int, out: RowBuffer) -> None:
        self._owner, self._last, self._since, self._out = owner, last, since, out
        self._day = 0
        self.days: set[int] = set()
        self.answers: list[tuple[int, Response]] = []
        self.new = self.length = 0
        self._bucket = owner.bucket  # asked for every row
        self._envelope: tuple[object, ...] | None = None
        agent = last.agent
        if last.kind == "agent" and agent is None:
            agent = file_stem(last.source)
        self._file = SourceFile(last.source, last.kind, last.session, agent)
        self._session = last.session or (file_stem(last.source) if last.kind == "session" else None)

    def add_lines(self, reads: list[ReadSegment], *, is_last: bool) -> None:
        """Derive a generation of a file of lines."""
        facts, lengths = FactsCollector(), dict[int, int]()
        collector = LineCollector(self._last.kind, self._last.source, facts, lengths)
        derivation = FileDerivation(self._file, self._emit if is_last else self._note_envelope)
        for read in reads:
            header = read.segment.header
            self._begin(read)
            is_new = header.sequence > self._since
            lines = _lines(read, lengths)
            # All lines of all generations: what was billed stays billed, also where a file was rewritten since.
            collector.add_lines([line for _, line in lines])
            for sent, line in lines if is_last or is_new else ():
                self._envelope = None
                for item in decode_lines([line]):
                    derivation.add(item)
                self._add_entry(header, sent, is_new=is_new)
                self._out.weigh(sent.length)
        generation = reads[0].segment.header.generation
        responses = attribute_responses(collector.finish(), self._last.source, self._session)
        self.answers += [(generation, response) for response in responses]
        if is_last:
            derivation.finish()
            self._finish(collector, facts)

    def add_side_file(self, reads: list[ReadSegment], *, is_last: bool) -> None:
        """Derive a generation of any other file."""
        for read in reads:
            header = read.segment.header
            self._begin(read)
            if header.sequence > self._since:
                for line in read.segment.lines:
                    self._add_line("side_files", header, line, ())
        if is_last:
            for table, row in side_file_table_rows([read.segment for read in reads]):
                self._add_row(table, row)

    def _begin(self, read: ReadSegment) -> None:
        """Begin a segment: lines before its first line with a time belong to the day of that line."""
        # Not to the day of the line before, in another segment: the row of a line depends on its segment alone.
        written = day_of(epoch_micros(read.segment.header.written)) or 0
        self._day = _first_day(read.segment.lines) or written if self._last.kind in LINE_KINDS else written
        self.days.add(self._day)

    def _add_entry(self, header: SegmentHeader, line: SegmentLine, *, is_new: bool) -> None:
        envelope = self._envelope
        if envelope is not None and (day := day_of(envelope[_TIME])) is not None:
            self._day = day
        if is_new:
            self._add_line("entries", header, line, envelope[_ENVELOPE] if envelope else _NO_ENVELOPE)

    def _add_line(self, table: str, header: SegmentHeader, line: SegmentLine, envelope: tuple[object, ...]) -> None:
        self.new += 1
        self.length += line.length + 1
        row = (
            header.org,
            header.user,
            header.device,
            header.project,
            header.source,
            header.kind,
            header.session,
            header.agent,
            header.generation,
            line.offset,
            line.length,
            *envelope,
            line.bad,
            line.raw,
            self._owner.stream,
            header.sequence,
            self._day,
        )
        self._out.add(table, row)

    def _note_envelope(self, table: str, row: tuple[object, ...]) -> None:
        """Remember the envelope of a line for `entries`."""
        # A line may hold two documents; it is one row of `entries`, and the first document decides.
        if table != "lines":
            return
        if (day := day_of(row[_TIME])) is not None:
            self.days.add(day)
        if self._envelope is None:
            self._envelope = row

    def _emit(self, table: str, row: tuple[object, ...]) -> None:
        if table == "lines":
            self._note_envelope(table, row)
        else:
            self._add_row(table, row)

    def _add_row(self, table: str, row: tuple[object, ...]) -> None:
        partition = self._bucket
        if "day" in partition_columns(table):
            index = _times().get(table)
            day = day_of(row[index]) if index is not None else None
            partition = self._day if day is None else day
            self.days.add(partition)
        self._out.add(table, (*self._owner, *row, partition))

    def _finish(self, collector: LineCollector, facts: FactsCollector) -> None:
        last, generation = self._last, self._last.generation
        for offset, length, reason in collector.bad_lines:
            self._add_row("bad_lines", (generation, offset, length, reason))
        if last.kind == "session":
            row = list(session_row(facts.facts(), self._session or "", last.project))
            # `started` and `ended` are text in the store's row, and times in the lake.
            for index in (10, 11):
                time = row[index]
                row[index] = epoch_micros(time) if isinstance(time, str) else None
            self._add_row("sessions", tuple(row))
        if last.kind == "agent":
            for owner in [last.session] if last.session else collector.owners:
                self._add_row("agent_owners", (owner,))


@cache
def _times() -> dict[str, int]:
    """Return by table the index of the value that decides the day of a row."""
    names = {
        table: [name for name in part_tables()[table].names if name not in ("revision", "source_id")] for table in TIMES
    }
    return {table: names[table].index(time) for table, time in TIMES.items()}


def _first_day(lines: Iterable[SegmentLine]) -> int | None:
    """Return the day of the first timestamp in some lines."""
    for line in lines:
        for match in _TIMESTAMP.finditer(line.raw):
            if (day := day_of(epoch_micros(match[1]))) is not None:
                return day
    return None


def _lines(read: ReadSegment, lengths: dict[int, int]) -> list[tuple[SegmentLine, Line | LongLine]]:
    """Return the lines of a segment as the reader would return them from the source."""
    lines, end = read.segment.lines, read.segment.header.end
    read_lines: list[tuple[SegmentLine, Line | LongLine]] = []
    for number, line in enumerate(lines):
        data = line.raw.encode("utf-8", "surrogatepass")
        following = lines[number + 1].offset if number + 1 < len(lines) else end
        has_end = following > line.offset + line.length
        # Redaction has changed the length: rows must have the one in the source.
        if len(data) != line.length:
            lengths[line.offset] = line.length + has_end
        read_lines.append((line, Line(line.offset, memoryview(data + b"\n" if has_end else data))))
    return read_lines


def _source_row(owner: StreamOwner, reads: Sequence[ReadSegment]) -> tuple[object, ...]:
    headers = [read.segment.header for read in reads]
    last = headers[-1]
    return (
        *owner,
        last.source,
        last.kind,
        last.project,
        last.session,
        last.agent,
        last.generation,
        last.end,
        sum(header.lines for header in headers if header.generation == last.generation),
        sum(header.lines for header in headers),
        last.sequence,
        reads[-1].digest,
        sum(sum(header.redactions.values()) for header in headers),
        epoch_micros(last.written),
        last.rules,
        MADE_WITH,
        reads[-1].modified,
        owner.bucket,
    )
