"""Checks messages and their blocks one at a time: fields, types, roles, images and documents.

Rules
  1. What depends on more than one message (order, pairs, thinking) is not checked here.
  2. Of blocks that every version of the API has, unknown fields are refused, as the API does. With a beta, fields and
     types may be new: those are let through.
  3. An image or document must be what it says it is, and no larger than the API takes.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator

from unspool.api.rules.problem import (
    NOT_A_STRING,
    NOT_AN_ARRAY,
    NOT_AN_OBJECT,
    Json,
    Problem,
    check_extra_fields,
    check_string,
    is_block,
    numbered_blocks,
    quote_names,
    refuse,
    refuse_tag,
    refuse_value,
)

SERVER_RESULTS = (
    "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result", "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result", "tool_search_tool_result", "advisor_tool_result",
)  # fmt: skip
ASSISTANT_BLOCKS = (
    "tool_use", "thinking", "redacted_thinking", "server_tool_use", *SERVER_RESULTS, "mcp_tool_use", "mcp_tool_result",
    "compaction", "fallback",
)  # fmt: skip
USER_BLOCKS = ("tool_result", "image", "document", "search_result", "container_upload")
RESULT_BLOCKS = ("text", "image", "document", "search_result", "tool_reference")
KNOWN_FIELDS = {
    "text": {"type", "text", "cache_control", "citations"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "title", "context", "citations", "cache_control"},
}
_KINDS_BY_ROLE = {"assistant": frozenset(("text", *ASSISTANT_BLOCKS)), "user": frozenset(("text", *USER_BLOCKS))}
"""What a message of each role may have."""
_WITH_MEDIA = ("tool_result", "image", "document")
_STRING_FIELDS = {"text": ("text",), "thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
MAX_IMAGE_BYTES = 5 * 1024 * 1024
"""Of an image as base64: the API counts what is sent."""
MAX_IMAGE_PIXELS = 8000
MANY_IMAGES = 20
MAX_PIXELS_OF_MANY = 2000
_ID = re.compile(r"[a-zA-Z0-9_-]+")


def check_messages(body: Json, *, beta: bool) -> Iterator[Problem]:
    """Check all messages, each by itself."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield refuse_value("messages", messages, NOT_AN_ARRAY)
        return
    if not messages:
        yield refuse("messages", "at least one message is required")
    contents = [numbered_blocks(one.get("content") if isinstance(one, dict) else None) for one in messages]
    # The limit of pixels is lower for all images of a request that has many.
    many = sum(map(_count_images, contents)) > MANY_IMAGES
    for number, (message, blocks) in enumerate(zip(messages, contents, strict=True)):
        path = f"messages.{number}"
        if not isinstance(message, dict):
            yield refuse(path, NOT_AN_OBJECT)
            continue
        yield from _check_message(message, path, len(blocks), beta=beta)
        role = message.get("role")
        allowed = _KINDS_BY_ROLE.get(role, ()) if isinstance(role, str) else ()
        for place, block in blocks:
            inside, kind = f"{path}.content.{place}", block["type"]
            if kind not in allowed:
                yield from _check_role(kind, path, role, beta=beta)
            yield from _check_fields(block, inside, beta=beta)
            if kind in _WITH_MEDIA:
                yield from _check_media(block, inside, many=many)


def _check_message(message: Json, path: str, blocks: int, *, beta: bool) -> Iterator[Problem]:
    """Check a message besides its blocks; `blocks` is how many parts of its content are blocks."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        yield refuse_value(f"{path}.role", role, "Input should be 'user' or 'assistant'")
    if not beta and role != "system":  # what a system message may set beside its text changes from beta to beta
        yield from check_extra_fields(message, path, {"role", "content"})
    if isinstance(content, list):
        # As a rule all of them are: then nobody looks at them again.
        for number, block in enumerate(content) if blocks < len(content) else ():
            if not isinstance(block, dict):
                yield refuse(f"{path}.content.{number}", NOT_AN_OBJECT)
            elif not is_block(block):
                yield refuse(f"{path}.content.{number}.type", "Field required")
    elif not isinstance(content, str):
        yield refuse_value(f"{path}.content", content, NOT_AN_ARRAY)


def _check_role(kind: str, path: str, role: object, *, beta: bool) -> Iterator[Problem]:
    if kind in ASSISTANT_BLOCKS:
        if role != "assistant":
            yield refuse(path, f"`{kind}` blocks can only be in `assistant` messages")
    elif kind in USER_BLOCKS:
        if role != "user":
            yield refuse(path, f"`{kind}` blocks can only be in `user` messages")
    elif kind != "text" and not beta:
        yield refuse_tag(path, kind, sorted(("text", *USER_BLOCKS, *ASSISTANT_BLOCKS)))


def _check_fields(block: Json, path: str, *, beta: bool) -> Iterator[Problem]:
    kind = str(block["type"])
    path = f"{path}.{kind}"
    # A generator is made only where it has something to say, here and below: there are thousands of blocks.
    if not beta and kind in KNOWN_FIELDS and not block.keys() <= KNOWN_FIELDS[kind]:
        yield from check_extra_fields(block, path, KNOWN_FIELDS[kind])
    for key in _STRING_FIELDS.get(kind, ()):
        if type(block.get(key)) is not str:
            yield from check_string(block, path, key)
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        yield from _check_call(block, path)
    elif kind in ("tool_result", "mcp_tool_result", *SERVER_RESULTS):
        yield from _check_id(block, path, "tool_use_id")
        if kind == "tool_result":
            yield from _check_result(block, path, beta=beta)
        elif kind in SERVER_RESULTS and "content" not in block:
            yield refuse(f"{path}.content", "Field required")


def _check_call(block: Json, path: str) -> Iterator[Problem]:
    yield from _check_id(block, path, "id")
    if type(block.get("name")) is not str:
        yield from check_string(block, path, "name")
    if block.get("name") == "":
        yield refuse(f"{path}.name", "String should have at least 1 character")
    if not isinstance(block.get("input"), dict):
        yield refuse(f"{path}.input", "Input should be a valid dictionary" if "input" in block else "Field required")


def _check_id(block: Json, path: str, key: str) -> Iterator[Problem]:
    if type(block.get(key)) is not str:
        yield from check_string(block, path, key)
    elif not _ID.fullmatch(block[key]):
        yield refuse(f"{path}.{key}", f"String should match pattern '^{_ID.pattern}$'")


def _check_result(block: Json, path: str, *, beta: bool) -> Iterator[Problem]:
    content = block.get("content", "")
    if not isinstance(content, str | list):
        yield refuse(f"{path}.content", "Input should be a valid string or array")
        return
    if not isinstance(block.get("is_error", False), bool):
        yield refuse(f"{path}.is_error", "Input should be a valid boolean")
    if block.get("is_error") is True and not content:
        yield refuse(path, "content cannot be empty if `is_error` is true")
    for number, inner in enumerate(content if isinstance(content, list) else ()):
        inside = f"{path}.content.{number}"
        if not is_block(inner):
            yield refuse(inside, f"{NOT_AN_OBJECT} with a type")
        elif inner["type"] in RESULT_BLOCKS:
            yield from _check_fields(inner, inside, beta=beta)
        elif not beta:
            yield refuse_tag(inside, inner["type"], RESULT_BLOCKS)


def _check_media(block: Json, path: str, *, many: bool) -> Iterator[Problem]:
    """Check an image or document, also in a tool result; `many` when a request has more than 20 images."""
    kind, content = block["type"], block.get("content")
    if kind == "tool_result" and isinstance(content, list):
        for number, inner in numbered_blocks(content):
            yield from _check_media(inner, f"{path}.tool_result.content.{number}", many=many)
    if kind not in ("image", "document"):
        return
    source, path = block.get("source"), f"{path}.{kind}.source"
    if not is_block(source):
        yield refuse_value(path, source, NOT_AN_OBJECT)
        return
    match kind, source:
        case "image", {"type": "base64"}:
            yield from _check_image(source, f"{path}.base64", MAX_PIXELS_OF_MANY if many else MAX_IMAGE_PIXELS)
        case "document", {"type": "base64"}:
            yield from _check_pdf(source, f"{path}.base64")
        case "document", {"type": "text"}:
            if source.get("media_type") != "text/plain":
                yield refuse(f"{path}.text.media_type", "Input should be 'text/plain'")
            if not isinstance(source.get("data"), str):
                yield refuse(f"{path}.text.data", NOT_A_STRING)
        case "document", {"type": "content"}:
            if not isinstance(source.get("content"), str | list):
                yield refuse(f"{path}.content.content", "Field required")
        case _, {"type": "url" | "file"}:
            yield from _check_reference(source, path)
        case _:
            known = ("base64", "url", "file") if kind == "image" else ("base64", "text", "content", "url", "file")
            yield refuse_tag(path, source["type"], known)


def _check_image(source: Json, path: str, max_pixels: int) -> Iterator[Problem]:
    media_type, data = source.get("media_type"), source.get("data")
    if media_type not in IMAGE_TYPES:
        known = f"Input should be {quote_names(IMAGE_TYPES[:-1])} or '{IMAGE_TYPES[-1]}'"
        yield refuse_value(f"{path}.media_type", media_type, known)
    if not isinstance(data, str):
        yield refuse_value(f"{path}.data", data, NOT_A_STRING)
    elif len(data) > MAX_IMAGE_BYTES:
        yield refuse(path, f"image exceeds 5 MB maximum: {len(data)} bytes > {MAX_IMAGE_BYTES} bytes")
    elif (content := _decode_base64(data)) is None:
        yield refuse(f"{path}.data", "Invalid base64 data")
    elif not content:
        yield refuse(path, "image cannot be empty")
    else:
        yield from _check_image_header(content, media_type, f"{path}.data", max_pixels)


def _check_image_header(content: bytes, media_type: object, path: str, max_pixels: int) -> Iterator[Problem]:
    from unspool.format import parse_image_header  # start-up: few requests have an image

    header = parse_image_header(content)
    if header is None:
        yield refuse(path, "Could not process image")
    elif media_type in IMAGE_TYPES and header.media_type != media_type:
        yield refuse(path, f"Image does not match the provided media type {media_type}")
    elif max(header.width, header.height) > max_pixels:
        requests = " for many-image requests" if max_pixels == MAX_PIXELS_OF_MANY else ""
        words = f"At least one of the image dimensions exceed max allowed size{requests}: {max_pixels} pixels"
        yield refuse(path, words)


def _check_pdf(source: Json, path: str) -> Iterator[Problem]:
    data = source.get("data")
    if source.get("media_type") != "application/pdf":
        yield refuse(f"{path}.media_type", "Input should be 'application/pdf'")
    if not isinstance(data, str):
        yield refuse_value(f"{path}.data", data, NOT_A_STRING)
    elif (content := _decode_base64(data)) is None:
        yield refuse(f"{path}.data", "Invalid base64 data")
    # Not only at the very beginning: PDF readers allow other bytes before the header.
    elif b"%PDF-" not in content[:1024]:
        yield refuse(f"{path}.data", "The PDF specified was not valid.")


def _check_reference(source: Json, path: str) -> Iterator[Problem]:
    """Check a source that is only named: by its address, or as a file that was uploaded before."""
    kind = source["type"]
    key = "url" if kind == "url" else "file_id"
    if not isinstance(source.get(key), str) or not source[key]:
        yield refuse(f"{path}.{kind}.{key}", "Field required")
    elif kind == "url" and not source[key].startswith("https://"):
        yield refuse(f"{path}.url.url", "Only HTTPS URLs are supported.")


def _decode_base64(data: str) -> bytes | None:
    try:
        return binascii.a2b_base64(data, strict_mode=True) if data else b""
    except ValueError:
        return None


def _count_images(blocks: list[tuple[int, Json]]) -> int:
    """Count the images among the blocks of a message, those in tool results too."""
    count = 0
    for _, block in blocks:
        if block["type"] == "image":
            count += 1
        elif block["type"] == "tool_result" and isinstance(block.get("content"), list):
            count += sum(inner["type"] == "image" for _, inner in numbered_blocks(block["content"]))
    return count
