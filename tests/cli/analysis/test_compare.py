"""`unspool compare`: its figures are those of SQL and of `usage`; turns and calls are aligned; groups have medians."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.money_trees import TREES
from unspool.testing.build import assistant, rewind, session, tool_result, tool_use, user

A, B = (f"0000000{digit}-0000-4000-8000-00000000000{digit}" for digit in "12")
SQL = """
SELECT s.session_id, s.turns, s.tool_calls, s.errors, s.compactions, s.context_tokens, s.agents, s.wall_seconds,
       s.active_seconds, s.cost_micros, coalesce(s.unpriced_tokens, 0) AS unpriced_tokens,
       s.title, s.project, s.branch, s.models, s.versions, count(*) OVER (PARTITION BY session_id) AS files,
       coalesce(r.requests, 0) AS requests, coalesce(r.input_tokens, 0) AS input_tokens,
       coalesce(r.output_tokens, 0) AS output_tokens, coalesce(r.cache_read_tokens, 0) AS cache_read_tokens,
       coalesce(r.cache_write_tokens, 0) AS cache_write_tokens,
       coalesce(f.files_changed, 0) AS files_changed, coalesce(f.lines_added, 0) AS lines_added,
       coalesce(f.lines_removed, 0) AS lines_removed
FROM sessions s
LEFT JOIN (
  SELECT session_id, count(*) AS requests, sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens,
         sum(cache_read_tokens) AS cache_read_tokens,
         sum(cache_write_5m_tokens + cache_write_1h_tokens) AS cache_write_tokens
  FROM responses GROUP BY session_id
) r USING (session_id)
LEFT JOIN (
  SELECT session_id, count(DISTINCT path) AS files_changed, sum(coalesce(added, 0)) AS lines_added,
         sum(coalesce(removed, 0)) AS lines_removed
  FROM files_touched WHERE action <> 'read' AND done GROUP BY session_id
) f USING (session_id)
ORDER BY session_id
"""
SETTINGS = ("title", "project", "branch", "models", "versions")


def read(run: Run, config: Path, *arguments: str) -> Any:
    done = run("--config-dir", config, *arguments)
    assert done.code in (0, 1), done.err
    return json.loads(done.out) if done.out else {"items": [], "sessions": []}


def check_figures(session: dict[str, Any], row: dict[str, Any]) -> None:
    """Check each figure of a session, and its settings, against the row that SQL has of it."""
    figures = {name: value for name, value in row.items() if name not in ("session_id", "files", *SETTINGS)}
    assert {name: session["figures"][name] for name in figures} == figures, row["session_id"]
    assert {**figures, **session["figures"]} == session["figures"]
    said = (session["title"], session["project"], session["git_branch"], session["model"], session["version"])
    title, project, branch, models, versions = (row[name] for name in SETTINGS)
    assert said == (title or "", project or "", branch or "", ", ".join(models), ", ".join(versions))


def check_pair(found: dict[str, Any], pair: tuple[str, str], rows: dict[str, dict[str, Any]]) -> None:
    """Check all that stands in a comparison of two sessions against their rows."""
    for side, id in zip("ab", pair, strict=True):
        check_figures(found[side], rows[id])
        assert [one[side] for one in found["figures"]] == [
            found[side]["figures"][one["figure"]] for one in found["figures"]
        ]
        turns = [turn[side] for turn in found["turns"] if turn[side]]
        outside = found[side]["outside_turns"]
        assert outside["requests"] + sum(turn["requests"] for turn in turns) == rows[id]["requests"]
        assert outside["cost_micros"] + sum(turn["cost_micros"] for turn in turns) == (rows[id]["cost_micros"] or 0)
        assert min(outside.values()) >= 0
        touched = [change[side] for change in found["files"] if change[side]]
        assert len(touched) == rows[id]["files_changed"]
        assert sum(change["added"] for change in touched) == rows[id]["lines_added"]


@pytest.mark.parametrize("tree", TREES)
def test_the_figures_equal_those_of_sql_and_of_usage(tree: str, tmp_path: Path, run: Run) -> None:
    """Of all sessions in groups, and of a pair: also of sessions of which only agents are left."""
    config = tmp_path / "claude"
    TREES[tree](config)
    compared = read(run, config, "compare", "--by", "model", "--json")["sessions"]
    rows = read(run, config, "sql", SQL, "--json")["items"]
    alone = {row["session_id"]: row for row in rows if row["files"] == 1}
    for one in compared:
        if one["session_id"] in alone:
            check_figures(one, alone[one["session_id"]])
    # Two files with one id are two sessions of lists: each pays for what is in it, and together they pay once.
    costs: dict[str, int] = {}
    for one in compared:
        costs[one["session_id"]] = costs.get(one["session_id"], 0) + (one["figures"]["cost_micros"] or 0)
    usage = {row["session_id"]: row["cost_micros"] for row in read(run, config, "usage", "session", "--json")["items"]}
    assert costs == {id: usage.get(id) or 0 for id in costs}
    # Of a file of several sessions that names none on some lines, SQL counts no agent.
    named = [id for id in alone if re.fullmatch(r"(?!agent-)[\w-]{1,80}", id)]
    if named:
        pair = named[0], named[-1]
        check_pair(read(run, config, "compare", *pair, "--json"), pair, alone)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    config = tmp_path / "claude"
    edit = {"filePath": "/a.py", "structuredPatch": [{"lines": ["-a", "+b", "+c"], "oldStart": 1, "newStart": 1}]}
    session(
        user("Fix the test."),
        assistant(tool_use("Bash", id="toolu_1", command="pytest")),
        tool_result("failed", id="toolu_1", error=True),
        assistant(tool_use("Edit", id="toolu_2", file_path="/a.py", old_string="a", new_string="b")),
        tool_result("ok", id="toolu_2", structured=edit),
        assistant("Fixed."),
        user("Thanks."),
        assistant("You are welcome."),
        id=A,
    ).save(config)
    session(
        user("Fix the test."),
        assistant(tool_use("Bash", id="toolu_3", command="pytest"), model="claude-haiku-4-5"),
        tool_result("passed", id="toolu_3"),
        assistant("It passes.", model="claude-haiku-4-5"),
        id=B,
    ).save(config)
    return config


def test_turns_and_calls_are_beside_those_with_the_same_prompt_and_target(config: Path, run: Run) -> None:
    found = read(run, config, "compare", A, B, "--json")
    first, second = found["turns"]
    assert first["same_prompt"]
    assert [(pair["same"], bool(pair["a"]), bool(pair["b"])) for pair in first["calls"]] == [
        (True, True, True),
        (False, True, False),
    ]
    assert first["calls"][0]["a"]["failed"]
    assert not first["calls"][0]["b"]["failed"]
    assert second["a"]["prompt"] == "Thanks."
    assert second["b"] is None
    assert found["files"] == [{"path": "/a.py", "a": {"added": 2, "removed": 1}, "b": None}]
    assert found["a"]["result"] == "You are welcome."
    assert sum(pair["a"]["cost_micros"] for pair in found["turns"]) == found["a"]["figures"]["cost_micros"]


def test_two_branches_of_a_session_are_compared(tmp_path: Path, run: Run) -> None:
    config = tmp_path / "claude"
    steps = [user("Begin."), assistant("Begun."), user("One way."), assistant("Gone."), rewind(), user("Another way.")]
    session(*steps, assistant("Gone there."), id=A).save(config)
    found = read(run, config, "compare", f"{A}#1", f"{A}#2", "--json")
    assert [pair["same_prompt"] for pair in found["turns"]] == [True, False]
    assert (found["a"]["result"], found["b"]["result"]) == ("Gone.", "Gone there.")
    assert found["a"]["figures"]["requests"] == 2
    diff = read(run, config, "compare", f"{A}#1", f"{A}#2", "--messages", "--json")
    assert diff["same_messages"] == 2
    assert any("Another way." in line for line in diff["difference"] if line.startswith("+"))
    missing = run("--config-dir", config, "compare", f"{A}#9", A)
    assert missing.code == 3
    assert "no branch 9" in missing.err


def test_a_group_has_the_medians_of_its_sessions(config: Path, run: Run) -> None:
    found = read(run, config, "compare", "--prompt", "Fix the", "--by", "prompt", "--json")
    (group,) = found["items"]
    assert group["sessions"] == 2
    for name, value in group["medians"].items():
        known = [one["figures"][name] for one in found["sessions"] if one["figures"][name] is not None]
        assert value == (median(known) if known else None)
    models = read(run, config, "compare", "--prompt", "Fix the", "--by", "model", "--json")
    assert len(models["items"]) == 2
    assert run("--config-dir", config, "compare", "--prompt", "Nobody typed this").code == 1


@pytest.mark.parametrize("words", [[], [A], [A, B, "--by", "model", "--messages"], [A, "--messages"]])
def test_wrong_requests_say_what_is_missing(config: Path, run: Run, words: list[str]) -> None:
    done = run("--config-dir", config, "compare", *words)
    assert done.code == 2
    assert done.err.count("hint:") == 1


def test_a_session_without_prices_has_no_cost(tmp_path: Path, run: Run) -> None:
    config = tmp_path / "claude"
    session(user("Begin."), assistant("Begun.", model="glm-4.7"), id=A).save(config)
    session(user("Begin."), assistant("Begun."), id=B).save(config)
    found = read(run, config, "compare", A, B, "--json")
    assert found["a"]["figures"]["cost_micros"] is None
    assert found["b"]["figures"]["cost_micros"] > 0
    lines = run("--config-dir", config, "compare", A, B).out.splitlines()
    assert next(line.split()[1] for line in lines if line.startswith("cost")) == "?"


def test_what_no_turn_has_is_said(tmp_path: Path, run: Run) -> None:
    """A file may begin in the middle of a session: what comes before its first prompt is in no turn."""
    config = tmp_path / "claude"
    steps = [assistant(tool_use("Bash", id="toolu_1", command="ls")), tool_result("a", id="toolu_1")]
    session(*steps, user("Go on."), assistant("Gone on."), id=A).save(config)
    session(user("Begin."), assistant("Begun."), id=B).save(config)
    found = read(run, config, "compare", A, B, "--json")
    assert found["a"]["outside_turns"]["requests"] == 1
    assert found["a"]["outside_turns"]["tool_calls"] == 1
    assert found["a"]["outside_turns"]["cost_micros"] > 0
    assert set(found["b"]["outside_turns"].values()) == {0}
    assert "outside of turns: 1 request, $" in run("--config-dir", config, "compare", A, B).out
