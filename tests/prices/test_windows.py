"""The 5-hour windows among the times of responses."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from unspool.prices.windows import FIVE_HOURS, HOUR, UsageWindow, find_active_window, find_windows

DAY = 24 * HOUR
moments = st.integers(0, 20 * DAY) | st.integers(0, 40).map(lambda hours: hours * HOUR)
timed = st.lists(moments, max_size=20)


@given(timed)
def test_every_response_is_in_exactly_one_block_and_none_in_a_gap(times: list[int]) -> None:
    found = find_windows(times)
    for time in times:
        (block,) = [block for block in found if block.start <= time < block.end]
        assert not block.is_gap


@given(timed)
def test_blocks_and_gaps_do_not_overlap_and_are_in_order(times: list[int]) -> None:
    found = find_windows(times)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert all(block.start < block.end for block in found)
    assert all(block.start % HOUR == 0 for block in found)
    assert all(block.end - block.start == FIVE_HOURS for block in found if not block.is_gap)


@given(timed)
def test_every_pause_of_more_than_five_hours_that_blocks_leave_is_a_gap(times: list[int]) -> None:
    found = find_windows(times)
    filled = [block for block in found if not block.is_gap]
    for one, other in pairwise(filled):
        pause = min(t for t in times if t >= other.start) - max(t for t in times if t < one.end)
        gap = [block for block in found if block.is_gap and (block.start, block.end) == (one.end, other.start)]
        assert len(gap) == (pause > FIVE_HOURS and one.end < other.start)


@given(timed, moments)
def test_the_active_window_is_the_one_among_all_windows_that_a_moment_is_in(times: list[int], now: int) -> None:
    found = [window for window in find_windows(times) if not window.is_gap and window.start <= now < window.end]
    assert find_active_window(now, lambda start, end: min((t for t in times if start <= t < end), default=None)) == (
        found[0] if found else None
    )


def test_the_active_window_is_found_after_years_without_a_pause_by_few_lookups() -> None:
    asked = 0

    def earliest_between(start: int, end: int) -> int | None:
        nonlocal asked
        asked += 1
        time = max(start, 0) + -max(start, 0) % HOUR
        return time if time < end else None

    assert find_active_window(1000 * DAY + 1, earliest_between) == UsageWindow(1000 * DAY, 1000 * DAY + FIVE_HOURS)
    assert asked < 15_000
