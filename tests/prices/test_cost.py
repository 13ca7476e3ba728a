"""What a response cost."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from unspool.prices.bill import Price, bill_responses, cost_micros
from unspool.prices.cost import explain_cost, format_dollars
from unspool.prices.price_list import find_price, load_price_list, parse_own_price
from unspool.prices.responses import Response

KINDS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")


def response(model: str | None = None, /, **fields: Any) -> Response:
    return Response(**{"id": "msg_1", "model": model or "claude-opus-4-5", "final": True, **fields})


def micros(model: str, **fields: Any) -> int:
    return cost_micros(response(model, **fields), find_price(model))


@pytest.mark.parametrize(
    ("model", "fields", "expected"),
    [
        ("claude-opus-4-5", {}, 0),
        ("claude-opus-4-5", {"input": 1_000_000}, 5_000_000),
        ("claude-opus-4-5", {"output": 1_000_000}, 25_000_000),
        ("claude-opus-4-5", {"cache_read": 1_000_000}, 500_000),
        ("claude-opus-4-5", {"cache_write_5m": 1_000_000}, 6_250_000),
        ("claude-opus-4-5", {"cache_write_1h": 1_000_000}, 10_000_000),
        ("claude-opus-4-5", {"web_searches": 3}, 30_000),
        ("claude-opus-4-5-20251101", {"input": 4, "output": 120, "cache_read": 12_000, "cache_write_5m": 200}, 10_270),
        ("claude-haiku-4-5-20251001", {"output": 7, "web_searches": 1}, 10_035),
        ("claude-fable-5-1", {"cache_read": 1_000_000}, 250_000),
    ],
)
def test_tokens_and_searches_have_their_price(model: str, fields: dict[str, int], expected: int) -> None:
    assert micros(model, **fields) == expected


@pytest.mark.parametrize("part", ["input", "cache_read", "cache_write_5m", "cache_write_1h"])
def test_a_prompt_is_long_from_its_200_001st_token(part: str) -> None:
    short = micros("claude-sonnet-4-5", output=1000, **{part: 200_000})
    long = micros("claude-sonnet-4-5", output=1000, **{part: 200_001})
    rates = {"input": "3", "cache_read": "0.3", "cache_write_5m": "3.75", "cache_write_1h": "6"}
    rate = Fraction(rates[part])
    assert short == 200_000 * rate + 1000 * 15
    assert long == round(200_001 * rate * 2 + 1000 * Fraction(45, 2))


def test_all_of_a_prompt_makes_it_long() -> None:
    each = {"input": 1, "cache_read": 100_000, "cache_write_5m": 60_000, "cache_write_1h": 40_000}
    assert micros("claude-sonnet-4-5", **each) == 6 + 60_000 + 450_000 + 480_000


def test_output_does_not_make_a_prompt_long() -> None:
    assert micros("claude-sonnet-4-5", input=200_000, output=64_000) == 200_000 * 3 + 64_000 * 15


def test_a_model_without_long_rates_costs_the_same_above() -> None:
    assert micros("claude-opus-4-6", input=900_000) == 4_500_000


@pytest.mark.parametrize(
    ("model", "fields", "expected"),
    [
        ("claude-opus-4-8", {"inference_geo": "us"}, 5_500_000),
        ("claude-opus-4-8", {"speed": "fast"}, 10_000_000),
        ("claude-opus-4-8", {"inference_geo": "us", "speed": "fast"}, 11_000_000),
        ("claude-opus-4-8", {"inference_geo": "global", "speed": "standard"}, 5_000_000),
        ("claude-opus-4-8", {"inference_geo": "not_available"}, 5_000_000),
        ("claude-opus-4-6", {"speed": "fast"}, 5_000_000),
        ("claude-opus-4-5", {"inference_geo": "us"}, 5_000_000),
    ],
)
def test_place_and_speed_multiply_what_the_table_knows(model: str, fields: dict[str, str], expected: int) -> None:
    assert micros(model, input=1_000_000, **fields) == expected


def test_a_web_search_is_not_multiplied() -> None:
    assert micros("claude-opus-4-8", web_searches=1, inference_geo="us", speed="fast") == 10_000


@pytest.mark.parametrize(("tokens", "expected"), [(1, 0), (3, 2), (5, 2), (7, 4), (9, 4)])
def test_half_a_micro_dollar_goes_to_the_even_one(tokens: int, expected: int) -> None:
    half = parse_own_price("m", {"input": 0.5, "output": 0})
    assert cost_micros(response(input=tokens), half) == expected


def test_a_response_is_rounded_once() -> None:
    half = parse_own_price("m", {"input": 0.5, "output": 0.5})
    assert cost_micros(response(input=1, output=1), half) == 1


def test_an_unknown_model_costs_nothing_and_is_unpriced() -> None:
    unknown = response("glm-4.7", input=1000, web_searches=5)
    assert cost_micros(unknown, find_price("glm-4.7")) == 0
    told = explain_cost(unknown, None)
    assert (told.parts, told.cost, told.priced) == ((), 0, False)
    assert told.reasons == ("unpriced: no known price for `glm-4.7`",)


def test_an_explanation_has_a_line_for_each_kind() -> None:
    told = explain_cost(
        response("claude-sonnet-4-5", input=1000, output=2000, cache_read=250_000, cache_write_1h=3, web_searches=2),
        find_price("claude-sonnet-4-5"),
    )
    assert [str(part) for part in told.parts] == [
        "input: 1,000 at $6.00 a million = $0.006",
        "output: 2,000 at $22.50 a million = $0.045",
        "cache read: 250,000 at $0.60 a million = $0.15",
        "cache write, 1 hour: 3 at $12.00 a million = $0.000036",
        "web search: 2 at $0.01 each = $0.02",
    ]
    assert told.cost == 221_036
    assert told.reasons[1:] == ("long context: the prompt has 251,003 tokens, more than 200,000",)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"model": "claude-opus-4-8", "speed": "fast"}, "fast: × 2.0"),
        ({"model": "claude-opus-4-6", "speed": "fast"}, "fast: unknown rate, priced as standard"),
        ({"model": "claude-opus-4-8", "inference_geo": "us"}, "inference in the US: × 1.1"),
        ({"model": "claude-opus-4-5", "inference_geo": "us"}, "inference in the US: unknown rate, priced as standard"),
        ({"service_tier": "batch"}, "service tier `batch`: unknown rate, priced as standard"),
        ({"final": False}, "no stop reason on any line: the output count may be from the start of the stream"),
    ],
)
def test_an_explanation_says_why(fields: dict[str, Any], reason: str) -> None:
    asked = response(**fields)
    assert reason in explain_cost(asked, find_price(asked.model)).reasons


def test_an_explanation_names_the_price() -> None:
    (reason,) = explain_cost(
        response("m"), parse_own_price("m", {"input": 1, "output": 2, "since": "2026-01-31"})
    ).reasons
    assert reason == "prices of `m` since 2026-01-31: your settings"


@pytest.mark.parametrize(
    ("picos", "text"), [(0, "0.00"), (1, "0.000000000001"), (10**12, "1.00"), (1_234_560_000_000_000, "1,234.56")]
)
def test_dollars_are_written_exactly(picos: int, text: str) -> None:
    assert format_dollars(picos) == text


tokens = st.integers(0, 10**9)
counts = st.fixed_dictionaries(dict.fromkeys(KINDS, tokens), optional={"web_searches": st.integers(0, 1000)})
speeds = st.fixed_dictionaries({"speed": st.sampled_from(["fast", "standard", None]),
                                "inference_geo": st.sampled_from(["us", "global", None])})  # fmt: skip
known = st.sampled_from(load_price_list())


@given(known, counts, speeds)
def test_a_cost_is_the_exact_sum_rounded_once(of: Price, fields: dict[str, int], speed: dict[str, str]) -> None:
    asked = response(of.model, **fields, **speed)
    rates = of.long if of.long and asked.prompt > 200_000 else of.rates
    exact = sum((Fraction(getattr(asked, kind) * getattr(rates, kind), 10_000) for kind in KINDS), Fraction())
    exact *= Fraction(of.us, 10) if asked.inference_geo == "us" else 1
    exact *= Fraction(of.fast, 10) if asked.speed == "fast" else 1
    assert cost_micros(asked, of) == round(exact + asked.web_searches * 10_000)  # `round` goes to even, too


@given(known, counts, speeds)
def test_the_lines_of_an_explanation_add_up(of: Price, fields: dict[str, int], speed: dict[str, str]) -> None:
    told = explain_cost(response(of.model, **fields, **speed), of)
    assert told.cost == round(Fraction(sum(part.amount for part in told.parts), 1_000_000))
    assert all(part.count * part.rate == part.amount for part in told.parts)


@given(known, counts, counts)
def test_cost_is_additive_but_for_rounding(of: Price, one: dict[str, int], other: dict[str, int]) -> None:
    flat = of._replace(long=None)
    both = {key: one.get(key, 0) + other.get(key, 0) for key in {*one, *other}}
    apart = cost_micros(response(**one), flat) + cost_micros(response(**other), flat)
    assert abs(cost_micros(response(**both), flat) - apart) <= 1


@given(known, counts, st.sampled_from(KINDS), st.integers(1, 10**6))
def test_more_tokens_never_cost_less(of: Price, fields: dict[str, int], kind: str, more: int) -> None:
    assert cost_micros(response(**{**fields, kind: fields[kind] + more}), of) >= cost_micros(response(**fields), of)


early = st.fixed_dictionaries({"final": st.booleans(), "size": st.integers(0, 10**6)})


@given(known | st.none(), st.lists(st.tuples(counts, speeds, early), max_size=5))
def test_a_bill_is_the_sum_of_the_bills_of_each(of: Price | None, parts: list[tuple[dict[str, Any], ...]]) -> None:
    asked = [response(**{name: value for part in one for name, value in part.items()}) for one in parts]
    apart = [bill_responses((one,), of) for one in asked]
    assert bill_responses(asked, of) == tuple(map(sum, zip(bill_responses((), of), *apart, strict=True)))


@given(known, counts, speeds, early)
def test_what_a_response_probably_cost_is_its_cost_with_the_output_it_probably_had(
    of: Price, fields: dict[str, int], speed: dict[str, str], rest: dict[str, Any]
) -> None:
    asked = response(**{**fields, **speed, **rest})
    output = asked.output if asked.final else max(asked.output, int(asked.size / Fraction(18, 5)))
    whole = replace(asked, output=output, final=True)
    made = bill_responses((asked,), of)
    assert (made.estimated_output_tokens, made.estimated_cost_micros) == (whole.output, cost_micros(whole, of))
    assert made.estimated_responses == (not asked.final)
