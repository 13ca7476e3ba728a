"""What fills the context of the last request: bytes in, an estimate of tokens out, by category and by file.

Rules
  1. The sum is exact: it is what the API said of the last request. How it is shared out is an estimate, by bytes.
  2. What the file does not hold (the system prompt, the descriptions of tools) is estimated from the first request:
     what it had more than its own prompt would take.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unspool.export.page.billing import Request
from unspool.export.page.content import Content
from unspool.export.page.index import Index

_PER_TOKEN = 3.6
"""Bytes, in transcripts of code and English."""
_FILES = 12
"""How many files are named."""


class Share(msgspec.Struct, frozen=True):
    """A part of the context."""

    name: str
    tokens: int
    bytes: int = 0


class Filling(msgspec.Struct, frozen=True):
    """What the last request had in its context; the shares are estimates, their sum is not."""

    total: int = 0
    kinds: tuple[Share, ...] = ()
    files: tuple[Share, ...] = ()


def filling(index: Index, own: Sequence[Request]) -> Filling:
    """Return what fills the context now."""
    if not own:
        return Filling()
    held = Content()
    ways = index.branches.ways()
    for part in index.parts:
        if part.start not in ways.known or part.start in ways.active:
            held.join(part.content)
    total = own[-1].response.prompt
    base = min(_base(index, own), total)
    spread = total - base
    whole = sum(held.kinds.values())
    if not whole:
        return Filling(total, (Share("system prompt and tools", total),) if total else ())
    names = sorted(held.kinds, key=lambda name: -held.kinds[name])
    tokens = _shared(spread, [held.kinds[name] for name in names])
    kinds = [Share(name, count, held.kinds[name]) for name, count in zip(names, tokens, strict=True)]
    if base:
        kinds.append(Share("system prompt and tools", base))
    files = sorted(held.files.items(), key=lambda pair: -pair[1])[:_FILES]
    named = tuple(Share(path, round(spread * size / whole), size) for path, size in files)
    return Filling(total, tuple(sorted(kinds, key=lambda share: -share.tokens)), named)


def _base(index: Index, own: Sequence[Request]) -> int:
    """Return how many tokens a request has before anything was said (rule 2)."""
    first = index.parts[1] if len(index.parts) > 1 else index.parts[0]
    said = len(first.prompt) / _PER_TOKEN
    return max(0, round(own[0].response.prompt - said))


def _shared(total: int, sizes: Sequence[int]) -> list[int]:
    """Share out a number in proportion, so that the shares add up to it."""
    whole, found, given, reached = sum(sizes), list[int](), 0, 0
    for size in sizes:
        reached += size
        upto = total * reached // whole
        found.append(upto - given)
        given = upto
    return found
