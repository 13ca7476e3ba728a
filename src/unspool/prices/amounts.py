"""Computes what responses cost, in micro-dollars.

Rules
  1. Sums are exact: whole picodollars (10⁻¹² dollars). They are rounded to micro-dollars once per response, half to
     even.
  2. A request whose prompt (input, cache reads and cache writes) is longer than 200,000 tokens is priced at the
     model's long rates, where it has them: all of it, output too.
  3. `us` and `fast` multiply the price of tokens by the factor in the price list, else by 1; web searches are not
     multiplied.
  4. Without a price the cost is 0 and the response unpriced.

Apart from `cost.py`, and without msgspec: the status line computes costs too, in a process that must start fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unspool.prices.bill import Bill
from unspool.prices.price_list import FACTOR_ONE, LONG_PROMPT_TOKENS, Price, Rates

PICOS_PER_MICRO = 1_000_000
"""Picodollars in a micro-dollar."""
_FREE = Price(model="", rates=Rates(0, 0, 0, 0, 0), web_search=0)
_USUAL = FACTOR_ONE * FACTOR_ONE


class PricedUsage(Protocol):
    """What the cost of a response depends on: a `Response`, or what the status line reads of one."""

    @property
    def input(self) -> int:
        """Tokens that were not cached."""

    @property
    def output(self) -> int:
        """Tokens of the answer."""

    @property
    def cache_read(self) -> int:
        """Tokens read from the cache."""

    @property
    def cache_write_5m(self) -> int:
        """Tokens written to the cache for 5 minutes."""

    @property
    def cache_write_1h(self) -> int:
        """Tokens written to the cache for an hour."""

    @property
    def web_searches(self) -> int:
        """How many web searches were billed."""

    @property
    def final(self) -> bool:
        """Whether the output is a final count."""

    @property
    def size(self) -> int:
        """Approximate bytes of content, if the output is not final."""

    @property
    def speed(self) -> str | None:
        """`fast`, or anything else."""

    @property
    def inference_geo(self) -> str | None:
        """`us`, or anything else."""


def cost_micros(response: PricedUsage, price: Price | None) -> int:
    """Return the cost of a response in micro-dollars; 0 without a price."""
    return bill_responses((response,), price).cost_micros


def bill_responses(responses: Sequence[PricedUsage], price: Price | None) -> Bill:
    """Return what responses that share a price used and cost. A hot path: it runs for every response of a folder."""
    rates = price or _FREE
    usual = input_rate, output_rate, read_rate, short_rate, long_rate = rates.rates
    above, searched = rates.long, rates.web_search * PICOS_PER_MICRO
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
        factor = price_factor(response, rates) if multiplied else _USUAL
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


def price_factor(response: PricedUsage, price: Price) -> int:
    """Return the factor from the price list's units to picodollars per token: both multipliers are in tenths."""
    us = price.us if response.inference_geo == "us" else FACTOR_ONE
    return us * (price.fast if response.speed == "fast" else FACTOR_ONE)


def _rounded(picos: int) -> int:
    """Return micro-dollars, half to even."""
    micros, rest = divmod(picos, PICOS_PER_MICRO)
    return micros + (rest * 2 + micros % 2 > PICOS_PER_MICRO)
