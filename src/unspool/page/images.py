"""Images in a transcript: reads base64 and tells type, size and offset of each image. Nothing is decoded to pixels.

Rules
  1. The first bytes decide the type; what the transcript calls an image is not believed. Only PNG, JPEG, GIF and WebP
     are images here: anything else (SVG above all) is never given to a browser as one.
  2. An image is identified by the SHA-256 of its bytes.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

import msgspec

from unspool.format import (
    AnyBlock,
    Assistant,
    Attachment,
    Entry,
    Image,
    MediaSource,
    QueuedCommand,
    QueueOperation,
    ToolResult,
    User,
    as_blocks,
    parse_encoded_image_header,
    parse_image_header,
)
from unspool.format.tools import BashResult, ReadImage, ReadParts, parse_result

MAX_BASE64_CHARACTERS = 48_000_000
"""A larger image is named, not shown."""


class ImageInfo(msgspec.Struct, frozen=True):
    """An image without its bytes."""

    digest: str
    mime: str
    size: int
    width: int | None = None
    height: int | None = None
    place: int = -1
    """The offset of the line that has it."""


class ImageBytes(msgspec.Struct, frozen=True):
    """The bytes of an image and their media type."""

    data: bytes
    mime: str


def image_info(source: MediaSource, offset: int) -> ImageInfo | None:
    """Describe an image of the line at an offset; nothing for what may not be shown."""
    image = decode_image(source.data) if source.type == "base64" else None
    if image is None:
        return None
    # All of it, not only its beginning: what comes before the size in a JPEG has no limit.
    header = parse_image_header(image.data)
    width, height = (header.pixels if header else None) or (None, None)
    return ImageInfo(sha256(image.data).hexdigest(), image.mime, len(image.data), width, height, offset)


def decode_image(encoded: str | None) -> ImageBytes | None:
    """Return the bytes of an image in base64; nothing for what may not be shown."""
    if not encoded or len(encoded) > MAX_BASE64_CHARACTERS:
        return None
    # The header is enough to refuse what is no image, before megabytes of it are decoded.
    header = parse_encoded_image_header(encoded)
    try:
        return ImageBytes(binascii.a2b_base64(encoded), header.media_type) if header else None
    except ValueError:
        return None


def images_in_blocks(blocks: Iterable[AnyBlock], offset: int) -> tuple[ImageInfo, ...]:
    """Return the images among the blocks of the line at an offset."""
    images = (image_info(block.source, offset) for block in blocks if isinstance(block, Image))
    return tuple(image for image in images if image is not None)


def find_image(entry: Entry, digest: str) -> ImageBytes | None:
    """Return the image of a line that has a digest."""
    images = (decode_image(encoded) for encoded in _encoded_images(entry))
    return next((image for image in images if image and sha256(image.data).hexdigest() == digest), None)


def written_blocks(entry: Entry) -> tuple[AnyBlock, ...]:
    """Return the blocks of a message, or of a prompt that waited in the queue."""
    match entry.record:
        case User(message=message) | Assistant(message=message):
            return message.blocks
        case Attachment(attachment=QueuedCommand(prompt=content)) | QueueOperation(content=content) if content:
            return as_blocks(content)
        case _:
            return ()


def _encoded_images(entry: Entry) -> Iterator[str | None]:
    for block in written_blocks(entry):
        inner = block.blocks if isinstance(block, ToolResult) else (block,)
        yield from (image.source.data for image in inner if isinstance(image, Image))
    if isinstance(entry.record, User) and entry.record.tool_use_result:
        yield from images_in_result(parse_result(None, entry.record.tool_use_result))


def images_in_result(structured: Any) -> Iterator[str]:
    """Yield the images of a structured result, in base64."""
    match structured:
        case ReadImage(file=file):
            yield file.base64
        case ReadParts(pages=tuple() as pages):
            yield from (page.base64 for page in pages)
        case BashResult(is_image=True, stdout=stdout):
            yield stdout.partition("base64,")[2] or stdout
