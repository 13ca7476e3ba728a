"""Estimates how many tokens the next request has, and learns from usage and refusals how large the window is. Pure.

Rules
  1. The next request has as many tokens as the API counted for the last one, and an estimate of what came since. The
     estimate is corrected by the ratio measured so far; where the two disagree, the larger one counts.
  2. A request and the longest response it allows fit the window together: `max_tokens` shrinks with the free space.
  3. A conversation is shortened when less than an eighth of the window (at most 20,000 tokens) would be left for the
     response. A fiftieth is never used: estimates err.
  4. A refusal says how many tokens the request really had, and how large the window is. A window that the user has set
     is never widened by one.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from unspool.graph.context import model_rules
from unspool.prices import estimate_request_tokens

Json: TypeAlias = dict[str, Any]

DEFAULT_WINDOW = 200_000
"""The window of a model that is not known."""
_ANSWER_SHARE, _MAX_ANSWER_TOKENS = 8, 20_000
_MARGIN_SHARE = 50
_UNCOUNTED_FACTOR = 1.1
"""By which an estimate is multiplied before the API has counted anything."""
_MIN_RATIO, _MAX_RATIO = 0.5, 4.0
"""Ratios of counted to estimated that are plausible; a server that counts otherwise is not believed."""
_MIN_GROWTH = 200
"""Tokens by which a request must have grown for the ratio to be measured."""
_UNKNOWN_SHRINK = 0.8


class TooLong(NamedTuple):
    """A refusal of a request that was too long, with the numbers that the API gave."""

    tokens: int | None = None
    window: int | None = None


class TokenWindow:
    """What is known of the context window of one conversation."""

    def __init__(self, model: str | None, window: int | None = None) -> None:
        self._user_window = window
        self.size = window or model_rules.context_window(model) or DEFAULT_WINDOW
        self.used = 0
        """Tokens of the last request and its response: what the window holds now."""
        self._last_estimate = 0
        self._counted: tuple[int, int] | None = None
        """An estimate, and what the API counted for the same request."""
        self._ratio = 1.0

    def change_model(self, model: str) -> None:
        """Continue with another model: another window, perhaps another way to count."""
        self.size = self._user_window or model_rules.context_window(model) or DEFAULT_WINDOW
        self._counted, self._ratio = None, 1.0

    def tokens(self, body: Json) -> int:
        """Return about how many tokens a request has; the last one that was asked about is the one that is sent."""
        self._last_estimate = estimate_request_tokens(body)
        return self.predict(self._last_estimate)

    def predict(self, estimated: int) -> int:
        """Return how many tokens a request has that was estimated so."""
        if self._counted is None:
            return math.ceil(estimated * _UNCOUNTED_FACTOR)
        known, counted = self._counted
        if estimated >= known:
            return counted + math.ceil((estimated - known) * max(self._ratio, counted / known))
        return min(counted, math.ceil(estimated * max(self._ratio, counted / known)))

    def learn_usage(self, usage: Json) -> None:
        """Learn from what the API counted for the request that was sent."""
        counted = sum(_number(usage.get(f"{kind}input_tokens")) for kind in ("", "cache_read_", "cache_creation_"))
        if counted:
            self._learn(counted)
            self.used = counted + _number(usage.get("output_tokens"))

    def learn_refusal(self, message: str, status: int | None) -> bool:
        """Learn from a refusal; tell whether a shorter request would not get it."""
        refusal = parse_too_long(message, status)
        if refusal is None:
            return False
        before = self.predict(self._last_estimate)
        if refusal.tokens is not None:
            self._learn(refusal.tokens)
        if refusal.window is not None:
            self.size = min(self._user_window or refusal.window, refusal.window)
        elif refusal.tokens is None or refusal.tokens <= self.size:
            # No number, or one that fits: the window must be smaller than it is taken for, nobody knows by how much.
            self.size = max(1, int(min(before, self.size) * _UNKNOWN_SHRINK))
        return True

    def learn_full(self) -> None:
        """Learn that the window is full: a response has ended for that."""
        self.size = max(1, min(self.size, self.used)) if self.used else self.size

    def must_shorten(self, tokens: int) -> bool:
        """Tell whether a request of so many tokens leaves too little for the response."""
        return tokens > self.threshold

    @property
    def threshold(self) -> int:
        """The most tokens that a request may have."""
        return self.size - min(self.size // _ANSWER_SHARE, _MAX_ANSWER_TOKENS) - self.size // _MARGIN_SHARE

    def answer_tokens(self, tokens: int, max_tokens: int) -> int:
        """Return the most tokens that the response to a request may have: as many as it asks for, or as fit."""
        return max(1, min(max_tokens, self.size - self.size // _MARGIN_SHARE - tokens))

    def _learn(self, counted: int) -> None:
        """Note how many tokens a request really had; the ratio is that of what came since the last one."""
        estimated = max(1, self._last_estimate)
        # A server that counts next to nothing is not believed: the conversation would outgrow the window.
        counted = math.ceil(max(counted, estimated * _MIN_RATIO))
        if self._counted is not None and estimated - self._counted[0] >= _MIN_GROWTH:
            self._ratio = max(
                _MIN_RATIO, min(_MAX_RATIO, (counted - self._counted[1]) / (estimated - self._counted[0]))
            )
        self._counted = (estimated, counted)


class MessageSizes:
    """Estimates lists of messages inside one request; each message is estimated once."""

    def __init__(self, window: TokenWindow, body: Json) -> None:
        self._window = window
        self._known: dict[int, tuple[Json, int]] = {}
        self.overhead = estimate_request_tokens({**body, "messages": []})
        """The estimate of a request without messages."""

    def estimate(self, messages: Sequence[Json]) -> int:
        """Return the estimate for messages alone."""
        return sum(self._estimate_one(message) for message in messages)

    def tokens(self, messages: Sequence[Json]) -> int:
        """Return about how many tokens the request has with these messages."""
        return self._window.predict(self.overhead + self.estimate(messages))

    def allowance(self, tokens: int) -> int:
        """Return the largest estimate of messages in a request of so many tokens."""
        estimates = range(1, max(0, tokens * 2) + 1)
        return bisect_right(estimates, tokens, key=lambda estimate: self._window.predict(self.overhead + estimate))

    def _estimate_one(self, message: Json) -> int:
        known = self._known.get(id(message))
        if known is None:  # the message is stored too: so no other object can get its id
            known = self._known[id(message)] = (message, estimate_request_tokens({"messages": [message]}))
        return known[1]


def parse_too_long(message: str, status: int | None) -> TooLong | None:
    """Return what an error says of a request that was too large; None if it says something else.

    >>> parse_too_long("the API says 400: prompt is too long: 9120 tokens > 8000 maximum", 400)
    TooLong(tokens=9120, window=8000)
    >>> parse_too_long("the API says 400: max_tokens: must be greater than thinking.budget_tokens", 400)
    """
    if status not in (400, 413, 422, 500):  # some servers answer with 500
        return None
    if match := _PROMPT_AND_ANSWER.search(message):
        return TooLong(_digits(match[1]), _digits(match[3]))
    if match := _PROMPT.search(message):
        return TooLong(_digits(match[1]), _digits(match[2]))
    if match := _OTHER_SERVERS.search(message):
        window, tokens = (_digits(word or "") or None for word in match.groups())
        return TooLong(tokens, window)
    return TooLong() if status == 413 or _WITHOUT_NUMBERS.search(message) else None


_PROMPT = re.compile(r"prompt is too long: ([\d,]+) tokens > ([\d,]+)")
_PROMPT_AND_ANSWER = re.compile(r"exceed context limit: ([\d,]+) \+ ([\d,]+) > ([\d,]+)")
_OTHER_SERVERS = re.compile(
    r"(?:maximum context length is|context (?:size|length|window) (?:of|is)?\s*\(?)\s*([\d,]+)(?: tokens)?"
    r"(?:.{0,60}?(?:requested|resulted in|contains|has)\D{0,20}([\d,]+))?",
    re.IGNORECASE,
)
_WITHOUT_NUMBERS = re.compile(
    r"prompt is too long|context[ _](?:length|size|window|limit)|too many (?:input )?tokens|request_too_large",
    re.IGNORECASE,
)


def _digits(text: str) -> int:
    return int(text.replace(",", "") or 0)


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
