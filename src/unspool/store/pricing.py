"""Responses to rows of money: a response and the prices in, a `Sum` out."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from unspool.prices.answers import Response
from unspool.prices.cost import cost
from unspool.prices.table import Price, price
from unspool.store.billed import Sum, milliseconds


class Pricing:
    """What responses cost: the table and a user's own prices, each looked up once."""

    def __init__(self, overrides: Sequence[Price] = ()) -> None:
        self._overrides = overrides
        self._found: dict[tuple[str | None, str], Price | None] = {}

    def price(self, response: Response) -> Price | None:
        """Return the price of a response's model on its day."""
        key = (response.model, (response.timestamp or "")[:10])
        if key not in self._found:
            self._found[key] = price(key[0], key[1] or None, self._overrides)
        return self._found[key]

    def cost(self, response: Response, output: int | None = None) -> int:
        """Return micro-dollars; with another number of output tokens if one is given."""
        if output is not None and output != response.output:
            response = replace(response, output=output)
        return cost(response, self.price(response))


def estimated_output(response: Response) -> int:
    """Return how many tokens the output probably had. Of 311 final responses of 2.1.x a token took 3.6 bytes of it."""
    return response.output if response.final else max(response.output, response.size * 5 // 18)


def summed(response: Response, project: str | None, pricing: Pricing) -> Sum:
    """Return one response as a row."""
    tokens = response.prompt + response.output
    output = estimated_output(response)
    micros = pricing.cost(response)
    return Sum(
        time=milliseconds(response.timestamp),
        session=response.session_id,
        agent=response.agent_id,
        project=project,
        branch=response.branch,
        model=response.model,
        responses=1,
        estimated_responses=0 if response.final else 1,
        input_tokens=response.input,
        output_tokens=response.output,
        cache_read_tokens=response.cache_read,
        cache_write_5m_tokens=response.cache_write_5m,
        cache_write_1h_tokens=response.cache_write_1h,
        web_searches=response.web_searches,
        cost_micros=micros,
        unpriced_tokens=0 if pricing.price(response) else tokens,
        estimated_output_tokens=output,
        estimated_cost_micros=micros if output == response.output else pricing.cost(response, output),
    )
