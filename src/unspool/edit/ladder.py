"""Rungs of a ladder: what is trimmed first, and what only if that is not enough.

Each rung holds all that the ones before it do. Nothing that a person or the model said goes before every result has;
turns go last, oldest first.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from unspool.edit.trim import Trim
from unspool.edit.view import View

_AGES = (10, 3, 1, 0)


def rungs(seen: View) -> Iterator[Trim]:
    """Yield wishes, mildest first."""
    wish = Trim(superseded_reads=True)
    yield wish
    for age in _AGES:
        wish = replace(wish, results=True, older_than=age, larger_than=2048)
        yield wish
    wish = replace(wish, images=True, larger_than=512)
    yield wish
    wish = replace(wish, thinking=True)
    yield wish
    for age in _AGES:
        wish = replace(wish, tools=(), calls_older_than=age)
        yield wish
    left = len(seen.thread_groups)
    while left > 1:
        left = max(1, left * 2 // 3)
        yield replace(wish, keep_last=left)
