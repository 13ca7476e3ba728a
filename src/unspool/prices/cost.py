"""What a response cost. In: a response and a price. Out: micro-dollars, and how they came about.

Rules
  1. Sums are exact: whole picodollars (10⁻¹² dollars). They are rounded to micro-dollars once for each response, half
     to even.
  2. A request whose prompt (input, cache reads and cache writes) is longer than 200,000 tokens is priced at the
     model's long rates, where it has them: all of it, output too.
  3. `us` and `fast` multiply the price of tokens by as much as the table knows, else by 1; web searches cost what
     they cost.
  4. Without a price the cost is 0 and the response unpriced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from unspool.prices.answers import Response
from unspool.prices.table import LONG, ONCE, Price, Rates

_MICRO = 1_000_000
"""Picodollars in a micro-dollar."""


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


def cost(response: Response, price: Price | None, output: int | None = None) -> int:
    """Return what a response cost, in micro-dollars; 0 without a price. `output`: as if it had so many tokens."""
    return costs(response, price, response.output if output is None else output)[1]


def costs(response: Response, price: Price | None, output: int) -> tuple[int, int]:
    """Return what a response cost, and what it would have with another output, in micro-dollars."""
    if price is None:
        return 0, 0
    fresh, read, said = response.input, response.cache_read, response.output
    short, long = response.cache_write_5m, response.cache_write_1h
    rates = price.long if price.long and fresh + read + short + long > LONG else price.rates
    prompt_rate, output_rate, read_rate, short_rate, long_rate = rates
    prompt = fresh * prompt_rate + read * read_rate + short * short_rate + long * long_rate
    us = price.us if response.inference_geo == "us" else ONCE
    factor = us * price.fast if response.speed == "fast" else us * ONCE
    searches = response.web_searches * price.web_search * _MICRO
    # Rounded half to even: this is asked of every response of a folder.
    micros, rest = divmod((prompt + said * output_rate) * factor + searches, _MICRO)
    counted = micros + (rest * 2 + micros % 2 > _MICRO)
    if output == said:
        return counted, counted
    return counted, _rounded((prompt + output * output_rate) * factor + searches)


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
