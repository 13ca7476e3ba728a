"""When to ask again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.api.retry import is_retryable, retry_delay


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_what_may_be_better_next_time_is_asked_again(status: int) -> None:
    assert is_retryable(status, {})
    assert not is_retryable(status, {"x-should-retry": "false"})


@pytest.mark.parametrize("status", [300, 307, 400, 401, 403, 404, 413])
def test_what_is_refused_for_what_it_is_is_not(status: int) -> None:
    assert not is_retryable(status, {})
    assert is_retryable(status, {"x-should-retry": "true"})


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.5),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.5),
        ({"retry-after": "-1"}, 0.5),
        ({"retry-after": "nan"}, 0.5),
        ({"retry-after": "inf"}, 0.5),
    ],
)
def test_what_the_api_says_goes_first(headers: dict[str, str], seconds: float) -> None:
    assert retry_delay(1, headers, 0) == seconds


def test_each_wait_is_twice_the_one_before_up_to_a_limit() -> None:
    assert [retry_delay(attempt, {}, 0) for attempt in range(1, 10)] == [0.5, 1, 2, 4, 8, 16, 32, 32, 32]


@given(st.integers(1, 10**6), st.floats(0, 1))
def test_chance_shortens_a_wait_by_a_quarter_at_most(attempt: int, chance: float) -> None:
    assert 0.75 * retry_delay(attempt, {}, 0) <= retry_delay(attempt, {}, chance) <= retry_delay(attempt, {}, 0) <= 32
