"""Values as JSON text, as JavaScript writes it."""

import msgspec

_SURROGATE = "[\ud800-\udfff]"


def encode(value: object) -> bytes:
    """Return a value as the compact JSON that JavaScript's `JSON.stringify` writes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate: legal in JSON as an escape, not in UTF-8
        return _encode_by_hand(value)


def _encode_by_hand(value: object) -> bytes:
    import re

    match value:
        case str():
            clean = re.split(_SURROGATE, value)
            marks = [f"\\u{ord(mark):04x}".encode() for mark in re.findall(_SURROGATE, value)] + [b""]
            pieces = [msgspec.json.encode(piece)[1:-1] + mark for piece, mark in zip(clean, marks, strict=True)]
            return b'"' + b"".join(pieces) + b'"'
        case dict():
            inner = (_encode_by_hand(key) + b":" + _encode_by_hand(item) for key, item in value.items())
            return b"{" + b",".join(inner) + b"}"
        case list() | tuple():
            return b"[" + b",".join(map(_encode_by_hand, value)) + b"]"
        case _:
            return msgspec.json.encode(value)
