"""What each request of a session cost, in order: an index in, requests out. The rules of counting are in `prices/`."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from unspool.export.page.index import Index
from unspool.prices.answers import Response
from unspool.prices.cost import cost
from unspool.prices.table import Price, price


class Request(msgspec.Struct, frozen=True):
    """One answer of the API, where it begins, and what it cost in micro-dollars."""

    offset: int
    response: Response
    cost: int
    priced: bool

    @property
    def key(self) -> str:
        """The row it begins with."""
        return f"{self.offset}.0"


def requests(index: Index) -> list[Request]:
    """Return every request of a file, each once, in file order; those of agents that the file only tells of not."""
    found = []
    for _, response in index.counting.billed():
        if response.retold:
            continue
        known = _price(response.model, (response.timestamp or "")[:10] or None)
        offset = index.firsts.get(response.id, response.offset)
        found.append(Request(offset, response, cost(response, known), known is not None))
    return sorted(found, key=lambda one: one.offset)


@lru_cache(maxsize=1024)
def _price(model: str | None, day: str | None) -> Price | None:
    return price(model, day)
