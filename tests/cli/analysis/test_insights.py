"""`unspool insights`: its figures are those of SQL; each row names its lines; suggestions have evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, make_runner
from tests.money_trees import TREES
from tests.real_files import corpus
from unspool.insights import SECTIONS, InsightScope, build_query
from unspool.testing.build import Step, assistant, compaction, session, system, tool_result, tool_use, user, wait

A, B = (f"0000000{digit}-0000-4000-8000-00000000000{digit}" for digit in "12")
SUMS = """
SELECT (SELECT count(*) FROM responses) AS responses,
       (SELECT coalesce(sum(cost_micros), 0)::BIGINT FROM responses) AS cost_micros,
       (SELECT coalesce(sum(unpriced_tokens), 0)::BIGINT FROM responses) AS unpriced_tokens,
       (SELECT count(DISTINCT session_id) FROM responses) AS billed_sessions,
       (SELECT count(*) FROM (SELECT DISTINCT tool_use_id, uuid FROM tool_calls)) AS calls,
       (SELECT coalesce(sum(cost_micros), 0)::BIGINT FROM responses r WHERE EXISTS (SELECT 1 FROM tool_calls c
        WHERE c.source_id = r.source_id AND c.message_id = r.response_id)) AS calls_cost_micros
"""
FEATURES = ("tools", "files", "projects", "api_errors", "commands", "retries", "repeated_reads", "growth", "contexts")
"""Sections whose rows are those of the query that `--sql` prints."""


def read(run: Run, config: Path, *arguments: str) -> Any:
    done = run("--config-dir", config, *arguments, "--json")
    assert done.code in (0, 1), done.err
    return json.loads(done.out)


def rows(run: Run, config: Path, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(run, config, "sql", f"\n{query}")["items"]
    return found


def figures(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in {"places", "weights", "of"}}


def assert_sums_equal(run: Run, config: Path) -> None:
    found = read(run, config, "insights", "--limit", "1000")
    (sums,) = rows(run, config, SUMS)
    assert {name: found["totals"][name] for name in sums} == sums
    assert sum(row["cost_micros"] for row in found["projects"]) == sums["cost_micros"]
    assert sum(row["cost_micros"] for row in found["tools"]) == sums["calls_cost_micros"]
    assert sum(row["calls"] for row in found["tools"]) == sums["calls"]
    failed = sum(row["failures"] for row in found["failures"]) + found["totals"]["rejected"]
    assert failed == found["totals"]["failed"] == sum(row["failed"] for row in found["tools"])


@pytest.mark.parametrize("tree", ["demo", "forked", "same id in two projects", "wrong types"])
def test_the_sums_equal_those_of_sql(tree: str, tmp_path: Path, run: Run) -> None:
    config = tmp_path / "claude"
    TREES[tree](config)
    assert_sums_equal(run, config)


@pytest.mark.slow
def test_the_sums_equal_those_of_sql_on_real_files(run: Run) -> None:
    assert_sums_equal(run, corpus())


def test_a_section_has_the_rows_of_the_query_that_is_printed(tmp_path: Path, run: Run) -> None:
    config = tmp_path / "claude"
    TREES["demo"](config)
    scope = ("--project", "tidewatch", "--since", "2020-01-01")
    found = read(run, config, "insights", "--limit", "1000", *scope)
    for name in ("tools", "growth"):
        query = run("--config-dir", config, "insights", "--sql", name, *scope).out
        assert list(map(figures, found[name])) == list(map(figures, rows(run, config, query))), name
    assert run("insights", "--sql", "everything").code == 2


def assert_sections_equal(run: Run, config: Path) -> None:
    """Check each section against its own query, all of them asked at once; `--sql` prints these queries."""
    found = read(run, config, "insights", "--limit", "1000")
    queries = {name: build_query(name, InsightScope()) for name in SECTIONS}
    parts = (
        f"SELECT '{name}' AS section, to_json(list(part))::VARCHAR AS rows FROM (\n{query}\n) part"
        for name, query in queries.items()
    )
    asked = {one["section"]: json.loads(one["rows"] or "[]") for one in rows(run, config, "\nUNION ALL ".join(parts))}
    for name in (*FEATURES, "waits"):
        assert list(map(figures, found[name])) == list(map(figures, asked[name])), name
    (totals,) = asked["totals"]
    assert {name: found["totals"][name] for name in totals} == totals
    # Code groups the rows of these two, and leaves none out.
    failed, losses = asked["failed_calls"], found["lost_caches"]
    assert sum(kind["failures"] for kind in found["failures"]) + found["totals"]["rejected"] == len(failed)
    assert sum(kind["requests"] for kind in losses) <= len(asked["lost_caches"])
    assert {row["lost_tokens"] for row in asked["lost_caches"]} >= {
        kind["lost_tokens"] for kind in losses if kind["requests"] == 1
    }


@pytest.mark.parametrize("tree", ["demo", "forked", "same id in two projects", "agents beside", "partly unpriced"])
def test_every_section_equals_its_own_query(tree: str, tmp_path: Path, run: Run) -> None:
    config = tmp_path / "claude"
    TREES[tree](config)
    assert_sections_equal(run, config)


@pytest.mark.slow
def test_every_section_equals_its_own_query_on_real_files(run: Run) -> None:
    assert_sections_equal(run, corpus())


def test_a_project_and_a_session_choose_what_is_added_up(tmp_path: Path, run: Run) -> None:
    config = tmp_path / "claude"
    TREES["demo"](config)
    whole = read(run, config, "insights")
    project = whole["projects"][0]
    part = read(run, config, "insights", "--project", project["project"].upper())
    assert part["totals"]["cost_micros"] == project["cost_micros"]
    assert list(map(figures, part["projects"])) == [figures(project)]
    largest = whole["contexts"][0]["session_id"]
    one = read(run, config, "insights", "--session", largest[:8], "--until", "2099-01-01")
    assert [row["session_id"] for row in one["contexts"]] == [largest]
    nothing = read(run, config, "insights", "--project", "'; -- $project$ $since$")
    assert nothing["totals"]["calls"] == nothing["totals"]["responses"] == 0


def test_without_a_store_the_files_give_the_same(tmp_path: Path, run: Run) -> None:
    config = tmp_path / "claude"
    TREES["demo"](config)
    stored, files = (read(run, config, "insights", *more) for more in ((), ("--no-store",)))
    for name in ("totals", "left_out", "unknown"):
        assert stored[name] == files[name]
    for name in FEATURES:
        assert list(map(figures, stored[name])) == list(map(figures, files[name])), name


def test_nothing_found_is_said(tmp_path: Path, run: Run) -> None:
    (tmp_path / "claude" / "projects").mkdir(parents=True)
    done = run("--config-dir", tmp_path / "claude", "insights")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("unspool: no requests and no tool calls found\nhint: ")
    wrong = run("--config-dir", tmp_path / "claude", "insights", "--since", "whenever")
    assert wrong.code == 2
    assert "Traceback" not in wrong.err


def usage(read: int, written: int, output: int = 10) -> dict[str, int]:
    return {
        "input_tokens": 0,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": output,
    }


def call(id: str, name: str, result: str, *, error: bool = False, took: float = 0, **input: Any) -> list[Step]:
    return [assistant(tool_use(name, id=id, **input)), wait(took), tool_result(result, id=id, error=error)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """Return a folder in which everything was counted by hand, and its insights."""
    folder = tmp_path_factory.mktemp("made")
    config = folder / "claude"
    text = "x" * 3600
    session(
        user("Look.", permissionMode="default"),
        *call("r1", "Read", text, file_path="/home/me/project/a.py"),
        *call("r2", "Read", text, file_path="/home/me/project/a.py"),
        *call("r3", "Read", f"{text}y", file_path="/home/me/project/a.py"),
        compaction("What was read."),
        *call("r4", "Read", text, file_path="/home/me/project/a.py"),
        *call("b1", "Bash", "Exit code 127\npytest: not found", error=True, command="pytest tests"),
        *call("b2", "Bash", "passed", command="uv run pytest tests"),
        user("Again.", permissionMode="default"),
        *call("b3", "Bash", "Exit code 127\npytest: not found", error=True, command="pytest tests"),
        *call("b4", "Bash", "Exit code 127\npytest: not found", error=True, command="pytest tests"),
        *call("b5", "Bash", "passed", command="uv run pytest tests"),
        *call("m1", "Bash", "built", command="make site", took=60),
        *call("m2", "Bash", "built", command="make site", took=30),
        *call("m3", "Bash", "built", command="make $TARGET", took=30),
        *call("m4", "Bash", "built", command="make $TARGET", took=30),
        system("api_error", "overloaded"),
        wait(3600),
        user("Now ask.", permissionMode="default"),
        *call("q1", "AskUserQuestion", "yes", took=100, questions=[]),
        assistant("Done."),
        id=A,
    ).save(config)
    session(
        user("First.", permissionMode="bypassPermissions"),
        assistant("One.", usage=usage(0, 50_000)),
        user("Second."),
        assistant("Two.", usage=usage(50_000, 100)),
        wait(1000),
        user("Third."),
        assistant("Three.", usage=usage(0, 50_200)),
        *call("m9", "Bash", "sent", command="make publish", took=30),
        *call("m8", "Bash", "sent", command="make publish", took=30),
        id=B,
    ).save(config)
    run = make_runner(folder)
    return config, read(run, config, "insights", "--limit", "100")


def only(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    (found,) = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return found


def test_every_section_of_what_was_counted_by_hand_equals_its_own_query(made: tuple[Path, Any], run: Run) -> None:
    assert_sections_equal(run, made[0])


def test_a_repeated_read_has_the_same_result_and_no_compaction_before_it(made: tuple[Path, Any]) -> None:
    (again,) = made[1]["repeated_reads"]
    assert (again["reads"], again["bytes"], again["tokens"]) == (1, 3600, 1000)
    # After it and before the compaction there is one more request.
    assert again["carried_tokens"] == 1000


def test_a_lost_cache_has_its_price(made: tuple[Path, Any]) -> None:
    (lost,) = made[1]["lost_caches"]
    assert (lost["kind"], lost["requests"], lost["lost_tokens"]) == ("pause", 1, 50_100)
    # Written for 5 minutes at $6.25 a million instead of read at $0.50.
    assert lost["cost_micros"] == round(50_100 * (6.25 - 0.5))
    assert lost["places"][0]["turn"] == 3


def test_failures_and_retries_are_counted(made: tuple[Path, Any]) -> None:
    (kind,) = made[1]["failures"]
    assert (kind["failures"], kind["sessions"], kind["words"]) == (3, 1, "pytest: not found")
    command = only(made[1]["commands"], command="pytest tests")
    assert (command["runs"], command["failed"]) == (3, 3)
    # `b3` follows `b1`, and `b4` follows `b3`.
    assert figures(only(made[1]["retries"], tool="Bash"))["retries"] == 2
    assert only(made[1]["api_errors"], session_id=A)["errors"] == 1


def test_waits_have_their_length(made: tuple[Path, Any]) -> None:
    question = only(made[1]["waits"], kind="question")
    assert (question["waits"], question["waited_ms"]) == (1, 101_000)
    assert question["places"][0]["value"] == 101_000
    prompts = only(made[1]["waits"], kind="prompt")
    assert prompts["longest_ms"] == prompts["places"][0]["value"] == 3_601_000
    assert prompts["places"][0]["turn"] == 3


def test_a_line_for_claude_md_names_what_succeeded(made: tuple[Path, Any]) -> None:
    line = only(made[1]["suggestions"], kind="claude_md")
    assert line["text"] == "Run `uv run pytest tests`, not `pytest tests`."
    assert line["saved"]["failed_calls"] == 3
    assert line["saved"]["milliseconds"] == 3000
    command = only(made[1]["commands"], command="pytest tests")
    assert line["saved"]["cost_micros"] == command["failed_cost_micros"]
    assert len(line["places"]) == line["evidence"] == 6


def test_a_rule_is_what_was_approved_word_for_word(made: tuple[Path, Any]) -> None:
    """`make $TARGET` may be another command the next time, and nobody was asked about `make publish`."""
    rules = {one["text"]: one for one in made[1]["suggestions"] if one["kind"] == "permission"}
    assert rules.keys() == {"Bash(make site)", "Bash(uv run pytest tests)"}
    rule = rules["Bash(make site)"]
    assert rule["saved"] == {"approvals": 2, "milliseconds_at_most": 92_000}
    asked = only(made[1]["approvals"], tool="Bash")
    assert asked["rejected"] == 0
    # Two `pytest` that succeeded took a second too, as did those that failed.
    assert asked["calls"] == 9


def test_every_line_stands_where_it_is_said(made: tuple[Path, Any]) -> None:
    data = made[1]
    places = [
        place for rows in data.values() if isinstance(rows, list) for row in rows for place in row.get("places", [])
    ]
    assert len(places) > 20
    for place in places:
        line = Path(place["source"]).read_bytes()[place["offset"] :].partition(b"\n")[0]
        assert json.loads(line)["sessionId"] == place["session_id"]
        assert place["turn"] in {1, 2, 3}
