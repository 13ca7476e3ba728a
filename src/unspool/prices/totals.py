"""Billed responses added up."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from unspool.prices.answers import Response
from unspool.prices.cost import cost
from unspool.prices.table import price


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and money. Money is in micro-dollars; what has no price is counted, not guessed."""

    responses: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    web_searches: int = 0
    cost: int = 0
    unpriced: int = 0
    """Responses of models without a price."""

    @property
    def total(self) -> int:
        """All tokens."""
        return self.input + self.output + self.cache_read + self.cache_write_5m + self.cache_write_1h


_SUMMED = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h", "web_searches")


def total(responses: Iterable[Response]) -> Usage:
    """Return what responses used and cost; each must be there once."""
    sums = dict.fromkeys(_SUMMED, 0)
    count = money = unpriced = 0
    for response in responses:
        count += 1
        for name in _SUMMED:
            sums[name] += getattr(response, name)
        known = price(response.model, (response.timestamp or "")[:10] or None)
        money += cost(response, known)
        unpriced += known is None
    return Usage(responses=count, cost=money, unpriced=unpriced, **sums)
