"""How full the window is: usage and refusals in, the tokens of the next request out. Nothing is asked or sent here.

Rules
  1. What the next request has is what the last one had, as the API counted it, and an estimate of what came since. The
     estimate is corrected by the ratio measured so far; where the two disagree, the larger one counts.
  2. A request and the longest answer it allows fit the window together: `max_tokens` shrinks with the room there is.
  3. It is time to shorten when less than an eighth of the window (at most 20,000 tokens) would be left for the answer.
     A fiftieth is never used: estimates err.
  4. A refusal teaches: how many tokens it really was, and how large the window is. A person's own window is never
     widened by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from unspool.graph.context import model_rules
from unspool.prices.token_estimate import estimate

Json: TypeAlias = dict[str, Any]

UNKNOWN = 200_000
"""The window of a model that nobody has described."""
_ANSWER, _MOST_ANSWER = 8, 20_000
_MARGIN = 50
_UNTOLD = 1.1
"""What an estimate is taken for before anything was counted."""
_LEAST, _MOST = 0.5, 4.0
"""Ratios of counted to estimated that can be; a server that counts otherwise is not believed."""
_ENOUGH = 200
_SMALLER = 0.8


class Refusal(NamedTuple):
    """A request that was too large, as far as the API said by how much."""

    tokens: int | None = None
    window: int | None = None


class Gauge:
    """What is known of one conversation's window."""

    def __init__(self, model: str | None, window: int | None = None) -> None:
        self._own = window
        self.window = window or model_rules.window(model) or UNKNOWN
        self.used = 0
        """Tokens of the last request and its answer: what the window holds now."""
        self._pending = 0
        self._told: tuple[int, int] | None = None
        """An estimate, and what the API counted for the same request."""
        self._rate = 1.0

    def change(self, model: str) -> None:
        """Go on with another model: another window, perhaps another way to count."""
        self.window = self._own or model_rules.window(model) or UNKNOWN
        self._told, self._rate = None, 1.0

    def tokens(self, body: Json) -> int:
        """Return about how many tokens a request is; the one that is asked about last is the one that is sent."""
        self._pending = estimate(body)
        return self.predicted(self._pending)

    def predicted(self, estimated: int) -> int:
        """Return how many tokens something is that was estimated so."""
        if self._told is None:
            return _up(estimated * _UNTOLD)
        known, counted = self._told
        if estimated >= known:
            return counted + _up((estimated - known) * max(self._rate, counted / known))
        return min(counted, _up(estimated * max(self._rate, counted / known)))

    def told(self, usage: Json) -> None:
        """Learn from what the API counted for the request that was sent."""
        counted = sum(_number(usage.get(f"{kind}input_tokens")) for kind in ("", "cache_read_", "cache_creation_"))
        if counted:
            self._learn(counted)
            self.used = counted + _number(usage.get("output_tokens"))

    def refused(self, message: str, status: int | None) -> bool:
        """Learn from a refusal; tell whether it is one that a shorter request would not get."""
        found = refusal(message, status)
        if found is None:
            return False
        before = self.predicted(self._pending)
        if found.tokens is not None:
            self._learn(found.tokens)
        if found.window is not None:
            self.window = min(self._own or found.window, found.window)
        elif found.tokens is None or found.tokens <= self.window:
            self.window = max(1, int(min(before, self.window) * _SMALLER))
        return True

    def full(self) -> None:
        """Learn that the window is full: an answer has ended for that."""
        self.window = max(1, min(self.window, self.used)) if self.used else self.window

    def must_shorten(self, tokens: int) -> bool:
        """Tell whether a request of so many tokens leaves too little for the answer."""
        return tokens > self.threshold

    @property
    def threshold(self) -> int:
        """The most tokens that a request may have."""
        return self.window - min(self.window // _ANSWER, _MOST_ANSWER) - self.window // _MARGIN

    def answer(self, tokens: int, wanted: int) -> int:
        """Return the most tokens that the answer to a request may have: what is wanted, or what fits."""
        return max(1, min(wanted, self.window - self.window // _MARGIN - tokens))

    def _learn(self, counted: int) -> None:
        """Note what a request really was; what came since the last one may be of another kind than all before."""
        estimated = max(1, self._pending)
        counted = _up(max(counted, estimated * _LEAST))
        if self._told is not None and estimated - self._told[0] >= _ENOUGH:
            self._rate = max(_LEAST, min(_MOST, (counted - self._told[1]) / (estimated - self._told[0])))
        self._told = (estimated, counted)


class Scales:
    """Weighs lists of messages inside one request; what was weighed once is remembered."""

    def __init__(self, gauge: Gauge, body: Json) -> None:
        self._gauge = gauge
        self._known: dict[int, tuple[Json, int]] = {}
        self.beside = estimate({**body, "messages": []})
        """What a request has besides its messages, as an estimate."""

    def estimated(self, messages: Sequence[Json]) -> int:
        """Return the estimate for messages alone."""
        return sum(self._one(message) for message in messages)

    def tokens(self, messages: Sequence[Json]) -> int:
        """Return about how many tokens the request has with these messages."""
        return self._gauge.predicted(self.beside + self.estimated(messages))

    def allowance(self, tokens: int) -> int:
        """Return how large messages may be, as an estimate, in a request of so many tokens."""
        low, high = 0, max(0, tokens * 2)
        while low < high:
            middle = (low + high + 1) // 2
            if self._gauge.predicted(self.beside + middle) <= tokens:
                low = middle
            else:
                high = middle - 1
        return low

    def _one(self, message: Json) -> int:
        known = self._known.get(id(message))
        if known is None:  # the message is kept with its weight, so that no other one can get its id
            known = self._known[id(message)] = (message, estimate({"messages": [message]}))
        return known[1]


def refusal(message: str, status: int | None) -> Refusal | None:
    """Return what an error says of a request that was too large; None if it says something else.

    >>> refusal("the API says 400: prompt is too long: 9120 tokens > 8000 maximum", 400)
    Refusal(tokens=9120, window=8000)
    >>> refusal("the API says 400: max_tokens: must be greater than thinking.budget_tokens", 400)
    """
    if status not in (400, 413, 422, 500):  # some servers say 500
        return None
    if found := _BOTH.search(message):
        return Refusal(_digits(found[1]), _digits(found[3]))
    if found := _LONG.search(message):
        return Refusal(_digits(found[1]), _digits(found[2]))
    if found := _OTHERS.search(message):
        window, tokens = (_digits(word or "") or None for word in found.groups())
        return Refusal(tokens, window)
    return Refusal() if status == 413 or _SOMEHOW.search(message) else None


_LONG = re.compile(r"prompt is too long: ([\d,]+) tokens > ([\d,]+)")
_BOTH = re.compile(r"exceed context limit: ([\d,]+) \+ ([\d,]+) > ([\d,]+)")
_OTHERS = re.compile(
    r"(?:maximum context length is|context (?:size|length|window) (?:of|is)?\s*\(?)\s*([\d,]+)(?: tokens)?"
    r"(?:.{0,60}?(?:requested|resulted in|contains|has)\D{0,20}([\d,]+))?",
    re.IGNORECASE,
)
_SOMEHOW = re.compile(
    r"prompt is too long|context[ _](?:length|size|window|limit)|too many (?:input )?tokens|request_too_large",
    re.IGNORECASE,
)


def _digits(text: str) -> int:
    return int(text.replace(",", "") or 0)


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _up(value: float) -> int:
    return -int(-value // 1)
