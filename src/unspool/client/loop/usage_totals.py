"""What was used and what it cost: the usage of answers in, sums by model out."""

from __future__ import annotations

from typing import Any, TypeAlias

from unspool.prices.cost import cost
from unspool.prices.price_list import Price, price
from unspool.prices.responses import Response

Json: TypeAlias = dict[str, Any]

KINDS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


class Totals:
    """The sums of some answers."""

    def __init__(self, overrides: tuple[Price, ...] = ()) -> None:
        self._overrides = overrides
        self.models: dict[str, Json] = {}
        self.cost_micros = 0
        self.answers = 0

    @property
    def usage(self) -> Json:
        """All models together."""
        summed: Json = {kind: sum(one[kind] for one in self.models.values()) for kind in KINDS}
        searches = sum(one["web_search_requests"] for one in self.models.values())
        return {**summed, "server_tool_use": {"web_search_requests": searches}}

    @property
    def tokens(self) -> int:
        """All tokens of all kinds."""
        return sum(one[kind] for one in self.models.values() for kind in KINDS)

    def add(self, model: str | None, usage: Json) -> int:
        """Add what an answer used; return what it cost, in micro-dollars."""
        spent = cost(_response(model, usage), price(model, overrides=self._overrides))
        self._add(model or "", {kind: _number(usage.get(kind)) for kind in KINDS}, _searches(usage), spent)
        self.answers += 1
        return spent

    def include(self, other: Totals) -> None:
        """Add what others have used: an agent, a turn."""
        for model, sums in other.models.items():
            self._add(model, sums, sums["web_search_requests"], sums["cost_micros"])
        self.answers += other.answers

    def _add(self, model: str, counts: Json, searches: int, spent: int) -> None:
        sums = self.models.setdefault(model, {**dict.fromkeys(KINDS, 0), "web_search_requests": 0, "cost_micros": 0})
        for kind in KINDS:
            sums[kind] += counts[kind]
        sums["web_search_requests"] += searches
        sums["cost_micros"] += spent
        self.cost_micros += spent


def _response(model: str | None, usage: Json) -> Response:
    created = usage.get("cache_creation")
    hour = _number(created.get("ephemeral_1h_input_tokens")) if isinstance(created, dict) else 0
    written = _number(usage.get("cache_creation_input_tokens"))
    return Response(
        id="",
        model=model,
        input=_number(usage.get("input_tokens")),
        output=_number(usage.get("output_tokens")),
        cache_read=_number(usage.get("cache_read_input_tokens")),
        cache_write_5m=max(0, written - hour),
        cache_write_1h=min(hour, written),
        web_searches=_searches(usage),
        speed=usage.get("speed") if isinstance(usage.get("speed"), str) else None,
        inference_geo=usage.get("inference_geo") if isinstance(usage.get("inference_geo"), str) else None,
    )


def _searches(usage: Json) -> int:
    served = usage.get("server_tool_use")
    return _number(served.get("web_search_requests")) if isinstance(served, dict) else 0


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
