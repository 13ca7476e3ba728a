"""Tells whether a request lost the cache that the one before it had filled, and why.

A cache is lost if a request reads less than half of what the one before had in its context. Whoever asks knows whether
the conversation was compacted in between: then a new cache is no loss.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from unspool.display import duration
from unspool.format import elapsed_time
from unspool.prices import Response

MIN_LOST_TOKENS: Final = 5_000
"""Fewer tokens are not worth a word."""
BYTES_PER_TOKEN: Final = 3.6
"""In transcripts of code and English."""
_SHORT_CACHE_SECONDS, _LONG_CACHE_SECONDS = 300, 3600


class LostCache(NamedTuple):
    """A cache that a request could not read."""

    kind: str
    """`model`: another model has another cache; `pause`: it had expired; `cache`: the prompt began otherwise."""
    words: str
    tokens: int
    """Tokens that were sent again."""


def find_lost_cache(before: Response, response: Response) -> LostCache | None:
    """Return what a request lost of the cache of the one before it in the same conversation."""
    had, read = before.prompt, response.cache_read
    # A prompt of less than half the length is another one: a new conversation, or a side question.
    if had - read < MIN_LOST_TOKENS or read * 2 >= had or response.prompt * 2 < had:
        return None
    lost = min(had, response.prompt) - read
    if response.model != before.model:
        return LostCache("model", f"cache lost by a model switch from {before.model} to {response.model}", lost)
    passed = elapsed_time(before.timestamp, response.timestamp)
    lifetime = _LONG_CACHE_SECONDS if before.cache_write_1h else _SHORT_CACHE_SECONDS
    if passed is not None and passed.total_seconds() > lifetime:
        words = f"cache lost after a pause of {duration(passed)} (it lives {lifetime // 60} minutes)"
        return LostCache("pause", words, lost)
    return LostCache("cache", "cache lost: the start of the prompt had changed", lost)
