"""Numbers and times for people."""

from __future__ import annotations

import doctest
from datetime import UTC, datetime, timedelta

import pytest

from unspool.display import units
from unspool.export import block_text, describe_calls, outline

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)


@pytest.mark.parametrize("module", [units, outline, describe_calls, block_text], ids=lambda module: module.__name__)
def test_the_examples_work(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.99, "10 s"), (59.4, "59 s"), (59.6, "1 min"), (200, "3 min 20 s"),
     (3_599.7, "1 h"), (3_900, "1 h 5 min"), (90_000, "25 h")],
)  # fmt: skip
def test_a_length_of_time_has_two_units_at_most(seconds: float, words: str) -> None:
    assert units.duration(timedelta(seconds=seconds)) == words


@pytest.mark.parametrize(
    ("passed", "words"),
    [(timedelta(seconds=5), "just now"), (timedelta(minutes=5), "5 min ago"), (timedelta(hours=3), "3 h ago"),
     (timedelta(days=2), "2 d ago"), (timedelta(weeks=2), "2 w ago"), (timedelta(days=60), "2025-11-06"),
     (timedelta(days=-2), "2026-01-07")],
)  # fmt: skip
def test_what_is_long_ago_or_yet_to_come_is_a_date(passed: timedelta, words: str) -> None:
    assert units.ago(NOW - passed, NOW) == words


def test_what_is_no_time_is_none() -> None:
    assert units.ago(None, NOW) == "never"
    assert units.span(None, NOW) == ""


def test_a_span_names_the_day_once() -> None:
    assert units.span(NOW, NOW) == "2026-01-05 09:00"
    assert units.span(NOW, NOW + timedelta(hours=1)) == "2026-01-05 09:00 to 10:00"
    assert units.span(NOW, NOW + timedelta(days=1)) == "2026-01-05 09:00 to 2026-01-06 09:00"


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 bytes"), (999, "999 bytes"), (1_000, "1.0 kB"), (2_500_000, "2.5 MB")]
)
def test_a_size_is_in_the_unit_that_fits(count: int, words: str) -> None:
    assert units.size(count) == words
