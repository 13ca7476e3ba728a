"""Draws PNG images: curves and tables.

The output is deterministic: the same picture has the same bytes on every machine, so that its hash is known.
"""

from __future__ import annotations

import math
import struct
import zlib
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import TypeAlias

Colour: TypeAlias = int
"""A number in the palette."""


def draw_png(
    width: int, height: int, palette: Sequence[tuple[int, int, int]], paint: Callable[[int, int], Colour]
) -> bytes:
    """Return a PNG of up to four colours; `paint(x, y)` returns the palette index of a pixel."""
    rows = b"".join(b"\0" + _pack_row([paint(x, y) for x in range(width)]) for y in range(height))
    colours = bytes(part for colour in palette for part in colour)
    # Bit depth 2 and colour type 3: four colours out of a palette.
    head = struct.pack(">IIBBBBB", width, height, 2, 3, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"PLTE", colours), (b"IDAT", _zlib_stored(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def as_text(picture: bytes) -> str:
    """Return a picture in base64, as a session file holds it."""
    return b64encode(picture).decode()


def curve(width: int = 240, height: int = 96, *, waves: float = 3.0) -> bytes:
    """Return a drawing of a curve over a grid, which is easy to tell from an empty picture."""
    palette = ((250, 250, 247), (214, 218, 222), (31, 111, 178), (196, 226, 244))

    def paint(x: int, y: int) -> Colour:
        level = height / 2 - math.sin(x / width * waves * math.tau) * height * 0.38
        if abs(y - level) < 1.6:
            return 2
        if y > level:
            return 3
        return 1 if x % 24 == 0 or y % 24 == 0 else 0

    return draw_png(width, height, palette, paint)


def table(width: int = 240, height: int = 120, *, rows: int = 6, wrong: int = 4) -> bytes:
    """Return a drawing of a page with a table and one marked row, like a small screenshot."""
    palette = ((255, 255, 255), (36, 41, 47), (223, 228, 233), (207, 34, 46))
    tall = (height - 24) // rows

    def paint(x: int, y: int) -> Colour:
        if y < 20:
            return 1
        row, inside = divmod(y - 24, tall)
        if y < 24 or inside == tall - 1:
            return 2
        long = 40 + (row * 37) % 70
        in_text = tall // 3 <= inside <= tall // 2
        if in_text and (12 <= x < 12 + long or width - 60 <= x < width - 16):
            return 3 if row == wrong else 1
        return 0

    return draw_png(width, height, palette, paint)


def _pack_row(pixels: list[Colour]) -> bytes:
    """Return the pixels of a row, four in a byte."""
    padded = [*pixels, *[0] * (-len(pixels) % 4)]
    fours = zip(padded[::4], padded[1::4], padded[2::4], padded[3::4], strict=True)
    return bytes(first << 6 | second << 4 | third << 2 | fourth for first, second, third, fourth in fours)


def _zlib_stored(data: bytes) -> bytes:
    """Return data as an uncompressed zlib stream."""
    # Not `zlib.compress`: builds of zlib compress differently, and the bytes must be the same everywhere.
    pieces = [data[start : start + 65_535] for start in range(0, len(data), 65_535)] or [b""]
    blocks = [
        struct.pack("<BHH", number == len(pieces) - 1, len(piece), len(piece) ^ 0xFFFF) + piece
        for number, piece in enumerate(pieces)
    ]
    return b"\x78\x01" + b"".join(blocks) + struct.pack(">I", zlib.adler32(data))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
