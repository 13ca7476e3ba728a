"""Read: a file in, what a model is shown of it out. Texts with line numbers, pictures, PDFs, notebooks.

Rules
  1. What was read is noted on the desk (`desk.seen`), so that it may be changed.
  2. Nothing is cut off unseen: what is too much is refused, with the way to read less of it.
  3. What is no text is known by its bytes, not by its name.
"""

from __future__ import annotations

import asyncio
import codecs
import os
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from unspool.client.permissions.paths import missing, resolved
from unspool.client.tool_context import Desk, Look
from unspool.client.tools.base import Asked, BadCall, Outcome, ToolFailed, aim, parse, schema
from unspool.client.tools.files import text_file
from unspool.client.tools.files.media import shown_pdf, shown_picture, size_words
from unspool.client.tools.files.notebook import blocks_of, cells_of
from unspool.client.tools.files.text_file import Excerpt, excerpt, numbered
from unspool.format.image_header import picture

Json: TypeAlias = dict[str, Any]

MAX_BYTES = 256 * 1024
MAX_TOKENS = 25_000
_CHARACTERS = 3.5
"""Of a token, as everywhere where nobody counts."""
_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_SNIFFED = 8192


class ReadInput(Asked, frozen=True):
    """Read a file."""

    file_path: Annotated[str, Meta(description="Absolute path")]
    offset: Annotated[int | None, Meta(description="First line to read, from 1")] = None
    limit: Annotated[int | None, Meta(description="Number of lines to read")] = None


class Read:
    """The tool."""

    name = "Read"
    description = (
        "Read a file: text with line numbers, images, PDFs, notebooks. Use offset and limit for parts of a large file. "
        "A file must be read before it is changed."
    )
    is_concurrent = True

    def __init__(self) -> None:
        self.input_schema = schema(ReadInput)

    def target(self, input: Json) -> str:
        """Return the path."""
        return aim(input, "file_path")

    async def run(self, input: Json, desk: Desk, call_id: str) -> Outcome:
        """Read it."""
        asked = parse(self.name, input, ReadInput)
        path = resolved(asked.file_path, desk)
        return await asyncio.to_thread(_read, asked, path, desk)


def _read(asked: ReadInput, path: Path, desk: Desk) -> Outcome:
    found = text_file.status(path)
    if found is None:
        raise missing(path, desk)
    with text_file.opened(path) as file:
        head = os.pread(file, _SNIFFED, 0)
    suffix = path.suffix.lower()
    if suffix in _PICTURES or picture(head):
        return _picture(path, desk)
    if suffix == ".pdf":
        return _pdf(asked.file_path, path, desk)
    if suffix == ".ipynb":
        return _notebook(asked.file_path, path, desk)
    if b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise BadCall(
            f"This tool cannot read binary files. The file appears to be a {f'binary {suffix}'.strip()} file. "
            "Please use appropriate tools for binary file analysis."
        )
    return _text(asked, path, desk)


def _text(asked: ReadInput, path: Path, desk: Desk) -> Outcome:
    first = max(asked.offset or 1, 1)
    with text_file.opened(path) as file:
        status = os.fstat(file)
        if asked.limit is None and asked.offset is None and status.st_size > MAX_BYTES:
            size, most = size_words(status.st_size), size_words(MAX_BYTES)
            raise BadCall(f"File content ({size}) exceeds maximum allowed size ({most}). {_LESS}")
        part = excerpt(text_file.chunks(file), first, asked.limit)
    content = "\n".join(part.lines)
    _check_length(content, _LESS)
    desk.seen.keep(path, Look(status.st_mtime_ns, part.size, part.digest, len(part.lines) == part.total))
    file_shown = {
        "filePath": asked.file_path,
        "content": content,
        "numLines": len(part.lines),
        "startLine": first,
        "totalLines": part.total,
    }
    return Outcome(content=_numbered(part, first), result={"type": "text", "file": file_shown})


def _numbered(part: Excerpt, first: int) -> str:
    if not part.size:
        return "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>"
    if part.lines:
        return numbered(part.lines, first)
    return (
        f"<system-reminder>Warning: the file exists but is shorter than the provided offset ({first}). "
        f"The file has {part.total} lines.</system-reminder>"
    )


def _picture(path: Path, desk: Desk) -> Outcome:
    found = text_file.load(path)
    shown = shown_picture(found.data)
    desk.seen.note(path, found.data, found.modified)
    edges = {"Width": shown.width, "Height": shown.height}
    file = {
        "base64": shown.base64,
        "type": shown.media_type,
        "originalSize": len(found.data),
        "dimensions": {f"{kind}{edge}": size for kind in ("original", "display") for edge, size in edges.items()},
    }
    return Outcome(content=[shown.block], result={"type": "image", "file": file})


def _pdf(name: str, path: Path, desk: Desk) -> Outcome:
    found = text_file.load(path)
    block = shown_pdf(found.data, name)
    desk.seen.note(path, found.data, found.modified)
    file = {"filePath": name, "base64": block["source"]["data"], "originalSize": len(found.data)}
    return Outcome(
        content=f"PDF file read: {name} ({size_words(len(found.data))})",
        result={"type": "pdf", "file": file},
        extra=(block,),
    )


def _notebook(name: str, path: Path, desk: Desk) -> Outcome:
    found = text_file.load(path)
    cells = cells_of(found.data)
    content = blocks_of(cells)
    _check_length("".join(block.get("text", "") for block in content), f"Use Bash with: cat {name} | jq '.cells[0:10]'")
    desk.seen.note(path, found.data, found.modified)
    return Outcome(content=content, result={"type": "notebook", "file": {"filePath": name, "cells": cells}})


def _check_length(text: str, hint: str) -> None:
    """Refuse what is too long to show."""
    tokens = round(len(text) / _CHARACTERS)
    if tokens > MAX_TOKENS:
        raise ToolFailed(f"File content ({tokens} tokens) exceeds maximum allowed tokens ({MAX_TOKENS}). {hint}")


_LESS = (
    "Please use offset and limit parameters to read specific portions of the file, "
    "or use the GrepTool to search for specific content."
)
