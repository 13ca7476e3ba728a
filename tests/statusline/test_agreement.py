"""The status line shows what `unspool usage` shows, before the end of the session was read by the store and after."""

from __future__ import annotations

import json
import tempfile
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.world import synced
from unspool.format import format_timestamp, milliseconds_of
from unspool.statusline.line import Figures, LineSettings, read_figures
from unspool.store import StoreAccess, open_store, preferences
from unspool.store.usage import UsageRow, report

BEGIN = datetime(2026, 1, 5, 21, tzinfo=UTC)
S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(3)]
MODELS = ("claude-opus-4-5", "claude-sonnet-4-5-20250929", "glm-4.7")
tokens = st.integers(0, 300_000)
lines = st.fixed_dictionaries(
    {
        "minute": st.integers(0, 60 * 20),
        "id": st.integers(0, 6),
        "session": st.integers(0, 2),
        "model": st.integers(0, 2),
        "input": tokens,
        "output": st.integers(0, 20),
        "read": tokens,
        "short": st.integers(0, 9),
        "long": st.integers(0, 9),
        "split": st.booleans(),
        "stop": st.booleans(),
        "speed": st.sampled_from([None, "fast"]),
        "geo": st.sampled_from([None, "us"]),
        "searches": st.integers(0, 2),
    }
)


def line_of(values: dict[str, Any]) -> str:
    """Return an assistant line."""
    usage = {
        "input_tokens": values["input"],
        "output_tokens": values["output"],
        "cache_read_input_tokens": values["read"],
        "cache_creation_input_tokens": values["short"] + values["long"],
        "speed": values["speed"],
        "inference_geo": values["geo"],
        "server_tool_use": {"web_search_requests": values["searches"]},
    }
    if values["split"]:
        usage["cache_creation"] = {
            "ephemeral_5m_input_tokens": values["short"],
            "ephemeral_1h_input_tokens": values["long"],
        }
    message = {
        "id": f"msg_{values['id']}",
        "role": "assistant",
        "model": MODELS[values["model"]],
        "content": [{"type": "text", "text": "x" * 900}],
        "stop_reason": "end_turn" if values["stop"] else None,
        "usage": usage,
    }
    time = format_timestamp(BEGIN + timedelta(minutes=values["minute"]))
    line = {"type": "assistant", "sessionId": S[values["session"]], "timestamp": time, "message": message}
    return json.dumps(line) + "\n"


def append(root: Path, values: dict[str, Any]) -> Path:
    path = root / "projects" / "-p" / f"{S[values['session']]}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(line_of(values))
    return path


def figures(own: Path, root: Path, path: Path, now: datetime) -> Figures:
    settings = LineSettings(zone=UTC)
    return read_figures(str(own), str(path), str(root), settings, milliseconds_of(now))


def rows(own: Path, root: Path, period: str, now: datetime) -> list[UsageRow]:
    with closing(open_store(own)) as database:
        access = StoreAccess(root, own, preferences.Preferences(), database)
        return report.report_usage(access.ledger, report.parse_request(period, now, UTC)).rows


def compare_with_reports(own: Path, root: Path, path: Path, now: datetime, found: Figures) -> None:
    """Compare the figures of a status line with the reports of a store that is up to date."""

    def amounts(row: UsageRow | None) -> tuple[int, int, int]:
        figures = row and row.figures
        return (figures.cost_micros, figures.total_tokens, figures.unpriced_tokens) if figures else (0, 0, 0)

    session = next((row for row in rows(own, root, "session", now) if row.labels["session"] == path.stem), None)
    # A day has no end for the status line: what another clock says is later counts too.
    days = [row for row in rows(own, root, "daily", now) if row.labels["date"] >= f"{now:%Y-%m-%d}"]
    window = next((row for row in rows(own, root, "blocks", now) if row.labels["is_active"]), None)
    assert found.session == amounts(session)
    assert found.today == tuple(map(sum, zip((0, 0, 0), *map(amounts, days), strict=True)))
    assert (found.window and found.window.amount) == (window and amounts(window))
    if found.window and window:
        assert found.window.tokens_per_minute == window.labels["burn_rate"]
        assert found.window.cost_per_hour_micros == window.labels["cost_per_hour_micros"]
        assert found.window.projected_cost_micros == window.labels["projected_cost_micros"]


def comparable(found: Figures) -> Figures:
    """Return figures without what may differ: whether they are stale, and the largest window.

    A response of an earlier window that another file repeats with more output changes that window. Claude Code does
    not do that.
    """
    window = found.window and found.window._replace(largest_cost_micros=None, largest_tokens=None)
    return found._replace(is_stale=True, window=window)


def test_windows_that_only_the_end_of_the_session_has_count_among_the_largest(tmp_path: Path) -> None:
    own, root = tmp_path / "own", tmp_path / "config"
    answer: dict[str, Any] = {
        **dict.fromkeys(("session", "model", "input", "read", "short", "long", "searches"), 0),
        **{"split": True, "stop": True, "speed": None, "geo": None},
    }
    path = append(root, {**answer, "minute": 0, "id": 1, "output": 100})
    synced(own, root)
    for id, minute, output in ((2, 400, 300), (3, 800, 200), (4, 1200, 50)):
        append(root, {**answer, "minute": minute, "id": id, "output": output})
    found = figures(own, root, path, BEGIN + timedelta(minutes=1210)).window
    assert found is not None
    assert (found.amount.tokens, found.largest_tokens) == (50, 300)
    synced(own, root)
    assert figures(own, root, path, BEGIN + timedelta(minutes=1210)).window == found


@given(st.lists(lines, max_size=8), st.lists(lines, min_size=1, max_size=6), st.integers(0, 60 * 26))
@settings(max_examples=25)
def test_costs_are_those_of_usage_before_the_store_has_read_the_end_and_after(
    known: list[dict[str, Any]], ending: list[dict[str, Any]], passed: int
) -> None:
    now = BEGIN + timedelta(minutes=passed)
    with tempfile.TemporaryDirectory() as place:
        own, root = Path(place).resolve() / "own", Path(place).resolve() / "config"
        for values in known:
            append(root, values)
        (root / "projects").mkdir(parents=True, exist_ok=True)
        synced(own, root)
        # What is written last is not earlier than what was written before. It may go on with the last response.
        last, file, id = max(((one["minute"], one["session"], one["id"]) for one in known), default=(0, 1, 0))
        path = root / "projects" / "-p" / f"{S[0]}.jsonl"
        for values in ending:
            goes_on = values["id"] < 2 and file == 0
            minute = last if goes_on else last + values["minute"] // 4
            append(root, {**values, "session": 0, "id": id if goes_on else values["id"] + 10, "minute": minute})
        before = figures(own, root, path, now)
        synced(own, root)
        after = figures(own, root, path, now)
        assert comparable(before) == comparable(after)
        compare_with_reports(own, root, path, now, after)
