"""Responses to rows of money: a response and the prices in, a `Sum` out."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from unspool.prices.cost import Bill, bill
from unspool.prices.price_list import Price, price
from unspool.prices.responses import Response
from unspool.store.usage.ledger import Sum, milliseconds

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

    def bill(self, responses: Sequence[Response]) -> Bill:
        """Return what responses of one model and one day used and cost."""
        return bill(responses, self.price(responses[0]))


def together(responses: Sequence[Response], project: str | None, pricing: Pricing) -> Sum:
    """Return responses of one quarter of an hour, project, model and so on as a row."""
    first = responses[0]
    return Sum(
        milliseconds(first.timestamp), first.session_id, first.agent_id, project, first.branch, first.model,
        *astuple(pricing.bill(responses)),
    )  # fmt: skip
