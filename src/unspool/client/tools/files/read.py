"""The Read tool: shows a model a text with line numbers, an image, a PDF or a notebook.

Rules
  1. What was read is recorded (`context.known_files`), so that it may be changed.
  2. Nothing is cut off silently: what is too long is refused, with the way to read less of it.
  3. What is no text is recognised by its bytes, not by its name.
"""

from __future__ import annotations

import asyncio
import codecs
import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from unspool.client.permissions.paths import file_not_found, resolve_path
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import InvalidToolCall, ToolFailed, ToolOutcome
from unspool.client.tools.base import BuiltInTool, ToolArguments
from unspool.client.tools.content.file_text import TextExcerpt, number_lines, read_excerpt
from unspool.client.tools.content.media import format_size, make_image_block, make_pdf_block
from unspool.client.tools.content.notebook_cells import decode_cells, make_cell_blocks
from unspool.client.tools.files.safe_io import file_status, open_file, read_chunks, read_file
from unspool.format import parse_image_header

_MAX_BYTES = 256 * 1024
_MAX_TOKENS = 25_000
_CHARACTERS_PER_TOKEN = 3.5
"""The estimate used everywhere that no endpoint counts tokens."""
_IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_SNIFFED_BYTES = 8192
_READ_LESS = (
    "Please use offset and limit parameters to read specific portions of the file, "
    "or use the GrepTool to search for specific content."
)


class ReadArguments(ToolArguments, frozen=True):
    """A file, and the lines of it that are wanted."""

    file_path: Annotated[str, Meta(description="Absolute path")]
    offset: Annotated[int | None, Meta(description="First line to read, from 1")] = None
    limit: Annotated[int | None, Meta(description="Number of lines to read")] = None


class ReadTool(BuiltInTool[ReadArguments]):
    """Read a file."""

    name = "Read"
    description = (
        "Read a file: text with line numbers, images, PDFs, notebooks. Use offset and limit for parts of a large file. "
        "A file must be read before it is changed."
    )
    is_concurrent = True
    arguments = ReadArguments
    target_fields = ("file_path",)

    async def execute(self, arguments: ReadArguments, context: ToolContext, call_id: str) -> ToolOutcome:
        """Read the file in another thread."""
        path = resolve_path(arguments.file_path, context)
        return await asyncio.to_thread(_read, arguments, path, context)


def _read(arguments: ReadArguments, path: Path, context: ToolContext) -> ToolOutcome:
    name = arguments.file_path
    if file_status(path) is None:
        raise file_not_found(path, context)
    with open_file(path) as file:
        head = os.pread(file, _SNIFFED_BYTES, 0)
    suffix = path.suffix.lower()
    if suffix in _IMAGE_SUFFIXES or parse_image_header(head):
        data = read_file(path)
        outcome = _image_outcome(data)
    elif suffix == ".pdf":
        data = read_file(path)
        outcome = _pdf_outcome(name, data)
    elif suffix == ".ipynb":
        data = read_file(path)
        outcome = _notebook_outcome(name, data)
    elif b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidToolCall(
            f"This tool cannot read binary files. The file appears to be a {f'binary {suffix}'.strip()} file. "
            "Please use appropriate tools for binary file analysis."
        )
    else:
        return _read_text(arguments, path, context)
    # Only now: a file that was refused has not been shown, and must not be changed.
    context.known_files.record(path, data)
    return outcome


def _read_text(arguments: ReadArguments, path: Path, context: ToolContext) -> ToolOutcome:
    first = max(arguments.offset or 1, 1)
    with open_file(path) as file:
        status = os.fstat(file)
        if arguments.limit is None and arguments.offset is None and status.st_size > _MAX_BYTES:
            size, limit = format_size(status.st_size), format_size(_MAX_BYTES)
            raise InvalidToolCall(f"File content ({size}) exceeds maximum allowed size ({limit}). {_READ_LESS}")
        excerpt = read_excerpt(read_chunks(file), first, arguments.limit)
    content = "\n".join(excerpt.lines)
    _check_length(content, _READ_LESS)
    context.known_files.record_digest(path, excerpt.digest)
    shown = {
        "filePath": arguments.file_path,
        "content": content,
        "numLines": len(excerpt.lines),
        "startLine": first,
        "totalLines": excerpt.total,
    }
    return ToolOutcome(content=_format_excerpt(excerpt, first), result={"type": "text", "file": shown})


def _format_excerpt(excerpt: TextExcerpt, first: int) -> str:
    if not excerpt.size:
        return "<system-reminder>Warning: the file exists but the contents are empty.</system-reminder>"
    if excerpt.lines:
        return number_lines(excerpt.lines, first)
    return (
        f"<system-reminder>Warning: the file exists but is shorter than the provided offset ({first}). "
        f"The file has {excerpt.total} lines.</system-reminder>"
    )


def _image_outcome(data: bytes) -> ToolOutcome:
    image = make_image_block(data)
    edges = {"Width": image.width, "Height": image.height}
    file = {
        "base64": image.base64,
        "type": image.media_type,
        "originalSize": len(data),
        "dimensions": {f"{kind}{edge}": size for kind in ("original", "display") for edge, size in edges.items()},
    }
    return ToolOutcome(content=[image.block], result={"type": "image", "file": file})


def _pdf_outcome(name: str, data: bytes) -> ToolOutcome:
    block = make_pdf_block(data, name)
    file = {"filePath": name, "base64": block["source"]["data"], "originalSize": len(data)}
    return ToolOutcome(
        content=f"PDF file read: {name} ({format_size(len(data))})",
        result={"type": "pdf", "file": file},
        extra=(block,),
    )


def _notebook_outcome(name: str, data: bytes) -> ToolOutcome:
    cells = decode_cells(data)
    blocks = make_cell_blocks(cells)
    _check_length("".join(block.get("text", "") for block in blocks), f"Use Bash with: cat {name} | jq '.cells[0:10]'")
    return ToolOutcome(content=blocks, result={"type": "notebook", "file": {"filePath": name, "cells": cells}})


def _check_length(text: str, hint: str) -> None:
    """Refuse what is too long to show."""
    tokens = round(len(text) / _CHARACTERS_PER_TOKEN)
    if tokens > _MAX_TOKENS:
        raise ToolFailed(f"File content ({tokens} tokens) exceeds maximum allowed tokens ({_MAX_TOKENS}). {hint}")
