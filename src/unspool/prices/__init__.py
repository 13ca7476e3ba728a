"""Prices: counts each billed response once and computes what it cost. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.prices.bill import (
        DIGEST, FACTOR_ONE, LONG_PROMPT_TOKENS, ONLY_AGENTS, VERSION, Bill, Price, SessionFinder, attribute_responses,
        bill_responses, cost_micros, find_paying_session, known_cost,
    )
    from unspool.prices.cost import UsageTotals, explain_cost, total_usage
    from unspool.prices.from_entries import BILLED_RECORDS, add_entry, responses_of_entries
    from unspool.prices.price_list import find_price, load_price_list, parse_own_price
    from unspool.prices.responses import (
        SYNTHETIC, LineCounter, ReportTaker, Response, ResponseCounter, UnbilledLine, count_once, file_stem,
    )
    from unspool.prices.scan_bytes import count_text
    from unspool.prices.token_estimate import estimate_request_tokens
    from unspool.prices.windows import (
        FIVE_HOURS, HOUR, MINUTE, UsageWindow, WindowLimit, choose_limit, find_active_window, find_windows, rate_per,
        window_of,
    )

__all__ = [
    "BILLED_RECORDS", "DIGEST", "FACTOR_ONE", "FIVE_HOURS", "HOUR", "LONG_PROMPT_TOKENS", "MINUTE", "ONLY_AGENTS",
    "SYNTHETIC", "VERSION", "Bill", "LineCounter", "Price", "ReportTaker", "Response",
    "ResponseCounter", "SessionFinder", "UnbilledLine", "UsageTotals", "UsageWindow", "WindowLimit", "add_entry",
    "attribute_responses", "bill_responses", "choose_limit", "cost_micros", "count_once", "count_text",
    "estimate_request_tokens", "explain_cost", "file_stem", "find_active_window", "find_paying_session", "find_price",
    "find_windows", "known_cost", "load_price_list", "parse_own_price", "rate_per", "responses_of_entries",
    "total_usage", "window_of",
]

__getattr__ = lazy_door(__name__, {
    "bill":
        "DIGEST FACTOR_ONE LONG_PROMPT_TOKENS ONLY_AGENTS VERSION Bill Price SessionFinder "
        "attribute_responses bill_responses cost_micros find_paying_session known_cost",
    "cost": "UsageTotals explain_cost total_usage",
    "from_entries": "BILLED_RECORDS add_entry responses_of_entries",
    "price_list": "find_price load_price_list parse_own_price",
    "responses": "SYNTHETIC LineCounter ReportTaker Response ResponseCounter UnbilledLine count_once file_stem",
    "scan_bytes": "count_text",
    "token_estimate": "estimate_request_tokens",
    "windows":
        "FIVE_HOURS HOUR MINUTE UsageWindow WindowLimit choose_limit find_active_window find_windows rate_per "
        "window_of",
})
