"""Pictures and PDFs: bytes in, the blocks the API takes out.

Rules
  1. What the API would refuse is refused here: once in a conversation, it would be in every later request.
"""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Any, NamedTuple, TypeAlias

from unspool.client.tools.base import BadCall, ToolFailed
from unspool.format.image_header import picture

Json: TypeAlias = dict[str, Any]

PICTURE_BYTES = 5 * 1024 * 1024 * 3 // 4
"""5 MB once it is written as text."""
PICTURE_EDGE = 8000
PDF_BYTES = 20 * 1024 * 1024
PDF_PAGES = 100
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")


class Shown(NamedTuple):
    """A picture as the API takes it."""

    block: Json
    base64: str
    media_type: str
    width: int
    height: int


def shown_picture(data: bytes) -> Shown:
    """Return a picture as a block."""
    if not data:
        raise BadCall("Empty image files cannot be processed.")
    found = picture(data)
    if found is None or not found.width or not found.height:
        raise BadCall("The file is not a picture that can be shown: only PNG, JPEG, GIF and WebP can.")
    if len(data) > PICTURE_BYTES:
        raise BadCall(f"The picture is too large ({size_words(len(data))} of {size_words(PICTURE_BYTES)}). {_SMALLER}")
    if max(found.width, found.height) > PICTURE_EDGE:
        edges = f"{found.width} × {found.height} pixels; {PICTURE_EDGE} is the longest edge"
        raise BadCall(f"The picture is too large ({edges}). {_SMALLER}")
    text = b64encode(data).decode()
    block = {"type": "image", "source": {"type": "base64", "data": text, "media_type": found.media_type}}
    return Shown(block, text, found.media_type, found.width, found.height)


def shown_pdf(data: bytes, path: str) -> Json:
    """Return a PDF as a block."""
    if not data:
        raise ToolFailed(f"PDF file is empty: {path}")
    if not data.startswith(b"%PDF-"):
        raise ToolFailed(f"The file is not a PDF, whatever its name says: {path}")
    if len(data) > PDF_BYTES:
        raise ToolFailed(f"PDF file is too large ({size_words(len(data))} of {size_words(PDF_BYTES)}). {_PARTS}")
    if (pages := len(_PAGE.findall(data))) > PDF_PAGES:
        raise ToolFailed(f"PDF file has too many pages ({pages} of {PDF_PAGES}). {_PARTS}")
    source = {"type": "base64", "media_type": "application/pdf", "data": b64encode(data).decode()}
    return {"type": "document", "source": source}


def size_words(size: int) -> str:
    """Return a size as the program words it: `193 bytes`, `390.6KB`."""
    if size < 1024:
        return f"{size} bytes"
    amount, units = size / 1024, ["KB", "MB", "GB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.1f}".removesuffix(".0") + units[0]


_SMALLER = "Make a smaller copy first, with Bash for example, and read that."
_PARTS = "Take it apart first, with Bash for example (`pdftotext`, `qpdf`), and read the parts."
