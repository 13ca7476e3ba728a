"""Devices that send what is in a folder: with one chain, or with one for each stream, as earlier versions did."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from unspool.collect import manifest
from unspool.collect.heartbeat import DeviceHeartbeat, send_heartbeat
from unspool.collect.object_store import SegmentStore, open_object_store
from unspool.collect.segments import (
    FIRST,
    FIRST_DAY,
    VERSION,
    DeviceSegmentHeader,
    DeviceSegmentName,
    PartEntry,
    Segment,
    SegmentHeader,
    SegmentLine,
    SegmentName,
    encode_part,
    following_day,
    format_device_segment_name,
    format_segment_name,
    pack_device_segment,
    segment_digest,
)
from unspool.collect.trust import DeviceKey
from unspool.read.source_tree import LINE_KINDS, Source, scan
from unspool.store.archive import compress

WRITTEN = "2026-01-05T12:00:00.000Z"


def pack_segment(header: SegmentHeader, lines: Iterable[SegmentLine]) -> bytes:
    """Return a segment of one stream as the bytes of its object."""
    return compress(encode_part(header, lines), 1)


def name_segment(header: SegmentHeader) -> str:
    """Return the object's name for a segment of one stream."""
    return format_segment_name(SegmentName(header.org, header.device, header.stream, header.sequence, header.previous))


class Made(NamedTuple):
    """A segment that may be put."""

    name: str
    data: bytes
    header: SegmentHeader
    """Of its first part."""
    parts: list[Segment]


class _State:
    def __init__(self) -> None:
        self.sequence, self.previous, self.generation, self.end, self.lines = 0, FIRST, 1, 0, 0
        self.sent = b""


class Device:
    """A machine, with what it remembers of what it sent."""

    def __init__(self, place: SegmentStore, device: str = "laptop", org: str = "acme", user: str = "ada") -> None:
        self.place, self.org, self.user, self.device = place, org, user, device
        self._states: dict[str, _State] = {}
        self.redact: Callable[[str], str] = lambda text: text
        """What is done to a line."""
        self.is_chained = False
        """Whether it has one chain. Once it has, it must stay so."""
        self.most_parts = 3
        """In a segment of that chain."""
        self.day = "2026-01-05"
        """By its clock."""
        self._chain = DeviceSegmentName(org, device, FIRST_DAY, 0, FIRST)
        self._before: dict[str, str] = {}
        self.key: DeviceKey | None = None
        """Signs the segments of its chain, and its heartbeat."""
        self.is_last = False
        """Whether a line without an end is sent too."""

    def send(self, root: Path, size: int = 1 << 20) -> list[Made]:
        """Send what is new in a folder."""
        made = self.make(root, size)
        for one in made:
            assert self.place.put_new(one.name, one.data)
        self.publish()
        return made

    def make(self, root: Path, size: int = 1 << 20) -> list[Made]:
        """Make segments of what is new in a folder."""
        made = [one for source in scan(root).sources for one in self._made(root, source, size)]
        if not self.is_chained:
            return made
        count = self.most_parts
        return [self._packed(made[at : at + count]) for at in range(0, len(made), count)]

    def _packed(self, made: list[Made]) -> Made:
        """Pack parts into the next segment of the device."""
        before = self._chain
        name = before._replace(sequence=before.sequence + 1)
        entries = []
        for one in made:
            stream = one.header.stream
            entries.append(PartEntry(stream, one.header.sequence, len(one.data), self._before.get(stream, "")))
            self._before[stream] = name.tail
        next_day = following_day(name.day, self.day)
        header = DeviceSegmentHeader(
            org=self.org, user=self.user, device=self.device, sequence=name.sequence, previous=before.previous,
            day=name.day, next_day=next_day, written=WRITTEN, parts=entries,
        )  # fmt: skip
        data = pack_device_segment(header, [one.data for one in made], self.key)
        self._chain = name._replace(day=next_day, previous=segment_digest(data))
        segments = [part for one in made for part in one.parts]
        return Made(format_device_segment_name(name), data, made[0].header, segments)

    def publish(self) -> None:
        """Tell what was sent."""
        if self.is_chained:
            lines = sum(state.lines for state in self._states.values())
            beat = DeviceHeartbeat(
                org=self.org, user=self.user, device=self.device, written=WRITTEN, collector="1",
                segments=self._chain.sequence, lines=lines, digest=self._chain.previous,
            )  # fmt: skip
            send_heartbeat(self.place, beat, self.key)
            return
        streams = {
            id: manifest.SentStream(state.sequence, state.lines, state.previous) for id, state in self._states.items()
        }
        made = manifest.DeviceManifest(
            org=self.org, user=self.user, device=self.device, written=WRITTEN, streams=streams
        )
        self.place.overwrite(f"{manifest.FOLDER}/{self.org}/{self.device}.json", msgspec.json.encode(made))

    def stream(self, path: str) -> str:
        """Return the stream of a file, named by its path in the folder."""
        return hashlib.sha256(f"{self.org}\0{self.device}\0{path}".encode()).hexdigest()[:32]

    def _made(self, root: Path, source: Source, size: int) -> list[Made]:
        path, data = str(source.path.relative_to(root)), source.path.read_bytes()
        if source.kind in LINE_KINDS and not self.is_last:
            data = data[: data.rfind(b"\n") + 1]
        state = self._states.setdefault(self.stream(path), _State())
        if not data.startswith(state.sent) or (source.kind not in LINE_KINDS and state.sent and data != state.sent):
            state.generation, state.end, state.sent = state.generation + 1, 0, b""
        new = data[state.end :]
        if not new or data == state.sent:
            return []
        lines = _lines(new, state.end) if source.kind in LINE_KINDS else [(0, data)]
        found, held = [], list[tuple[int, bytes]]()
        weight = 0
        for line in lines:
            held.append(line)
            weight += len(line[1])
            if weight >= size:
                found.append(self._segment(path, source, state, held, len(data)))
                held, weight = [], 0
        if held:
            found.append(self._segment(path, source, state, held, len(data)))
        state.sent, state.end = data, len(data)
        return found

    def _segment(self, path: str, source: Source, state: _State, held: list[tuple[int, bytes]], whole: int) -> Made:
        is_lined = source.kind in LINE_KINDS
        lines = [_redacted_line(offset, line.rstrip(b"\r") if is_lined else line, self.redact) for offset, line in held]
        lines = [line for line in lines if line.raw.strip()]
        end = min(held[-1][0] + len(held[-1][1]) + is_lined, whole)
        state.sequence += 1
        state.lines += len(lines)
        header = SegmentHeader(
            version=VERSION,
            org=self.org,
            user=self.user,
            device=self.device,
            key_id="key",
            stream=self.stream(path),
            sequence=state.sequence,
            previous=state.previous,
            project=source.project,
            source=path,
            kind=source.kind.value,
            session=source.session_id,
            agent=source.agent_id,
            generation=state.generation,
            start=state.end,
            end=end,
            lines=len(lines),
            rules="none",
            written=WRITTEN,
            head="",
            boundary="",
        )
        data = encode_part(header, lines) if self.is_chained else pack_segment(header, lines)
        state.end, state.previous = end, segment_digest(data)
        return Made(name_segment(header), data, header, [Segment(header, lines)])


def place(folder: Path) -> SegmentStore:
    """Open a folder as an object store."""
    return open_object_store(folder.as_uri(), {})


def _lines(data: bytes, start: int) -> list[tuple[int, bytes]]:
    found = []
    for line in data.split(b"\n"):
        found.append((start, line))
        start += len(line) + 1
    return found if found[-1][1] else found[:-1]


def _redacted_line(offset: int, line: bytes, redact: Callable[[str], str]) -> SegmentLine:
    return SegmentLine(offset, len(line), redact(line.decode(errors="replace")))
