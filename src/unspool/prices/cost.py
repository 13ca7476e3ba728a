"""What a response cost. In: a response and a price. Out: micro-dollars, and how they came about.

Rules
  1. Sums are exact: whole picodollars (10⁻¹² dollars). They are rounded to micro-dollars once for each response, half
     to even.
  2. A request whose prompt (input, cache reads and cache writes) is longer than 200,000 tokens is priced at the
     model's long rates, where it has them: all of it, output too.
  3. `us` and `fast` multiply the price of tokens by as much as the table knows, else by 1; web searches cost what
     they cost.
  4. Without a price the cost is 0 and the response unpriced.

[merged: totals.py] Billed responses added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from unspool.prices.price_list import LONG, ONCE, Price, Rates, price
from unspool.prices.responses import Response

_MICRO = 1_000_000
"""Picodollars in a micro-dollar."""
_FREE = Price(model="", rates=Rates(0, 0, 0, 0, 0), web_search=0)
_USUAL = ONCE * ONCE


class Part(msgspec.Struct, frozen=True, gc=False):
    """A line of a bill."""

    what: str
    count: int
    rate: int
    """Picodollars for one; of tokens also micro-dollars for a million."""
    amount: int
    """Picodollars."""

    def __str__(self) -> str:
        each = f"${dollars(self.rate)} each" if self.what == "web search" else f"${_per_million(self.rate)} a million"
        return f"{self.what}: {self.count:,} at {each} = ${dollars(self.amount)}"


class Explanation(NamedTuple):
    """How a cost came about: what was counted, and why at these rates."""

    parts: tuple[Part, ...]
    """What there was of each kind; nothing if there is no price."""
    reasons: tuple[str, ...]
    cost: int
    """Micro-dollars: the sum of the parts, rounded."""
    priced: bool


class Bill(msgspec.Struct, frozen=True, gc=False):
    """What some responses used and cost."""

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
    """The output as it probably was: of final responses what was counted, of the others from the size of their text."""
    estimated_cost_micros: int
    """The cost with that output."""


def cost(response: Response, price: Price | None) -> int:
    """Return what a response cost, in micro-dollars; 0 without a price."""
    return bill((response,), price).cost_micros


def bill(responses: Sequence[Response], price: Price | None) -> Bill:
    """Return what responses used and cost that share a price. This is asked of every response of a folder."""
    rates = price or _FREE
    usual = input_rate, output_rate, read_rate, short_rate, long_rate = rates.rates
    above, searched = rates.long, rates.web_search * _MICRO
    fresh = output = read = short = long = searches = micros = early = guessed = probable_micros = 0
    for one in responses:
        inputs, said, reads, shorts, longs = (
            one.input, one.output, one.cache_read, one.cache_write_5m, one.cache_write_1h
        )  # fmt: skip
        if above is not None:
            is_long = inputs + reads + shorts + longs > LONG
            input_rate, output_rate, read_rate, short_rate, long_rate = above if is_long else usual
        prompt = inputs * input_rate + reads * read_rate + shorts * short_rate + longs * long_rate
        factor = _factor(one, rates) if one.inference_geo == "us" or one.speed == "fast" else _USUAL
        picos = (prompt + said * output_rate) * factor + one.web_searches * searched
        rounded = _rounded(picos)
        micros += rounded
        fresh += inputs
        output += said
        read += reads
        short += shorts
        long += longs
        searches += one.web_searches
        if not one.final:
            early += 1
            more = one.size * 5 // 18 - said  # of 311 final responses of 2.1.x a token took 3.6 bytes
            if more > 0:
                guessed += more
                probable_micros += _rounded(picos + more * output_rate * factor) - rounded
    unpriced = 0 if price else fresh + output + read + short + long
    return Bill(
        len(responses), early, fresh, output, read, short, long, searches, micros, unpriced, output + guessed,
        micros + probable_micros,
    )  # fmt: skip


def explain(response: Response, price: Price | None) -> Explanation:
    """Return how the cost of a response came about."""
    parts = tuple(_parts(response, price)) if price else ()
    reasons = tuple(_reasons(response, price))
    return Explanation(parts, reasons, cost(response, price), price is not None)


def dollars(picos: int) -> str:
    """Return an amount as dollars, exactly.

    >>> dollars(12_500_000_000)
    '0.0125'
    """
    whole, part = divmod(picos, _MICRO**2)
    return f"{whole:,}.{f'{part:012}'.rstrip('0').ljust(2, '0')}"


def _factor(response: Response, price: Price) -> int:
    """Return what makes picodollars per token of the units of `table.py`: both multipliers are tenths."""
    us = price.us if response.inference_geo == "us" else ONCE
    return us * (price.fast if response.speed == "fast" else ONCE)


def _rates(response: Response, price: Price) -> Rates:
    """Return picodollars per token."""
    rates = price.long if price.long and response.prompt > LONG else price.rates
    return Rates(*(rate * _factor(response, price) for rate in rates))


def _rounded(picos: int) -> int:
    """Return micro-dollars, half to even."""
    micros, rest = divmod(picos, _MICRO)
    return micros + (rest * 2 + micros % 2 > _MICRO)


def _parts(response: Response, price: Price) -> Iterator[Part]:
    rates = _rates(response, price)
    bill = (
        ("input", response.input, rates.input),
        ("output", response.output, rates.output),
        ("cache read", response.cache_read, rates.cache_read),
        ("cache write, 5 minutes", response.cache_write_5m, rates.cache_write_5m),
        ("cache write, 1 hour", response.cache_write_1h, rates.cache_write_1h),
        ("web search", response.web_searches, price.web_search * _MICRO),
    )
    return (Part(what, count, rate, count * rate) for what, count, rate in bill if count)


def _reasons(response: Response, price: Price | None) -> Iterator[str]:
    if not response.final:
        yield "no stop reason on any line: output may be a count from the beginning of the stream"
    if price is None:
        yield f"unpriced: no price is known for `{response.model}`"
        return
    yield f"prices of `{price.model}`{f' since {price.since}' if price.since else ''}: {price.source}"
    if response.prompt > LONG and price.long:
        yield f"long context: the prompt has {response.prompt:,} tokens, more than {LONG:,}"
    if _in_us(response):
        yield _multiplied("inference in the US", price.us)
    if _is_fast(response):
        yield _multiplied("fast", price.fast)
    if response.service_tier not in {None, "", "standard", "default"}:
        yield f"service tier `{response.service_tier}`: no rate is known, priced as standard"


def _in_us(response: Response) -> bool:
    return response.inference_geo == "us"


def _is_fast(response: Response) -> bool:
    return response.speed == "fast"


def _multiplied(what: str, factor: int) -> str:
    if factor == ONCE:
        return f"{what}: no rate is known, priced as usual"
    return f"{what}: × {factor // 10}.{factor % 10}"


def _per_million(rate: int) -> str:
    return dollars(rate * _MICRO)


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
