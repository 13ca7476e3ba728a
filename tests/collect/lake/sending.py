"""Devices that send what is in a folder: as the collector does, without its redaction, its disk and its care."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from unspool.collect import manifest
from unspool.collect.object_store import SegmentStore, open_object_store
from unspool.collect.segments import (
    FIRST,
    VERSION,
    SegmentHeader,
    SegmentLine,
    name_segment,
    pack_segment,
    segment_digest,
)
from unspool.read.source_tree import LINE_KINDS, Source, scan

WRITTEN = "2026-01-05T12:00:00.000Z"


class Made(NamedTuple):
    """A segment that may be put."""

    name: str
    data: bytes
    header: SegmentHeader


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
        return [one for source in scan(root).sources for one in self._made(root, source, size)]

    def publish(self) -> None:
        """Tell what was sent."""
        streams = {
            id: manifest.SentStream(state.sequence, state.lines, state.previous) for id, state in self._states.items()
        }
        manifest.publish_manifest(
            self.place,
            manifest.DeviceManifest(org=self.org, user=self.user, device=self.device, written=WRITTEN, streams=streams),
        )

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
        data = pack_segment(header, lines)
        state.end, state.previous = end, segment_digest(data)
        return Made(name_segment(header), data, header)


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
