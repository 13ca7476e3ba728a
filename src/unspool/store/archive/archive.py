"""Keeps the raw bytes of files, compressed, after the files have gone; gives them back exactly as they were.

Rules
  1. Bytes are archived before the store says that they were read: a process killed in between archives them again, in
     the same place.
  2. A file is kept as frames of zstd. They follow each other without gap or overlap; each ends at the end of a line, so
     that reading can go on where one begins. Only a line longer than `MAX_HELD_BYTES` is cut. What is after the last
     whole line is a frame of its own.
  3. Small frames at the end of a file are joined as more comes, so that a line a time does not cost a frame each; each
     byte is compressed anew a few times at most.
  4. Frames that do not begin where the archive of a file ends are refused; the caller then archives the file whole.
  5. What the archive has of a file is read in whole, or an error says what is missing. Frames that cannot be (larger
     than any that is written, over another one, far from all others) count as damaged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from unspool.errors import NotFound, Unreadable, UnspoolError
from unspool.files import open_regular, read_at

if TYPE_CHECKING:
    from backports.zstd import ZstdCompressor

FRAME_BYTES = 1024 * 1024
"""Bytes of lines in a frame: more compress better, fewer are read faster."""

MAX_HELD_BYTES = 2 * FRAME_BYTES
"""Bytes of an unfinished line that are held before it is cut."""
_MAX_FRAME_BYTES = 256 * 1024 * 1024
"""Bytes that a frame may hold; those that are written hold a few million."""
_MAX_GAP_BYTES = 1024 * 1024 * 1024
"""Bytes of a gap after which a frame is taken for one in a wrong place."""
_PIECE = 4 * 1024 * 1024
"""Bytes that are unpacked of a frame at a time."""
_LEVEL = 2
"""Of compression: a fifth faster than 3, for a twenty-fifth more bytes."""


class ArchiveFrame(msgspec.Struct, frozen=True, array_like=True):
    """A part of a file, compressed: where it begins and how long it was."""

    start: int
    length: int
    data: bytes


class FrameBuilder:
    """Cuts the pieces of a file, as they are read, into frames."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._held = bytearray()
        self._frames: list[ArchiveFrame] = []
        self.weight = 0
        """Bytes of the frames that were not taken yet."""

    def feed(self, data: bytes, line: int) -> None:
        """Take the next piece; `line` is where the unfinished line begins."""
        self._held += data
        if line - self._start >= FRAME_BYTES:
            self._cut(line - self._start)
        if len(self._held) > MAX_HELD_BYTES:
            self._cut(max(line - self._start, 0))
            self._cut(len(self._held))

    def take(self, offset: int, *, is_last: bool) -> list[ArchiveFrame]:
        """Return the frames up to an offset at which a line ends; at the end of the file also the rest."""
        self._cut(max(offset - self._start, 0))
        if is_last:
            self._cut(len(self._held))
        frames, self._frames, self.weight = self._frames, [], 0
        return frames

    def _cut(self, length: int) -> None:
        if length:
            with memoryview(self._held) as held:  # copied once; a slice of it would be copied twice
                data = held[:length].tobytes()
            del self._held[:length]
            frame = ArchiveFrame(self._start, length, compress(data))
            self._start += length
            self._frames.append(frame)
            self.weight += len(frame.data)


def split_into_frames(data: bytes) -> list[ArchiveFrame]:
    """Return a whole file as frames."""
    return [
        ArchiveFrame(start, len(piece), compress(piece))
        for start in range(0, len(data), FRAME_BYTES)
        if (piece := data[start : start + FRAME_BYTES])
    ]


def compress(data: bytes, level: int = _LEVEL) -> bytes:
    """Return a frame with a checksum."""
    compressor = _compressor(level)
    return compressor.compress(data, compressor.FLUSH_FRAME)


def decompress(data: bytes) -> bytes:
    """Return the content of a frame; one that is damaged raises one of `frame_errors()`."""
    return bytes(_zstd().decompress(data))


def decompress_at_most(data: bytes, limit: int) -> bytes:
    """Return the content of one frame of unknown origin; `EOFError` if it is larger than the limit, or not whole."""
    return b"".join(decompress_pieces(data, limit))


def decompress_pieces(data: bytes, limit: int) -> Iterator[bytes]:
    """Yield the content of one frame of unknown origin piece by piece; `EOFError` as in `decompress_at_most`."""
    zstd = _zstd()
    # A frame that admits to be too large is refused before any byte of it is unpacked. One that lies is stopped below.
    if data and (zstd.get_frame_info(data).decompressed_size or 0) > limit:
        raise EOFError(f"more than {limit:,} bytes")
    decompressor, size = zstd.ZstdDecompressor(), 0
    piece = bytes(decompressor.decompress(data, _PIECE))
    while piece:
        size += len(piece)
        if size > limit:
            raise EOFError(f"more than {limit:,} bytes")
        yield piece
        piece = b"" if decompressor.eof else bytes(decompressor.decompress(b"", _PIECE))
    if not decompressor.eof or decompressor.unused_data:
        raise EOFError("not one complete frame")


def frame_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a damaged frame raises."""
    return (_zstd().ZstdError, EOFError)


@cache
def _compressor(level: int) -> ZstdCompressor:
    parameter = _zstd().CompressionParameter
    options = {parameter.compression_level: level, parameter.checksum_flag: 1}
    compressor: ZstdCompressor = _zstd().ZstdCompressor(options=options)
    return compressor


@cache
def _zstd() -> Any:
    """Load the library when it is needed: most commands never do. From 3.14 on it is a part of Python."""
    try:
        return import_module("compression.zstd")
    except ImportError:
        return import_module("backports.zstd")


class ArchivedFile(NamedTuple):
    """A file of which the archive has something, as `sources` in `archive.sql`."""

    id: int
    home: str
    path: str
    generation: int
    kind: str
    project: str | None
    session_id: str | None
    agent_id: str | None
    device: int
    inode: int
    modified: int


_COLUMNS = ", ".join(ArchivedFile._fields)


class Archive:
    """The archive database: the frames of many files."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self.database = database

    def put(self, file: ArchivedFile, frames: list[ArchiveFrame], start: int, end: int, *, is_first: bool) -> bool:
        """Keep what was read of a file from `start` on; after `end` there is only a torn line.

        Returns False if the archive lacks something before that, and nothing was kept (rule 4).
        """
        id = self._find_or_add(file)
        reached = self._cut_after(id, start) if is_first else self._end(id)
        if reached < start or (frames and frames[0].start != reached):
            return False
        if is_first:
            frames = self._join_small(id, frames, end)
        self.database.executemany(
            "INSERT INTO frames (source_id, start, length, data) VALUES (?, ?, ?, ?)",
            [(id, frame.start, frame.length, frame.data) for frame in frames],
        )
        return True

    def is_empty(self) -> bool:
        """Tell whether the archive has no file."""
        return self.database.execute("SELECT 1 FROM sources LIMIT 1").fetchone() is None

    def files(self) -> Iterator[ArchivedFile]:
        """Yield every file and generation, in the order they were first archived."""
        with _translate_damage():
            for row in self.database.execute(f"SELECT {_COLUMNS} FROM sources ORDER BY id"):
                yield ArchivedFile(*row)

    def find(self, path: str, generation: int | None = None) -> ArchivedFile:
        """Return a file of a generation; without one, of the newest."""
        query = f"SELECT {_COLUMNS} FROM sources WHERE path = ? AND generation = coalesce(?, generation)"
        with _translate_damage():
            row = self.database.execute(f"{query} ORDER BY generation DESC LIMIT 1", (path, generation)).fetchone()
        if row is None:
            raise NotFound(
                f"not in the archive: `{path}`", hint="the archive contains only files that existed during a sync"
            )
        return ArchivedFile(*row)

    def read(
        self, file: ArchivedFile, holes: list[UnspoolError] | None = None, start: int = 0
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of a file in pieces, from the one that contains `start` on, each with where it begins.

        They are whole lines but for the last. What is missing is an error; with a list for such errors, a blank line of
        that length.
        """
        reached, is_first = start, True
        query = "SELECT start, length, data FROM frames WHERE source_id = ? AND start + length > ? ORDER BY start"
        for begins, length, data in self._frames(query, (file.id, start), holes):
            damage = f"the archive of `{file.path}` is damaged at {begins:,}: "
            is_placed = 0 <= begins <= reached + _MAX_GAP_BYTES and (is_first or begins >= reached)
            if not is_placed or not 0 < length <= _MAX_FRAME_BYTES:
                _report_hole(f"{damage}a frame cannot have {length:,} bytes", holes)
                continue
            if begins > reached:
                _report_hole(f"the archive lacks bytes {reached:,} to {begins:,} of `{file.path}`", holes)
                yield from _blank_lines(reached, begins)
            try:
                lines = decompress_at_most(data, _MAX_FRAME_BYTES)
                if len(lines) != length:
                    raise EOFError(f"{len(lines):,} bytes instead of {length:,}")
            except frame_errors() as error:
                _report_hole(f"{damage}{error}", holes)
                lines = _blank_line(length)
            yield begins, lines
            reached, is_first = begins + length, False

    def _frames(
        self, query: str, values: tuple[int, int], holes: list[UnspoolError] | None
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield the rows of frames; where the database itself is damaged, the rest is one hole."""
        try:
            with _translate_damage():
                # Not `yield from`: that would close the cursor with this generator, which may be after the database.
                for row in self.database.execute(query, values):  # noqa: UP028
                    yield row
        except Unreadable as error:
            if holes is None:
                raise
            holes.append(error)

    def length(self, file: ArchivedFile) -> int:
        """Return how many bytes of a file there are."""
        query = "SELECT coalesce(total(length), 0) FROM frames WHERE source_id = ?"  # `sum` may overflow
        with _translate_damage():
            return int(self.database.execute(query, (file.id,)).fetchone()[0])

    def sizes(self) -> tuple[int, int]:
        """Return how many bytes of files are kept, and how many they take compressed."""
        with _translate_damage():
            raw, kept = self.database.execute("SELECT total(length), total(length(data)) FROM frames").fetchone()
        return int(raw), int(kept)

    def differs(self, file: ArchivedFile, end: int) -> bool:
        """Tell whether the file on disk has other bytes before an offset than the archive."""
        with open_regular(file.path) as descriptor:
            for start, lines in self.read(file):
                kept = lines[: max(end - start, 0)]
                if kept and read_at(descriptor, start, len(kept), file.path) != kept:
                    return True
        return False

    def update_stamp(self, path: str, device: int, inode: int, modified: int) -> None:
        """Note that the newest generation of a file was written again, with the same bytes."""
        query = """UPDATE sources SET device = ?, inode = ?, modified = ? WHERE path = ? AND generation =
            (SELECT max(generation) FROM sources WHERE path = ?)"""
        self.database.execute(query, (device, inode, modified, path, path))

    def _find_or_add(self, file: ArchivedFile) -> int:
        names = _COLUMNS.removeprefix("id, ")
        marks = ", ".join("?" * (len(ArchivedFile._fields) - 1))
        update = "device = excluded.device, inode = excluded.inode, modified = excluded.modified"
        query = f"INSERT INTO sources ({names}) VALUES ({marks}) ON CONFLICT (path, generation) DO UPDATE SET {update}"
        (id,) = self.database.execute(f"{query} RETURNING id", file[1:]).fetchone()
        return int(id)

    def _end(self, id: int) -> int:
        """Return where the frames of a file end."""
        row = self.database.execute(_LAST, (id,)).fetchone()
        return int(row[1] + row[2]) if row else 0

    def _cut_after(self, id: int, place: int) -> int:
        """Take away what is after a place; return where the frames end now."""
        # A process killed after it archived lines, and before the store said so, may have joined them to a frame.
        self.database.execute("DELETE FROM frames WHERE source_id = ? AND start >= ?", (id, place))
        last = self.database.execute(_LAST, (id,)).fetchone()
        if last is None or last[1] + last[2] <= place:
            return self._end(id)
        rowid, start, _, data = last
        try:
            lines = decompress(data)[: place - start]
        except frame_errors():
            return int(start)
        change = "UPDATE frames SET length = ?, data = ? WHERE rowid = ?"
        self.database.execute(change, (len(lines), compress(lines), rowid))
        return place

    def _join_small(self, id: int, frames: list[ArchiveFrame], end: int) -> list[ArchiveFrame]:
        """Join the first frame with small ones before it (rule 3), unless it holds a torn line."""
        if not frames or frames[0].start + frames[0].length > end:
            return frames
        first, *others = frames
        while before := self.database.execute(_LAST, (id,)).fetchone():
            rowid, start, length, data = before
            if length > 2 * first.length or length + first.length > FRAME_BYTES or start + length != first.start:
                break
            try:
                lines = decompress(data) + decompress(first.data)
            except frame_errors():  # damaged: it stays as it is, and costs no other
                break
            first = ArchiveFrame(start, length + first.length, compress(lines))
            self.database.execute("DELETE FROM frames WHERE rowid = ?", (rowid,))
        return [first, *others]


_LAST = "SELECT rowid, start, length, data FROM frames WHERE source_id = ? ORDER BY start DESC LIMIT 1"


@contextmanager
def _translate_damage() -> Iterator[None]:
    """Turn an error of SQLite that says that the database is damaged into one that names the archive."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR):
            raise
        hint = "rebuild it from what is readable with `unspool sync --rebuild`, which keeps the old one"
        raise Unreadable(f"the archive is damaged: {error}", hint=hint) from None


def _report_hole(words: str, holes: list[UnspoolError] | None) -> None:
    error = Unreadable(words, hint="recover the readable part with `unspool sync --rebuild`")
    if holes is None:
        raise error from None
    holes.append(error)


def _blank_lines(start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield blank lines that fill a gap, in pieces that fit into memory."""
    for place in range(start, end, FRAME_BYTES):
        yield place, _blank_line(min(FRAME_BYTES, end - place))


def _blank_line(length: int) -> bytes:
    return b" " * (length - 1) + b"\n"
