"""Blocks and tags in words."""

from __future__ import annotations

import base64
import struct

import pytest

from unspool.export.block_text import blocks_to_text, command_text, describe_media, notification_summary, strip_tags
from unspool.format.blocks import AnyBlock, Document, Image, MediaSource, Other, Text, ToolReference

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + struct.pack(">II", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 320, 200)
WEBP = b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 8 + (299).to_bytes(3, "little") + (199).to_bytes(3, "little")
JPEG = b"\xff\xd8\xff\xe0\0\x10" + b"\0" * 14 + b"\xff\xc0\0\x11\x08" + struct.pack(">HH", 100, 200) + b"\0" * 9


def picture(data: bytes, media_type: str = "image/png") -> Image:
    return Image(source=MediaSource(type="base64", media_type=media_type, data=base64.b64encode(data).decode()))


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (picture(PNG), "[image 640×480 png, 24 bytes]"),
        (picture(GIF, "image/gif"), "[image 320×200 gif, 10 bytes]"),
        (picture(WEBP, "image/webp"), "[image 300×200 webp, 30 bytes]"),
        (picture(JPEG, "image/jpeg"), "[image 200×100 jpeg, 38 bytes]"),
        (picture(JPEG[:20], "image/jpeg"), "[image jpeg, 20 bytes]"),
        (picture(PNG[:12]), "[image png, 12 bytes]"),
        (Image(source=MediaSource(type="base64", data="!")), "[image, 0 bytes]"),
        (Image(source=MediaSource(type="url", url="https://a.example/x.png")), "[image, https://a.example/x.png]"),
        (
            Document(source=MediaSource(type="text", media_type="text/plain", data="é"), title="a.txt"),
            "[document `a.txt` plain, 2 bytes]",
        ),
    ],
)
def test_a_picture_is_told_by_its_size(block: Image | Document, words: str) -> None:
    assert describe_media(block) == words


def test_all_else_is_told_by_its_type() -> None:
    blocks: list[AnyBlock] = [Text(text="a"), ToolReference(tool_name="x"), Other(type="hologram"), Other()]
    assert blocks_to_text(blocks) == "a\n[tool_reference]\n[hologram]\n[block]"


def test_tags_of_the_program_are_taken_off() -> None:
    assert command_text("<command-message>x</command-message><command-name>/x</command-name>") == "/x"
    assert command_text("no tags") == "no tags"
    assert notification_summary("<task-notification>\n<summary>Done.</summary>\n</task-notification>") == "Done."
    assert notification_summary("<tick>now</tick>") == "now"
    assert strip_tags("<bash-stdout>a < b <b>bold</b></bash-stdout>") == "a < b <b>bold</b>"
