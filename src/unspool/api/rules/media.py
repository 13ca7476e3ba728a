"""Pictures and documents: what kinds there may be, how large, and that they are what they say they are."""

from __future__ import annotations

import binascii
from collections.abc import Iterator

from unspool.api.rules.problem import Json, Problem, at, is_block, tags
from unspool.format.image_header import picture

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
LARGEST = 5 * 1024 * 1024
"""Of a picture, as base64: the API counts what is sent."""
LONGEST = 8000
MANY = 20
LONGEST_OF_MANY = 2000


def image(block: Json, path: str, *, many: bool) -> Iterator[Problem]:
    """Check a picture; `many` when a request has more than 20."""
    source, path = block.get("source"), f"{path}.image.source"
    if not is_block(source):
        yield at(path, "Field required" if source is None else "Input should be a valid dictionary or object")
        return
    match source:
        case {"type": "base64"}:
            yield from _encoded(source, f"{path}.base64", many=many)
        case {"type": "url" | "file"}:
            yield from _named(source, path)
        case {"type": str() as kind}:
            yield _kind(path, kind, ("base64", "url", "file"))


def document(block: Json, path: str) -> Iterator[Problem]:
    """Check a document."""
    source, path = block.get("source"), f"{path}.document.source"
    if not is_block(source):
        yield at(path, "Field required" if source is None else "Input should be a valid dictionary or object")
        return
    match source:
        case {"type": "base64"}:
            yield from _pdf(source, f"{path}.base64")
        case {"type": "text"}:
            if source.get("media_type") != "text/plain":
                yield at(f"{path}.text.media_type", "Input should be 'text/plain'")
            if not isinstance(source.get("data"), str):
                yield at(f"{path}.text.data", "Input should be a valid string")
        case {"type": "content"}:
            if not isinstance(source.get("content"), str | list):
                yield at(f"{path}.content.content", "Field required")
        case {"type": "url" | "file"}:
            yield from _named(source, path)
        case {"type": str() as kind}:
            yield _kind(path, kind, ("base64", "text", "content", "url", "file"))


def _encoded(source: Json, path: str, *, many: bool) -> Iterator[Problem]:
    media_type, data = source.get("media_type"), source.get("data")
    if media_type not in PICTURES:
        allowed = f"{tags(PICTURES[:-1])} or '{PICTURES[-1]}'"
        yield at(f"{path}.media_type", "Field required" if media_type is None else f"Input should be {allowed}")
    if not isinstance(data, str):
        yield at(f"{path}.data", "Field required" if data is None else "Input should be a valid string")
        return
    if len(data) > LARGEST:
        yield at(path, f"image exceeds 5 MB maximum: {len(data)} bytes > {LARGEST} bytes")
        return
    content = _decoded(data)
    if content is None:
        yield at(f"{path}.data", "Invalid base64 data")
    elif not content:
        yield at(path, "image cannot be empty")
    else:
        yield from _seen(content, media_type, f"{path}.data", LONGEST_OF_MANY if many else LONGEST)


def _seen(content: bytes, media_type: object, path: str, longest: int) -> Iterator[Problem]:
    seen = picture(content)
    if seen is None:
        yield at(path, "Could not process image")
    elif media_type in PICTURES and seen.media_type != media_type:
        yield at(path, f"Image does not match the provided media type {media_type}")
    elif max(seen.width, seen.height) > longest:
        requests = " for many-image requests" if longest == LONGEST_OF_MANY else ""
        words = f"At least one of the image dimensions exceed max allowed size{requests}: {longest} pixels"
        yield at(path, words)


def _pdf(source: Json, path: str) -> Iterator[Problem]:
    data = source.get("data")
    if source.get("media_type") != "application/pdf":
        yield at(f"{path}.media_type", "Input should be 'application/pdf'")
    if not isinstance(data, str):
        yield at(f"{path}.data", "Field required" if data is None else "Input should be a valid string")
        return
    content = _decoded(data)
    if content is None:
        yield at(f"{path}.data", "Invalid base64 data")
    elif b"%PDF-" not in content[:1024]:
        yield at(f"{path}.data", "The PDF specified was not valid.")


def _named(source: Json, path: str) -> Iterator[Problem]:
    """A source that is only named: by its address, or as a file that was sent before."""
    kind = source["type"]
    key = "url" if kind == "url" else "file_id"
    if not isinstance(source.get(key), str) or not source[key]:
        yield at(f"{path}.{kind}.{key}", "Field required")
    elif kind == "url" and not source[key].startswith("https://"):
        yield at(f"{path}.url.url", "Only HTTPS URLs are supported.")


def _kind(path: str, kind: str, known: tuple[str, ...]) -> Problem:
    return at(path, f"Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags(known)}")


def _decoded(data: str) -> bytes | None:
    try:
        return binascii.a2b_base64(data, strict_mode=True) if data else b""
    except ValueError:
        return None
