"""Computes what responses cost, in micro-dollars, and explains each amount.

Rules
  1. Sums are exact: whole picodollars (10⁻¹² dollars). They are rounded to micro-dollars once per response, half to
     even.
  2. A request whose prompt (input, cache reads and cache writes) is longer than 200,000 tokens is priced at the
     model's long rates, where it has them: all of it, output too.
  3. `us` and `fast` multiply the price of tokens by the factor in the price list, else by 1; web searches are not
     multiplied.
  4. Without a price the cost is 0 and the response unpriced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from unspool.prices.bill import Bill
from unspool.prices.price_list import FACTOR_ONE, LONG_PROMPT_TOKENS, Price, Rates, find_price
from unspool.prices.responses import Response

_MICRO = 1_000_000
"""Picodollars in a micro-dollar."""
_FREE = Price(model="", rates=Rates(0, 0, 0, 0, 0), web_search=0)
_USUAL = FACTOR_ONE * FACTOR_ONE


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
            else f"${format_dollars(self.rate * _MICRO)} a million"
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


def cost_micros(response: Response, price: Price | None) -> int:
    """Return the cost of a response in micro-dollars; 0 without a price."""
    return bill_responses((response,), price).cost_micros


def bill_responses(responses: Sequence[Response], price: Price | None) -> Bill:
    """Return what responses that share a price used and cost. A hot path: it runs for every response of a folder."""
    rates = price or _FREE
    usual = input_rate, output_rate, read_rate, short_rate, long_rate = rates.rates
    above, searched = rates.long, rates.web_search * _MICRO
    fresh = output = read = short = long = searches = micros = early = missing = missing_micros = 0
    for response in responses:
        inputs, outputs, reads, shorts, longs = (
            response.input, response.output, response.cache_read, response.cache_write_5m, response.cache_write_1h
        )  # fmt: skip
        if above is not None:
            is_long = inputs + reads + shorts + longs > LONG_PROMPT_TOKENS
            input_rate, output_rate, read_rate, short_rate, long_rate = above if is_long else usual
        prompt = inputs * input_rate + reads * read_rate + shorts * short_rate + longs * long_rate
        # Asked inline: a function call for each response would cost more than the bill.
        multiplied = response.inference_geo == "us" or response.speed == "fast"
        factor = _factor(response, rates) if multiplied else _USUAL
        picos = (prompt + outputs * output_rate) * factor + response.web_searches * searched
        rounded = _rounded(picos)
        micros += rounded
        fresh += inputs
        output += outputs
        read += reads
        short += shorts
        long += longs
        searches += response.web_searches
        if not response.final:
            early += 1
            # 3.6 bytes a token: measured on 311 final responses of Claude Code 2.1.
            more = response.size * 5 // 18 - outputs
            if more > 0:
                missing += more
                missing_micros += _rounded(picos + more * output_rate * factor) - rounded
    unpriced = 0 if price else fresh + output + read + short + long
    return Bill(
        len(responses), early, fresh, output, read, short, long, searches, micros, unpriced, output + missing,
        micros + missing_micros,
    )  # fmt: skip


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
    whole, part = divmod(picos, _MICRO**2)
    return f"{whole:,}.{f'{part:012}'.rstrip('0').ljust(2, '0')}"


def _factor(response: Response, price: Price) -> int:
    """Return the factor from the price list's units to picodollars per token: both multipliers are in tenths."""
    us = price.us if response.inference_geo == "us" else FACTOR_ONE
    return us * (price.fast if response.speed == "fast" else FACTOR_ONE)


def _rates(response: Response, price: Price) -> Rates:
    """Return the rates of a response in picodollars per token."""
    rates = price.long if price.long and response.prompt > LONG_PROMPT_TOKENS else price.rates
    return Rates(*(rate * _factor(response, price) for rate in rates))


def _rounded(picos: int) -> int:
    """Return micro-dollars, half to even."""
    micros, rest = divmod(picos, _MICRO)
    return micros + (rest * 2 + micros % 2 > _MICRO)


def _parts(response: Response, price: Price) -> Iterator[BillItem]:
    rates = _rates(response, price)
    bill = (
        ("input", response.input, rates.input),
        ("output", response.output, rates.output),
        ("cache read", response.cache_read, rates.cache_read),
        ("cache write, 5 minutes", response.cache_write_5m, rates.cache_write_5m),
        ("cache write, 1 hour", response.cache_write_1h, rates.cache_write_1h),
        ("web search", response.web_searches, price.web_search * _MICRO),
    )
    return (BillItem(what, count, rate, count * rate) for what, count, rate in bill if count)


def _reasons(response: Response, price: Price | None) -> Iterator[str]:
    if not response.final:
        yield "no stop reason on any line: output may be a count from the beginning of the stream"
    if price is None:
        yield f"unpriced: no price is known for `{response.model}`"
        return
    yield f"prices of `{price.model}`{f' since {price.since}' if price.since else ''}: {price.source}"
    if response.prompt > LONG_PROMPT_TOKENS and price.long:
        yield f"long context: the prompt has {response.prompt:,} tokens, more than {LONG_PROMPT_TOKENS:,}"
    if response.inference_geo == "us":
        yield _factor_reason("inference in the US", price.us)
    if response.speed == "fast":
        yield _factor_reason("fast", price.fast)
    if response.service_tier not in {None, "", "standard", "default"}:
        yield f"service tier `{response.service_tier}`: no rate is known, priced as standard"


def _factor_reason(what: str, factor: int) -> str:
    if factor == FACTOR_ONE:
        return f"{what}: no rate is known, priced as usual"
    return f"{what}: × {factor // 10}.{factor % 10}"


class UsageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of tokens, and of money in micro-dollars. Responses without a price are counted, never priced by guess."""

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
    return UsageTotals(responses=count, cost=money, unpriced=unpriced, **sums)
