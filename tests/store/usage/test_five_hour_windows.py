"""Usage by 5-hour block."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.usage.test_report import SUMMED, made
from unspool.format import local_time, milliseconds, parse_zone
from unspool.prices import HOUR, MINUTE, find_windows
from unspool.store.usage.five_hour_windows import build_window_report, parse_reset_time
from unspool.store.usage.ledger import LimitNotice, UsageSum
from unspool.store.usage.report import PERIODS, UsageReport, UsageRequest

DAY = 24 * HOUR
moments = st.integers(0, 20 * DAY) | st.integers(0, 40).map(lambda hours: hours * HOUR)
timed = st.lists(moments, max_size=20)


def at(time: str) -> int:
    """Return a time in milliseconds."""
    moment = milliseconds(time)
    assert moment is not None
    return moment


def seen(sums: list[UsageSum], *limits: LimitNotice, now: str = "2030-01-01T00:00:00Z", **view: Any) -> UsageReport:
    """Return the blocks of all of these, as seen in UTC."""
    return build_window_report(sums, sums, limits, asked(at(now), **view))


def asked(now: int, **view: Any) -> UsageRequest:
    """Return a request for blocks, made at some milliseconds since 1970, in UTC."""
    return UsageRequest("blocks", local_time(now, UTC) or datetime.max, **{"zone": UTC, **view})


def sums(*times: str | None, **fields: Any) -> list[UsageSum]:
    """Return a response at each of these times on the 5th of January."""
    return [made(time and f"2026-01-05T{time}Z", **fields) for time in times]


def spans(found: UsageReport) -> list[tuple[str | None, str | None, bool]]:
    """Return from when to when the rows are, and which are gaps."""
    return [tuple(row.labels[name] for name in ("block_start", "block_end", "is_gap")) for row in found.rows]


@given(timed, st.randoms(use_true_random=False))
def test_the_order_of_responses_does_not_matter(times: list[int], random: Any) -> None:
    some = [made(None, cost_micros=1)._replace(time=time) for time in times]
    shuffled = random.sample(some, len(some))
    assert find_windows(one.time for one in shuffled) == find_windows(times)
    assert build_window_report(shuffled, shuffled, [], asked(DAY)) == build_window_report(some, some, [], asked(DAY))


@given(st.lists(st.none() | moments, max_size=20), st.none() | moments, st.none() | moments)
def test_rows_add_up_to_the_totals(times: list[int | None], since: int | None, until: int | None) -> None:
    some = [made(None, cost_micros=7, input_tokens=3)._replace(time=time) for time in times]
    found = build_window_report(some, some, [], asked(DAY, since=since, until=until))
    for name in SUMMED:
        assert sum(getattr(row.figures, name) for row in found.rows) == getattr(found.totals, name)
    if since is None and until is None:
        assert found.totals.responses == len(times)


def test_a_block_begins_at_the_hour_and_lasts_five() -> None:
    found = seen(sums("09:40:00", "13:59:59", "14:00:00"))
    assert spans(found) == [
        ("2026-01-05T09:00:00+00:00", "2026-01-05T14:00:00+00:00", False),
        ("2026-01-05T14:00:00+00:00", "2026-01-05T19:00:00+00:00", False),
    ]
    assert [row.figures.responses for row in found.rows] == [2, 1]


def test_the_hour_is_that_of_utc_in_every_zone() -> None:
    (row,) = seen(sums("09:40:00"), zone=parse_zone("Asia/Kolkata")).rows
    assert row.labels["block_start"] == "2026-01-05T14:30:00+05:30"


def test_a_long_pause_is_a_gap_with_nothing_in_it() -> None:
    found = seen(sums("01:10:00", "08:20:00", cost_micros=5))
    assert spans(found)[1] == ("2026-01-05T06:00:00+00:00", "2026-01-05T08:00:00+00:00", True)
    gap = found.rows[1]
    assert set(gap.figures) == {0, ()}
    assert gap.labels["last"] is gap.labels["burn_rate"] is None
    assert [row.labels["is_gap"] for row in seen(sums("01:10:00", "06:20:00")).rows] == [False, False]


def test_responses_without_a_time_have_a_row_of_their_own() -> None:
    found = seen(sums(None, "09:00:00"), order="desc")
    assert [row.labels["block_end"] for row in found.rows] == ["2026-01-05T14:00:00+00:00", None]
    assert found.totals.responses == 2
    assert seen(sums(None, "09:00:00"), since=0).totals.responses == 1


def test_a_block_in_the_time_asked_for_is_shown_whole_and_begins_where_it_began() -> None:
    some = sums("01:00:00", "09:40:00", "13:00:00", "20:00:00")
    found = seen(some, since=at("2026-01-05T12:00:00Z"), until=at("2026-01-05T19:00:00Z"))
    assert spans(found) == [("2026-01-05T09:00:00+00:00", "2026-01-05T14:00:00+00:00", False)]
    assert found.totals.responses == 2


def test_blocks_belong_to_the_account_and_not_to_a_project() -> None:
    every = [*sums("09:00:00", project="a"), *sums("12:30:00", project="b"), *sums("20:00:00", project="a")]
    found = build_window_report(every, [every[1]], [], asked(0))
    assert spans(found) == [("2026-01-05T09:00:00+00:00", "2026-01-05T14:00:00+00:00", False)]
    assert found.totals.responses == 1


def test_the_newest_block_can_come_first() -> None:
    some = sums("01:00:00", "20:00:00")
    assert spans(seen(some, order="desc")) == spans(seen(some))[::-1]


@pytest.mark.parametrize(
    ("now", "active"),
    [("08:59:59", False), ("09:00:00", True), ("13:59:59", True), ("14:00:00", False)],
)
def test_a_block_is_active_until_it_ends(now: str, active: bool) -> None:
    (row,) = seen(sums("09:30:00"), now=f"2026-01-05T{now}Z").rows
    assert row.labels["is_active"] is active


def test_an_active_block_tells_where_it_is_going() -> None:
    some = sums("09:00:00", "10:00:00", cost_micros=300_000, input_tokens=3_000, output_tokens=300)
    (row,) = seen(some, now="2026-01-05T11:00:00Z").rows
    assert row.labels["last"] == "2026-01-05T10:00:00.000+00:00"
    assert row.labels["burn_rate"] == 110
    assert row.labels["cost_per_hour_micros"] == 600_000
    assert row.labels["projected_cost_micros"] == 600_000 + 3 * 600_000
    (done,) = seen(some).rows
    assert done.labels["cost_per_hour_micros"] == 600_000
    assert done.labels["projected_cost_micros"] is None


def test_less_than_a_minute_is_no_rate() -> None:
    some = [made(None, cost_micros=1)._replace(time=time) for time in (0, MINUTE - 1)]
    (row,) = build_window_report(some, some, [], asked(HOUR)).rows
    assert [row.labels[name] for name in ("burn_rate", "cost_per_hour_micros", "projected_cost_micros")] == [None] * 3
    some[1] = some[1]._replace(time=MINUTE)
    (row,) = build_window_report(some, some, [], asked(HOUR)).rows
    assert row.labels["cost_per_hour_micros"] == 120


def test_the_last_notice_in_a_block_tells_when_its_limit_resets() -> None:
    notices = [
        LimitNotice(at("2026-01-05T10:00:00Z"), "5-hour limit reached ∙ resets 1pm"),
        LimitNotice(at("2026-01-05T09:30:00Z"), "5-hour limit reached ∙ resets 12pm"),
        LimitNotice(at("2026-01-05T10:30:00Z"), "a limit of another kind"),
        LimitNotice(at("2026-01-05T20:00:00Z"), "5-hour limit reached ∙ resets 11pm"),
        LimitNotice(None, "5-hour limit reached ∙ resets 2pm"),
    ]
    (row,) = seen(sums("09:00:00"), *notices).rows
    assert row.labels["resets_at"] == "2026-01-05T13:00:00+00:00"
    assert seen(sums("01:00:00"), *notices).rows[0].labels["resets_at"] is None


@pytest.mark.parametrize(
    ("notice", "zone", "moment"),
    [
        ("Claude AI usage limit reached|1751234567", "UTC", "2025-06-29T22:02:47Z"),
        ("5-hour limit reached ∙ resets 3pm", "UTC", "2026-01-05T15:00:00Z"),
        ("5-hour limit reached ∙ resets 9am", "UTC", "2026-01-06T09:00:00Z"),  # it is 9:00: the next one
        ("5-hour limit reached ∙ resets 12am", "UTC", "2026-01-06T00:00:00Z"),
        ("5-hour limit reached ∙ resets 12pm", "UTC", "2026-01-05T12:00:00Z"),
        ("5-hour limit reached ∙ resets 3pm", "America/New_York", "2026-01-05T20:00:00Z"),
        ("5-hour limit reached ∙ resets 1am", "Asia/Kolkata", "2026-01-05T19:30:00Z"),
        ("You've hit your limit · resets 3:30pm (Europe/Berlin)", "UTC", "2026-01-05T14:30:00Z"),
        ("You've hit your limit · resets 3:30pm (Mars/Olympus)", "UTC", "2026-01-05T15:30:00Z"),
        ("You've hit your limit · resets Jul 23 at 6pm (America/Los_Angeles)", "UTC", "2026-07-24T01:00:00Z"),
        ("Weekly limit reached · resets Oct 9, 5pm", "UTC", "2026-10-09T17:00:00Z"),
        ("Weekly limit reached · resets Jan 2, 5pm", "UTC", "2027-01-02T17:00:00Z"),
        ("Weekly limit reached · resets January 7, 2026, 5pm", "UTC", "2026-01-07T17:00:00Z"),
        ("Weekly limit reached · resets Feb 29, 5pm", "UTC", "2028-02-29T17:00:00Z"),
        ("limit reached, RESETS AT 15:45", "UTC", "2026-01-05T15:45:00Z"),
        ("limit reached, resets 3 p.m.", "UTC", "2026-01-05T15:00:00Z"),
        ("Weekly limit reached · resets Feb 30, 5pm", "UTC", None),
        ("Weekly limit reached · resets Jan 7, 2020, 5pm", "UTC", None),
        ("limit reached, resets 13pm", "UTC", None),
        ("limit reached, resets 25:00", "UTC", None),
        ("limit reached, resets 3", "UTC", None),
        ("limit reached, resets soon", "UTC", None),
        ("", "UTC", None),
    ],
)
def test_a_notice_names_the_next_such_moment(notice: str, zone: str, moment: str | None) -> None:
    expected = moment and at(moment)
    assert parse_reset_time(notice, at("2026-01-05T09:00:00Z"), parse_zone(zone)) == expected


def test_an_hour_that_comes_twice_is_the_one_after_the_notice() -> None:
    berlin = parse_zone("Europe/Berlin")
    first, second = at("2026-10-25T00:30:00Z"), at("2026-10-25T01:30:00Z")
    assert parse_reset_time("resets 2:30am", first - 1, berlin) == first
    assert parse_reset_time("resets 2:30am", first, berlin) == second


@given(
    st.text(max_size=20) | st.from_regex(r"resets ((jan|feb|dec) \d\d?, (\d{4}, )?)?(at )?\d\d?(:\d\d)?(am|pm)?"),
    st.integers(-(10**14), 10**15),
    st.sampled_from(["UTC", "Europe/Berlin", "+05:30"]).map(parse_zone),
)
def test_any_notice_at_any_time_is_told_or_not(notice: str, time: int, zone: tzinfo | None) -> None:
    moment = parse_reset_time(notice, time, zone)
    assert moment is None or moment > time


def test_a_row_has_the_fields_of_its_header() -> None:
    for row in seen([*sums("01:00:00", "20:00:00"), made(None)]).rows:
        assert tuple(row.labels) == PERIODS["blocks"].labels


def test_the_limit_of_the_active_window_is_the_largest_one_before_or_the_one_that_is_set() -> None:
    some = sums("01:10:00", cost_micros=80) + sums("09:40:00", cost_micros=20)
    (*_, active) = seen(some, now="2026-01-05T10:00:00Z").rows
    assert [active.labels[f"limit_{name}"] for name in ("unit", "amount", "is_learned", "used_percent")] == [
        "cost",
        80,
        True,
        25,
    ]
    (*_, active) = seen(some, now="2026-01-05T10:00:00Z", limits=(40, None)).rows
    assert [active.labels[f"limit_{name}"] for name in ("amount", "is_learned", "used_percent")] == [40, False, 50]
    assert seen(some, now="2026-01-05T23:00:00Z").rows[-1].labels["limit_amount"] is None
