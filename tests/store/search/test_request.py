"""What is typed into a search is parsed as it is elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from unspool.format import milliseconds
from unspool.store import Preferences, StoreAccess
from unspool.store.search.request import SearchRequest, parse_filters
from unspool.store.usage.report import parse_request

OPENED = StoreAccess(Path("nowhere"), Path("nowhere"), Preferences(), None)
NOW = datetime(2026, 1, 9, 12, 30, 0, 500_400, tzinfo=UTC)


def test_the_day_until_which_is_searched_does_not_include_the_midnight_after_it() -> None:
    filters = parse_filters(SearchRequest("word", since="2026-01-05", until="2026-01-05"), OPENED, NOW, UTC)
    assert (filters.since, filters.until) == (milliseconds("2026-01-05T00:00Z"), milliseconds("2026-01-06T00:00Z"))


@pytest.mark.parametrize("time", [None, "2026-01-05", "2026-01-05T09:00:00.123456", "7d", "12h"])
def test_times_are_those_of_a_usage_report(time: str | None) -> None:
    filters = parse_filters(SearchRequest("word", since=time, until=time), OPENED, NOW, UTC)
    usage = parse_request("daily", NOW, UTC, since=time, until=time)
    assert (filters.since, filters.until) == (usage.since, usage.until)
