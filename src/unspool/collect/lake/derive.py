"""Derives the rows of all tables from the segments of a stream.

Rules
  1. The rows are those that `unspool sql` would have, by the same code: `store/columns/derive.py` and
     `store/sync/read_file.py`.
  2. Lines are rows of `entries` in every generation; so is what was billed. All other rows are of the last generation.
  3. Offsets and lengths are those of the source, also where redaction has changed a line.
  4. The same segments give the same rows, whoever derives them and when. So a line's row depends on its segment alone.
  5. Values stand in the order of `parts.sql`, without the first two.
  6. A file that cannot be read is a bad line, and has no other rows.
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
from unspool.collect.segments import Segment, SegmentHeader
from unspool.collect.segments import SegmentLine as Told
from unspool.format.side_files import parse_agent_meta
from unspool.graph import FactsCollector
from unspool.prices import DIGEST, Response, file_stem
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
"""Bytes of lines whose rows are held as Python's objects."""

_FIRST, _AFTER = 10_957, 47_482
"""Days since 1970 of 2000-01-01 and 2100-01-01. A time before or after says nothing of when a line was written."""
_DAY = 86_400_000_000


class StreamOwner(NamedTuple):
    """Whose rows they are, and from which stream."""

    org: str
    user: str
    device: str
    stream: str


class RowBuffer:
    """Takes rows and keeps them as columns."""

    def __init__(self) -> None:
        self._held: dict[str, list[tuple[object, ...]]] = {}
        self._weight = 0
        self._batches: dict[str, list[Any]] = {}

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """Take a row."""
        held = self._held.get(table)
        if held is None:
            self._held[table] = [row]
        else:
            held.append(row)

    def weigh(self, length: int) -> None:
        """Tell how many bytes the rows since then were made from."""
        self._weight += length
        if self._weight >= _CHUNK:
            self._flush()

    def batches(self, table: str) -> Sequence[Any]:
        """Return the rows of a table."""
        if self._held:
            self._flush()
        return self._batches.get(table, ())

    def _flush(self) -> None:
        for table, rows in self._held.items():
            self._batches.setdefault(table, []).append(to_record_batch(lake_tables()[table], rows))
        self._held, self._weight = {}, 0


def day_of(micros: object) -> int | None:
    """Return the day of a time, as days since 1970; nothing for a time that cannot be meant.

    >>> day_of(1_767_225_600_000_000)
    20454
    """
    if not isinstance(micros, int):
        return None
    day = micros // _DAY
    return day if _FIRST <= day < _AFTER else None


Row = tuple[str, tuple[object, ...]]

_KINDS = {kind.value: kind for kind in Kind}
_NOWHERE = Path("/\0")
"""No file of this machine has such a name: what is said of a source's own time must not be read here."""


def rows_of_stream(segments: list[Segment]) -> Iterator[Row]:
    """Yield the rows of a file."""
    header = segments[-1].header
    kind = _KINDS.get(header.kind)
    if kind is Kind.HISTORY:
        yield from _history(segments)
        return
    text = "\n".join(line.raw for segment in segments for line in segment.lines)
    if kind is None:
        return
    try:
        yield from _whole(header, kind, text.encode("utf-8", "surrogatepass"))
    except msgspec.DecodeError as error:
        yield "bad_lines", (header.generation, 0, header.end, str(error))


def _whole(header: SegmentHeader, kind: Kind, data: bytes) -> Iterator[Row]:
    if kind is Kind.AGENT_META:
        meta = parse_agent_meta(data)
        path = header.source.removesuffix(".meta.json") + ".jsonl"
        yield "agent_meta", (path, meta.agent_type, meta.description, meta.tool_use_id)
        return
    written = epoch_micros(header.written) or 0
    place = (header.project, header.session, header.agent)
    source = Source(str(_NOWHERE / header.source), kind, header.end, written * 1000, *place)
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


def _history(segments: list[Segment]) -> Iterator[Row]:
    taken = LineCollector(Kind.HISTORY.value, segments[-1].header.source, FactsCollector())
    for segment in segments:
        for line in segment.lines:
            data = line.raw.encode("utf-8", "surrogatepass") + b"\n"
            taken.add_lines([Line(line.offset, memoryview(data))])
    generation = segments[-1].header.generation
    for offset, time, *rest in taken.history:
        yield "history", (generation, offset, None if time is None else time * 1000, *rest)
    for offset, length, reason in taken.bad_lines:
        yield "bad_lines", (generation, offset, length, reason)


MADE_WITH = f"1 {DIGEST[:12]}"
"""Of how rows are derived, and of the prices."""

_TIMESTAMP = re.compile(r'"timestamp":\s?"([0-9T:.Z+-]{10,40})"')
_ENVELOPE = slice(3, 20)
"""What of a row of `lines` stands in `entries`: from `type` to `entrypoint`."""
_NO_ENVELOPE = (None,) * 17
_TIME = 9
"""Which value of such a row is its time."""


class DerivedStream(NamedTuple):
    """What is known of a stream whose rows were made."""

    whose: StreamOwner
    kind: str
    sequence: int
    days: frozenset[int]
    """Every day that a row of it belongs to, or ever belonged to; none if that is not known."""
    answers: list[tuple[int, Response]]
    """What was billed, by generation."""
    source: str
    project: str | None
    lines: int
    """New ones."""
    length: int
    """Bytes of these in the source."""


def derive_stream(reads: list[ReadSegment], since: int, out: RowBuffer) -> DerivedStream:
    """Derive a stream. Lines of the segments after `since` are new."""
    last = reads[-1].segment.header
    whose = StreamOwner(last.org, last.user, last.device, last.stream)
    making = _Making(whose, last, since, out)
    for generation, some in groupby(reads, lambda read: read.segment.header.generation):
        segments = list(some)
        if last.kind in LINE_KINDS:
            making.lined(segments, is_last=generation == last.generation)
        else:
            making.beside(segments, is_last=generation == last.generation)
    out.add("sources", _source(whose, reads))
    return DerivedStream(
        whose,
        last.kind,
        last.sequence,
        frozenset(making.days) if last.kind in LINE_KINDS else frozenset(),
        making.answers,
        last.source,
        last.project,
        making.new,
        making.length,
    )


class _Making:
    """One pass over a stream."""

    def __init__(self, whose: StreamOwner, last: SegmentHeader, since: int, out: RowBuffer) -> None:
        self._whose, self._last, self._since, self._out = whose, last, since, out
        self._day = 0
        self.days: set[int] = set()
        self.answers: list[tuple[int, Response]] = []
        self.new = self.length = 0
        self._bucket = device_bucket(whose.org, whose.device)
        self._envelope: tuple[object, ...] | None = None
        agent = last.agent
        if last.kind == "agent" and agent is None:
            agent = file_stem(last.source)
        self._place = SourceFile(last.source, last.kind, last.session, agent)

    def lined(self, reads: list[ReadSegment], *, is_last: bool) -> None:
        """Derive a generation of a file of lines."""
        gathering, lengths = FactsCollector(), dict[int, int]()
        taken = LineCollector(self._last.kind, self._last.source, gathering, lengths)
        derivation = FileDerivation(self._place, self._emit if is_last else self._look)
        for read in reads:
            header = read.segment.header
            self._begin(read)
            is_new = header.sequence > self._since
            lines = _lines(read, lengths)
            taken.add_lines([line for _, line in lines])
            for told, line in lines if is_last or is_new else ():
                self._envelope = None
                for item in decode_lines([line]):
                    derivation.add(item)
                self._entry(header, told, is_new=is_new)
                self._out.weigh(told.length)
        generation = reads[0].segment.header.generation
        self.answers += [(generation, one) for one in taken.finish()]
        if is_last:
            derivation.finish()
            self._finish(taken, gathering)

    def beside(self, reads: list[ReadSegment], *, is_last: bool) -> None:
        """Take a generation of any other file."""
        for read in reads:
            header = read.segment.header
            self._begin(read)
            if header.sequence > self._since:
                for told in read.segment.lines:
                    self._add_line("side_files", header, told, ())
        if is_last:
            for table, row in rows_of_stream([read.segment for read in reads]):
                self._put(table, row)

    def _begin(self, read: ReadSegment) -> None:
        """Begin a segment: its lines before the first with a time are of that one's day, whatever came before it."""
        written = day_of(epoch_micros(read.segment.header.written)) or 0
        self._day = _first_day(read.segment.lines) or written if self._last.kind in LINE_KINDS else written
        self.days.add(self._day)

    def _entry(self, header: SegmentHeader, told: Told, *, is_new: bool) -> None:
        found = self._envelope
        if found is not None and (day := day_of(found[_TIME])) is not None:
            self._day = day
        if is_new:
            self._add_line("entries", header, told, found[_ENVELOPE] if found else _NO_ENVELOPE)

    def _add_line(self, table: str, header: SegmentHeader, told: Told, envelope: tuple[object, ...]) -> None:
        self.new += 1
        self.length += told.length + 1
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
            told.offset,
            told.length,
            *envelope,
            told.bad,
            told.raw,
            header.stream,
            header.sequence,
            self._day,
        )
        self._out.add(table, row)

    def _look(self, table: str, row: tuple[object, ...]) -> None:
        """Take what a line says of itself: the first document of it."""
        if table != "lines":
            return
        if (day := day_of(row[_TIME])) is not None:
            self.days.add(day)
        if self._envelope is None:
            self._envelope = row

    def _emit(self, table: str, row: tuple[object, ...]) -> None:
        if table == "lines":
            self._look(table, row)
        else:
            self._put(table, row)

    def _put(self, table: str, row: tuple[object, ...]) -> None:
        last = self._bucket
        if "day" in partition_columns(table):
            place = _times().get(table)
            day = day_of(row[place]) if place is not None else None
            last = self._day if day is None else day
            self.days.add(last)
        self._out.add(table, (*self._whose, *row, last))

    def _finish(self, taken: LineCollector, gathering: FactsCollector) -> None:
        last, generation = self._last, self._last.generation
        for offset, length, reason in taken.bad_lines:
            self._put("bad_lines", (generation, offset, length, reason))
        if last.kind == "session":
            row = list(session_row(gathering.facts(), last.session or file_stem(last.source), last.project))
            for place in (10, 11):  # `started` and `ended`, which are text there
                said = row[place]
                row[place] = epoch_micros(said) if isinstance(said, str) else None
            self._put("sessions", tuple(row))
        if last.kind == "agent":
            for owner in [last.session] if last.session else taken.owners:
                self._put("agent_owners", (owner,))


@cache
def _times() -> dict[str, int]:
    """Return which value of a row is the time that its day is taken from, by table."""
    names = {
        table: [name for name in part_tables()[table].names if name not in ("revision", "source_id")] for table in TIMES
    }
    return {table: names[table].index(time) for table, time in TIMES.items()}


def _first_day(lines: Iterable[Told]) -> int | None:
    """Return the day of the first time that lines tell."""
    for line in lines:
        for found in _TIMESTAMP.finditer(line.raw):
            if (day := day_of(epoch_micros(found[1]))) is not None:
                return day
    return None


def _lines(read: ReadSegment, lengths: dict[int, int]) -> list[tuple[Told, Line | LongLine]]:
    """Return the lines of a segment as they would be read from the source."""
    lines, end = read.segment.lines, read.segment.header.end
    found: list[tuple[Told, Line | LongLine]] = []
    for number, told in enumerate(lines):
        data = told.raw.encode("utf-8", "surrogatepass")
        after = lines[number + 1].offset if number + 1 < len(lines) else end
        ending = after > told.offset + told.length
        if len(data) != told.length:
            lengths[told.offset] = told.length + ending
        found.append((told, Line(told.offset, memoryview(data + b"\n" if ending else data))))
    return found


def _source(whose: StreamOwner, reads: Iterable[ReadSegment]) -> tuple[object, ...]:
    every = list(reads)
    last = every[-1].segment.header
    headers = [read.segment.header for read in every]
    return (
        *whose,
        last.source,
        last.kind,
        last.project,
        last.session,
        last.agent,
        last.generation,
        last.end,
        sum(one.lines for one in headers if one.generation == last.generation),
        sum(one.lines for one in headers),
        last.sequence,
        every[-1].digest,
        sum(sum(one.redactions.values()) for one in headers),
        epoch_micros(last.written),
        last.rules,
        MADE_WITH,
        device_bucket(whose.org, whose.device),
    )
