"""Makes redacted parts of what is new and puts them into the outbox, from which `upload.py` packs segments.

Rules
  1. A part begins where the one before it ended, in the same generation of the file. Whether a file is still that
     generation is decided by its bytes (`head`, `boundary`), not by its name, inode or time.
  2. Generations come in order, finished ones first, so that what the archive has of them is sent too.
  3. The caller holds a transaction; a part is in the outbox before it is yielded.
  4. A stream of which another collector has sent parts meanwhile is skipped until the next round.
  5. A piece ends with a line, after about `size` bytes. A longer line has a piece of its own.
  6. Nothing leaves unredacted. A line that is too long to be redacted becomes a marker (`oversized`).
  7. Blank lines are left out; every other line is in exactly one piece.
  8. What is new on the device may be held until it is more (`flush_schedule.py`). Then all of it becomes parts.
  9. A line without an end is left for later, because Claude Code may still write it. In a file that nobody has changed
     for long (`SegmentTools.is_resting`) it is sent as it is. If the file goes on after all, so do the parts.
  10. A file may be rewritten in the middle, without a change of its samples. When the store has found that (`sync
     --deep`), it begins a generation, and every byte of it is compared with the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from unspool.collect.enrolment import Enrolment
from unspool.collect.flush_schedule import FlushSchedule
from unspool.collect.object_store import SegmentStore
from unspool.collect.segments import (
    SIZE,
    VERSION,
    SegmentHeader,
    SegmentLine,
    encode_part,
    segment_digest,
)
from unspool.collect.selection import CollectCandidate
from unspool.collect.source_bytes import (
    SourceContent,
    begin_equally,
    open_content,
    read_whole_source,
    without_torn_line,
)
from unspool.collect.state import CollectedSpan, CollectorState, StreamState, WaitingPart
from unspool.errors import UnspoolError
from unspool.format import format_timestamp
from unspool.read import MAX_LINE, SAMPLE_SIZE
from unspool.redact import Counts, Redacted, Redactor, decode_line, redact_line, redact_suspect_lines
from unspool.store.archive import Archive, compress

_LEVEL = 1
"""Of the compression in the outbox. A segment is compressed as a whole."""
OUTBOX = 64 * 1024 * 1024
"""Bytes that the outbox may hold."""


class RedactedPiece(NamedTuple):
    """Lines that become one part."""

    start: int
    end: int
    lines: list[SegmentLine]
    counts: Counts
    """Secrets that were replaced, by kind."""
    head: bytes = b""
    tail: bytes = b""
    """Its first and last bytes before redaction: for keyed hashes, never sent."""


def redact_pieces(redactor: Redactor, data: Iterable[bytes], start: int, size: int) -> Iterator[RedactedPiece]:
    """Yield the redacted lines of a source from an offset on. The last line need not have a line end."""
    buffered, length = list[bytes](), 0
    skipped = 0
    """Bytes of a line that is too long to be held."""
    for chunk in data:
        if skipped:
            end = chunk.find(b"\n") + 1
            skipped += end or len(chunk)
            if not end:
                continue
            yield _oversized_piece(redactor, start, skipped, ending=1)
            start, skipped, chunk = start + skipped, 0, chunk[end:]
        buffered.append(chunk)
        length += len(chunk)
        if length < size:
            continue
        lines, offset = _join(buffered), 0
        while len(lines) - offset >= size and (end := _piece_end(lines, offset, size)):
            yield _redact_piece(redactor, lines[offset:end], start)
            start, offset = start + end - offset, end
        buffered, length = [lines[offset:]], len(lines) - offset
        # Memory stays bounded whatever a file holds: from here on the line is only counted, and becomes a marker.
        if length > MAX_LINE:
            skipped, buffered, length = length, [], 0
    if skipped:
        yield _oversized_piece(redactor, start, skipped, ending=0)
    elif length:
        yield _redact_piece(redactor, _join(buffered), start)


def _join(chunks: list[bytes]) -> bytes:
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _piece_end(lines: bytes, start: int, size: int) -> int:
    """Return the end of the last line that fits, or of the first line if none does; 0 if no line has an end."""
    return lines.rfind(b"\n", start, start + size) + 1 or lines.find(b"\n", start + size) + 1


def redact_whole(redactor: Redactor, data: bytes) -> RedactedPiece:
    """Return a side file as a piece of one line."""
    counts: Counts = Counter()
    line = _redacted_line(redact_line(redactor, data), 0, len(data), counts)
    return RedactedPiece(0, len(data), [line], counts)


def _redact_piece(redactor: Redactor, data: bytes, start: int) -> RedactedPiece:
    # One search over the raw bytes of all lines: only lines with something that a secret may begin with are decoded.
    redacted, counts = dict(redact_suspect_lines(redactor, data)), Counter[str]()
    lines, offset = list[SegmentLine](), 0
    for line in data.split(b"\n"):
        length = len(line)
        if found := redacted.get(offset):
            lines.append(_redacted_line(found, start + offset, length, counts))
        elif line and not line.isspace():
            text, is_json = decode_line(line)
            lines.append(SegmentLine(start + offset, length, text, not is_json))
        offset += length + 1
    return RedactedPiece(start, start + len(data), lines, counts, data[:SAMPLE_SIZE], data[-SAMPLE_SIZE:])


def _redacted_line(redacted: Redacted, offset: int, length: int, counts: Counts) -> SegmentLine:
    for hit in redacted.hits:
        counts[hit.kind] += hit.number
    return SegmentLine(offset, length, redacted.text, not redacted.is_json)


def _oversized_piece(redactor: Redactor, start: int, length: int, ending: int) -> RedactedPiece:
    text = redactor.make_marker("oversized", f"{length} bytes at {start}".encode())
    return RedactedPiece(
        start, start + length, [SegmentLine(start, length - ending, f'"{text}"')], Counter({"oversized": 1})
    )


class SegmentTools(NamedTuple):
    """The enrolment, redactor, archive and limits that parts are made with."""

    enrolment: Enrolment
    redactor: Redactor
    archive: Archive
    clock: Callable[[], str]
    """Returns the time as it is written in a part."""
    size: int = SIZE
    offsets: Mapping[str, int] = {}
    """By path: the offset up to which a foreign collector has sent a file (`foreign_offsets.py`)."""
    is_resting: Callable[[int], bool] = lambda _: False
    """Returns whether a file that changed last at this time, in nanoseconds since 1970, is taken for finished."""
    schedule: FlushSchedule = FlushSchedule()
    drops_line: Callable[[str], bool] = lambda _: False
    """Returns whether a redacted line is one that was forgotten and must not be sent again."""
    zone: Callable[[], str] = lambda: ""
    """Returns the time zone of this machine as it is written in a part."""


class MadePart(NamedTuple):
    """The size of a part that was made."""

    sequence: int | None
    """Its number; None if it is not kept."""
    lines: int
    size: int
    source_bytes: int
    counts: Counts


class CollectionPlan(NamedTuple):
    """What one collector sends, where to, and the callbacks that it uses."""

    state: CollectorState
    object_store: SegmentStore
    tools: SegmentTools
    refresh: Callable[[], list[CollectCandidate]]
    """Syncs the local store and returns the files to collect."""
    milliseconds: Callable[[], int]
    on_step: Callable[[str], None] = lambda _: None
    """Called with the name of each of `STEPS` that is reached."""
    pace: Callable[[int], None] = lambda _: None
    outbox: int = OUTBOX
    refuses: Callable[[str], bool] = lambda _: False
    """Returns whether nothing of a file may be sent: its parts then stay in the outbox."""
    trusted: Collection[str] = ()
    """The public keys of the administrators, who may rewrite segments and say what must not be sent again."""


class CollectionReport:
    """The counts of what a collector sent, and the files that failed."""

    def __init__(self) -> None:
        self.segments = self.bytes = self.lines = self.redactions = 0
        """Of the segments that the object store confirmed."""
        self.source_bytes = 0
        self.counts: Counter[str] = Counter()
        """Secrets by kind, in the parts that were made."""
        self.failed: list[tuple[str, str]] = []
        self.is_full = False
        """Whether the outbox is full."""
        self.is_probed = False
        self.ahead = 0.0
        """Seconds that this machine's clock is ahead of the store's."""

    def add_confirmed(self, parts: Iterable[WaitingPart], size: int) -> None:
        """Count a segment that the object store confirmed."""
        self.segments += 1
        self.bytes += size
        for part in parts:
            self.lines += part.lines
            self.redactions += part.redactions

    def add_made(self, part: MadePart) -> None:
        """Count a part that was made."""
        self.counts.update(part.counts)
        self.source_bytes += part.source_bytes


def stream_name(enrolment: Enrolment, candidate: CollectCandidate) -> str:
    """Return the name of the stream of a file."""
    # Keyed: a path may hold what is redacted elsewhere, and an unkeyed hash could be guessed.
    parts = (enrolment.org, enrolment.device, candidate.home, candidate.source)
    return enrolment.keyed("\0".join(parts).encode("utf-8", "surrogateescape"))


class SegmentMaker:
    """Makes the parts of one round over all candidates."""

    def __init__(self, state: CollectorState, tools: SegmentTools, *, keep: bool = True) -> None:
        self._state, self._tools, self._keep = state, tools, keep
        self._seen = state.seen()
        self._generation = 0
        """The store's generation of the file of which parts are made."""
        self.failed: list[tuple[str, str]] = []
        """Files that could not be read, and why."""
        self.changed: set[int] = set()
        """Streams of which another collector has sent parts meanwhile."""

    def make(self, candidates: Iterable[CollectCandidate]) -> Iterator[MadePart]:
        """Make the parts of everything that is new, one at a time; none while it is held."""
        changed = [candidate for candidate in candidates if self._has_news(candidate)]
        if not changed or not self._tools.schedule.is_due(sum(map(self._new_bytes, changed))):
            return
        for candidate in changed:
            holes: list[UnspoolError] = []
            try:
                stream = self._state.stream(stream_name(self._tools.enrolment, candidate), candidate.path)
                if stream.id in self.changed:
                    continue
                yield from (
                    self._line_parts(stream, candidate, holes)
                    if candidate.is_lines
                    else self._side_file_part(stream, candidate)
                )
            except UnspoolError as error:
                holes.append(error)
            self.failed += [(candidate.path, hole.reason) for hole in holes]

    def _has_news(self, candidate: CollectCandidate) -> bool:
        """Return whether a file may have something new, without reading it: the store says what it said last or not."""
        done = candidate.generation - 1 if candidate.is_lines else 0
        if candidate.is_lines and not (candidate.offset or done or self._rests(candidate)):
            return False
        return (stream_name(self._tools.enrolment, candidate), done, self._describe(candidate)) not in self._seen

    def _line_parts(
        self, stream: StreamState, candidate: CollectCandidate, holes: list[UnspoolError]
    ) -> Iterator[MadePart]:
        first = min(stream.done + 1, candidate.generation)
        # A foreign collector's offset is one in the current file: earlier generations are not sent either.
        if self._tools.offsets.get(candidate.path) and not stream.sequence:
            first = candidate.generation
        before: SourceContent | None = None
        for generation in range(first, candidate.generation + 1):
            is_over = generation < candidate.generation
            end = None if is_over else self._end_of_file(stream.id, candidate, holes)
            content = open_content(self._tools.archive, candidate, generation, holes, end)
            # A torn line that the next generation completes is sent there, whole: here it would be a second copy.
            if is_over and content is not None and not self._is_sent(stream.id, content):
                content = without_torn_line(
                    content, open_content(self._tools.archive, candidate, generation + 1, holes)
                )
            seen = "" if is_over else self._describe(candidate)
            if content is not None and content.end:
                rewritten = self._rewritten_generation(stream.id, before, content)
                self._generation = generation
                yield from self._generation_parts(stream.id, candidate, content, seen, rewritten)
                if stream.id in self.changed:
                    return
            if is_over:
                self._state.finish(stream.id, generation)
            before = content

    def _new_bytes(self, candidate: CollectCandidate) -> int:
        """Return about how much of a file is not in parts."""
        stream = self._state.stream(stream_name(self._tools.enrolment, candidate), candidate.path)
        last = next(iter(self._state.spans(stream.id)), None)
        if last is None:
            return candidate.size
        # A side file is sent whole, and may change with every step of Claude Code: it is sent when it is due.
        if not candidate.is_lines:
            return 0
        # Of a file that was replaced or rewritten all is new.
        is_continued = stream.done == candidate.generation - 1 and last.end <= candidate.offset
        return candidate.offset - last.end if is_continued else candidate.size

    def _rests(self, candidate: CollectCandidate) -> bool:
        """Return whether a file ends with a line that has no end, and that nobody will complete."""
        has_tail = candidate.is_lines and candidate.size > candidate.offset and not candidate.gone
        return has_tail and self._tools.is_resting(candidate.modified)

    def _describe(self, candidate: CollectCandidate) -> str:
        """Return a text that changes whenever there is something new to collect."""
        return f"{candidate.seen}:{candidate.size}" if self._rests(candidate) else candidate.seen

    def _end_of_file(self, stream_id: int, candidate: CollectCandidate, holes: list[UnspoolError]) -> int:
        """Return how far the current generation is collected: to its last whole line, or further if it rests."""
        if self._rests(candidate):
            return candidate.size
        # Touched since its last line was sent as it is: that line must not look as if the file had been cut.
        longer = [span for span in self._state.spans(stream_id) if candidate.offset < span.end <= candidate.size]
        if not longer:
            return candidate.offset
        content = open_content(self._tools.archive, candidate, candidate.generation, holes, candidate.size)
        span = self._continued_span(longer, content) if content is not None else None
        return span.end if span is not None else candidate.offset

    def _is_sent(self, stream_id: int, content: SourceContent) -> bool:
        span = self._continued_span(self._state.spans(stream_id), content)
        return span is not None and span.end == content.end

    def _rewritten_generation(self, stream_id: int, before: SourceContent | None, content: SourceContent) -> int | None:
        """Return the generation that a source seems to continue by its samples, and does not by its bytes."""
        span = self._continued_span(self._state.spans(stream_id), before) if before is not None else None
        if before is None or span is None or span.end > content.end or begin_equally(before, content, span.end):
            return None
        return span.generation

    def _generation_parts(
        self,
        stream_id: int,
        candidate: CollectCandidate,
        content: SourceContent,
        seen: str,
        rewritten: int | None = None,
    ) -> Iterator[MadePart]:
        """Make parts of what is new in one generation of a file; it does not continue the one named `rewritten`."""
        spans, sequence = self._state.spans(stream_id), None
        span = self._continued_span([span for span in spans if span.generation != rewritten], content)
        if span is None and not seen and self._is_covered(spans, stream_id, content):
            return
        start = span.end if span else self._first_offset(candidate, content, spans)
        generation = span.generation if span else max((known.generation for known in spans), default=0) + 1
        if span and start == content.end and span.seen != seen:
            self._state.put_span(stream_id, span._replace(seen=seen))
        if start >= content.end:
            return
        for piece in redact_pieces(self._tools.redactor, content.pieces(start), start, self._tools.size):
            is_last = piece.end >= content.end
            # Only the last piece marks the file as seen: a round that ends before it must come back.
            span = self._span_after(content, generation, piece)._replace(seen=seen if is_last else "")
            made = self._put_part(candidate, piece, span, sequence)
            if made is None:
                return
            sequence = made.sequence
            yield made

    def _side_file_part(self, stream: StreamState, candidate: CollectCandidate) -> Iterator[MadePart]:
        """Make a part of a side file whose content has changed."""
        data = read_whole_source(self._tools.archive, candidate)
        if not data:
            return
        last = next(iter(self._state.spans(stream.id)), None)
        mark = self._tools.enrolment.keyed(data)
        # Touched but not changed: the new time is remembered, so that the next round need not read it.
        if last is not None and (last.end, last.boundary) == (len(data), mark):
            self._state.put_span(stream.id, last._replace(seen=candidate.seen))
            return
        span = CollectedSpan(last.generation + 1 if last else 1, len(data), mark, mark, candidate.seen)
        made = self._put_part(candidate, redact_whole(self._tools.redactor, data), span, None)
        if made is not None:
            yield made

    def _put_part(
        self, candidate: CollectCandidate, piece: RedactedPiece, span: CollectedSpan, previous: int | None
    ) -> MadePart | None:
        """Put a part into the outbox after the previous one; return None if its stream was taken over meanwhile."""
        # Read again for each part: between two batches the uploader may have followed another collector's segment.
        stream = self._state.stream(stream_name(self._tools.enrolment, candidate), candidate.path)
        if stream.id in self.changed or (previous is not None and previous != stream.sequence):
            self.changed.add(stream.id)
            return None
        piece = piece._replace(lines=[line for line in piece.lines if not self._tools.drops_line(line.raw)])
        header = self._header(stream, candidate, piece, span)
        text = encode_part(header, piece.lines)
        data = compress(text, _LEVEL)
        waiting = WaitingPart(
            id=0,
            stream_id=stream.id,
            sequence=header.sequence,
            name="",
            digest=segment_digest(text),
            priority=candidate.rank,
            lines=len(piece.lines),
            redactions=piece.counts.total(),
            size=len(data),
            length=piece.end - piece.start,
            source_generation=self._generation if candidate.is_lines else 0,
        )
        if self._keep:
            self._state.keep(waiting, data)
        self._state.put_span(stream.id, span)
        sequence = header.sequence if self._keep else None
        return MadePart(sequence, len(piece.lines), len(data), piece.end - piece.start, piece.counts)

    def _header(
        self, stream: StreamState, candidate: CollectCandidate, piece: RedactedPiece, span: CollectedSpan
    ) -> SegmentHeader:
        enrolment, redactor = self._tools.enrolment, self._tools.redactor
        # Names of files and projects may hold secrets too.
        names = (candidate.source, candidate.project, candidate.session_id, candidate.agent_id)
        source, project, session, agent = (redactor.redact_name(name) if name else name for name in names)
        return SegmentHeader(
            version=VERSION,
            org=enrolment.org,
            user=enrolment.user,
            device=enrolment.device,
            key_id=enrolment.key_id,
            stream=stream.stream,
            sequence=stream.sequence + 1,
            previous=stream.digest,
            project=project,
            source=source or "",
            kind=candidate.kind,
            session=session,
            agent=agent,
            generation=span.generation,
            start=piece.start,
            end=piece.end,
            lines=len(piece.lines),
            rules=redactor.version,
            redactions=dict(sorted(piece.counts.items())),
            written=self._tools.clock(),
            modified=format_timestamp(datetime.fromtimestamp(candidate.modified / 1e9, UTC)),
            zone=self._tools.zone(),
            head=span.head,
            boundary=span.boundary,
        )

    def _span_after(self, content: SourceContent, generation: int, piece: RedactedPiece) -> CollectedSpan:
        """Return how far a generation is collected after a piece; the piece's own bytes are hashed if they suffice."""
        length = min(SAMPLE_SIZE, piece.end)
        if piece.start or len(piece.tail) < length:
            return self._span_at(content, generation, piece.end)
        keyed = self._tools.enrolment.keyed
        return CollectedSpan(generation, piece.end, keyed(piece.head[:length]), keyed(piece.tail[-length:]), "")

    def _span_at(self, content: SourceContent, generation: int, end: int) -> CollectedSpan:
        keyed, length = self._tools.enrolment.keyed, min(SAMPLE_SIZE, end)
        head, boundary = keyed(content.sample(0, length)), keyed(content.sample(end - length, end))
        return CollectedSpan(generation, end, head, boundary, "")

    def _continued_span(self, spans: list[CollectedSpan], content: SourceContent) -> CollectedSpan | None:
        """Return the span that a source continues by its bytes; the latest generation is tried first."""
        for span in spans:
            if 0 < span.end <= content.end:
                actual = self._span_at(content, span.generation, span.end)
                if (actual.head, actual.boundary) == (span.head, span.boundary):
                    return span
        return None

    def _is_covered(self, spans: list[CollectedSpan], stream_id: int, content: SourceContent) -> bool:
        """Return whether a finished generation is the beginning of one that another collector has sent."""
        query = "SELECT adopted FROM streams WHERE id = ?"
        (adopted,) = self._state.database.execute(query, (stream_id,)).fetchone()
        if not adopted:
            return False
        head = self._span_at(content, 0, content.end).head
        return any(span.end > content.end and span.head == head for span in spans)

    def _first_offset(self, candidate: CollectCandidate, content: SourceContent, spans: list[CollectedSpan]) -> int:
        """Return where collecting of a new file begins: at 0, or where a foreign collector ended."""
        offset = self._tools.offsets.get(candidate.path, 0)
        if spans or not 0 < offset <= content.end:
            return 0
        # An offset in the middle of a line would cut it: then the file is sent from its start.
        return offset if content.sample(offset - 1, offset) == b"\n" else 0
