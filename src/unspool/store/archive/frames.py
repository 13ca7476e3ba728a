"""Bytes of a file as compressed frames, and back. In: the pieces of a file as they are read. Out: frames.

Rules
  1. Frames cover the bytes fed in without gap or overlap. Each ends at the end of a line, so that reading can go on
     where one begins; only a line longer than `LONG` is cut.
  2. What is after the last whole line is a frame of its own.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from backports.zstd import ZstdCompressor

FRAME = 1024 * 1024
"""Bytes of lines in a frame: more compress better, fewer are read faster."""

LONG = 2 * FRAME
_LEVEL = 2
"""A fifth faster than 3, for a twenty-fifth more bytes."""


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """A part of a file, compressed."""

    start: int
    length: int
    data: bytes


class Framing:
    """Takes the pieces of a file and gives frames."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._held = bytearray()
        self._frames: list[Frame] = []
        self.weight = 0
        """Bytes of the frames that wait to be taken."""

    def feed(self, data: bytes, line: int) -> None:
        """Take the next piece; `line` is where the unfinished line begins."""
        self._held += data
        if line - self._start >= FRAME:
            self._cut(line - self._start)
        if len(self._held) > LONG:
            self._cut(max(line - self._start, 0))
            self._cut(len(self._held))

    def take(self, offset: int, *, is_last: bool) -> list[Frame]:
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
            frame = Frame(self._start, length, compress(data))
            self._start += length
            self._frames.append(frame)
            self.weight += len(frame.data)


def frames_of(data: bytes) -> list[Frame]:
    """Return a whole file as frames."""
    return [
        Frame(start, len(piece), compress(piece))
        for start in range(0, len(data), FRAME)
        if (piece := data[start : start + FRAME])
    ]


def compress(data: bytes, level: int = _LEVEL) -> bytes:
    """Return a frame with a checksum."""
    compressor = _compressor(level)
    return compressor.compress(data, compressor.FLUSH_FRAME)


def decompress(data: bytes) -> bytes:
    """Return what is in a frame; one that is damaged raises one of `damage()`."""
    return bytes(_zstd().decompress(data))


def decompress_at_most(data: bytes, limit: int) -> bytes:
    """Return what is in one frame that somebody else made; `EOFError` if that is more, or not all of it is there."""
    inner = _zstd().ZstdDecompressor()
    found = bytes(inner.decompress(data, limit + 1))
    if len(found) > limit:
        raise EOFError(f"more than {limit:,} bytes")
    if not inner.eof or inner.unused_data:
        raise EOFError("not one whole frame")
    return found


def damage() -> tuple[type[Exception], ...]:
    """Return what a frame that is damaged raises."""
    return (_zstd().ZstdError, EOFError)


@cache
def _compressor(level: int) -> ZstdCompressor:
    parameter = _zstd().CompressionParameter
    options = {parameter.compression_level: level, parameter.checksum_flag: 1}
    compressor: ZstdCompressor = _zstd().ZstdCompressor(options=options)
    return compressor


@cache
def _zstd() -> Any:
    """Load the library when it is needed. From 3.14 on it is a part of Python."""
    try:
        return import_module("compression.zstd")
    except ImportError:
        return import_module("backports.zstd")
