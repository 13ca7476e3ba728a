"""Adds up tokens and costs of responses, by model: for a turn, a session, a subagent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from unspool.client.config import TurnLimits
from unspool.client.tool_result import Json
from unspool.prices import Response, cost_micros, find_price

LimitName: TypeAlias = Literal["max_steps", "max_total_tokens", "max_cost", "max_seconds"]

TOKEN_KINDS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


class UsageSums:
    """Sums of tokens and costs over some responses."""

    def __init__(self) -> None:
        self.models: dict[str, Json] = {}
        self.cost_micros = 0

    @property
    def usage(self) -> Json:
        """The sums over all models, as the API reports usage."""
        summed: Json = {kind: sum(sums[kind] for sums in self.models.values()) for kind in TOKEN_KINDS}
        searches = sum(sums["web_search_requests"] for sums in self.models.values())
        return {**summed, "server_tool_use": {"web_search_requests": searches}}

    @property
    def tokens(self) -> int:
        """The number of tokens of all kinds."""
        return sum(sums[kind] for sums in self.models.values() for kind in TOKEN_KINDS)

    def add(self, model: str | None, usage: Json) -> int:
        """Add the usage of a response; return what it cost, in micro-dollars."""
        spent = cost_micros(_response(model, usage), find_price(model))
        self._add(model or "", {kind: _number(usage.get(kind)) for kind in TOKEN_KINDS}, _searches(usage), spent)
        return spent

    def include(self, other: UsageSums) -> None:
        """Add other sums: of a subagent, of a turn."""
        for model, sums in other.models.items():
            self._add(model, sums, sums["web_search_requests"], sums["cost_micros"])

    def _add(self, model: str, counts: Json, searches: int, spent: int) -> None:
        sums = self.models.setdefault(
            model, {**dict.fromkeys(TOKEN_KINDS, 0), "web_search_requests": 0, "cost_micros": 0}
        )
        for kind in TOKEN_KINDS:
            sums[kind] += counts[kind]
        sums["web_search_requests"] += searches
        sums["cost_micros"] += spent
        self.cost_micros += spent


class TurnUsage:
    """What the current turn of one agent has used, and whether that reaches a limit."""

    def __init__(self, limits: TurnLimits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Start a new turn."""
        self.totals = UsageSums()
        self.steps = 0
        self.api_seconds = 0.0
        """How long the turn waited for the API."""
        self._began = self._clock()

    @property
    def seconds(self) -> float:
        """How long the turn has lasted."""
        return self._clock() - self._began

    def add(self, model: str | None, usage: Json) -> int:
        """Add the usage of a response; return what it cost, in micro-dollars."""
        return self.totals.add(model, usage)

    def reached_limit(self) -> LimitName | None:
        """Return the limit that forbids a further request."""
        limits = self.limits
        used: tuple[tuple[LimitName, float, float | None], ...] = (
            ("max_steps", self.steps, limits.steps),
            ("max_total_tokens", self.totals.tokens, limits.tokens),
            ("max_cost", self.totals.cost_micros, limits.cost_micros),
            ("max_seconds", self.seconds, limits.seconds),
        )
        return next((name for name, amount, limit in used if limit is not None and amount >= limit), None)

    def is_out_of_time(self) -> bool:
        """Tell whether the turn has lasted as long as it may."""
        return self.limits.seconds is not None and self.seconds >= self.limits.seconds


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
