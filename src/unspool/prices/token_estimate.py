"""About how many tokens a request is, where nobody can be asked: a request's body in, a number out.

Rules
  1. The same body gives the same number, everywhere. More content never gives a smaller one.
  2. It is an estimate: text by its bytes, pictures by their size, a page of a document by what pages cost on average.
     Who shows it says so.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable
from typing import Any

import msgspec

from unspool.format.image_header import picture

_BYTES = 7, 2
"""Seven bytes of UTF-8 are about two tokens."""
_MESSAGE = 4
_TOOL = 12
_PIXELS = 750
_LONG_EDGE = 1568
_PICTURE = 1600
_PAGE = 2000, 75_000
"""A page is about so many tokens, and about so many bytes of base64."""
_HEADER = 1 << 16


def estimate(body: dict[str, Any]) -> int:
    """Return about how many input tokens a request to the Messages API is."""
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
        case {"type": "thinking"}:  # where only the signature was kept, its length is what there is to go by
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
    try:
        seen = picture(binascii.a2b_base64(data[:_HEADER]))
    except ValueError:  # torn, or not base64
        seen = None
    if seen is None or not seen.width or not seen.height:
        return _PICTURE
    longest = max(seen.width, seen.height, _LONG_EDGE)
    shown = seen.width * seen.height * _LONG_EDGE**2 // longest**2
    return min(_PICTURE, max(1, shown // _PIXELS))


def _text(text: str) -> int:
    size, tokens = _BYTES
    return -(-len(text.encode(errors="replace")) * tokens // size)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _items(value: object) -> Iterable[Any]:
    return value if isinstance(value, list) else ()
