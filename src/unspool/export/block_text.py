"""Turns blocks into text, and removes the tags that Claude Code puts around text in the user's name.

An image becomes `[image 640×480 png, 12.1 kB]`: its size in pixels is read from its header, and nothing is decoded
further.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from unspool.display import size
from unspool.format import AnyBlock, Document, Image, MediaSource, Text, parse_encoded_image_header, type_name
from unspool.graph import text_between, typed_command

# `*+` and `{0,200}+`: a name or attribute that goes on and on is tried once, not from each of its letters.
_TAGS = re.compile(
    r"</?(?:local-command|bash|command|task|agent|teammate|remote|cross-session|channel|tick|summary|status)"
    r"[\w-]*+[^<>\n]{0,200}+>"
)


def blocks_to_text(blocks: Iterable[AnyBlock]) -> str:
    """Return blocks as text: texts as they are, images and documents described, all else by its type."""
    return "\n".join(_block_to_text(block) for block in blocks)


def command_text(text: str) -> str:
    """Return a slash command as it was typed, from the tags it is written in.

    >>> command_text("<command-name>/model</command-name><command-args>opus</command-args>")
    '/model opus'
    """
    return typed_command(text) or strip_tags(text)


def notification_summary(text: str) -> str:
    """Return the summary of a notification, else all of its text."""
    return text_between(text, "summary") or strip_tags(text)


def strip_tags(text: str) -> str:
    """Return a text without the tags that Claude Code puts around what it writes in the user's name."""
    return _TAGS.sub("", text).strip()


def _block_to_text(block: AnyBlock) -> str:
    match block:
        case Text(text=text):
            return text
        case Image() | Document():
            return describe_media(block)
        case _:
            return f"[{type_name(block) or 'block'}]"


def describe_media(block: Image | Document) -> str:
    """Return a description of an image or document: its type, its size in pixels and in bytes."""
    source = block.source
    parts = ["image" if isinstance(block, Image) else "document"]
    if isinstance(block, Document) and block.title:
        parts.append(f"`{block.title}`")
    header = parse_encoded_image_header(source.data or "") if source.type == "base64" else None
    if header and header.pixels:
        parts.append(f"{header.width}×{header.height}")
    if kind := (source.media_type or "").rpartition("/")[2]:
        parts.append(kind)
    return f"[{' '.join(parts)}, {source.url or source.file_id or size(_byte_count(source))}]"


def _byte_count(source: MediaSource) -> int:
    data = source.data or ""
    return len(data) * 3 // 4 - data[-2:].count("=") if source.type == "base64" else len(data.encode(errors="replace"))
