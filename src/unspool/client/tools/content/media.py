"""Turn images and PDFs into the content blocks that the API accepts. Pure.

Rules
  1. What the API would refuse is refused here: once in a session, it would be part of every later request.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from typing import NamedTuple

from unspool.client.tool_result import InvalidToolCall, Json, ToolFailed
from unspool.format import parse_image_header

_MAX_IMAGE_BYTES = 5 * 1024 * 1024 * 3 // 4
"""5 MB once it is written as base64."""
_MAX_IMAGE_EDGE = 8000
_MAX_PDF_BYTES = 20 * 1024 * 1024
_MAX_PDF_PAGES = 100
_PDF_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_SMALLER = "Make a smaller copy first, with Bash for example, and read that."
_PARTS = "Take it apart first, with Bash for example (`pdftotext`, `qpdf`), and read the parts."


class ImageBlock(NamedTuple):
    """An image as the API accepts it."""

    block: Json
    base64: str
    media_type: str
    width: int
    height: int


def make_image_block(data: bytes) -> ImageBlock:
    """Return an image as a content block."""
    if not data:
        raise InvalidToolCall("Empty image files cannot be processed.")
    header = parse_image_header(data)
    if header is None or not header.width or not header.height:
        raise InvalidToolCall("The file is not a picture that can be shown: only PNG, JPEG, GIF and WebP can.")
    if len(data) > _MAX_IMAGE_BYTES:
        sizes = f"{format_size(len(data))} of {format_size(_MAX_IMAGE_BYTES)}"
        raise InvalidToolCall(f"The picture is too large ({sizes}). {_SMALLER}")
    if max(header.width, header.height) > _MAX_IMAGE_EDGE:
        edges = f"{header.width} × {header.height} pixels; {_MAX_IMAGE_EDGE} is the longest edge"
        raise InvalidToolCall(f"The picture is too large ({edges}). {_SMALLER}")
    text = b64encode(data).decode()
    block = {"type": "image", "source": {"type": "base64", "data": text, "media_type": header.media_type}}
    return ImageBlock(block, text, header.media_type, header.width, header.height)


def make_pdf_block(data: bytes, path: str) -> Json:
    """Return a PDF as a content block."""
    if not data:
        raise ToolFailed(f"PDF file is empty: {path}")
    if not data.startswith(b"%PDF-"):
        raise ToolFailed(f"The file is not a PDF, whatever its name says: {path}")
    if len(data) > _MAX_PDF_BYTES:
        sizes = f"{format_size(len(data))} of {format_size(_MAX_PDF_BYTES)}"
        raise ToolFailed(f"PDF file is too large ({sizes}). {_PARTS}")
    # Pages in compressed objects are not found: the count is a lower bound.
    if (pages := len(_PDF_PAGE.findall(data))) > _MAX_PDF_PAGES:
        raise ToolFailed(f"PDF file has too many pages ({pages} of {_MAX_PDF_PAGES}). {_PARTS}")
    source = {"type": "base64", "media_type": "application/pdf", "data": b64encode(data).decode()}
    return {"type": "document", "source": source}


def format_size(size: int, units: Sequence[str] = ("KB", "MB", "GB")) -> str:
    """Return a size as Claude Code words it: `193 bytes`, `390.6KB`."""
    if size < 1024:
        return f"{size} bytes"
    amount, at = size / 1024, 0
    while amount >= 1024 and at < len(units) - 1:
        amount, at = amount / 1024, at + 1
    return f"{amount:.1f}".removesuffix(".0") + units[at]
