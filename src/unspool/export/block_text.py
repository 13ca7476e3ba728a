"""Blocks and the program's own tags in words.

A picture is `[image 640×480 png, 12.1 kB]`: its size in pixels is read from the first bytes of PNG, GIF and JPEG, and
nothing is decoded further.
"""

from __future__ import annotations

import binascii
import re
import struct
from collections.abc import Iterable

from unspool.display.units import size
from unspool.format.blocks import AnyBlock, Document, Image, Source, Text

_HEAD = 65_536
"""How much of a picture, in base64, is looked at for its size in pixels."""
_FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
_TAGS = re.compile(
    r"</?(?:local-command|bash|command|task|agent|teammate|remote|cross-session|channel|tick|summary|status)"
    r"[\w-]*[^<>\n]{0,200}>"
)


def words_of(blocks: Iterable[AnyBlock]) -> str:
    """Return blocks in words: texts as they are, pictures and documents described, all else by its type."""
    return "\n".join(_words(block) for block in blocks)


def command(text: str) -> str:
    """Return a slash command as it was typed, from the tags it is written in.

    >>> command("<command-name>/model</command-name><command-args>opus</command-args>")
    '/model opus'
    """
    parts = [_between(text, "command-name"), _between(text, "command-args")]
    return " ".join(part for part in parts if part) or untagged(text)


def notification(text: str) -> str:
    """Return what a notification says: its summary, else all of it."""
    return _between(text, "summary") or untagged(text)


def untagged(text: str) -> str:
    """Return a text without the tags that the program puts around what it says in the user's name."""
    return _TAGS.sub("", text).strip()


def _between(text: str, tag: str) -> str:
    _, _, rest = text.partition(f"<{tag}>")
    inner, end, _ = rest.partition(f"</{tag}>")
    return inner.strip() if end else ""


def _words(block: AnyBlock) -> str:
    match block:
        case Text(text=text):
            return text
        case Image() | Document():
            return describe(block)
        case _:
            tag = type(block).__struct_config__.tag
            return f"[{tag if isinstance(tag, str) else getattr(block, 'type', None) or 'block'}]"


def describe(block: Image | Document) -> str:
    """Say what a picture or document is."""
    source = block.source
    parts = ["image" if isinstance(block, Image) else "document"]
    if isinstance(block, Document) and block.title:
        parts.append(f"`{block.title}`")
    if pixels := _pixels(source):
        parts.append(f"{pixels[0]}×{pixels[1]}")
    if kind := (source.media_type or "").rpartition("/")[2]:
        parts.append(kind)
    return f"[{' '.join(parts)}, {source.url or source.file_id or size(_length(source))}]"


def _length(source: Source) -> int:
    data = source.data or ""
    return len(data) * 3 // 4 - data[-2:].count("=") if source.type == "base64" else len(data.encode(errors="replace"))


def pixels(data: bytes) -> tuple[int, int] | None:
    """Return width and height of a picture as its first bytes tell them."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return _pair(">II", data, 16)
        if data.startswith((b"GIF87a", b"GIF89a")):
            return _pair("<HH", data, 6)
        if data.startswith(b"\xff\xd8"):
            return _jpeg(data[:_HEAD])
    except struct.error:
        pass
    return None


def _pixels(source: Source) -> tuple[int, int] | None:
    try:
        return pixels(binascii.a2b_base64((source.data or "")[:_HEAD]) if source.type == "base64" else b"")
    except ValueError:
        return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Go from segment to segment to the one that tells."""
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        if data[at + 1] in _FRAMES:
            height, width = _pair(">HH", data, at + 5)
            return width, height
        at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _pair(form: str, data: bytes, at: int) -> tuple[int, int]:
    first, second = struct.unpack_from(form, data, at)
    return int(first), int(second)
