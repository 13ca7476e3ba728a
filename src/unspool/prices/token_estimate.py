"""Estimates how many tokens a request has, where no API can count them.

Rules
  1. The same body gives the same number, everywhere. More content never gives a smaller one.
  2. It is an estimate: text by its bytes, images by their size, a page of a document by what pages cost on average.
     Whatever shows it says that it is one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.format import parse_encoded_image_header

_BYTES = 7, 2
"""Bytes of UTF-8, and the tokens that they are about."""
_MESSAGE = 4
_TOOL = 12
_PIXELS = 750
_LONG_EDGE = 1568
_PICTURE = 1600
_PAGE = 2000, 75_000
"""Tokens of a page of a document, and its bytes of base64, on average."""


def estimate_request_tokens(body: dict[str, Any]) -> int:
    """Return an estimate of the input tokens of a request to the Messages API."""
    total = _content(body.get("system"))
    total += sum(_TOOL + _text(_json(tool)) for tool in _items(body.get("tools")))
    for message in _items(body.get("messages")):
        total += _MESSAGE + (_content(message.get("content")) if isinstance(message, dict) else 0)
    return total


def _content(content: object) -> int:
    if isinstance(content, str):
        return _text(content)
    return sum(_block(block) for block in _items(content) if isinstance(block, dict))


def _block(block: dict[str, Any]) -> int:
    match block:
        case {"type": "text", "text": str() as text}:
            return _text(text)
        case {"type": "thinking"}:
            # Claude Code often keeps only the signature; its length is then all there is to estimate from.
            return _text(str(block.get("thinking") or block.get("signature") or ""))
        case {"type": "image", "source": dict() as source}:
            return _image(str(source.get("data", "")))
        case {"type": "document", "source": {"type": "base64", "data": str() as data}}:
            tokens, size = _PAGE
            return tokens * max(1, -(-len(data) // size))
        case {"type": "tool_result"}:
            return _MESSAGE + _content(block.get("content"))
        case _:
            return _MESSAGE + _text(_json({key: value for key, value in block.items() if key != "cache_control"}))


def _image(data: str) -> int:
    header = parse_encoded_image_header(data)
    if header is None or header.pixels is None:
        return _PICTURE
    longest = max(header.width, header.height, _LONG_EDGE)
    shown = header.width * header.height * _LONG_EDGE**2 // longest**2
    return min(_PICTURE, max(1, shown // _PIXELS))


def _text(text: str) -> int:
    size, tokens = _BYTES
    return -(-len(text.encode(errors="replace")) * tokens // size)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _items(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
