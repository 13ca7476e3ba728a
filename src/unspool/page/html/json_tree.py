"""Prepares any JSON value for a page as a tree: levels of nodes that open, and values in words.

Rules
  1. A page shows at most `MAX_ITEMS` items of an object or list, and none deeper than `MAX_DEPTH`: the raw record has
     the rest.
  2. Bytes in base64 are named, not shown.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from unspool.display import clean, size
from unspool.page.rows import MAX_INLINE_CHARACTERS

MAX_ITEMS = 200
MAX_DEPTH = 12
_ENCODED = re.compile(r"[A-Za-z0-9+/=\s]{512,}\Z")


class TreeNode(NamedTuple):
    """An item of an object or list."""

    name: str
    value: Any
    is_open: bool
    """Whether it can be opened: an object or a list that is not empty."""
    words: str


class TreeLevel(NamedTuple):
    """The items of an object or a list."""

    nodes: list[TreeNode]
    more: int
    """How many are left out."""


def tree_level(value: Any, depth: int = 0) -> TreeLevel:
    """Return the items of a value."""
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if _is_list(value) else []
    if depth >= MAX_DEPTH:
        return TreeLevel([], len(pairs))
    nodes = [
        TreeNode(str(name)[:200], item, bool(item) and (isinstance(item, dict) or _is_list(item)), describe_value(item))
        for name, item in pairs[:MAX_ITEMS]
    ]
    return TreeLevel(nodes, max(0, len(pairs) - MAX_ITEMS))


def describe_value(value: Any) -> str:
    """Return a value in words: a text as it is, an object by its first keys."""
    if isinstance(value, dict):
        return "{" + ", ".join(map(str, list(value)[:4])) + (", …" if len(value) > 4 else "") + "}"
    if _is_list(value):
        return f"[{len(value)}]"
    if isinstance(value, str):
        if len(value) > 512 and _ENCODED.match(value[:4096]):
            return f"[base64, {size(len(value) * 3 // 4)}]"
        text = clean(value)
        rest = f" … ({len(text):,} characters)" if len(text) > MAX_INLINE_CHARACTERS else ""
        return text[:MAX_INLINE_CHARACTERS] + rest
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def parse_json_text(text: str) -> Any:
    """Return the object or list that a text is; None if it is none, or too long for a tree."""
    if len(text) > MAX_INLINE_CHARACTERS or text.lstrip()[:1] not in ("{", "[") or text.rstrip()[-1:] not in ("}", "]"):
        return None
    try:
        value = msgspec.json.decode(text.encode(errors="replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return value or None


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
