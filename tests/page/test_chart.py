"""Context and cost, request by request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.page.scene import built, viewed
from unspool.page.chart import MAX_COLUMNS, REMAINDER
from unspool.page.html.charts import render_context_chart
from unspool.page.html.render import session_links
from unspool.testing.build import Step, assistant, compaction, note, queued, rewind, tool_result, tool_use, user


def request(read: int, write: int = 100, fresh: int = 10, model: str = "claude-opus-4-5", **fields: Any) -> Step:
    usage = {"input_tokens": fresh, "cache_read_input_tokens": read, "cache_creation_input_tokens": write}
    return assistant("ok", usage={**usage, "cache_creation": None}, model=model, **fields)


def test_each_request_is_counted_once_with_all_its_tokens(tmp_path: Path) -> None:
    view = viewed(tmp_path, user("go"), assistant("a", "b", tool_use("Bash")), tool_result("x"), request(500))
    chart = view.chart()
    assert [(column.read, column.write, column.fresh) for column in chart.columns] == [(12_000, 200, 4), (500, 100, 10)]
    assert chart.spent == view.outline().head.usage.cost_micros
    assert chart.peak == 12_204


def test_a_session_tells_what_happened_when(tmp_path: Path) -> None:
    kinds = [marker.kind for marker in built(tmp_path).chart().markers]
    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {
        "agent": 2,
        "compaction": 1,
        "error": 2,
        "prompt": 6,
    }


def test_the_limit_is_the_models_own(tmp_path: Path) -> None:
    limits = {
        "known": [request(10)],
        "none": [request(10, model="other-model")],
        "longer": [request(300_000)],
        "said": [note("cost-state", modelUsage={"new": {"contextWindow": 500_000}}), request(10, model="new")],
    }
    found = {
        name: viewed(tmp_path / name, user("go"), *lines).chart().columns[0].limit for name, lines in limits.items()
    }
    assert found == {"known": 200_000, "none": None, "longer": 1_000_000, "said": 500_000}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([request(50_000), request(60_000)], None),
        ([request(50_000), request(0, 60_000)], "cache lost: the start of the prompt had changed"),
        (
            [request(50_000), request(0, 60_000, timestamp="2026-01-05T09:10:00.000Z")],
            "cache lost after a pause of 9 min 59 s (it lives 5 minutes)",
        ),
        (
            [request(50_000), request(0, 60_000, model="claude-haiku-4-5")],
            "cache lost by a model switch from claude-opus-4-5 to claude-haiku-4-5",
        ),
        ([request(50_000), compaction("so far"), request(0, 60_000)], None),
        ([request(1_000), request(0, 2_000)], None),
    ],
)
def test_a_cache_that_was_of_no_use_is_flagged_with_the_reason(
    tmp_path: Path, lines: list[Step], reason: str | None
) -> None:
    columns = viewed(tmp_path, user("go"), *lines).chart().columns
    assert [column.missed for column in columns] == [None, reason]


def test_a_long_session_has_few_columns_and_all_the_cost(tmp_path: Path) -> None:
    view = viewed(tmp_path, user("go"), *[request(100 + number) for number in range(1_500)])
    chart = view.chart()
    assert len(chart.columns) <= MAX_COLUMNS
    assert chart.requests == 1_500
    assert chart.columns[-1].requests == 1_500
    assert chart.spent == view.outline().head.usage.cost_micros
    drawing = render_context_chart(chart, session_links("x").step)
    assert drawing.count("<") < 6 * MAX_COLUMNS
    assert "style=" not in drawing


def test_what_fills_the_context_adds_up_exactly(tmp_path: Path) -> None:
    big = [assistant(tool_use("Read", id="r", file_path="/big.py")), tool_result("x" * 40_000, id="r")]
    view = viewed(tmp_path, user("go"), *big, request(20_000, 500, 7))
    filling = view.chart().filling
    assert filling.total == 20_507
    assert sum(share.tokens for share in filling.kinds) == 20_507
    assert filling.kinds[0].name in ("results of Read", REMAINDER)
    assert [share.name for share in filling.files] == ["/big.py"]
    assert filling.files[0].bytes >= 40_000, "what was read counts, not only the call"


def test_what_was_read_on_a_branch_that_was_left_is_not_in_the_context(tmp_path: Path) -> None:
    # Before 2.1.100 a queued prompt is no line of the graph: it belongs to the branch of the prompt before it.
    read = [assistant(tool_use("Read", id="r", file_path="/big.py")), tool_result("x" * 40_000, id="r")]
    branch = [user("b"), assistant("1"), queued("also"), *read, rewind()]
    view = viewed(tmp_path, user("a"), request(100), *branch, user("c"), request(20_000), version="2.0.76")
    assert [turn.left for turn in view.outline().turns] == [False, True, True, False]
    assert view.chart().filling.files == ()


def test_a_notebook_counts_as_a_changed_file_and_fills_the_context(tmp_path: Path) -> None:
    change = tool_use("NotebookEdit", id="n", notebook_path="/a.ipynb", new_source="x = 1")
    view = viewed(tmp_path, user("go"), assistant(change), tool_result("y" * 9_000, id="n"), request(20_000))
    assert view.outline().head.files == 1
    assert [share.name for share in view.chart().filling.files] == ["/a.ipynb"]


def test_a_session_without_requests_has_no_chart(tmp_path: Path) -> None:
    chart = viewed(tmp_path, user("go")).chart()
    assert (chart.columns, render_context_chart(chart, session_links("x").step)) == ((), "")
