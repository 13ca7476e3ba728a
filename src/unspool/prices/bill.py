"""The numbers of a bill. Apart from `cost.py`, because a report of sums that are already in the store needs no more."""

from __future__ import annotations

from typing import NamedTuple


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
