"""Sessions in numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import unspool
from unspool.demo.write import write_demo
from unspool.export import counts
from unspool.testing.build import Built, assistant, note, session, user


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (session(), "empty"),
        (session(note("mode", mode="normal")), "empty"),
        (session(user("Warmup"), assistant("Ready."), agent="a1b2c3d"), "warm-up"),
        (session(user("Sum up."), assistant("So."), agent="acompact-1f2e3d"), "special fork"),
        (session(user("Look."), assistant("So."), agent="a1b2c3d"), None),
        (session(user("Warmup"), assistant("For what?")), None),
        (session(user("hi")), None),
    ],
)
def test_a_list_leaves_out_what_nobody_asked(tmp_path: Path, made: Built, reason: str | None) -> None:
    path = made.save(tmp_path)
    (one,) = unspool.open(path).sessions()
    assert one.facts.hidden == reason


def test_the_counts_of_the_demo_agree_with_what_the_library_finds(tmp_path: Path) -> None:
    write_demo(tmp_path / "demo")
    for one in unspool.open(tmp_path / "demo").sessions():
        counted = counts.count_session(one)
        assert counted["bytes"] == one.path.stat().st_size
        assert counted["lines"] == len(one.entries) + len(one.bad_lines)
        assert sum(counted["entries"].values()) == len(one.entries)
        assert counted["tool_calls"] == len(one.tool_calls)
        assert counted["paired"] == sum(call.result is not None for call in one.tool_calls)
        assert counted["paired"] + counted["uses_without_result"] == counted["tool_calls"]
        assert counted["paired"] + counted["results_without_use"] == counted["tool_results"]
        assert counted["human_turns"] == counts.session_row(one)["turns"]


def test_a_new_stop_reason_or_block_gets_a_column() -> None:
    one = {"entries": {}, "versions": {}, "lines": 0, "tool_calls": 0, "human_turns": 0}
    known = {**one, "stop_reasons": {"end_turn": 1}, "blocks": {"text": 2}}
    novel = {**one, "stop_reasons": {"pause": 1}, "blocks": {"hologram": 1}}
    tables = counts.build_tables([("a", known), ("b", novel)])
    assert list(tables["stop_reasons"][0]) == ["id", *counts.STOP_REASONS, "pause"]
    assert tables["blocks"][1]["hologram"] == 1
    assert tables["blocks"][0]["hologram"] == 0
