"""The numbers of a bill, and the edition of the price list that bills are made with.

Apart from `cost.py` and `price_list.py`, and without msgspec (9 ms): a report of sums that are already in the store
needs no more.
"""

from __future__ import annotations

from typing import NamedTuple

VERSION = "2026-11-15"
DIGEST = "daafd8e083eb1aea32a8107082a7bc58c3095fd68e91726a66c354faafe63ad6"
"""SHA-256 of `TABLE` in `price_list.py`."""


def known_cost(cost_micros: int, unpriced_tokens: int) -> int | None:
    """Return a cost as programs see it: None if there is no price for any of what was used."""
    return None if unpriced_tokens and not cost_micros else cost_micros


class Bill(NamedTuple):
    """Sums of what responses used and cost, in the order of the columns of `spent` in the store."""

    responses: int
    estimated_responses: int
    """Those whose output may be a count from the beginning of the stream."""
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    web_searches: int
    cost_micros: int
    unpriced_tokens: int
    estimated_output_tokens: int
    """Output with an estimate where a response is not final: from the size of its text."""
    estimated_cost_micros: int
    """The cost with the estimated output."""
