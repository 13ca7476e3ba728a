"""Why a request was dear is computed from its bill and from what stands before it."""

from __future__ import annotations

from typing import Any

from unspool.page.analysis import CostReason, EnteredText, RequestContext, explain_request, split_request
from unspool.prices import Response, cost_micros, find_price

OPUS, SONNET = "claude-opus-4-5", "claude-sonnet-4-5"


def response(minute: int = 0, model: str = OPUS, **counts: Any) -> Response:
    return Response("m", model=model, timestamp=f"2026-01-05T09:{minute:02}:00Z", **counts)


def explain(own: Response, **context: Any) -> tuple[CostReason, ...]:
    price = find_price(own.model)
    return explain_request(split_request("/p/s.jsonl", "s", None, own, price), price, RequestContext(**context))


BEFORE = response(cache_read=100_000, cache_write_5m=2_000, input=10, output=50)


def test_a_pause_longer_than_the_cache_lives_is_the_reason_and_the_same_tokens_from_the_cache_are_priced() -> None:
    own = response(minute=6, cache_write_5m=103_000, input=20, output=50)
    reason = explain(own, before=BEFORE)[0]
    assert reason.kind == "pause"
    assert reason.words == ("cache lost after a pause of 6 min (it lives 5 minutes): 102k tokens were sent again")
    cached = response(minute=6, cache_write_5m=990, cache_read=102_010, input=20, output=50)
    assert reason.otherwise_micros == cost_micros(cached, find_price(OPUS))
    assert reason.otherwise == "the same tokens from the cache"


def test_a_cache_of_an_hour_is_not_lost_after_six_minutes_by_the_pause() -> None:
    before = response(cache_read=100_000, cache_write_1h=2_000)
    assert explain(response(minute=6, cache_write_1h=103_000), before=before)[0].kind == "cache"


def test_another_model_does_not_find_the_cache() -> None:
    own = response(minute=1, model=SONNET, cache_write_5m=103_000)
    reason = explain(own, before=BEFORE)[0]
    assert reason.kind == "model"
    assert "from claude-opus-4-5 to claude-sonnet-4-5" in reason.words


def test_after_a_compaction_the_cache_is_not_lost_but_new() -> None:
    kinds = [
        reason.kind for reason in explain(response(minute=9, cache_write_5m=60_000), before=BEFORE, was_compacted=True)
    ]
    assert kinds[0] == "compaction"
    assert "pause" not in kinds


def test_a_large_result_is_named_with_its_step_and_an_estimate() -> None:
    own = response(minute=1, cache_read=102_000, cache_write_5m=26_000, output=10)
    reason = explain(own, before=BEFORE, entered=(EnteredText("a result of Read", 90_000, "120.0"),))[0]
    assert (reason.kind, reason.key, reason.is_estimate) == ("entered", "120.0", True)
    assert reason.words == "a result of Read of 90.0 kB came into the context"
    without = response(minute=1, cache_read=102_000, cache_write_5m=1_000, output=10)
    assert reason.otherwise_micros == cost_micros(without, find_price(OPUS))


def test_long_context_is_compared_with_the_standard_price() -> None:
    own = response(minute=1, model=SONNET, cache_read=230_000, output=100)
    reason = explain(own, before=response(model=SONNET, cache_read=229_000))[0]
    assert reason.kind == "long_context"
    price = find_price(SONNET)
    assert price is not None
    assert reason.otherwise_micros == cost_micros(own, price._replace(long=None))
    assert reason.otherwise_micros < cost_micros(own, price)


def test_a_long_output_and_a_one_hour_write_are_reasons() -> None:
    assert explain(response(minute=1, cache_read=102_000, output=20_000), before=BEFORE)[0].words.startswith(
        "long output: 20k tokens"
    )
    kinds = [reason.kind for reason in explain(response(cache_write_1h=50_000), before=None)]
    assert kinds == ["first", "hour_cache"]


def test_a_request_without_a_price_is_unpriced_and_nothing_else() -> None:
    (reason,) = explain(response(model="glm-4.7", input=50_000))
    assert (reason.kind, reason.otherwise_micros) == ("unpriced", None)
