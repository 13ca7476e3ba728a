"""Headers of pictures, whole and cut off."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.format.image_header import ImageHeader, parse_encoded_image_header, parse_image_header
from unspool.testing.build import DOT


def little(*numbers: tuple[int, int]) -> bytes:
    return b"".join(value.to_bytes(size, "little") for value, size in numbers)


def webp(kind: bytes, rest: bytes) -> bytes:
    return b"RIFF\x00\x00\x00\x00WEBP" + kind + bytes(4) + rest


FRAME = b"\xff\xc2\x00\x11\x08\x00\x20\x00\x40" + bytes(8)
SEEN = {
    "png": (base64.b64decode(DOT), ImageHeader("image/png", 1, 1)),
    "jpeg": (b"\xff\xd8\xff\xe0\x00\x04ab" + FRAME, ImageHeader("image/jpeg", 64, 32)),
    "jpeg with padding": (b"\xff\xd8\xff\xff\xff\xd0" + FRAME, ImageHeader("image/jpeg", 64, 32)),
    "jpeg without a frame": (b"\xff\xd8\xff\xe0\x00\x04abcdefghijkl", ImageHeader("image/jpeg", 0, 0)),
    "gif": (b"GIF89a" + little((300, 2), (200, 2)), ImageHeader("image/gif", 300, 200)),
    "webp": (webp(b"VP8X", bytes(4) + little((299, 3), (199, 3))), ImageHeader("image/webp", 300, 200)),
    "lossless webp": (webp(b"VP8L", b"\x2f" + little((299 | 199 << 14, 4))), ImageHeader("image/webp", 300, 200)),
    "lossy webp": (webp(b"VP8 ", bytes(6) + little((300, 2), (200, 2))), ImageHeader("image/webp", 300, 200)),
    "unknown webp": (webp(b"ALPH", b""), ImageHeader("image/webp", 0, 0)),
    "text": (b"hello", None),
}


@pytest.mark.parametrize("case", SEEN.values(), ids=SEEN)
def test_a_header_tells_type_and_edges(case: tuple[bytes, ImageHeader | None]) -> None:
    data, seen = case
    assert parse_image_header(data) == seen
    assert parse_encoded_image_header(base64.b64encode(data).decode()) == seen


def test_a_long_picture_in_lines_of_base64_has_its_header() -> None:
    encoded = base64.encodebytes(SEEN["gif"][0] + bytes(100_000)).decode()
    assert parse_encoded_image_header(encoded) == SEEN["gif"][1]
    assert parse_encoded_image_header("!") is parse_encoded_image_header("") is None


@given(st.sampled_from([data for data, _ in SEEN.values()]), st.data())
def test_a_header_that_is_cut_off_or_damaged_is_still_judged(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data)))
    seen = parse_image_header(data[:at] + draw.draw(st.binary(max_size=9)))
    assert seen is None or seen.width >= 0 <= seen.height
