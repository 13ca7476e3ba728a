"""Any JSON value for a page: as branches that open and leaves in words.

Rules
  1. A page gets so many branches and no more (`MOST`), and none deeper than `DEEP`; the raw record has the rest.
  2. Bytes in base64 are named, not shown.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from unspool.display.safe import clean
from unspool.display.units import size
from unspool.page.rows import INLINE

MOST = 200
"""Of the items of one object or list."""
DEEP = 12
_ENCODED = re.compile(r"[A-Za-z0-9+/=\s]{512,}\Z")


class Twig(NamedTuple):
    """A name and what stands under it."""

    name: str
    value: Any
    is_open: bool
    """Whether it can be opened: an object or a list with something in it."""
    words: str


class Branches(NamedTuple):
    """What stands under an object or a list."""

    twigs: list[Twig]
    more: int


def branches_of(value: Any, depth: int = 0) -> Branches:
    """Return what stands under a value."""
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if _is_list(value) else []
    if depth >= DEEP:
        return Branches([], len(pairs))
    twigs = [Twig(str(name)[:200], one, _is_open(one), leaf(one)) for name, one in pairs[:MOST]]
    return Branches(twigs, max(0, len(pairs) - MOST))


def leaf(value: Any) -> str:
    """Return a value in words: a text as it is, an object by what it holds."""
    if isinstance(value, dict):
        return "{" + ", ".join(map(str, list(value)[:4])) + (", …" if len(value) > 4 else "") + "}"
    if _is_list(value):
        return f"[{len(value)}]"
    if isinstance(value, str):
        if len(value) > 512 and _ENCODED.match(value[:4096]):
            return f"[base64, {size(len(value) * 3 // 4)}]"
        text = clean(value)
        return text if len(text) <= INLINE else f"{text[:INLINE]} … ({len(text):,} characters)"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _is_open(value: Any) -> bool:
    return bool(value) and (isinstance(value, dict) or _is_list(value))


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
