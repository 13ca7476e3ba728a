"""`unspool usage`."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.cli.conftest import Run
from unspool.cli.query.usage import draw_bar, short_model_name
from unspool.display.units import dollars, parse_time_expression
from unspool.errors import UsageError
from unspool.format import parse_zone
from unspool.prices.bill import SOURCE
from unspool.store.usage.report import PERIODS
from unspool.testing.build import Step, assistant, session, text, tool_result, tool_use, user

S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(10)]
EVIL = "\x1b]0;owned\x07\x1b[2J\u202egnp.exe\x9b31m"
NUMBERS = [
    "input_tokens", "output_tokens", "cache_write_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens",
    "cache_read_tokens", "responses", "estimated_responses", "web_searches", "cost_micros", "unpriced_tokens", "models",
]  # fmt: skip


def limited(notice: str) -> Step:
    """What the program says in the model's place."""
    return assistant(text(notice), model="<synthetic>")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Three sessions of two projects, with an agent, an old version, a limit and a model without a price."""
    folder = tmp_path / "c"
    session(
        user("Fix the cache"),
        assistant("Let me look.", tool_use("Bash", command="make"), usage={"output_tokens": 900}),
        tool_result("ok"),
        assistant("Done.", usage={"input_tokens": 5_000, "server_tool_use": {"web_search_requests": 2}}),
        limited("5-hour limit reached ∙ resets 2pm"),
        id=S[1],
        start="2026-01-05T09:00:00.000Z",
        step=60,
        branch="cache",
    ).save(folder)
    agent = session(user("go"), assistant("Gone.", model="claude-haiku-4-5"), id=S[1], agent="a1b2c3d")
    (folder / "projects" / "-home-me-project" / "agent-a1b2c3d.jsonl").write_bytes(agent.data)
    session(
        user("Look"),
        assistant("I see. " * 40, usage={"output_tokens": 2}),
        id=S[2],
        version="2.0.76",
        start="2026-01-06T23:30:00.000Z",
        cwd="/home/me/other",
    ).save(folder)
    session(user("Hm"), assistant("Ja.", model="glm-4.7"), id=S[3], start="2026-02-02T00:10:00.000Z").save(folder)
    return folder


def asked(run: Run, config: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    done = run("usage", *arguments, "--json", "--config-dir", config, **{"TZ": "UTC", **environment})
    assert (done.code, done.err) == (0, "")
    data = json.loads(done.out)
    assert isinstance(data, dict)
    return data


def test_days_are_a_table_with_totals_and_what_has_to_be_known(run: Run, config: Path) -> None:
    done = run("usage", "--config-dir", config, TZ="UTC")
    assert (done.code, done.err) == (0, "")
    assert done.out == snapshot("""\
date        models               input  output  cache write  cache read   total  responses     cost
2026-01-05  haiku-4-5, opus-4-5  5,008   1,140          600      36,000  42,748          3    $0.09
2026-01-06  opus-4-5                 4       2          200      12,000  12,206          1  $0.0073
2026-02-02  glm-4.7                  4     120          200      12,000  12,324          1        ?
total                            5,016   1,262        1,000      60,000  67,278          5  $0.09+?
1 response has only a partial count of its output; the estimated total is 1,329 tokens, $0.10+?
12,324 tokens of models without a known price, not in the cost: glm-4.7
""")


@pytest.mark.parametrize(
    ("arguments", "table"),
    [
        (
            ["session"],
            snapshot("""\
session   project  last        models        input  output  cache write  cache read   total     cost
10000000  project  2026-01-05  haiku-4-5,…   5,008   1,140          600      36,000  42,748    $0.09
20000000  other    2026-01-06  opus-4-5          4       2          200      12,000  12,206  $0.0073
30000000  project  2026-02-02  glm-4.7           4     120          200      12,000  12,324        ?
total                                        5,016   1,262        1,000      60,000  67,278  $0.09+?
1 response has only a partial count of its output; the estimated total is 1,329 tokens, $0.10+?
12,324 tokens of models without a known price, not in the cost: glm-4.7
"""),
        ),
        (
            ["model"],
            snapshot("""\
model                     input  output  cache write  cache read   total  responses     cost
claude-opus-4-5-20251101  5,008   1,022          600      36,000  42,630          3    $0.09
claude-haiku-4-5              4     120          200      12,000  12,324          1  $0.0021
glm-4.7                       4     120          200      12,000  12,324          1        ?
total                     5,016   1,262        1,000      60,000  67,278          5  $0.09+?
1 response has only a partial count of its output; the estimated total is 1,329 tokens, $0.10+?
12,324 tokens of models without a known price, not in the cost: glm-4.7
"""),
        ),
        (
            ["agent"],
            snapshot("""\
agent    session   models         input  output  cache write  cache read   total  responses     cost
main               opus-4-5, gl…  5,012   1,142          800      48,000  54,954          4  $0.09+?
a1b2c3d  10000000  haiku-4-5          4     120          200      12,000  12,324          1  $0.0021
total                             5,016   1,262        1,000      60,000  67,278          5  $0.09+?
1 response has only a partial count of its output; the estimated total is 1,329 tokens, $0.10+?
12,324 tokens of models without a known price, not in the cost: glm-4.7
"""),
        ),
        (
            ["blocks"],
            snapshot("""\
block                                    models      input  output  cache write  cache read     cost
2026-01-05 09:00 to 14:00                haiku-4-5…  5,008   1,140          600      36,000    $0.09
2026-01-05 14:00           gap of 33 h
2026-01-06 23:00 to 04:00                opus-4-5        4       2          200      12,000  $0.0073
2026-01-07 04:00           gap of 620 h
2026-02-02 00:00 to 05:00                glm-4.7         4     120          200      12,000        ?
total                                                5,016   1,262        1,000      60,000  $0.09+?
1 response has only a partial count of its output; the estimated total is 1,329 tokens, $0.10+?
12,324 tokens of models without a known price, not in the cost: glm-4.7
"""),
        ),
        (
            ["branch", "--limit", "1"],
            snapshot("""\
branch  models    input  output  cache write  cache read   total  responses     cost
cache   opus-4-5  5,004   1,020          400      24,000  30,424          2    $0.09
total             5,016   1,262        1,000      60,000  67,278          5  $0.09+?
… and 1 more row; the total counts all
1 response has only a partial count of its output; the estimated total is 1,329 tokens, $0.10+?
12,324 tokens of models without a known price, not in the cost: glm-4.7
"""),
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_every_report_is_a_table(run: Run, config: Path, arguments: list[str], table: str) -> None:
    done = run("usage", *arguments, "--config-dir", config, TZ="UTC")
    assert (done.code, done.err) == (0, "")
    assert done.out == table


def test_a_narrow_terminal_gets_a_narrow_table(run: Run, config: Path) -> None:
    done = run("usage", "--config-dir", config, TZ="UTC", COLUMNS="70")
    assert max(map(len, done.out.splitlines()[:5])) <= 70
    assert "cost" in done.out


@pytest.mark.parametrize("period", PERIODS)
def test_the_json_has_the_promised_fields(run: Run, config: Path, period: str) -> None:
    data = asked(run, config, period)
    assert set(data) == {"schema", "period", "items", "rows", "totals", "skipped"}
    assert (data["period"], data["items"]) == (period, data["rows"])
    labels = list(PERIODS[period].labels)
    assert data["rows"]
    for row in data["rows"]:
        # Before them are the names that labels have in every document: `session_id`, `started_at`.
        names = [name for name in row if name not in ("session_id", "agent_id", "started_at", "ended_at")]
        assert names[: len(labels) + len(NUMBERS)] == labels + NUMBERS
        assert row["models"] == sorted(row["models"])
    assert list(data["totals"])[: len(NUMBERS)] == NUMBERS
    for name in NUMBERS[:-1]:
        assert sum(row[name] or 0 for row in data["rows"]) == data["totals"][name]
    assert data["totals"]["responses"] == 5


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["daily"], ["2026-01-05", "2026-01-06", "2026-02-02"]),
        (["daily", "--order", "desc"], ["2026-02-02", "2026-01-06", "2026-01-05"]),
        (["daily", "--limit", "1"], ["2026-02-02"]),
        (["daily", "--tz", "Europe/Berlin"], ["2026-01-05", "2026-01-07", "2026-02-02"]),
        (["daily", "--tz", "-01:00"], ["2026-01-05", "2026-01-06", "2026-02-01"]),
        (["weekly"], ["2026-01-05", "2026-02-02"]),
        (["monthly", "--tz", "America/New_York"], ["2026-01", "2026-02"]),
        (["model"], ["claude-opus-4-5-20251101", "claude-haiku-4-5", "glm-4.7"]),
        (["project"], ["project", "other"]),
        (["branch"], ["cache", "main"]),
        (["session"], [S[1], S[2], S[3]]),
        (["agent"], ["main", "a1b2c3d"]),
        (["daily", "--project", "other"], ["2026-01-06"]),
        (["daily", "--since", "2026-01-06"], ["2026-01-06", "2026-02-02"]),
        (["daily", "--until", "2026-01-06"], ["2026-01-05", "2026-01-06"]),
        (["daily", "--until", "2026-01-06", "--tz", "Europe/Berlin"], ["2026-01-05"]),
        (["daily", "--since", "2026-01-07", "--until", "2026-01-07", "--tz", "+01:00"], ["2026-01-07"]),
        (["daily", "--since", "2026-01-06T23:30:01", "--tz", "UTC"], ["2026-01-06", "2026-02-02"]),
        (["daily", "--no-sync", "--no-store"], ["2026-01-05", "2026-01-06", "2026-02-02"]),
    ],
)
def test_rows_are_those_asked_for(run: Run, config: Path, arguments: list[str], keys: list[str]) -> None:
    first = PERIODS[arguments[0]].labels[0]
    assert [row[first] for row in asked(run, config, *arguments)["rows"]] == keys


def test_without_a_zone_days_are_those_of_the_machine_or_the_settings(run: Run, config: Path, tmp_path: Path) -> None:
    days = [row["date"] for row in asked(run, config, TZ="Asia/Tokyo")["rows"]]
    assert days == ["2026-01-05", "2026-01-07", "2026-02-02"]
    home = {"UNSPOOL_HOME": str(tmp_path / "own")}
    assert run("config", "timezone", "America/New_York", **home).code == 0
    assert asked(run, config, TZ="Asia/Tokyo", **home)["rows"][-1]["date"] == "2026-02-01"
    assert asked(run, config, "--tz", "local", TZ="Asia/Tokyo", **home)["rows"][-1]["date"] == "2026-02-02"


def test_prices_of_the_settings_count(run: Run, config: Path, tmp_path: Path) -> None:
    home = {"UNSPOOL_HOME": str(tmp_path / "own")}
    assert asked(run, config)["totals"]["unpriced_tokens"] == 12_324
    assert run("config", "prices.glm-4.7", '{"input": 1, "output": 2}', **home).code == 0
    (row,) = asked(run, config, "--since", "2026-02-01", **home)["rows"]
    # 4 input at $1, 120 output at $2, 12,000 read at $0.1, 200 written at $1.25 a million
    assert (row["cost_micros"], row["unpriced_tokens"]) == (4 + 240 + 1_200 + 250, 0)


def test_an_estimate_stands_beside_what_was_counted(run: Run, config: Path) -> None:
    (row,) = asked(run, config, "--project", "other")["rows"]
    assert (row["output_tokens"], row["estimated_responses"]) == (2, 1)
    assert row["estimated_output_tokens"] > 60
    more = row["estimated_output_tokens"] - row["output_tokens"]
    assert row["estimated_cost_micros"] == row["cost_micros"] + 25 * more


def test_a_block_tells_when_its_limit_resets(run: Run, config: Path) -> None:
    first = asked(run, config, "blocks", "--until", "2026-01-05")["rows"][0]
    assert first["block_start"] == "2026-01-05T09:00:00+00:00"
    assert first["resets_at"] == "2026-01-05T14:00:00+00:00"
    assert first["is_active"] is False


def test_the_block_of_this_hour_is_active(run: Run, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    begin = (now - timedelta(minutes=4)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    session(user("a"), assistant("b"), assistant("c"), start=begin, step=60).save(tmp_path / "c")
    row = asked(run, tmp_path / "c", "blocks")["rows"][-1]
    assert row["is_active"] is True
    assert row["projected_cost_micros"] >= row["cost_micros"] > 0
    shown = run("usage", "blocks", "--config-dir", tmp_path / "c", TZ="UTC").out
    assert "tokens a minute" in shown


def test_csv_reads_back_as_the_json_says(run: Run, config: Path) -> None:
    for period in PERIODS:
        done = run("usage", period, "--csv", "--config-dir", config, TZ="UTC")
        assert (done.code, done.err) == (0, "")
        found = list(csv.DictReader(io.StringIO(done.out, newline="")))
        rows = asked(run, config, period)["rows"]
        header = list(found[0])
        assert [list(row) for row in found] == [[name for name in row if name in header] for row in rows]
        assert [row["models"].split(";") if row["models"] else [] for row in found] == [row["models"] for row in rows]
        costs = [int(row["cost_micros"]) if row["cost_micros"] else None for row in found]
        assert costs == [row["cost_micros"] for row in rows]


@pytest.mark.parametrize("branch", ["=1+1", "+1", "-1", "@SUM(A1)", '=HYPERLINK("a","b")', "\x1b[31m=1+1"])
def test_a_spreadsheet_has_nothing_to_run(run: Run, tmp_path: Path, branch: str) -> None:
    session(user("a"), assistant("b"), branch=branch).save(tmp_path / "c")
    done = run("usage", "branch", "--csv", "--config-dir", tmp_path / "c")
    (row,) = csv.DictReader(io.StringIO(done.out, newline=""))
    assert row["branch"] == "'" + branch.removeprefix("\x1b[31m")


def test_csv_lines_end_and_cells_are_quoted_as_the_standard_says(run: Run, tmp_path: Path) -> None:
    session(user("a"), assistant("b"), branch='a,"b"').save(tmp_path / "c")
    command = [sys.executable, "-m", "unspool", "usage", "branch", "--csv", "--config-dir", str(tmp_path / "c")]
    sent = subprocess.run(command, capture_output=True, check=True, env={"UNSPOOL_HOME": str(tmp_path / "own")}).stdout
    header, row, rest = sent.split(b"\r\n")
    assert header.startswith(b"branch,input_tokens,")
    assert row.startswith(b'"a,""b""",4,120,')
    assert rest == b""


def test_explain_tells_what_became_of_every_line(run: Run, config: Path) -> None:
    data = asked(run, config, "--explain")
    path = str(config / "projects" / "-home-me-project" / f"{S[1]}.jsonl")
    assert data.pop("schema") == "unspool/usage-explain/1"
    assert {key: len(lines) for key, lines in data.items()} == {"counted": 5, "merged": 1, "dropped": 1, "skipped": 0}
    first = next(line for line in data["counted"] if line["output_tokens"] == 900)
    assert (first["file"], first["model"], first["session"]) == (path, "claude-opus-4-5-20251101", S[1])
    assert "prices of `claude-opus-4-5`" in first["why"]
    (merged,) = data["merged"]
    assert merged["counted"] == {"path": path, "file": path, "offset": first["offset"]}
    (dropped,) = data["dropped"]
    assert dropped["why"] == "synthetic"
    lines = Path(path).read_bytes()
    for line in (first, merged, dropped):
        assert lines[line["offset"] :].startswith(b'{"parentUuid"')
    assert sum(line["cost_micros"] or 0 for line in data["counted"]) == asked(run, config)["totals"]["cost_micros"]


def test_explain_is_told_by_reason_on_a_page(run: Run, config: Path) -> None:
    done = run("usage", "--explain", "--since", "2026-01-06", "--config-dir", config, TZ="UTC")
    assert (done.code, done.err) == (0, "")
    assert done.out.replace(str(config), "CONFIG").replace(SOURCE, "SOURCE") == snapshot("""\
in CONFIG/projects
counted: 1 line, no stop reason on any line: the output count may be from the start of the stream; prices of `claude-opus-4-5`: SOURCE
  -home-me-other/20000000-0000-4000-8000-000000000002.jsonl:316  msg_01763aa482deda66aa7de00a  opus-4-5  12,206 tokens  $0.0073
counted: 1 line, unpriced: no known price for `glm-4.7`
  -home-me-project/30000000-0000-4000-8000-000000000003.jsonl:317  msg_010e9e09d4105adacecc1d0a  glm-4.7  12,324 tokens  ?
""")  # noqa: E501
    steps = [assistant(f"answer {number}") for number in range(50)]
    session(user("go on"), *steps, id=S[4]).save(config)
    long = run("usage", "--explain", "--config-dir", config, LINES="30").out.splitlines()
    assert len(long) <= 30
    assert long[-1].endswith("more; list all with --json")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--project", "none"], 1, snapshot("unspool: no billed responses found\n")),
        (
            ["--explain", "--since", "2026-03-01", "--project", "none"],
            1,
            snapshot("unspool: no billed responses found\n"),
        ),
        (
            ["--tz", "Mars/Olympus"],
            2,
            snapshot("""\
unspool: unknown time zone `Mars/Olympus`
hint: a name as Europe/Berlin, `UTC`, an offset as +05:30, or `local`
"""),
        ),
        (
            ["--since", "soon"],
            2,
            snapshot("""\
unspool: invalid time `soon`
hint: use a date (`2026-01-05`, `2026-01`), a time (`2026-01-05T09:00`), `today`, `last week`, or an age (`12h`, `7d`)
"""),
        ),
        (
            ["hourly"],
            2,
            snapshot("""\
unspool: invalid value for `[PERIOD]`: `hourly` is not one of `daily`, `weekly`, `monthly`, `session`, `model`, `project`, `branch`, `agent`, `blocks`
hint: see `unspool usage --help`
"""),  # noqa: E501
        ),
        (
            ["--csv", "--json"],
            2,
            snapshot("""\
unspool: --csv cannot be used with --json or --explain
hint: remove one of them; --explain --json works
"""),
        ),
        (
            ["--csv", "--explain"],
            2,
            snapshot("""\
unspool: --csv cannot be used with --json or --explain
hint: remove one of them; --explain --json works
"""),
        ),
    ],
)
def test_nothing_found_and_a_wrong_request_are_told_apart(
    run: Run, config: Path, arguments: list[str], code: int, words: str
) -> None:
    done = run("usage", *arguments, "--config-dir", config)
    assert (done.code, done.out, done.err) == (code, "", words)


def test_nothing_found_is_an_empty_result_for_programs(run: Run, config: Path) -> None:
    nothing = ["--project", "none"]
    words = "unspool: no billed responses found\n"
    for period in ([], ["blocks"]):
        done = run("usage", *period, "--json", *nothing, "--config-dir", config)
        data = json.loads(done.out)
        assert (done.code, done.err, data["items"]) == (1, words, [])
        assert set(map(str, data["totals"].values())) == {"0", "[]"}
    done = run("usage", "--explain", "--json", *nothing, "--config-dir", config)
    found = json.loads(done.out)
    assert (done.code, done.err) == (1, words)
    assert (found["counted"], found["merged"], found["dropped"], found["skipped"]) == ([], [], [], [])
    done = run("usage", "--csv", *nothing, "--config-dir", config)
    assert (done.code, done.err, done.out.count("\n")) == (1, words, 1)


def test_a_folder_that_is_not_there_is_an_error_in_every_form(run: Run, tmp_path: Path) -> None:
    for form in ([], ["--json"], ["--csv"]):
        assert run("usage", *form, "--config-dir", tmp_path / "gone").code == 3


def test_a_wide_terminal_gets_bars_and_a_file_none(run: Run, on_terminal: Callable[..., bytes], config: Path) -> None:
    assert "█" in on_terminal("usage", "--config-dir", config, COLUMNS="150").decode()
    assert "█" not in on_terminal("usage", "--config-dir", config, COLUMNS="80").decode()
    assert "█" not in run("usage", "--config-dir", config, COLUMNS="150").out


def test_what_a_transcript_says_cannot_steer_the_terminal(on_terminal: Callable[..., bytes], tmp_path: Path) -> None:
    session(user("a"), assistant("b", model=EVIL), cwd=f"/home/{EVIL}", branch=EVIL, id=S[1]).save(tmp_path / "c")
    for period in ("model", "project", "branch"):
        for form in ([], ["--json"], ["--csv"], ["--explain"]):
            arguments = ["usage", period, *form, "--config-dir", tmp_path / "c"]
            sent = on_terminal(*arguments, COLUMNS="150").decode()
            for harm in ("\x1b]", "\x1b[2J", "\x07", "\u202e", "\x9b"):
                assert harm not in sent
            assert "gnp.exe" in sent


@pytest.mark.parametrize(
    ("micros", "shown"),
    [
        (0, "$0.00"), (1, "$0.0000"), (50, "$0.0001"), (1_234, "$0.0012"), (9_999, "$0.0100"), (10_000, "$0.01"),
        (14_999, "$0.01"), (15_000, "$0.02"), (1_999_999, "$2.00"), (1_234_567_890_000, "$1,234,567.89"),
    ],
)  # fmt: skip
def test_money_has_two_decimals_and_four_below_a_cent(micros: int, shown: str) -> None:
    assert dollars(micros) == shown


def test_a_bar_is_as_long_as_its_cost() -> None:
    assert [draw_bar(value, 12) for value in (0, 6, 12)] == ["", "██████", "████████████"]
    assert draw_bar(1, 24) == "▌"
    assert draw_bar(0, 0) == ""


@pytest.mark.parametrize(
    ("model", "name"),
    [("claude-opus-4-5-20251101", "opus-4-5"), ("claude-haiku-5-5", "haiku-5-5"), ("glm-4.7", "glm-4.7"), ("", "")],
)
def test_a_short_name_leaves_out_what_most_names_share(model: str, name: str) -> None:
    assert short_model_name(model) == name


def test_a_day_ends_when_the_next_begins_even_if_clocks_go_back() -> None:
    now, zone = datetime(2026, 1, 5, tzinfo=UTC), parse_zone("America/Sao_Paulo")
    end = parse_time_expression("2018-02-17", now, zone, end=True)  # 23:00 to midnight came twice
    assert end is not None
    assert end.astimezone(UTC) == datetime(2018, 2, 18, 2, 59, 59, 999_999, tzinfo=UTC)
    start = parse_time_expression("2018-11-04", now, zone)  # began at one
    assert start == datetime(2018, 11, 4, 3, tzinfo=UTC)
    assert parse_time_expression("2026-01-05T09:00", now, parse_zone("+05:30")) == datetime(
        2026, 1, 5, 3, 30, tzinfo=UTC
    )
    assert parse_time_expression("2026-01-05T09:00Z", now, zone) == datetime(2026, 1, 5, 9, tzinfo=UTC)
    with pytest.raises(UsageError):
        parse_time_expression("9999-12-31", now, zone, end=True)
