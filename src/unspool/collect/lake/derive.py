"""A stream as rows of every table: its segments in, rows out, and what is now known of its file.

Rules
  1. The rows are those that `unspool sql` would have, by the same code: `store/derived.py` and `store/taking.py`.
  2. Lines are rows of `entries` in every generation; so is what was billed. All other rows are of the last generation.
  3. Offsets and lengths are those of the source, also where redaction has changed a line.
  4. The same segments give the same rows, whoever derives them and when. So a line's row depends on its segment alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import NamedTuple

from unspool.collect.lake import side
from unspool.collect.lake.rows import Rows, Whose, day_of
from unspool.collect.lake.streams import Read
from unspool.collect.lake.tables import TIMES, bucket, partitions
from unspool.collect.segments import Header
from unspool.collect.segments import Line as Told
from unspool.graph.gathering import Gathering
from unspool.prices.answers import Response, stem
from unspool.prices.edition import DIGEST
from unspool.read.lines import Line, LongLine
from unspool.read.tail import decode_lines
from unspool.store.cells import micros
from unspool.store.derived import Derivation, Place
from unspool.store.snapshot import LINED
from unspool.store.tables import parts
from unspool.store.taking import Taken, session_row

MADE_WITH = f"1 {DIGEST[:12]}"
"""Of how rows are derived, and of the prices."""

_TIMESTAMP = re.compile(r'"timestamp":\s?"([0-9T:.Z+-]{10,40})"')
_ENVELOPE = slice(3, 20)
"""What of a row of `lines` stands in `entries`: from `type` to `entrypoint`."""
_NO_ENVELOPE = (None,) * 17
_TIME = 9
"""Which value of such a row is its time."""


class Derived(NamedTuple):
    """What is known of a stream whose rows were made."""

    whose: Whose
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


def derive(reads: list[Read], since: int, out: Rows) -> Derived:
    """Derive a stream. Lines of the segments after `since` are new."""
    last = reads[-1].segment.header
    whose = Whose(last.org, last.user, last.device, last.stream)
    making = _Making(whose, last, since, out)
    for generation, some in groupby(reads, lambda read: read.segment.header.generation):
        segments = list(some)
        if last.kind in LINED:
            making.lined(segments, is_last=generation == last.generation)
        else:
            making.beside(segments, is_last=generation == last.generation)
    out.add("sources", _source(whose, reads))
    return Derived(
        whose,
        last.kind,
        last.sequence,
        frozenset(making.days) if last.kind in LINED else frozenset(),
        making.answers,
        last.source,
        last.project,
        making.new,
        making.length,
    )


class _Making:
    """One pass over a stream."""

    def __init__(self, whose: Whose, last: Header, since: int, out: Rows) -> None:
        self._whose, self._last, self._since, self._out = whose, last, since, out
        self._day = 0
        self.days: set[int] = set()
        self.answers: list[tuple[int, Response]] = []
        self.new = self.length = 0
        self._bucket = bucket(whose.org, whose.device)
        self._envelope: tuple[object, ...] | None = None
        agent = last.agent
        if last.kind == "agent" and agent is None:
            agent = stem(last.source)
        self._place = Place(last.source, last.kind, last.session, agent)

    def lined(self, reads: list[Read], *, is_last: bool) -> None:
        """Derive a generation of a file of lines."""
        gathering, lengths = Gathering(), dict[int, int]()
        taken = Taken(self._last.kind, self._last.source, gathering, lengths)
        derivation = Derivation(self._place, self._emit if is_last else self._look)
        for read in reads:
            header = read.segment.header
            self._begin(read)
            is_new = header.sequence > self._since
            lines = _lines(read, lengths)
            taken.take([line for _, line in lines])
            for told, line in lines if is_last or is_new else ():
                self._envelope = None
                for item in decode_lines([line]):
                    derivation.take(item)
                self._entry(header, told, is_new=is_new)
                self._out.weigh(told.length)
        taken.tally.finish()
        generation = reads[0].segment.header.generation
        self.answers += [(generation, one) for one in taken.answers()]
        if is_last:
            derivation.finish()
            self._finish(taken, gathering)

    def beside(self, reads: list[Read], *, is_last: bool) -> None:
        """Take a generation of any other file."""
        for read in reads:
            header = read.segment.header
            self._begin(read)
            if header.sequence > self._since:
                for told in read.segment.lines:
                    self._add_line("side_files", header, told, ())
        if is_last:
            for table, row in side.rows([read.segment for read in reads]):
                self._put(table, row)

    def _begin(self, read: Read) -> None:
        """Begin a segment: its lines before the first with a time are of that one's day, whatever came before it."""
        written = day_of(micros(read.segment.header.written)) or 0
        self._day = _first_day(read.segment.lines) or written if self._last.kind in LINED else written
        self.days.add(self._day)

    def _entry(self, header: Header, told: Told, *, is_new: bool) -> None:
        found = self._envelope
        if found is not None and (day := day_of(found[_TIME])) is not None:
            self._day = day
        if is_new:
            self._add_line("entries", header, told, found[_ENVELOPE] if found else _NO_ENVELOPE)

    def _add_line(self, table: str, header: Header, told: Told, envelope: tuple[object, ...]) -> None:
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
        if "day" in partitions(table):
            place = _times().get(table)
            day = day_of(row[place]) if place is not None else None
            last = self._day if day is None else day
            self.days.add(last)
        self._out.add(table, (*self._whose, *row, last))

    def _finish(self, taken: Taken, gathering: Gathering) -> None:
        last, generation = self._last, self._last.generation
        for offset, length, reason in taken.bad:
            self._put("bad_lines", (generation, offset, length, reason))
        if last.kind == "session":
            row = list(session_row(gathering.facts(), last.session or stem(last.source), last.project))
            for place in (10, 11):  # `started` and `ended`, which are text there
                said = row[place]
                row[place] = micros(said) if isinstance(said, str) else None
            self._put("sessions", tuple(row))
        if last.kind == "agent":
            for owner in [last.session] if last.session else taken.owners:
                self._put("agent_owners", (owner,))


@cache
def _times() -> dict[str, int]:
    """Return which value of a row is the time that its day is taken from, by table."""
    names = {table: [name for name in parts()[table].names if name not in ("revision", "source_id")] for table in TIMES}
    return {table: names[table].index(time) for table, time in TIMES.items()}


def _first_day(lines: Iterable[Told]) -> int | None:
    """Return the day of the first time that lines tell."""
    for line in lines:
        for found in _TIMESTAMP.finditer(line.raw):
            if (day := day_of(micros(found[1]))) is not None:
                return day
    return None


def _lines(read: Read, lengths: dict[int, int]) -> list[tuple[Told, Line | LongLine]]:
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


def _source(whose: Whose, reads: Iterable[Read]) -> tuple[object, ...]:
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
        micros(last.written),
        last.rules,
        MADE_WITH,
        bucket(whose.org, whose.device),
    )
