"""Decides what a smaller context can do without, and writes the stubs that stand in its place.

Trimming a session (`trim.py`) and compacting a chat (`client/compaction`) share this: the one has lines, the other the
messages that it would send.

Rules
  1. A stub says what was there, why it was trimmed and how to get it back. It is recognised by its prefix and never
     trimmed again.
  2. A structured result keeps its shape: long texts in it become short ones, very long lists empty ones.
  3. A read is superseded by a later read of the whole file or the same part, and by a change of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any

import msgspec

from unspool.format import ToolResult, ToolUse, encode_json
from unspool.format.tools import EDIT_TOOLS

STUB_PREFIX = "[trimmed by unspool: "
_MAX_TEXT = 512
_MAX_LIST_BYTES = 16 * 1024
_MAX_LIST_ITEMS = 50
_TARGET_KEYS = ("file_path", "notebook_path", "path", "command", "pattern", "query", "url", "description", "skill")
_WHOLE_FILE = ("None", "None", "None")


def restore_hint(session_id: str, turn: int, *, in_place: bool) -> str:
    """Return how a person gets trimmed content of a session's turn back."""
    if in_place:
        return "`unspool edit undo` restores it"
    return f"the original is in session {session_id}: `unspool show {session_id[:8]} --turn {turn}`"


def format_stub(what: str, size: int, reason: str, hint: str) -> str:
    """Return the text that stands in place of trimmed content."""
    return f"{STUB_PREFIX}{what}, {size:,} bytes; {reason}; {hint}]"


def format_media_stub(kind: str, media_type: str | None, data: str | None, hint: str) -> str:
    """Return the text that stands in place of an image or a document."""
    return format_stub(f"{kind} {media_type or ''}".strip(), len(data or ""), "trimmed to save room", hint)


def is_stub(result: ToolResult) -> bool:
    """Return whether a result was trimmed before."""
    return bytes(memoryview(result.encoded_content)[: len(STUB_PREFIX) + 1]) == b'"' + STUB_PREFIX.encode()


def call_arguments(use: ToolUse) -> dict[str, Any]:
    """Return the input of a call; empty if it is no object."""
    return use.input if isinstance(use.input, dict) else {}


def named_file(use: ToolUse) -> str | None:
    """Return the path of the file that a call names."""
    given = call_arguments(use)
    path = given.get("file_path") or given.get("notebook_path")
    return path if isinstance(path, str) else None


def describe_call(use: ToolUse) -> str:
    """Return a tool call in a few words: the tool, and the file, command or query that it was given."""
    given = call_arguments(use)
    target = next((given[key] for key in _TARGET_KEYS if isinstance(given.get(key), str) and given[key]), "")
    words = " ".join(target.split())
    return f"{use.name} {words[:120]}{'…' if len(words) > 120 else ''}".strip()


def find_superseded_reads(uses: Sequence[ToolUse]) -> dict[str, str]:
    """Return the reads among calls that succeeded whose result is obsolete: by id, why; the last one first."""
    found: dict[str, str] = {}
    later: dict[str, dict[tuple[str, ...], str]] = {}
    # Read backwards: a read is superseded by what came after it.
    for use in reversed(uses):
        path = named_file(use)
        if path is None:
            continue
        known = later.setdefault(path, {})
        if use.name == "Read":
            part = tuple(str(use.input.get(key)) for key in ("offset", "limit", "pages"))
            reasons = [why for other, why in known.items() if other in (part, _WHOLE_FILE)]
            if reasons:
                found[use.id] = reasons[0]
            known.setdefault(part, "the file was read again later")
        elif use.name in EDIT_TOOLS:
            known.setdefault(_WHOLE_FILE, "the file was changed later")
    return found


def list_open_todos(uses: Sequence[ToolUse]) -> list[str] | None:
    """Return what was still to be done by the last todo list; None if there is none."""
    for use in reversed(uses):
        todos = call_arguments(use).get("todos")
        if use.name == "TodoWrite" and isinstance(todos, list):
            items = [item for item in todos if isinstance(item, dict) and item.get("status") != "completed"]
            return [f"{item.get('content')} ({item.get('status')})" for item in items if item.get("content")]
    return None


def shorten_structured_result(structured: msgspec.Raw) -> object | None:
    """Return a structured result without its long parts; None if it has none, or is not JSON."""
    try:
        value = msgspec.json.decode(structured)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # Compared by identity: a result without long parts is left alone, byte for byte.
    short = shorten_long_parts(value)
    return None if short is value else short


def shorten_long_parts(value: Any) -> Any:
    """Return a JSON value without its long parts; the same object if it has none."""
    return replace_parts(value, _shorten_part)


def replace_parts(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Return a JSON value with the parts that `replace` gives another value for; the same object if there are none.

    Where `replace` returns None, the parts inside are looked at.
    """
    replaced = replace(value)
    if replaced is not None:
        return replaced
    match value:
        case list():
            parts = [replace_parts(inner, replace) for inner in value]
            return value if all(map(is_, parts, value)) else parts
        case dict():
            fields = {key: replace_parts(inner, replace) for key, inner in value.items()}
            return value if all(map(is_, fields.values(), value.values())) else fields
        case _:
            return value


def _shorten_part(value: Any) -> Any:
    match value:
        case str() if len(value) > _MAX_TEXT:
            return f"{STUB_PREFIX}{len(value):,} characters]"
        case list() if len(value) > _MAX_LIST_ITEMS and len(encode_json(value)) > _MAX_LIST_BYTES:
            return []
        case _:
            return None
