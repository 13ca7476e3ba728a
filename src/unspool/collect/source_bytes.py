"""Reads bytes of a source that do not change while they are collected: from the archive, else the file.

Rules
  1. What the archive has of a generation up to the store's offset never changes. It is read from there, whatever has
     become of the file.
  2. Without the archive the file is read, and looked at again after each piece: what may be another file's is not
     given.
  3. Only what the store has read is given: whole lines. Of a generation that is over, all there is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

from unspool.collect.selection import CollectCandidate
from unspool.errors import NotFound, Unreadable, UnspoolError
from unspool.files import MAX_SIDE_FILE, open_regular
from unspool.read import SAMPLE_SIZE, Change, Kind, Position, detect_change, read_at
from unspool.redact import is_json
from unspool.store.archive import Archive, ArchivedFile
from unspool.store.sync import ARCHIVED_SIDE_KINDS

_PIECE = 1024 * 1024
_STEP = 64 * 1024


class SourceContent(Protocol):
    """Some bytes, by their place."""

    end: int

    def pieces(self, start: int) -> Iterator[bytes]:
        """Yield the bytes from a place to the end."""

    def sample(self, start: int, end: int) -> bytes:
        """Return a few bytes."""


class ArchivedContent:
    """What the archive has of a generation."""

    def __init__(self, archive: Archive, about: ArchivedFile, end: int | None, holes: list[UnspoolError]) -> None:
        self._archive, self._about, self._holes = archive, about, holes
        self.end = archive.length(about) if end is None else end

    def pieces(self, start: int) -> Iterator[bytes]:
        """Yield the bytes from a place to the end."""
        for begins, data in self._archive.read(self._about, self._holes, start):
            piece = data[max(start - begins, 0) : max(self.end - begins, 0)]
            if piece:
                yield piece

    def sample(self, start: int, end: int) -> bytes:
        """Return a few bytes."""
        found = b""
        for begins, data in self._archive.read(self._about, self._holes, start):
            found += data[max(start - begins, 0) : max(end - begins, 0)]
            if begins + len(data) >= end:
                break
        return found


class FileContent:
    """A file that is there, as long as it is the one that the store has read."""

    def __init__(self, candidate: CollectCandidate) -> None:
        self._path = candidate.path
        self._position = Position(
            candidate.offset, candidate.device, candidate.inode, candidate.head, candidate.boundary
        )
        self.end = candidate.offset

    def pieces(self, start: int) -> Iterator[bytes]:
        """Yield the bytes from a place to the end; a file that has become another is an error."""
        with open_regular(self._path) as file:
            while start < self.end:
                data = read_at(file, start, min(_PIECE, self.end - start), self._path)
                if not data or detect_change(file, self._position) not in (Change.SAME, Change.GROWN):
                    raise Unreadable(
                        f"`{self._path}` has changed while it was read", hint="the next run reads it again"
                    )
                start += len(data)
                yield data

    def sample(self, start: int, end: int) -> bytes:
        """Return a few bytes."""
        with open_regular(self._path) as file:
            return read_at(file, start, end - start, self._path)


def open_content(
    archive: Archive, candidate: CollectCandidate, generation: int, holes: list[UnspoolError]
) -> SourceContent | None:
    """Return the bytes of a generation of a file of lines; None if nobody has them any more."""
    is_over = generation < candidate.generation
    if is_over or candidate.archived:
        try:
            about = archive.find(candidate.path, generation)
        except NotFound:
            return None
        return ArchivedContent(archive, about, None if is_over else candidate.offset, holes)
    return None if candidate.gone else FileContent(candidate)


def without_torn_line(content: SourceContent, after: SourceContent | None) -> SourceContent:
    """Return a generation that is over without the torn line at its end, if the one after it goes on with that line.

    So it is when a file is put in its own place again, as tools do that copy whole folders.
    """
    start = _last_line(content)
    torn = content.sample(start, content.end)
    if not torn or after is None or after.end < content.end or is_json(torn):
        return content
    head = min(SAMPLE_SIZE, content.end)
    if after.sample(start, content.end) == torn and after.sample(0, head) == content.sample(0, head):
        content.end = start
    return content


def _last_line(content: SourceContent) -> int:
    """Return where the line begins that the bytes end with."""
    length = _STEP
    while length < content.end and b"\n" not in content.sample(content.end - length, content.end):
        length *= 2
    start = max(content.end - length, 0)
    return start + content.sample(start, content.end).rfind(b"\n") + 1


def read_whole_source(archive: Archive, candidate: CollectCandidate) -> bytes | None:
    """Return a side file as it is, or as it last was; None if it cannot be had."""
    try:
        with open_regular(candidate.path) as file:
            if os.fstat(file).st_size > MAX_SIDE_FILE:
                return None
            data = b""
            while piece := read_at(file, len(data), _PIECE, candidate.path):
                data += piece
            return data
    except NotFound:
        if Kind(candidate.kind) not in ARCHIVED_SIDE_KINDS:
            return None
    try:
        about = archive.find(candidate.path)
    except NotFound:
        return None
    return b"".join(data for _, data in archive.read(about))
