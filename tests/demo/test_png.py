import hashlib
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.testing.pictures import curve, png, table

PALETTE = ((0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255))


@given(st.integers(1, 600), st.integers(1, 40), st.integers(0, 2**32))
def test_a_picture_holds_every_point_as_it_was_painted(width: int, height: int, seed: int) -> None:
    picture = png(width, height, PALETTE, lambda x, y: (seed >> (x * 7 + y * 3) % 30) & 3)
    chunks = parts(picture)
    assert struct.unpack(">II", chunks["IHDR"][:8]) == (width, height)
    rows = zlib.decompress(chunks["IDAT"])
    long = 1 + -(-width // 4)
    assert len(rows) == long * height
    for y in range(height):
        packed = rows[y * long + 1 : (y + 1) * long]
        points = [(packed[x // 4] >> (6 - x % 4 * 2)) & 3 for x in range(width)]
        assert points == [(seed >> (x * 7 + y * 3) % 30) & 3 for x in range(width)]


@pytest.mark.parametrize(("picture", "digest"), [(curve(), "354c915a51342d79"), (table(), "657ea132a4d529c4")])
def test_a_picture_has_the_same_bytes_everywhere(picture: bytes, digest: str) -> None:
    assert hashlib.sha256(picture).hexdigest()[:16] == digest


def parts(picture: bytes) -> dict[str, bytes]:
    """Return the chunks of a PNG by name; each must be whole."""
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    found, at = {}, 8
    while at < len(picture):
        (size,) = struct.unpack(">I", picture[at : at + 4])
        body = picture[at + 4 : at + 8 + size]
        assert struct.unpack(">I", picture[at + 8 + size : at + 12 + size]) == (zlib.crc32(body),)
        found[body[:4].decode()] = body[4:]
        at += 12 + size
    return found
