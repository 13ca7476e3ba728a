"""Reads the media type and the size of an image from its first bytes.

PNG, JPEG, GIF and WebP are what the Messages API takes. Nothing is decoded beyond the header.
"""

import binascii
from typing import NamedTuple

_MAX_ENCODED_HEADER = 65_536
"""How many characters of an image in base64 are searched for its size: a JPEG may have a long preamble."""
# C4, C8 and CC lie in the range of frame markers but are Huffman tables, an extension and arithmetic coding.
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""JPEG markers that begin a frame: its height and width follow."""
_MARKERS_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})


class ImageHeader(NamedTuple):
    """A media type and a size in pixels, 0 where the header was cut off."""

    media_type: str
    width: int
    height: int

    @property
    def pixels(self) -> tuple[int, int] | None:
        """Width and height, if both are known."""
        return (self.width, self.height) if self.width and self.height else None


def parse_image_header(data: bytes) -> ImageHeader | None:
    """Return the media type and the size of an image, None for bytes of any other format."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return ImageHeader("image/png", _big_endian(data, 16, 4), _big_endian(data, 20, 4))
    if data.startswith(b"\xff\xd8\xff"):
        return ImageHeader("image/jpeg", *_jpeg_size(data))
    if data.startswith((b"GIF87a", b"GIF89a")):
        return ImageHeader("image/gif", _little_endian(data, 6, 2), _little_endian(data, 8, 2))
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return ImageHeader("image/webp", *_webp_size(data))
    return None


def parse_encoded_image_header(encoded: str) -> ImageHeader | None:
    """Return the header of an image in base64, None also for what is no base64."""
    start = "".join(encoded[:_MAX_ENCODED_HEADER].split())
    try:
        # A multiple of four characters: base64 that is cut elsewhere cannot be decoded.
        return parse_image_header(binascii.a2b_base64(start[: len(start) // 4 * 4]))
    except ValueError:
        return None


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return 0, 0
        marker = data[at + 1]
        if marker in _FRAME_MARKERS:
            return _big_endian(data, at + 7, 2), _big_endian(data, at + 5, 2)
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _MARKERS_WITHOUT_LENGTH:
            at += 2
        else:
            at += 2 + max(_big_endian(data, at + 2, 2), 2)
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return _little_endian(data, 24, 3) + 1, _little_endian(data, 27, 3) + 1
        case b"VP8L":
            bits = _little_endian(data, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little_endian(data, 26, 2) & 0x3FFF, _little_endian(data, 28, 2) & 0x3FFF
        case _:
            return 0, 0


def _big_endian(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big")


def _little_endian(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")
