"""Responses to rows of money: a response and the prices in, a `Sum` out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unspool.prices.answers import Response
from unspool.prices.cost import costs
from unspool.prices.table import Price, price
from unspool.store.billed import Sum, milliseconds

_UNKNOWN = object()


class Pricing:
    """What responses cost: the table and a user's own prices, each looked up once."""

    def __init__(self, overrides: Sequence[Price] = ()) -> None:
        self._overrides = overrides
        self._found: dict[tuple[str | None, str], object] = {}

    def price(self, response: Response) -> Price | None:
        """Return the price of a response's model on its day."""
        key = (response.model, (response.timestamp or "")[:10])
        found = self._found.get(key, _UNKNOWN)
        if found is _UNKNOWN:
            found = self._found[key] = price(key[0], key[1] or None, self._overrides)
        return found  # type: ignore[return-value]


def estimated_output(response: Response) -> int:
    """Return how many tokens the output probably had. Of 311 final responses of 2.1.x a token took 3.6 bytes of it."""
    return response.output if response.final else max(response.output, response.size * 5 // 18)


class Priced(NamedTuple):
    """What one response cost."""

    cost_micros: int
    estimated_output_tokens: int
    estimated_cost_micros: int
    unpriced_tokens: int


def priced(response: Response, pricing: Pricing) -> Priced:
    """Return what a response cost, and what it would have cost with the output it probably had."""
    price, output = pricing.price(response), estimated_output(response)
    micros, probable = costs(response, price, output)
    return Priced(micros, output, probable, 0 if price else response.prompt + response.output)


def together(responses: Sequence[Response], project: str | None, pricing: Pricing) -> Sum:
    """Return responses of one quarter of an hour, project, model and so on as a row."""
    estimated = fresh = output = read = short = long = searches = micros = unpriced = probably = probable_micros = 0
    price = pricing.price(responses[0])  # they share their model and their day
    for one in responses:
        guess = estimated_output(one)
        amount, probable = costs(one, price, guess)
        if price is None:
            unpriced += one.prompt + one.output
        fresh += one.input
        output += one.output
        read += one.cache_read
        short += one.cache_write_5m
        long += one.cache_write_1h
        searches += one.web_searches
        micros += amount
        estimated += not one.final
        probably += guess
        probable_micros += probable
    first = responses[0]
    return Sum(
        milliseconds(first.timestamp), first.session_id, first.agent_id, project, first.branch, first.model,
        len(responses), estimated, fresh, output, read, short, long, searches, micros, unpriced, probably,
        probable_micros,
    )  # fmt: skip
