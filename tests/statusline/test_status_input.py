"""What Claude Code sends the status line, and anything else that may come instead."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from unspool.statusline.status_input import StatusInput, parse_status_input

SENT = Path(__file__).with_name("sent_by_2.1.326.json")
SUBSCRIPTION = {"five_hour": {"used_percentage": 41.5, "resets_at": 1_800_000_000}, "seven_day": {"used_percentage": 7}}
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def sent() -> dict[str, Any]:
    """Return what 2.1.326 sent, with made-up values."""
    value: dict[str, Any] = json.loads(SENT.read_bytes())
    return value


def places(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the path of every field."""
    if not isinstance(value, dict):
        return []
    return [place for name, inner in value.items() for place in [(*path, name), *places(inner, (*path, name))]]


def test_what_2_1_326_sends_is_understood() -> None:
    assert parse_status_input(SENT.read_bytes()) == StatusInput(
        session_id="11111111-2222-4333-8444-555555555555",
        transcript_path="/home/me/.claude/projects/-home-me-shop/11111111-2222-4333-8444-555555555555.jsonl",
        folder="/home/me/shop",
        model_id="claude-opus-5-5",
        model_name="Opus 5.5",
        version="2.1.326",
        output_style="default",
        effort="medium",
        reported_cost_micros=1_234_500,
        context_tokens=52_000,
        context_size=1_000_000,
    )


def test_limits_of_a_subscription_are_understood() -> None:
    found = parse_status_input(json.dumps({**sent(), "rate_limits": SUBSCRIPTION}).encode())
    assert (found.five_hour_percent, found.five_hour_resets_at) == (41.5, 1_800_000_000_000)
    assert (found.seven_day_percent, found.seven_day_resets_at) == (7.0, None)


@given(st.binary())
def test_any_bytes_are_taken(data: bytes) -> None:
    parse_status_input(data)


@given(st.data())
def test_any_json_in_any_field_is_taken_and_no_text_has_control_characters(data: st.DataObject) -> None:
    value = {**sent(), "rate_limits": deepcopy(SUBSCRIPTION)}
    path = data.draw(st.sampled_from(places(value)))
    inner = value
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = data.draw(anything)
    found = parse_status_input(json.dumps(value).encode())
    for name, field in found._asdict().items():
        if isinstance(field, str) and name not in ("transcript_path", "folder"):
            assert field.isprintable() or not any(ord(character) < 32 for character in field)


def test_deeply_nested_json_is_no_input() -> None:
    assert parse_status_input(b'{"model":' * 100_000) == StatusInput()
