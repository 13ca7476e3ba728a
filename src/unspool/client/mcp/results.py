"""Turns the result of an MCP tool into the outcome of a call, as Claude Code does: blocks, files, and a bound.

Rules
  1. Text and pictures become blocks. What a model cannot take (audio, other bytes) is saved to a file that is named.
  2. Structured content replaces the text beside it, and stands in `mcpMeta` too.
  3. A result of more than `MAX_MCP_OUTPUT_TOKENS` tokens (25,000) is saved to a file that is named. With pictures in
     it, it is cut instead.
  4. A block of an unknown kind, or with fields of odd types, is left out; it never raises.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from unspool.client.session.writer import write_private_file
from unspool.client.tool import normalize_name
from unspool.client.tool_context import ToolContext
from unspool.client.tool_result import Json, ToolFailed, ToolOutcome
from unspool.client.tools.content.media import make_image_block
from unspool.display import units
from unspool.errors import UnspoolError

_MAX_TOKENS = 25_000
_CHARACTERS_PER_TOKEN = 4
_IMAGE_TOKENS = 1_600
_MAX_BLOCKS = 1_000
_EXTENSIONS = {
    "application/pdf": "pdf",
    "application/json": "json",
    "application/zip": "zip",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/ogg": "ogg",
    "image/svg+xml": "svg",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "video/mp4": "mp4",
}


class ResultFiles:
    """Saves what a result holds besides text, in the folder for long tool results of the session."""

    def __init__(self, context: ToolContext, new_stamp: Callable[[], str]) -> None:
        self._folder = context.workspace.side_folder / "tool-results"
        self._new_stamp = new_stamp

    def save(self, name: str, data: bytes, extension: str = "txt") -> Path:
        """Write a new file and return its path."""
        path = self._folder / f"mcp-{name}-{self._new_stamp()}.{extension}"
        write_private_file(path, data)
        return path


def make_outcome(
    server: str, tool: str, result: Json, files: ResultFiles, environment: Mapping[str, str]
) -> ToolOutcome:
    """Return the outcome of a call; a `ToolFailed` if the server says that it failed."""
    blocks = result.get("content")
    parts = [part for part in blocks if isinstance(part, dict)] if isinstance(blocks, list) else []
    limit = _max_tokens(environment)
    if result.get("isError") is True:
        texts = [str(part["text"]) for part in parts if "text" in part]
        raise ToolFailed(_cut("\n".join(texts) or "Unknown error", limit))
    structured = result.get("structuredContent")
    meta = {key: result[key] for key in ("_meta", "structuredContent") if result.get(key)}
    content: str | list[Json]
    if structured is not None:
        content, kind = msgspec.json.encode(structured).decode(), f"JSON with schema: {describe_shape(structured)}"
    else:
        content = [made for part in parts[:_MAX_BLOCKS] for made in _make_blocks(server, part, files)]
        kind = f"JSON array with schema: {describe_shape(content)}"
    content = _bound(content, kind, f"{normalize_name(server)}-{normalize_name(tool)}", files, limit)
    if isinstance(content, list):
        # The API refuses blank texts.
        content = [block for block in content if block["type"] != "text" or block["text"].strip()]
    sent = content or f"(mcp__{normalize_name(server)}__{normalize_name(tool)} completed with no output)"
    return ToolOutcome(content=sent, result=content, mcp_meta=meta or None)


def make_resource_blocks(server: str, contents: list[Json], files: ResultFiles) -> list[Json]:
    """Return the contents of a resource as blocks."""
    return [made for part in contents[:_MAX_BLOCKS] for made in _resource_blocks(server, part, files)]


def prompt_texts(messages: list[Json]) -> list[str]:
    """Return the texts of the messages of a prompt, those of resources in it too."""
    found = []
    for message in messages[:_MAX_BLOCKS]:
        match message.get("content"):
            case {"type": "text", "text": str(text)} | {"type": "resource", "resource": {"text": str(text)}}:
                found.append(text)
            case _:
                pass
    return [text for text in found if text.strip()]


def bound_text(text: str, environment: Mapping[str, str]) -> str:
    """Return a text of a server, cut where it is too long for the conversation."""
    return _cut(text, _max_tokens(environment))


def describe_shape(value: Any, depth: int = 2) -> str:
    """Return the shape of a value, as Claude Code describes it: `{a: number, b: [string]}`."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return f"[{describe_shape(value[0], depth - 1)}]" if value else "[]"
        case dict():
            if depth <= 0:
                return "{...}"
            fields = [f"{key[:60]}: {describe_shape(item, depth - 1)}" for key, item in [*value.items()][:10]]
            return f"{{{', '.join(fields)}{', ...' if len(value) > 10 else ''}}}"
        case _:
            return "object"


def _make_blocks(server: str, part: Json, files: ResultFiles) -> list[Json]:
    match part:
        case {"type": "text", "text": str(text)}:
            return [_text(text)]
        case {"type": "image", "data": str(data)}:
            return _image_blocks(server, data, str(part.get("mimeType") or ""), files, "")
        case {"type": "audio", "data": str(data)}:
            return _save_bytes(server, data, str(part.get("mimeType") or ""), files, f"[Audio from {server}] ")
        case {"type": "resource", "resource": dict(resource)}:
            return _resource_blocks(server, resource, files)
        case {"type": "resource_link", "uri": str(uri)}:
            words = f"[Resource link: {part.get('name') or uri}] {uri}"
            return [_text(f"{words} ({part['description']})" if part.get("description") else words)]
        case _:
            return []


def _resource_blocks(server: str, resource: Json, files: ResultFiles) -> list[Json]:
    head = f"[Resource from {server} at {resource.get('uri')}] "
    kind = str(resource.get("mimeType") or "")
    match resource:
        case {"text": str(text)}:
            return [_text(head + text)]
        case {"blob": str(data)} if kind.startswith("image/"):
            return [_text(head), *_image_blocks(server, data, kind, files, head)]
        case {"blob": str(data)}:
            return _save_bytes(server, data, kind, files, head)
        case _:
            return []


def _image_blocks(server: str, data: str, kind: str, files: ResultFiles, head: str) -> list[Json]:
    try:
        return [make_image_block(_decode(data)).block]
    except (binascii.Error, ValueError):
        return [_text(f"{head}(a picture that is not valid base64)")]
    except ToolFailed:  # too large, or none that the API takes: once in a session it would be in every request
        return _save_bytes(server, data, kind, files, head)


def _save_bytes(server: str, data: str, kind: str, files: ResultFiles, head: str) -> list[Json]:
    named = kind if len(kind) <= 100 else ""
    try:
        decoded = _decode(data)
        extension = _EXTENSIONS.get(named.partition(";")[0].strip().lower(), "bin")
        path = files.save(f"{normalize_name(server)}-blob", decoded, extension)
    except (binascii.Error, ValueError):
        return [_text(f"{head}Binary content ({named or 'unknown type'}) that is not valid base64")]
    except UnspoolError as error:
        return [_text(f"{head}Binary content ({named or 'unknown type'}) could not be saved to disk: {error.message}")]
    return [_text(f"{head}Binary content ({named or 'unknown type'}, {units.size(len(decoded))}) saved to {path}")]


def _bound(content: str | list[Json], kind: str, name: str, files: ResultFiles, limit: int) -> str | list[Json]:
    """Return a content that is not too long, or the words that say where all of it is."""
    if _estimate(content) <= limit:
        return content
    if isinstance(content, list) and any(block["type"] == "image" for block in content):
        return _cut_blocks(content, limit)
    text = content if isinstance(content, str) else msgspec.json.format(msgspec.json.encode(content), indent=2).decode()
    head = f"Error: result ({len(text):,} characters) exceeds maximum allowed tokens."
    try:
        path = files.save(name, text.encode(errors="replace"))
    except UnspoolError as error:
        return (
            f"{head} Failed to save output to file: {error.message}. If this MCP server provides pagination or "
            "filtering tools, use them to retrieve specific portions of the data."
        )
    return (
        f"{head} Output has been saved to {path}.\nFormat: {kind}\nUse offset and limit parameters to read specific "
        "portions of the file, search within it for specific content, and jq to make structured queries."
    )


def _cut_blocks(blocks: list[Json], limit: int) -> list[Json]:
    kept, left = list[Json](), limit * _CHARACTERS_PER_TOKEN
    for block in blocks:
        size = len(block["text"]) if block["type"] == "text" else _IMAGE_TOKENS * _CHARACTERS_PER_TOKEN
        if size > left and block["type"] == "text" and left > 0:
            kept.append(_text(block["text"][:left]))
        if size > left:
            break
        kept.append(block)
        left -= size
    return [*kept, _text(_truncation_notice(limit))]


def _cut(text: str, limit: int) -> str:
    most = limit * _CHARACTERS_PER_TOKEN
    return text if len(text) <= most else text[:most] + _truncation_notice(limit)


def _truncation_notice(limit: int) -> str:
    return (
        f"\n\n[OUTPUT TRUNCATED - exceeded {limit} token limit]\n\nThe tool output was truncated. If this MCP server "
        "provides pagination or filtering tools, use them to retrieve specific portions of the data. If pagination is "
        "not available, inform the user that you are working with truncated output and results may be incomplete."
    )


def _estimate(content: str | list[Json]) -> int:
    if isinstance(content, str):
        return len(content) // _CHARACTERS_PER_TOKEN
    return sum(
        len(block["text"]) // _CHARACTERS_PER_TOKEN if block["type"] == "text" else _IMAGE_TOKENS for block in content
    )


def _max_tokens(environment: Mapping[str, str]) -> int:
    value = environment.get("MAX_MCP_OUTPUT_TOKENS", "")
    return int(value) if value.isascii() and value.isdigit() and len(value) <= 9 and int(value) > 0 else _MAX_TOKENS


def _decode(data: str) -> bytes:
    return b64decode("".join(data.split()), validate=True)


def _text(text: str) -> Json:
    return {"type": "text", "text": text}
