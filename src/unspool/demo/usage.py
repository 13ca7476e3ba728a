"""Computes plausible token usage for the demo's responses.

Rules
  1. A token is four characters. Input of earlier requests comes from the cache until it expires.
  2. A session and its agents share one `SimulatedUsage`, because Claude Code's own cost line counts them together.
"""

from __future__ import annotations

from unspool.demo.session_builder import Json

OPUS, SONNET, HAIKU = "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"

_BASE = 17_300
"""Tokens of the system prompt and tools, which every request begins with."""
_CACHE_SECONDS = {"5m": 300, "1h": 3600}
"""Seconds after which an unused cache expires."""


_BILLED = (
    "inputTokens",
    "outputTokens",
    "cacheCreationEphemeral5mInputTokens",
    "cacheCreationEphemeral1hInputTokens",
    "cacheReadInputTokens",
)
PRICES = {OPUS: (4, 20, 5, 8, 0.2), SONNET: (2, 10, 2.5, 4, 0.1), HAIKU: (0.1, 0.5, 0.125, 0.2, 0.01)}
"""Dollars for a million tokens of each kind in `_BILLED`."""
_WEB_SEARCH_DOLLARS = 0.01


class SimulatedUsage:
    """The tokens that each model used in a session, and the time of all requests."""

    def __init__(self) -> None:
        self.models: dict[str, Json] = {}
        self.seconds = 0.0

    def add(self, model: str, usage: Json, seconds: float) -> None:
        """Count one response."""
        self.seconds += seconds
        writes = usage["cache_creation"]
        used = {
            "inputTokens": usage["input_tokens"],
            "outputTokens": usage["output_tokens"],
            "thinkingTokens": usage["output_tokens_details"]["thinking_tokens"],
            "cacheReadInputTokens": usage["cache_read_input_tokens"],
            "cacheCreationInputTokens": usage["cache_creation_input_tokens"],
            "cacheCreationEphemeral5mInputTokens": writes["ephemeral_5m_input_tokens"],
            "cacheCreationEphemeral1hInputTokens": writes["ephemeral_1h_input_tokens"],
            "webSearchRequests": usage["server_tool_use"]["web_search_requests"],
        }
        total = self.models.setdefault(model, dict.fromkeys(used, 0))
        for name, number in used.items():
            total[name] += number

    def cost(self, model: str) -> float:
        """Return the cost of a model in dollars."""
        used = self.models[model]
        tokens = sum(used[kind] * price for kind, price in zip(_BILLED, PRICES[model], strict=True))
        return float(round(tokens / 1e6 + used["webSearchRequests"] * _WEB_SEARCH_DOLLARS, 6))

    def state(self) -> Json:
        """Return the fields of a `cost-state` line that come from here."""
        models = {model: {**used, "costUSD": self.cost(model)} for model, used in self.models.items()}
        return {
            "totalCostUSD": round(sum(self.cost(model) for model in self.models), 6),
            "totalAPIDuration": round(self.seconds * 1000),
            "totalAPIDurationWithoutRetries": round(self.seconds * 1000),
            "modelUsage": models,
            "hasUnknownModelCost": False,
        }


class UsageSimulator:
    """Simulates the context and the prompt cache of one conversation."""

    def __init__(self, *, cache: str = "5m", base: int = _BASE) -> None:
        self.cache = cache
        self._base = base
        self._cached, self._fresh = 0, base

    @property
    def context(self) -> int:
        """Tokens that the next request would have."""
        return self._cached + self._fresh

    def add_input(self, text: object) -> None:
        """Add something that the next request will send."""
        self._fresh += len(str(text)) // 4 + 8

    def pause(self, seconds: float) -> None:
        """Let time pass; the cache may expire."""
        # An expired cache is written again with the next request, so all of the context is new input.
        if seconds > _CACHE_SECONDS[self.cache]:
            self._cached, self._fresh = 0, self.context

    def reset(self) -> None:
        """Start again with an empty conversation, as after a compaction."""
        self._cached, self._fresh = 0, self._base

    def reply(self, characters: int, *, thinking_tokens: int = 0, searches: int = 0) -> Json:
        """Return the usage of a response of so many characters."""
        output = characters // 4 + thinking_tokens + 9
        usage = {
            "input_tokens": 3 + output % 7,
            "cache_creation_input_tokens": self._fresh,
            "cache_read_input_tokens": self._cached,
            "output_tokens": output,
            "output_tokens_details": {"thinking_tokens": thinking_tokens},
            "server_tool_use": {"web_search_requests": searches, "web_fetch_requests": 0},
            "service_tier": "standard",
            "cache_creation": {
                "ephemeral_1h_input_tokens": self._fresh if self.cache == "1h" else 0,
                "ephemeral_5m_input_tokens": self._fresh if self.cache == "5m" else 0,
            },
            "inference_geo": "",
            "iterations": [],
            "speed": "standard",
        }
        # The next request sends this answer back, without its thinking.
        self._cached, self._fresh = self.context, output - thinking_tokens
        return usage
