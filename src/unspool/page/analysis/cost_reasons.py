"""Tells why a request was dear, and what it would have cost otherwise.

Rules
  1. A reason is computed from the bill and from what stands in the file before the request. Nothing is guessed: what
     cannot be told from them is no reason.
  2. "Otherwise" is the bill of the same request with one thing changed: the lost tokens read from the cache, the usual
     rates, a 5-minute cache. Where tokens are estimated from bytes, it says so.
  3. Of several reasons the one that would have saved most comes first. A request always has one: its largest part.
  4. When a cache is lost, `lost_cache.py` decides. After a compaction none is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from unspool.display import dollars, size, tokens
from unspool.page.analysis.cost_split import KINDS, SplitRequest
from unspool.page.analysis.lost_cache import BYTES_PER_TOKEN, MIN_LOST_TOKENS, find_lost_cache
from unspool.prices import FACTOR_ONE, LONG_PROMPT_TOKENS, Price, Response, cost_micros

MIN_RESULT_BYTES: Final = 20_000
_MIN_SAVED_PERCENT: Final = 5
"""A change that would have saved less is no reason."""
_ORDER: Final = {"first": 1, "compaction": 1, "hour_cache": 3, **{f"part_{kind}": 2 for kind in KINDS}}
"""What happened comes first, then what the cost is made of, then what could have been set otherwise."""


class EnteredText(NamedTuple):
    """A text that came into the context before a request: the result of a tool, a prompt, an attachment."""

    name: str
    bytes: int
    key: str | None = None
    """The step that shows it."""


class RequestContext(NamedTuple):
    """What stands in the file before a request."""

    before: Response | None = None
    """The request before it in the same conversation."""
    was_compacted: bool = False
    """Whether the conversation was compacted since then."""
    entered: tuple[EnteredText, ...] = ()
    """The largest texts that came in since then."""
    is_known: bool = True
    """Whether the file could be read."""


class CostReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was dear."""

    kind: str
    words: str
    otherwise: str = ""
    """What would have made it cheaper."""
    otherwise_micros: int | None = None
    """What the request would have cost then."""
    is_estimate: bool = False
    key: str | None = None
    """The step that is the reason."""


def explain_request(request: SplitRequest, price: Price | None, context: RequestContext) -> tuple[CostReason, ...]:
    """Return why a request was dear, the reason that weighs most first."""
    if price is None:
        words = f"no known price for {request.response.model or 'a request without a model'}"
        return (CostReason(kind="unpriced", words=words),)
    response = request.response
    found = [
        _cache_reason(response, price, context),
        _entered_reason(response, price, context),
        _tier_reason(response, price),
        _hour_cache_reason(response, price),
        *_factor_reasons(response, price),
    ]
    largest = _largest_part(request)
    most = request.cost * (100 - _MIN_SAVED_PERCENT) // 100
    reasons = [reason for reason in found if reason and _at_most(reason.otherwise_micros, most)]
    if largest and not any(reason.kind == "hour_cache" for reason in reasons if largest.kind == "part_cache_write_1h"):
        reasons.append(largest)
    return tuple(sorted(reasons, key=lambda reason: (_ORDER.get(reason.kind, 0), _otherwise(reason, request.cost))))


def _at_most(cost: int | None, most: int) -> bool:
    return cost is None or cost <= most


def _otherwise(reason: CostReason, cost: int) -> int:
    return reason.otherwise_micros if reason.otherwise_micros is not None else cost


def _cache_reason(response: Response, price: Price, context: RequestContext) -> CostReason | None:
    """Return that the cache was not read, and why, as far as that can be told."""
    before = context.before
    if not context.is_known:
        return None
    fresh = response.prompt - response.cache_read
    if context.was_compacted:
        words = f"first request after a compaction: {tokens(fresh)} tokens were not in the cache"
        return CostReason(kind="compaction", words=words) if fresh >= MIN_LOST_TOKENS else None
    if before is None:
        words = f"first request of the conversation: {tokens(fresh)} tokens were not in the cache"
        return CostReason(kind="first", words=words) if fresh >= MIN_LOST_TOKENS else None
    lost = find_lost_cache(before, response)
    if lost is None:
        return None
    return CostReason(
        kind=lost.kind,
        words=f"{lost.words}: {tokens(lost.tokens)} tokens were sent again",
        otherwise="the same tokens from the cache",
        otherwise_micros=cost_micros(read_from_cache(response, lost.tokens), price),
    )


def read_from_cache(response: Response, count: int) -> Response:
    """Return a response in which so many more tokens were read from the cache, instead of written to it or fresh."""
    fewer = _take_tokens(response, count, ("cache_write_1h", "cache_write_5m", "input"))
    return replace(fewer, cache_read=response.cache_read + response.prompt - fewer.prompt)


def _take_tokens(response: Response, count: int, names: Sequence[str]) -> Response:
    """Return a response with so many fewer tokens of some kinds, as far as it has them, in this order."""
    left = {}
    for name in names:
        has = getattr(response, name)
        left[name] = has - min(count, has)
        count -= has - left[name]
    return replace(response, **left)


def _entered_reason(response: Response, price: Price, context: RequestContext) -> CostReason | None:
    """Return the largest text that came into the context, if it is large."""
    largest = max(context.entered, key=lambda text: text.bytes, default=None)
    if largest is None or largest.bytes < MIN_RESULT_BYTES:
        return None
    estimate = round(largest.bytes / BYTES_PER_TOKEN)
    without = _take_tokens(response, estimate, ("cache_write_5m", "cache_write_1h", "input"))
    return CostReason(
        kind="entered",
        words=f"{largest.name} of {size(largest.bytes)} came into the context",
        otherwise="without it, estimated by its bytes",
        otherwise_micros=cost_micros(without, price),
        is_estimate=True,
        key=largest.key,
    )


def _tier_reason(response: Response, price: Price) -> CostReason | None:
    if price.long is None or response.prompt <= LONG_PROMPT_TOKENS:
        return None
    return CostReason(
        kind="long_context",
        words=f"long context: with {tokens(response.prompt)} tokens, more than {LONG_PROMPT_TOKENS // 1000}k, all of "
        "the request costs the long-context price",
        otherwise="at the standard price",
        otherwise_micros=cost_micros(response, price._replace(long=None)),
    )


def _hour_cache_reason(response: Response, price: Price) -> CostReason | None:
    count = response.cache_write_1h
    if not count:
        return None
    short = replace(response, cache_write_5m=response.cache_write_5m + count, cache_write_1h=0)
    return CostReason(
        kind="hour_cache",
        words=f"1-hour cache write of {tokens(count)} tokens",
        otherwise="written for 5 minutes",
        otherwise_micros=cost_micros(short, price),
    )


def _factor_reasons(response: Response, price: Price) -> list[CostReason]:
    reasons = []
    if response.speed == "fast" and price.fast != FACTOR_ONE:
        usual = replace(response, speed=None)
        reasons.append(("fast", "fast mode", price.fast, "at the usual speed", usual))
    if response.inference_geo == "us" and price.us != FACTOR_ONE:
        usual = replace(response, inference_geo=None)
        reasons.append(("us", "inference in the US", price.us, "anywhere", usual))
    return [
        CostReason(
            kind=kind,
            words=f"{name}: × {factor // FACTOR_ONE}.{factor % FACTOR_ONE}",
            otherwise=otherwise,
            otherwise_micros=cost_micros(usual, price),
        )
        for kind, name, factor, otherwise, usual in reasons
    ]


def _largest_part(request: SplitRequest) -> CostReason | None:
    """Return what most of the request's cost is for."""
    if not request.parts:
        return None
    kind, amount = max(request.parts.items(), key=lambda pair: pair[1])
    response = request.response
    match kind:
        case "output":
            words = f"long output: {tokens(response.output)} tokens"
        case "cache_read":
            words = f"long context: {tokens(response.cache_read)} tokens read from the cache"
        case "web_searches":
            words = f"{response.web_searches:,} web searches"
        case _:
            words = f"{KINDS[kind]}: {tokens(getattr(response, kind))} tokens"
    return CostReason(kind=f"part_{kind}", words=f"{words}, {dollars(amount)} of {dollars(request.cost)}")
