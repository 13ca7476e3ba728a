"""Which price a model has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.prices.bill import DIGEST, VERSION, Price, Rates
from unspool.prices.price_list import find_price, load_price_list, model_name, parse_decimal, table_digest

CHEAP = Rates(1, 1, 1, 1, 1)


def own(model: str, since: str = "", input: int = 7) -> Price:
    return Price(model=model, rates=CHEAP._replace(input=input), since=since, source="test")


def test_the_table_is_the_one_that_was_checked() -> None:
    assert table_digest() == DIGEST


def test_a_new_table_has_a_new_version() -> None:
    assert {"2026-11-15": "daafd8e083eb"}.get(VERSION) == DIGEST[:12], "add the new version; keep the old ones"


def test_the_digest_sees_every_change() -> None:
    assert table_digest("claude-opus-5 5") != table_digest("claude-opus-5 6")


def test_every_model_has_one_price_for_each_day() -> None:
    beginnings = [(one.model, one.since) for one in load_price_list()]
    assert len(set(beginnings)) == len(beginnings) > 20


def test_every_model_is_found_under_its_name() -> None:
    assert [one.model for one in load_price_list() if find_price(one.model) != one] == []


def test_a_cache_write_of_an_hour_costs_twice_the_input() -> None:
    every = [rates for one in load_price_list() for rates in (one.rates, one.long) if rates]
    assert [rates for rates in every if rates.cache_write_1h != 2 * rates.input] == []


def test_a_cache_write_of_5_minutes_costs_a_quarter_more_than_the_input() -> None:
    odd = {one.model for one in load_price_list() if one.rates.cache_write_5m * 4 != one.rates.input * 5}
    assert odd == {"claude-3-haiku"}  # 0.30, by the list


def test_a_price_says_where_it_is_from() -> None:
    assert all(one.source for one in load_price_list())


@pytest.mark.parametrize(
    ("model", "rates"),
    [
        ("claude-opus-4-5", Rates(5_0000, 25_0000, 5000, 6_2500, 10_0000)),
        ("claude-opus-4-1", Rates(15_0000, 75_0000, 1_5000, 18_7500, 30_0000)),
        ("claude-sonnet-4-5", Rates(3_0000, 15_0000, 3000, 3_7500, 6_0000)),
        ("claude-haiku-4-5", Rates(1_0000, 5_0000, 1000, 1_2500, 2_0000)),
        ("claude-3-5-haiku-20241022", Rates(8000, 4_0000, 800, 1_0000, 1_6000)),
        ("claude-3-haiku-20240307", Rates(2500, 1_2500, 300, 3000, 5000)),
        ("claude-haiku-5-5", Rates(1000, 5000, 100, 1250, 2000)),
    ],
)
def test_rates_are_ten_thousandths_of_a_dollar(model: str, rates: Rates) -> None:
    found = find_price(model)
    assert found
    assert found.rates == rates


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-4-sonnet-20250514", "claude-sonnet-4"),
        ("claude-sonnet-4-0", "claude-sonnet-4"),
        ("claude-4-opus-20250514", "claude-opus-4"),
        ("claude-3-5-sonnet-20240620", "claude-3-5-sonnet"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
    ],
)
def test_a_dated_id_means_its_undated_name(model: str, name: str) -> None:
    found = find_price(model)
    assert found
    assert found.model == name == model_name(model)


@pytest.mark.parametrize(
    "model",
    [
        None,
        "",
        "<synthetic>",
        "glm-4.7",
        "claude",
        "claude-opus",
        "claude-opus-4-5-mini",
        "claude-opus-4-5-2025",
        "claude-opus-4-5-20251101-extra",
        "claude-opus-4-5-20251101\n",
        "claude-opus-4-5-٢٠٢٥١١٠١",
    ],
)
def test_a_name_that_only_looks_like_one_has_no_price(model: str | None) -> None:
    assert find_price(model) is None


def test_only_some_models_have_rates_for_a_long_context() -> None:
    long = {one.model: one.long for one in load_price_list() if one.long}
    rates = Rates(6_0000, 22_5000, 6000, 7_5000, 12_0000)
    assert long == {"claude-sonnet-4": rates, "claude-sonnet-4-5": rates}


def test_a_users_price_comes_before_the_table() -> None:
    assert find_price("claude-opus-5", overrides=[own("claude-opus-5")]) == own("claude-opus-5")


def test_a_users_price_can_be_for_a_model_that_nobody_knows() -> None:
    assert find_price("glm-4.7", "2026-01-05", [own("glm-4.7")]) == own("glm-4.7")


def test_a_users_price_for_a_name_holds_for_its_dated_ids_and_the_other_way_round() -> None:
    assert find_price("claude-opus-4-5-20251101", overrides=[own("claude-opus-4-5")]) == own("claude-opus-4-5")
    assert find_price("claude-opus-4-5", overrides=[own("claude-opus-4-5-20251101")]) == own("claude-opus-4-5-20251101")


def test_a_users_price_for_an_exact_id_comes_first() -> None:
    both = [own("claude-opus-4-5-20251101", input=1), own("claude-opus-4-5", input=2)]
    assert find_price("claude-opus-4-5-20251101", overrides=both) == both[0]
    assert find_price("claude-opus-4-5", overrides=both) == both[1]


@pytest.mark.parametrize(
    ("day", "input"),
    [("2026-01-31", 1), ("2026-02-01", 2), ("2026-02-28", 2), ("2026-03-01", 3), ("2030-01-01", 3), (None, 3)],
)
def test_a_price_holds_from_its_day_until_the_next(day: str | None, input: int) -> None:
    rows = [own("glm", "2026-03-01", 3), own("glm", "", 1), own("glm", "2026-02-01", 2)]
    found = find_price("glm", day, rows)
    assert found
    assert found.rates.input == input


def test_before_the_first_day_of_a_users_price_the_table_holds() -> None:
    found = find_price("claude-opus-5", "2025-12-31", [own("claude-opus-5", "2026-01-01")])
    assert found in load_price_list()


def test_of_two_prices_from_the_same_day_the_later_one_holds() -> None:
    assert find_price("glm", None, [own("glm", "", 1), own("glm", "", 2)]) == own("glm", "", 2)


@given(st.integers(0, 10**9 - 1), st.integers(0, 9999))
def test_a_decimal_number_becomes_a_whole_one_exactly(dollars: int, rest: int) -> None:
    assert parse_decimal(f"{dollars}.{rest:04}", 4) == dollars * 10_000 + rest


@pytest.mark.parametrize("text", ["", "-1", "1.", ".5", "1e3", "nan", "inf", "1,5", "0.00001", "True", " 1", "١"])
def test_anything_else_is_no_number(text: str) -> None:
    assert parse_decimal(text, 4) is None
