"""A user's own prices."""

from __future__ import annotations

import pytest

from unspool.errors import UsageError
from unspool.prices.bill import FACTOR_ONE, Price, Rates
from unspool.prices.price_list import find_price, load_price_list, parse_own_price


def test_input_and_output_are_enough() -> None:
    made = parse_own_price("glm-4.7", {"input": 0.6, "output": "2.2"})
    assert made == Price(model="glm-4.7", rates=Rates(6000, 2_2000, 600, 7500, 1_2000), source="your settings")


def test_everything_else_can_be_given() -> None:
    given = {
        "input": 1,
        "output": 2,
        "cache_read": 0.05,
        "cache_write_5m": 3,
        "cache_write_1h": 4,
        "long_input": 10,
        "long_output": 20,
        "us": 1.5,
        "fast": "6",
        "web_search": 0.005,
        "since": "2026-01-31",
    }
    made = parse_own_price("m", given)
    assert made.rates == Rates(1_0000, 2_0000, 500, 3_0000, 4_0000)
    assert made.long == Rates(10_0000, 20_0000, 1_0000, 12_5000, 20_0000)
    assert (made.us, made.fast, made.web_search, made.since) == (15, 60, 5000, "2026-01-31")


def test_what_is_not_given_is_as_in_the_table() -> None:
    made, known = parse_own_price("m", {"input": 1, "output": 5}), find_price("claude-haiku-4-5")
    assert known
    assert (made.rates, made.long, made.us, made.fast, made.web_search) == (
        (known.rates, None, FACTOR_ONE, FACTOR_ONE, known.web_search)
    )


def test_every_price_of_the_table_could_be_set_by_hand() -> None:
    for known in load_price_list():
        rates = {kind: f"{rate / 10_000:.4f}" for kind, rate in known.rates._asdict().items()}
        long = {f"long_{kind}": rate / 10_000 for kind, rate in (known.long._asdict() if known.long else {}).items()}
        made = parse_own_price(known.model, {**rates, **long, "us": known.us / 10, "fast": known.fast / 10})
        assert (made.rates, made.long, made.us, made.fast) == (known.rates, known.long, known.us, known.fast)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "the price of `m` lacks `input`"),
        ({"input": 1}, "the price of `m` lacks `output`"),
        ({"input": 1, "output": 1, "long_input": 2}, "the price of `m` lacks `long_output`"),
        ({"input": -1, "output": 1}, "invalid price: `input` = `-1`"),
        ({"input": "a lot", "output": 1}, "invalid price: `input` = `a lot`"),
        ({"input": True, "output": 1}, "invalid price: `input` = `True`"),
        ({"input": 0.00001, "output": 1}, "invalid price: `input` = `1e-05`"),
        ({"input": 1, "output": 1, "us": 1.25}, "invalid price: `us` = `1.25`"),
        ({"input": 1, "output": 1, "cache": 1}, "unknown price field `cache`"),
        ({"input": 1, "output": 1, "since": "May"}, "invalid date `May`"),
    ],
)
def test_a_price_that_is_none_is_refused_with_a_hint(given: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_own_price("m", given)
    assert caught.value.message == message
    assert caught.value.hint
