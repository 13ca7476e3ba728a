"""What a picture is, by its first bytes: bytes in, media type and edges out; None for what is not one of the four.

PNG, JPEG, GIF and WebP are what the Messages API takes. Nothing is decoded beyond the header.
"""

from typing import NamedTuple

_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers that begin a frame: its edges follow."""
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
"""JPEG markers without a length."""


class Picture(NamedTuple):
    """A media type and the edges in pixels, 0 where the header was cut off."""

    media_type: str
    width: int
    height: int


def picture(data: bytes) -> Picture | None:
    """Return what a picture's header says."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return Picture("image/png", _big(data, 16, 4), _big(data, 20, 4))
    if data.startswith(b"\xff\xd8\xff"):
        return Picture("image/jpeg", *_jpeg(data))
    if data.startswith((b"GIF87a", b"GIF89a")):
        return Picture("image/gif", _little(data, 6, 2), _little(data, 8, 2))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return Picture("image/webp", *_webp(data))
    return None


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return 0, 0
        marker = data[at + 1]
        if marker in _FRAMES:
            return _big(data, at + 7, 2), _big(data, at + 5, 2)
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _BARE:
            at += 2
        else:
            at += 2 + max(_big(data, at + 2, 2), 2)
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
        case b"VP8L":
            bits = _little(data, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
        case _:
            return 0, 0


def _big(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big")


def _little(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")
