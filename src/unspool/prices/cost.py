"""Explains what responses cost, and adds up the cost of many. The rules are in `bill.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from unspool.prices.bill import FACTOR_ONE, LONG_PROMPT_TOKENS, PICOS_PER_MICRO, Price, Rates, cost_micros, price_factor
from unspool.prices.price_list import find_price
from unspool.prices.responses import Response


class BillItem(msgspec.Struct, frozen=True, gc=False):
    """One item of a bill: so many of something at a rate."""

    what: str
    count: int
    rate: int
    """Picodollars for one; of tokens also micro-dollars for a million."""
    amount: int
    """Picodollars."""

    def __str__(self) -> str:
        each = (
            f"${format_dollars(self.rate)} each"
            if self.what == "web search"
            else f"${format_dollars(self.rate * PICOS_PER_MICRO)} a million"
        )
        return f"{self.what}: {self.count:,} at {each} = ${format_dollars(self.amount)}"


class Explanation(NamedTuple):
    """The items of a response's cost, and the reasons for their rates."""

    parts: tuple[BillItem, ...]
    """One for each kind of token that was used; empty without a price."""
    reasons: tuple[str, ...]
    cost: int
    """Micro-dollars: the sum of the items, rounded."""
    priced: bool


def explain_cost(response: Response, price: Price | None) -> Explanation:
    """Return the items and the reasons behind the cost of a response."""
    parts = tuple(_parts(response, price)) if price else ()
    reasons = tuple(_reasons(response, price))
    return Explanation(parts, reasons, cost_micros(response, price), price is not None)


def format_dollars(picos: int) -> str:
    """Return an amount of picodollars in dollars, without rounding.

    >>> dollars(12_500_000_000)
    '0.0125'
    """
    whole, part = divmod(picos, PICOS_PER_MICRO**2)
    return f"{whole:,}.{f'{part:012}'.rstrip('0').ljust(2, '0')}"


def _rates(response: Response, price: Price) -> Rates:
    """Return the rates of a response in picodollars per token."""
    rates = price.long if price.long and response.prompt > LONG_PROMPT_TOKENS else price.rates
    return Rates(*(rate * price_factor(response, price) for rate in rates))


def _parts(response: Response, price: Price) -> Iterator[BillItem]:
    rates = _rates(response, price)
    bill = (
        ("input", response.input, rates.input),
        ("output", response.output, rates.output),
        ("cache read", response.cache_read, rates.cache_read),
        ("cache write, 5 minutes", response.cache_write_5m, rates.cache_write_5m),
        ("cache write, 1 hour", response.cache_write_1h, rates.cache_write_1h),
        ("web search", response.web_searches, price.web_search * PICOS_PER_MICRO),
    )
    return (BillItem(what, count, rate, count * rate) for what, count, rate in bill if count)


def _reasons(response: Response, price: Price | None) -> Iterator[str]:
    if not response.final:
        yield "no stop reason on any line: the output count may be from the start of the stream"
    if price is None:
        yield f"unpriced: no known price for `{response.model}`"
        return
    yield f"prices of `{price.model}`{f' since {price.since}' if price.since else ''}: {price.source}"
    if response.prompt > LONG_PROMPT_TOKENS and price.long:
        yield f"long context: the prompt has {response.prompt:,} tokens, more than {LONG_PROMPT_TOKENS:,}"
    if response.inference_geo == "us":
        yield _factor_reason("inference in the US", price.us)
    if response.speed == "fast":
        yield _factor_reason("fast", price.fast)
    if response.service_tier not in {None, "", "standard", "default"}:
        yield f"service tier `{response.service_tier}`: unknown rate, priced as standard"


def _factor_reason(what: str, factor: int) -> str:
    if factor == FACTOR_ONE:
        return f"{what}: unknown rate, priced as standard"
    return f"{what}: × {factor // 10}.{factor % 10}"


class UsageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of tokens and money. Responses without a price are counted, never priced by guess."""

    responses: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    web_searches: int = 0
    cost_micros: int = 0
    """Millionths of a US dollar."""
    unpriced: int = 0
    """Responses of models without a price."""

    @property
    def cost_usd(self) -> float:
        """The cost in US dollars."""
        return self.cost_micros / 1_000_000

    @property
    def total(self) -> int:
        """All tokens."""
        return self.input + self.output + self.cache_read + self.cache_write_5m + self.cache_write_1h


_SUMMED = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h", "web_searches")


def total_usage(responses: Iterable[Response]) -> UsageTotals:
    """Return what responses used and cost; each must occur once."""
    sums = dict.fromkeys(_SUMMED, 0)
    count = money = unpriced = 0
    for response in responses:
        count += 1
        for name in _SUMMED:
            sums[name] += getattr(response, name)
        price = find_price(response.model, (response.timestamp or "")[:10] or None)
        money += cost_micros(response, price)
        unpriced += price is None
    return UsageTotals(responses=count, cost_micros=money, unpriced=unpriced, **sums)
