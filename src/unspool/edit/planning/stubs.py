"""Writes the short text that stands in place of trimmed content: what it was, why it was trimmed, how to get it back.

Rules
  1. A stub is recognised by its prefix and never trimmed again.
  2. A structured result keeps its shape: long texts in it become short ones, very long lists empty ones.
"""

from __future__ import annotations

from typing import Any

import msgspec

from unspool.format import ToolResult, ToolUse, encode_json

STUB_PREFIX = "[trimmed by unspool: "
_MAX_TEXT = 512
_MAX_LIST_BYTES = 16 * 1024
_MAX_LIST_ITEMS = 50
_TARGET_KEYS = ("file_path", "notebook_path", "path", "command", "pattern", "query", "url", "description", "skill")


def restore_hint(session_id: str, turn: int, *, in_place: bool) -> str:
    """Return how a person gets trimmed content of a session's turn back."""
    if in_place:
        return "`unspool edit undo` brings it back"
    return f"session {session_id} has it: `unspool show {session_id[:8]} --turn {turn}`"


def format_stub(what: str, size: int, reason: str, hint: str) -> str:
    """Return the text that stands in place of trimmed content."""
    return f"{STUB_PREFIX}{what}, {size:,} bytes; {reason}; {hint}]"


def is_stub(result: ToolResult) -> bool:
    """Return whether a result was trimmed before."""
    return bytes(memoryview(result.encoded_content)[: len(STUB_PREFIX) + 1]) == b'"' + STUB_PREFIX.encode()


def describe_call(use: ToolUse) -> str:
    """Return a tool call in a few words: the tool, and the file, command or query that it was given."""
    given = use.input if isinstance(use.input, dict) else {}
    target = next((given[key] for key in _TARGET_KEYS if isinstance(given.get(key), str) and given[key]), "")
    words = " ".join(target.split())
    return f"{use.name} {words[:120]}{'…' if len(words) > 120 else ''}".strip()


def shorten_structured_result(structured: msgspec.Raw) -> object | None:
    """Return a structured result without its long parts; None if it has none, or is not JSON."""
    try:
        value = msgspec.json.decode(structured)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # Compared by identity: a result without long parts is left alone, byte for byte.
    short = _shorten(value)
    return None if short is value else short


def _shorten(value: Any) -> Any:
    """Return a value without its long parts; the same object if it has none."""
    match value:
        case str() if len(value) > _MAX_TEXT:
            return f"{STUB_PREFIX}{len(value):,} characters]"
        case list():
            if len(value) > _MAX_LIST_ITEMS and len(encode_json(value)) > _MAX_LIST_BYTES:
                return []
            short: Any = [_shorten(inner) for inner in value]
            return value if all(new is old for new, old in zip(short, value, strict=True)) else short
        case dict():
            short = {key: _shorten(inner) for key, inner in value.items()}
            return value if all(short[key] is value[key] for key in value) else short
        case _:
            return value
