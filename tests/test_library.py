"""The library, as a program or a notebook uses it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

import unspool
from unspool.demo import write_demo
from unspool.errors import UsageError
from unspool.library import REPORTS


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library") / "demo"
    write_demo(folder)
    return folder


def test_cost_per_week_is_one_line(demo: Path) -> None:
    weeks = {row["week"]: row["cost_usd"] for row in unspool.open(demo).usage(by="week", timezone="UTC")}
    assert weeks
    assert all(date.fromisoformat(week).weekday() == 0 and dollars > 0 for week, dollars in weeks.items())


@pytest.mark.parametrize("by", REPORTS)
def test_every_table_adds_up_to_the_cost_of_all_sessions(by: str, demo: Path) -> None:
    home = unspool.open(demo)
    table = home.usage(by=by)
    micros = sum(session.usage.cost_micros for session in home.sessions())
    assert sum(row["cost_micros"] or 0 for row in table) == table.totals["cost_micros"] == micros
    assert table.totals["cost_usd"] == micros / 1_000_000


def test_a_response_that_is_in_two_folders_counts_once(demo: Path, tmp_path: Path) -> None:
    write_demo(tmp_path / "again")
    one, both = unspool.open(demo), unspool.open(demo, tmp_path / "again")
    assert both.usage().totals == one.usage().totals
    assert len(list(both.sessions())) == 2 * len(list(one.sessions()))
    assert len(list(unspool.open(demo, demo / "projects").sessions())) == len(list(one.sessions()))


def test_a_table_may_be_of_some_days_and_of_a_project(demo: Path) -> None:
    home = unspool.open(demo)
    days = home.usage(timezone="UTC")
    first = date.fromisoformat(days[0]["date"])
    assert [row["date"] for row in home.usage(since=first, until=first, timezone="UTC")] == [first.isoformat()]
    after = datetime(first.year, first.month, first.day, tzinfo=UTC) + timedelta(days=1)
    assert home.usage(since=after, timezone="UTC").rows == days[1:]
    projects = {row["project"]: row["cost_micros"] for row in home.usage(by="project")}
    assert home.usage(project="tidewatch").totals["cost_micros"] == projects["tidewatch"]


def test_an_unknown_group_is_refused_with_the_known_ones(demo: Path) -> None:
    with pytest.raises(UsageError) as caught:
        unspool.open(demo).usage(by="moon")
    assert "moon" in caught.value.message
    assert "week" in (caught.value.hint or "")


def test_responses_know_their_cost_and_time(demo: Path) -> None:
    for session in unspool.open(demo).sessions():
        responses = session.responses
        assert sum(response.cost_micros or 0 for response in responses) == session.usage.cost_micros
        assert all(response.time is not None for response in responses)
        assert session.usage.cost_usd == session.usage.cost_micros / 1_000_000


def test_tool_calls_have_text_and_times(demo: Path) -> None:
    calls = [call for session in unspool.open(demo).sessions() for call in session.tool_calls]
    bash = [call for call in calls if call.name == "Bash" and call.result]
    assert bash
    assert any(call.output for call in bash)
    for call in bash:
        assert isinstance(call.started, datetime)
        assert call.ended is None or call.ended >= call.started


def test_what_a_prompt_prints_is_short(demo: Path) -> None:
    home = unspool.open(demo)
    assert repr(home).startswith("<Home ")
    for session in home.sessions():
        shown = [home.usage(), session, *session.entries, *session.threads, *session.turns]
        shown += [*session.messages, *session.tool_calls, *session.agents]
        for thing in shown:
            assert len(repr(thing)) < 200
            assert "Raw" not in repr(thing)


def test_a_notebook_shows_tables_without_running_what_a_title_holds(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-work"
    folder.mkdir(parents=True)
    line = {
        "type": "user", "uuid": "a", "sessionId": "s", "timestamp": "2026-01-05T09:00:00Z", "cwd": "/<b>work",
        "message": {"role": "user", "content": "<script>alert(1)</script>"},
    }  # fmt: skip
    (folder / "00000000-0000-4000-8000-000000000000.jsonl").write_text(json.dumps(line) + "\n")
    home = unspool.open(tmp_path)
    assert "&lt;script&gt;" in home._repr_html_()
    assert "<script>" not in home._repr_html_()
    assert home.usage()._repr_html_().startswith("<table>")


def test_a_table_can_be_given_to_other_libraries(demo: Path) -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("arro3.core")
    table = unspool.open(demo).usage(by="model")
    frame = table.to_polars()
    assert frame["cost_usd"].sum() == pytest.approx(table.totals["cost_usd"])
    arrow = table.to_arrow()
    assert arrow.num_rows == len(table)
    assert polars.DataFrame(arrow)["total_tokens"].to_list() == [row["total_tokens"] for row in table]
    assert unspool.open(demo).usage(since="2000-01-01", until="2000-01-02").to_arrow().num_rows == 0


def test_the_command_and_the_library_say_the_same(demo: Path) -> None:
    command = [sys.executable, "-m", "unspool", "usage", "monthly", "--csv", "--tz", "UTC", "--no-store"]
    done = subprocess.run([*command, "--config-dir", demo], capture_output=True, text=True, check=True)
    printed = list(csv.DictReader(done.stdout.splitlines()))
    rows = unspool.open(demo).usage(by="month", timezone="UTC").rows
    assert [row["cost_micros"] for row in printed] == [str(row["cost_micros"]) for row in rows]


def test_the_cells_of_the_example_notebook_run(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = json.loads((Path(__file__).parents[1] / "docs" / "examples" / "usage.ipynb").read_text("utf-8"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(demo))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 4
    names: dict[str, object] = {}
    for cell in cells:
        exec(compile(cell, "usage.ipynb", "exec"), names)
