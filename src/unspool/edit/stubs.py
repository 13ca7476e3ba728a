"""What is left in place of something that was trimmed: what it was, why it went, how it comes back.

Rules
  1. A stub is known as one and never trimmed again.
  2. A structured result keeps its shape: long texts in it become short ones, very long lists empty ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from unspool.format.blocks import ToolResult, ToolUse
from unspool.format.json_edit import encode

MARK = "[trimmed by unspool: "
_LONG = 512
_LONG_LIST = 16 * 1024
_MANY = 50
_TARGETS = ("file_path", "notebook_path", "path", "command", "pattern", "query", "url", "description", "skill")


class Origin(NamedTuple):
    """Where the whole of what is trimmed can be seen."""

    session: str
    in_place: bool = False

    def way_back(self, turn: int) -> str:
        """Say how a person gets it back."""
        if self.in_place:
            return "`unspool edit undo` brings it back"
        return f"session {self.session} has it: `unspool show {self.session[:8]} --turn {turn}`"


def stub(what: str, size: int, reason: str, way_back: str) -> str:
    """Return the words that stand in place of something."""
    return f"{MARK}{what}, {size:,} bytes; {reason}; {way_back}]"


def is_stub(result: ToolResult) -> bool:
    """Tell whether a result was trimmed before."""
    return bytes(memoryview(result.encoded_content)[: len(MARK) + 1]) == b'"' + MARK.encode()


def named(use: ToolUse) -> str:
    """Return a call in a few words: the tool, and what it was for."""
    given = use.input if isinstance(use.input, dict) else {}
    target = next((given[key] for key in _TARGETS if isinstance(given.get(key), str) and given[key]), "")
    words = " ".join(target.split())
    return f"{use.name} {words[:120]}{'…' if len(words) > 120 else ''}".strip()


def shortened(structured: msgspec.Raw) -> object | None:
    """Return a structured result without what is long; None if nothing in it is, or it is no JSON."""
    try:
        value = msgspec.json.decode(structured)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    short = _short(value)
    return None if short is value else short


def _short(value: Any) -> Any:
    """Return a value without what is long; the same object if nothing in it is."""
    match value:
        case str() if len(value) > _LONG:
            return f"{MARK}{len(value):,} characters]"
        case list():
            if len(value) > _MANY and len(encode(value)) > _LONG_LIST:
                return []
            short: Any = [_short(inner) for inner in value]
            return value if all(one is two for one, two in zip(short, value, strict=True)) else short
        case dict():
            short = {key: _short(inner) for key, inner in value.items()}
            return value if all(short[key] is value[key] for key in value) else short
        case _:
            return value
