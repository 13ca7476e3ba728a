"""Usage reports: what sums become."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.errors import UsageError
from unspool.format import milliseconds, milliseconds_of, parse_zone, zone_offsets
from unspool.prices import Bill
from unspool.store.usage.ledger import UsageSum
from unspool.store.usage.report import (
    PERIODS,
    UsageFigures,
    UsageReport,
    build_report,
    keep_newest,
    total_of_rows,
    total_of_sums,
)

ZONES = ["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata", "Asia/Kathmandu", "+05:45", "-09:30"]
PLAIN = [period for period in PERIODS if period != "blocks"]
SUMMED = [name for name in UsageFigures._fields if name != "models"]

names = st.none() | st.sampled_from(["", "a", "b", "claude-opus-4-5-20251101", "glm"])
counts = st.integers(0, 10**9)
times = st.none() | st.integers(milliseconds("2025-10-01T00:00Z") or 0, milliseconds("2026-11-30T00:00Z") or 0)
sums: st.SearchStrategy[list[UsageSum]] = st.lists(
    st.builds(UsageSum, times, *[names] * 6, st.builds(Bill, *[counts] * 12)), max_size=12
)
zones = st.sampled_from(ZONES).map(parse_zone)


def made(time: str | None = "2026-01-05T09:00:00Z", **fields: Any) -> UsageSum:
    """Return a sum with a few things said of it."""
    bill = Bill(*[0] * 12)._replace(responses=1, **{name: fields.pop(name) for name in Bill._fields if name in fields})
    return UsageSum(milliseconds(time), None, None, None, None, None, None, bill)._replace(**fields)


def keys(found: UsageReport) -> list[Any]:
    """Return what the rows are known by."""
    return [row.labels[PERIODS[found.period].labels[0]] for row in found.rows]


@given(sums, zones)
def test_rows_add_up_to_the_totals_and_these_are_of_all(sums: list[UsageSum], zone: tzinfo | None) -> None:
    for period in PLAIN:
        found = build_report(period, sums, zone)
        assert found.totals == total_of_sums(sums)
        for name in SUMMED:
            assert sum(getattr(row.figures, name) for row in found.rows) == getattr(found.totals, name)


@given(sums, zones, st.randoms(use_true_random=False))
def test_the_order_of_the_sums_changes_nothing(sums: list[UsageSum], zone: tzinfo | None, random: Any) -> None:
    shuffled = random.sample(sums, len(sums))
    for period in PLAIN:
        assert build_report(period, shuffled, zone) == build_report(period, sums, zone)


@given(sums)
def test_no_two_rows_have_the_same_key(sums: list[UsageSum]) -> None:
    for period in PLAIN:
        rows = build_report(period, sums, UTC).rows
        known = PERIODS[period].labels[: 2 if period == "agent" else 1]
        assert len({tuple(row.labels[name] for name in known) for row in rows}) == len(rows)


@given(sums, zones)
def test_weeks_and_months_contain_their_days(sums: list[UsageSum], zone: tzinfo | None) -> None:
    days = {row.labels["date"]: row.figures.responses for row in build_report("daily", sums, zone).rows}
    weeks, months = dict[str | None, int](), dict[str | None, int]()
    for day, count in days.items():
        monday = None
        if day is not None:
            on = date.fromisoformat(day)
            monday = (on - timedelta(days=on.weekday())).isoformat()
        weeks[monday] = weeks.get(monday, 0) + count
        month = day[:7] if day else None
        months[month] = months.get(month, 0) + count
    assert {row.labels["week"]: row.figures.responses for row in build_report("weekly", sums, zone).rows} == weeks
    assert {row.labels["month"]: row.figures.responses for row in build_report("monthly", sums, zone).rows} == months


@given(sums, zones)
def test_a_day_is_that_of_each_response_by_itself(sums: list[UsageSum], zone: tzinfo | None) -> None:
    seconds = [None if one.time is None else one.time // 1000 for one in sums]
    days = Counter(None if at is None else str(datetime.fromtimestamp(at, zone).date()) for at in seconds)
    found = build_report("daily", [one._replace(bill=one.bill._replace(responses=1)) for one in sums], zone)
    assert {row.labels["date"]: row.figures.responses for row in found.rows} == days


@given(sums, zones)
def test_all_moments_of_a_quarter_of_an_hour_are_on_one_day(sums: list[UsageSum], zone: tzinfo | None) -> None:
    quarter = 15 * 60 * 1000
    moved = [one._replace(time=one.time // quarter * quarter) if one.time is not None else one for one in sums]
    assert build_report("daily", moved, zone) == build_report("daily", sums, zone)


@pytest.mark.parametrize(
    ("time", "zone", "day"),
    [
        ("2026-03-29T00:59:59Z", "Europe/Berlin", "2026-03-29"),
        ("2026-03-29T21:59:59Z", "Europe/Berlin", "2026-03-29"),  # a day of 23 hours
        ("2026-03-29T22:00:00Z", "Europe/Berlin", "2026-03-30"),
        ("2026-10-24T22:00:00Z", "Europe/Berlin", "2026-10-25"),  # a day of 25 hours
        ("2026-10-25T22:59:59Z", "Europe/Berlin", "2026-10-25"),
        ("2026-10-25T23:00:00Z", "Europe/Berlin", "2026-10-26"),
        ("2018-11-04T02:59:59Z", "America/Sao_Paulo", "2018-11-03"),  # a day that begins at one
        ("2018-11-04T03:00:00Z", "America/Sao_Paulo", "2018-11-04"),
        ("2026-01-04T18:29:59Z", "Asia/Kolkata", "2026-01-04"),
        ("2026-01-04T18:30:00Z", "Asia/Kolkata", "2026-01-05"),
        ("2026-01-04T18:15:00Z", "+05:45", "2026-01-05"),
        ("2026-01-05T09:29:59Z", "-09:30", "2026-01-04"),
        ("0001-01-01T00:00:00Z", "-01:00", None),  # before the calendar begins
        ("9999-12-31T23:30:00Z", "+01:00", None),
        (None, "UTC", None),
    ],
)
def test_a_day_is_that_of_the_zone(time: str | None, zone: str, day: str | None) -> None:
    assert keys(build_report("daily", [made(time)], parse_zone(zone))) == [day]


def test_a_week_is_named_by_its_monday() -> None:
    sums = [made("2025-12-28T23:59:59Z"), made("2025-12-29T00:00:00Z"), made("2026-01-04T23:59:59Z")]
    found = build_report("weekly", sums, UTC)
    assert [(row.labels["week"], row.figures.responses) for row in found.rows] == [("2025-12-22", 1), ("2025-12-29", 2)]
    first = made()._replace(time=milliseconds_of(datetime(1, 1, 3, tzinfo=UTC)))  # no line says so, but a store may
    assert keys(build_report("weekly", [first], UTC)) == ["0001-01-01"]


def test_times_come_oldest_first_and_what_has_none_comes_last() -> None:
    sums = [made("2026-01-06T00:00:00Z"), made(None), made("2026-01-05T00:00:00Z")]
    assert keys(build_report("daily", sums, UTC)) == ["2026-01-05", "2026-01-06", None]
    assert keys(build_report("daily", sums, UTC, "desc")) == ["2026-01-06", "2026-01-05", None]


def test_all_else_comes_by_cost_the_largest_first() -> None:
    sums = [made(branch="a", cost_micros=1), made(branch="b", cost_micros=3), made(branch="", cost_micros=2)]
    assert keys(build_report("branch", sums, UTC)) == ["b", None, "a"]
    assert keys(build_report("branch", sums, UTC, "asc")) == ["a", None, "b"]


def test_a_session_tells_its_project_and_from_when_to_when_it_was() -> None:
    sums = [
        made("2026-01-05T10:00:00Z", session="s", project="other"),
        made("2026-01-05T09:00:00.250Z", session="s", project="shop"),
        made(None, session="s", project="none"),
        made(None, session="t"),
    ]
    first, second = build_report("session", sums, parse_zone("+01:00")).rows
    assert first.labels == {
        "session": "s",
        "project": "shop",
        "first": "2026-01-05T10:00:00.250+01:00",
        "last": "2026-01-05T11:00:00.000+01:00",
    }
    assert second.labels == {"session": "t", "project": None, "first": None, "last": None}


def test_the_main_chain_is_one_row_and_each_agent_of_a_session_another() -> None:
    sums = [made(session="s"), made(session="t"), made(session="s", agent="a"), made(session="t", agent="a")]
    found = [
        (row.labels["agent"], row.labels["session"], row.figures.responses)
        for row in build_report("agent", sums, UTC)[1]
    ]
    assert sorted(found, key=str) == [("a", "s", 1), ("a", "t", 1), ("main", None, 2)]


def test_an_agent_called_main_is_not_the_main_chain() -> None:
    found = build_report("agent", [made(session="s"), made(session="s", agent="main")], UTC)
    assert len(found.rows) == 2


def test_models_without_a_price_are_named() -> None:
    sums = [made(model="glm", unpriced_tokens=5), made(unpriced_tokens=1), made(model="claude-opus-4-5")]
    assert build_report("daily", sums, UTC).unpriced == ("", "glm")


def test_a_row_has_the_promised_fields_its_key_first() -> None:
    sums = [made(model="b", input_tokens=1, output_tokens=2, cache_read_tokens=4, cache_write_5m_tokens=8)]
    sums += [made(model="a", cache_write_1h_tokens=16, web_searches=1, cost_micros=9, estimated_responses=1)]
    assert build_report("daily", sums, UTC).data()["rows"] == [
        {
            "date": "2026-01-05",
            "input_tokens": 1,
            "output_tokens": 2,
            "cache_write_tokens": 24,
            "cache_write_5m_tokens": 8,
            "cache_write_1h_tokens": 16,
            "cache_read_tokens": 4,
            "responses": 2,
            "estimated_responses": 1,
            "web_searches": 1,
            "cost_micros": 9,
            "unpriced_tokens": 0,
            "models": ("a", "b"),
            "total_tokens": 31,
            "estimated_output_tokens": 0,
            "estimated_cost_micros": 0,
        }
    ]


@pytest.mark.parametrize("period", PLAIN)
def test_no_responses_are_no_rows_and_zeros(period: str) -> None:
    found = build_report(period, [], UTC)
    assert found.rows == []
    assert set(found.totals) == {0, ()}


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("UTC", UTC),
        ("utc", UTC),
        ("Z", UTC),
        ("local", None),
        ("+05:30", timezone(timedelta(hours=5, minutes=30))),
        ("-0930", timezone(-timedelta(hours=9, minutes=30))),
        ("+2", timezone(timedelta(hours=2))),
        ("Europe/Berlin", ZoneInfo("Europe/Berlin")),
    ],
)
def test_a_zone_is_a_name_or_an_offset(text: str, zone: tzinfo | None) -> None:
    assert parse_zone(text) == zone


@pytest.mark.parametrize(
    "text", ["", "Mars/Olympus", "America", "../etc/passwd", "/etc/passwd", "+25:00", "+01:07", "é", "a\0b"]
)
def test_what_is_no_zone_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="unknown time zone") as error:
        parse_zone(text)
    assert error.value.hint


@given(st.text(max_size=8))
def test_any_text_is_a_zone_or_refused(text: str) -> None:
    try:
        zone = parse_zone(text)
    except UsageError:
        return
    assert datetime(2026, 1, 5, tzinfo=UTC).astimezone(zone).tzinfo is not None


@pytest.mark.parametrize(
    "module", ["unspool.cli.query.usage", "unspool.store.usage.report", "unspool.store.preferences"]
)
def test_nothing_heavy_is_loaded_before_a_report_is_asked_for(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert module in loaded
    assert {"msgspec", "zoneinfo", "json", "csv", "unspool.home"} & set(loaded) == set()


@given(
    st.sampled_from([*ZONES, "Australia/Lord_Howe", "Africa/Casablanca"]),
    st.datetimes(datetime(2020, 1, 2), datetime(2039, 12, 30)),
)
def test_the_day_of_a_time_is_known_without_asking_the_zone(name: str, moment: datetime) -> None:
    zone = parse_zone(name)
    time = (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    ahead = next(ahead for until, ahead in zone_offsets(zone) if time < until)
    day = moment.replace(tzinfo=UTC).astimezone(zone).date()
    assert (time + ahead) // 86_400_000 == (day - date(1970, 1, 1)).days


def test_the_newest_rows_are_kept_whatever_their_order() -> None:
    sums = [made(f"2026-01-{day:02}T09:00:00Z", cost_micros=day) for day in (1, 2, 3)] + [made(None, cost_micros=9)]
    for order, dates in (("asc", ["2026-01-02", "2026-01-03"]), ("desc", ["2026-01-03", "2026-01-02"])):
        found = build_report("daily", sums, UTC, order)
        last = keep_newest(found, 2, all_totals=False)
        assert [row.labels["date"] for row in last.rows] == dates
        assert last.totals.cost_micros == 5
        assert keep_newest(found, 2, all_totals=True).totals == found.totals


def test_a_breakdown_adds_up_to_its_row() -> None:
    sums = [
        made("2026-01-01T09:00:00Z", model=model, cost_micros=cost) for model, cost in (("a", 1), ("b", 5), ("a", 2))
    ]
    (row,) = build_report("daily", sums, UTC, breakdown=True).rows
    assert [(part.labels["model"], part.figures.cost_micros) for part in row.by_model] == [("b", 5), ("a", 3)]
    assert total_of_rows(row.by_model) == row.figures
