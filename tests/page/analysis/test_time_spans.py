"""Every moment of a turn counts once, and the strip of a session has all its turns in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unspool.page.analysis import KINDS_OF_TIME, StripTurn, TimeSpan, build_strip, sum_times

MOMENTS = st.integers(0, 1000)
SPANS = st.lists(
    st.builds(
        lambda kind, start, length: TimeSpan(kind=kind, name="x", key="0.0", start=start, end=start + length),
        st.sampled_from(["model", "tool", "agent", "person"]), MOMENTS, MOMENTS,
    ),
    max_size=8,
)  # fmt: skip


def span(kind: str, start: int, end: int) -> TimeSpan:
    return TimeSpan(kind=kind, name=kind, key="0.0", start=start, end=end)


def test_what_happens_at_once_counts_once_and_waiting_for_a_person_first() -> None:
    spans = [
        span("model", 0, 10),
        span("tool", 10, 40),
        span("tool", 12, 30),
        span("person", 20, 25),
        span("model", 50, 60),
    ]
    assert sum_times(spans, 0, 70) == {"person": 5, "agent": 0, "tool": 25, "model": 20, "other": 20}


@given(spans=SPANS, start=MOMENTS, length=MOMENTS)
def test_the_parts_add_up_to_the_whole(spans: list[TimeSpan], start: int, length: int) -> None:
    sums = sum_times(spans, start, start + length)
    assert set(sums) == set(KINDS_OF_TIME)
    assert sum(sums.values()) == length
    assert min(sums.values()) >= 0


@given(
    turns=st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**6)), min_size=1, max_size=40),
    most=st.integers(1, 50),
)
def test_the_strip_has_every_turn_and_is_a_thousand_wide(turns: list[tuple[int, int]], most: int) -> None:
    strip = build_strip([StripTurn(number, start, start + took) for number, (start, took) in enumerate(turns)], most)
    worked = [part for part in strip if part.kind == "turn"]
    assert len(worked) <= most
    assert [number for part in worked for number in range(part.first, part.last + 1)] == list(range(len(turns)))
    assert sum(part.milliseconds for part in worked) == sum(took for _, took in turns)
    if sum(part.width for part in strip):
        assert abs(strip[-1].left + strip[-1].width - 1000) < 1


def test_a_night_between_two_turns_takes_little_room() -> None:
    hour = 3_600_000
    first, pause, second = build_strip([StripTurn(1, 0, hour), StripTurn(2, 10 * hour, 11 * hour)])
    assert (pause.kind, pause.milliseconds, pause.is_cut) == ("wait", 9 * hour, True)
    assert pause.width < 50 < first.width
    assert second.left > first.width
