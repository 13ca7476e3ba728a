"""Responses added up."""

from __future__ import annotations

from unspool.prices.bill import cost_micros
from unspool.prices.cost import UsageTotals, total_usage
from unspool.prices.price_list import find_price
from unspool.prices.responses import Response


def test_nothing_costs_nothing() -> None:
    assert total_usage([]) == UsageTotals()
    assert UsageTotals().total == 0


def test_tokens_and_money_are_added() -> None:
    one = Response(id="1", model="claude-opus-4-5", input=10, output=20, cache_read=5, cache_write_1h=3, web_searches=1)
    two = Response(id="2", model="claude-opus-4-5", input=1, output=2, cache_write_5m=4)
    known = find_price("claude-opus-4-5")
    added = total_usage([one, two])
    assert (added.responses, added.input, added.output, added.total) == (2, 11, 22, 45)
    assert added.cost_micros == cost_micros(one, known) + cost_micros(two, known) > 0


def test_what_has_no_price_is_counted() -> None:
    assert total_usage([Response(id="1", model="somebody-elses", output=5)]).unpriced == 1
