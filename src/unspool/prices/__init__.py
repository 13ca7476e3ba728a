"""Prices: counts each billed response once and computes what it cost. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.prices.bill import Bill
    from unspool.prices.cost import UsageTotals, bill_responses, cost_micros, explain_cost, total_usage
    from unspool.prices.edition import DIGEST, VERSION
    from unspool.prices.from_entries import BILLED_RECORDS, add_entry, responses_of_entries
    from unspool.prices.price_list import (
        FACTOR_ONE, LONG_PROMPT_TOKENS, Price, find_price, load_price_list, parse_own_price,
    )
    from unspool.prices.responses import (
        SYNTHETIC, LineCounter, Response, ResponseCounter, UnbilledLine, count_once, file_stem,
    )
    from unspool.prices.scan_bytes import count_text
    from unspool.prices.token_estimate import estimate_request_tokens

__all__ = [
    "BILLED_RECORDS", "DIGEST", "FACTOR_ONE", "LONG_PROMPT_TOKENS", "SYNTHETIC", "VERSION", "Bill", "LineCounter",
    "Price", "Response", "ResponseCounter", "UnbilledLine", "UsageTotals", "add_entry", "bill_responses", "cost_micros",
    "count_once", "count_text", "estimate_request_tokens", "explain_cost", "file_stem", "find_price", "load_price_list",
    "parse_own_price", "responses_of_entries", "total_usage",
]

__getattr__ = lazy_door(__name__, {
    "bill": "Bill",
    "cost": "UsageTotals bill_responses cost_micros explain_cost total_usage",
    "edition": "DIGEST VERSION",
    "from_entries": "BILLED_RECORDS add_entry responses_of_entries",
    "price_list": "FACTOR_ONE LONG_PROMPT_TOKENS Price find_price load_price_list parse_own_price",
    "responses": "SYNTHETIC LineCounter Response ResponseCounter UnbilledLine count_once file_stem",
    "scan_bytes": "count_text",
    "token_estimate": "estimate_request_tokens",
})
