"""Reads bytes of a source that do not change while they are collected: from the archive, else the file.

Rules
  1. What the archive has of a generation up to the store's offset never changes. It is read from there, whatever has
     happened to the file.
  2. Without the archive the file is read, and checked again after each piece: bytes that may belong to another file are
     not returned.
  3. Only what the store has read is returned: whole lines. Of a finished generation, and of a file that rests,
     everything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

from unspool.collect.selection import CollectCandidate
from unspool.errors import NotFound, Unreadable, UnspoolError
from unspool.files import MAX_SIDE_FILE, open_regular, read_at
from unspool.read import SAMPLE_SIZE, Change, Kind, Position, detect_change
from unspool.redact import is_json
from unspool.store.archive import Archive, ArchivedFile
from unspool.store.sync import ARCHIVED_SIDE_KINDS

_PIECE = 1024 * 1024
_STEP = 64 * 1024


class SourceContent(Protocol):
    """The bytes of one generation of a source, by offset."""

    end: int

    def pieces(self, start: int) -> Iterator[bytes]:
        """Yield the bytes from an offset to the end."""

    def sample(self, start: int, end: int) -> bytes:
        """Return the bytes between two offsets."""


class ArchivedContent:
    """A generation of a file as the archive has it."""

    def __init__(self, archive: Archive, about: ArchivedFile, end: int | None, holes: list[UnspoolError]) -> None:
        self._archive, self._about, self._holes = archive, about, holes
        self.end = archive.length(about) if end is None else end

    def pieces(self, start: int) -> Iterator[bytes]:
        """Yield the bytes from an offset to the end."""
        for offset, data in self._archive.read(self._about, self._holes, start):
            piece = data[max(start - offset, 0) : max(self.end - offset, 0)]
            if piece:
                yield piece

    def sample(self, start: int, end: int) -> bytes:
        """Return the bytes between two offsets."""
        sample = b""
        for offset, data in self._archive.read(self._about, self._holes, start):
            sample += data[max(start - offset, 0) : max(end - offset, 0)]
            if offset + len(data) >= end:
                break
        return sample


class FileContent:
    """A file on disk, as long as it is the one that the store has read."""

    def __init__(self, candidate: CollectCandidate, end: int) -> None:
        self._path = candidate.path
        self._position = Position(
            candidate.offset, candidate.device, candidate.inode, candidate.head, candidate.boundary
        )
        self.end = end

    def pieces(self, start: int) -> Iterator[bytes]:
        """Yield the bytes from an offset to the end; `Unreadable` if the file was replaced or truncated."""
        with open_regular(self._path) as file:
            while start < self.end:
                data = read_at(file, start, min(_PIECE, self.end - start), self._path)
                # Checked after reading, not before: the bytes just read must not be those of a rewritten file.
                if not data or detect_change(file, self._position) not in (Change.SAME, Change.GROWN):
                    raise Unreadable(f"`{self._path}` changed during the read", hint="the next run reads it again")
                start += len(data)
                yield data

    def sample(self, start: int, end: int) -> bytes:
        """Return the bytes between two offsets."""
        with open_regular(self._path) as file:
            return read_at(file, start, end - start, self._path)


def open_content(
    archive: Archive,
    candidate: CollectCandidate,
    generation: int,
    holes: list[UnspoolError],
    end: int | None = None,
) -> SourceContent | None:
    """Return the bytes of a generation of a file of lines; None if neither archive nor disk has them.

    Those of the current generation go up to `end`, by default to the end of its last whole line.
    """
    is_over = generation < candidate.generation
    end = candidate.offset if end is None else end
    if is_over or candidate.archived:
        try:
            about = archive.find(candidate.path, generation)
        except NotFound:
            return None
        return ArchivedContent(archive, about, None if is_over else min(end, archive.length(about)), holes)
    return None if candidate.gone else FileContent(candidate, end)


def begin_equally(one: SourceContent, other: SourceContent, length: int) -> bool:
    """Return whether two generations have the same first bytes, each of them compared."""
    return all(
        one.sample(start, min(start + _PIECE, length)) == other.sample(start, min(start + _PIECE, length))
        for start in range(0, length, _PIECE)
    )


def without_torn_line(content: SourceContent, after: SourceContent | None) -> SourceContent:
    """Return a finished generation without the torn line at its end, if the next generation completes that line.

    That happens when tools that copy whole folders replace a file by a later copy of itself.
    """
    start = _last_line_start(content)
    torn = content.sample(start, content.end)
    if not torn or after is None or after.end < content.end or is_json(torn):
        return content
    head = min(SAMPLE_SIZE, content.end)
    if after.sample(start, content.end) == torn and after.sample(0, head) == content.sample(0, head):
        content.end = start
    return content


def _last_line_start(content: SourceContent) -> int:
    """Return the offset of the last line."""
    length = _STEP
    while length < content.end and b"\n" not in content.sample(content.end - length, content.end):
        length *= 2
    start = max(content.end - length, 0)
    return start + content.sample(start, content.end).rfind(b"\n") + 1


def read_whole_source(archive: Archive, candidate: CollectCandidate) -> bytes | None:
    """Return the bytes of a side file from disk, else from the archive; None if neither has it or it is too large."""
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
