"""Pictures in a transcript: base64 in, what they are and where they are out. Nothing is ever decoded to pixels.

Rules
  1. What a picture is, its first bytes say; what the transcript calls it is not believed. Only PNG, JPEG, GIF and WebP
     are pictures here: anything else (SVG above all) is never given to a browser as one.
  2. A picture is known by the SHA-256 of its bytes.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from unspool.export.block_text import pixels
from unspool.format.blocks import AnyBlock, Image, Source, ToolResult
from unspool.format.entry import Entry
from unspool.format.records import Assistant, User
from unspool.format.tools.files import ReadImage, ReadParts
from unspool.format.tools.shell import BashResult

MOST = 48_000_000
"""Characters of base64. A larger picture is named, not shown."""


class Picture(msgspec.Struct, frozen=True):
    """A picture, without its bytes."""

    digest: str
    mime: str
    size: int
    width: int | None = None
    height: int | None = None
    place: int = -1
    """Where the line begins that has it."""


class Blob(msgspec.Struct, frozen=True):
    """The bytes of a picture, and what they are."""

    data: bytes
    mime: str


def picture(source: Source, place: int) -> Picture | None:
    """Return what a picture is; nothing if it is none that may be shown."""
    blob = blob_of(source.data) if source.type == "base64" else None
    if blob is None:
        return None
    width, height = pixels(blob.data) or (None, None)
    return Picture(sha256(blob.data).hexdigest(), blob.mime, len(blob.data), width, height, place)


def blob_of(encoded: str | None) -> Blob | None:
    """Return the bytes of a picture in base64; nothing if they are none that may be shown."""
    if not encoded or len(encoded) > MOST:
        return None
    try:
        head = binascii.a2b_base64(encoded[:64])
        mime = sniffed(head)
        return Blob(binascii.a2b_base64(encoded), mime) if mime else None
    except ValueError:
        return None


def sniffed(head: bytes) -> str | None:
    """Return the type of a picture by its first bytes."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def pictures_in(blocks: tuple[AnyBlock, ...], place: int) -> tuple[Picture, ...]:
    """Return the pictures among the blocks of a line."""
    found = (picture(block.source, place) for block in blocks if isinstance(block, Image))
    return tuple(one for one in found if one is not None)


def blobs(entry: Entry, structured: Any = None) -> Iterator[tuple[str, Blob]]:
    """Yield every picture of a line with its digest."""
    for encoded in encoded_in(entry, structured):
        blob = blob_of(encoded)
        if blob is not None:
            yield sha256(blob.data).hexdigest(), blob


def encoded_in(entry: Entry, structured: Any = None) -> Iterator[str | None]:
    """Yield what of a line may be a picture."""
    record = entry.record
    if isinstance(record, User | Assistant):
        for block in record.message.blocks:
            inner = block.blocks if isinstance(block, ToolResult) else (block,)
            yield from (one.source.data for one in inner if isinstance(one, Image))
    else:
        prompt = getattr(getattr(record, "attachment", None), "prompt", None) or getattr(record, "content", None)
        if isinstance(prompt, tuple):
            yield from (one.source.data for one in prompt if isinstance(one, Image))
    yield from structured_pictures(structured)


def structured_pictures(structured: Any) -> Iterator[str]:
    """Yield the pictures of a structured result."""
    match structured:
        case ReadImage(file=file):
            yield file.base64
        case ReadParts(pages=tuple() as pages):
            yield from (page.base64 for page in pages)
        case BashResult(is_image=True, stdout=stdout):
            yield stdout.partition("base64,")[2] or stdout
        case _:
            pass
