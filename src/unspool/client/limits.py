"""When a turn has had enough: what was set and what was used in, the limit that is reached out. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn may use; None: as much as it likes."""

    steps: int | None = None
    tokens: int | None = None
    cost_micros: int | None = None
    seconds: float | None = None

    def reached(
        self, steps: int, tokens: int, cost_micros: int, seconds: float
    ) -> Literal["max_steps", "max_total_tokens", "max_cost", "max_seconds"] | None:
        """Return the limit at which no further request goes out."""
        if self.steps is not None and steps >= self.steps:
            return "max_steps"
        if self.tokens is not None and tokens >= self.tokens:
            return "max_total_tokens"
        if self.cost_micros is not None and cost_micros >= self.cost_micros:
            return "max_cost"
        if self.seconds is not None and seconds >= self.seconds:
            return "max_seconds"
        return None
