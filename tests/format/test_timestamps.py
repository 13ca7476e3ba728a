"""Timestamps: whatever is written, one reading of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from unspool.format import elapsed_time, format_timestamp, parse_local_time, parse_timestamp
from unspool.graph import collect_facts, find_tool_calls
from unspool.live.state.metadata import SessionMetadata
from unspool.testing.build import assistant, session, tool_result, tool_use, user

NINE = datetime(2026, 1, 5, 9, tzinfo=UTC)
WITHOUT_ZONE = ("2026-01-05T09:00:00.000", "2026-01-05T09:00:02.500")


def test_a_time_without_zone_is_utc() -> None:
    assert parse_timestamp("2026-01-05T09:00:00") == NINE
    assert parse_local_time("2026-01-05T09:00:00", timezone(timedelta(hours=2))) == NINE
    assert elapsed_time("2026-01-05T08:59:59", "2026-01-05T09:00:00Z") == timedelta(seconds=1)


def test_a_session_without_zones_has_the_times_that_it_has_with_them() -> None:
    start, end = WITHOUT_ZONE
    built = session(
        user("go", timestamp=start), assistant(tool_use("Bash"), timestamp=start), tool_result(timestamp=end)
    )
    facts = collect_facts(built.entries)
    assert (facts.started, facts.last, facts.wall, facts.active) == (start, end, 2.5, 2.5)
    (call,) = find_tool_calls(built.entries)
    assert call.duration == timedelta(seconds=2.5)
    live = SessionMetadata()
    live.add_record(built.entries[0].record)
    assert live.started == NINE


def test_what_is_no_time_is_none() -> None:
    assert [parse_timestamp(text) for text in (None, "", "yesterday", "2026-13-05T09:00:00Z")] == [None] * 4
    assert parse_local_time("2026-01-05T10:00:00+01:00", UTC) == NINE


def test_a_time_that_the_zones_calendar_does_not_have_is_none() -> None:
    assert parse_local_time("0001-01-01T00:00:00+14:00", UTC) is None


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (None, "2026-01-05T08:00:00Z"),
        ("2026-01-05T08:00:00Z", None),
        ("", ""),
        ("soon", "2026-01-05T08:00:00Z"),
        ("2026-01-05T08:00:01Z", "2026-01-05T08:00:00Z"),
    ],
)
def test_what_is_no_time_gives_no_duration(start: str | None, end: str | None) -> None:
    assert elapsed_time(start, end) is None


def test_no_time_may_pass() -> None:
    assert elapsed_time("2026-01-05T08:00:00Z", "2026-01-05T09:00:00+01:00") == timedelta(0)


def test_a_time_is_written_in_utc_to_the_millisecond() -> None:
    assert format_timestamp(NINE.astimezone(timezone(timedelta(hours=2)))) == "2026-01-05T09:00:00.000Z"
