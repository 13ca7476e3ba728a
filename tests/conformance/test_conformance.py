"""The conformance set: what the library and the command say of each case is what `expected.json` says."""

from __future__ import annotations

import ast
import json
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import unspool
from unspool.cli.main import _COMMANDS
from unspool.format.records import Entry
from unspool.prices.bill import cost_micros
from unspool.prices.from_entries import response_of_entry
from unspool.prices.price_list import find_price
from unspool.prices.responses import Response, count_once
from unspool.read.source_tree import Kind
from unspool.read.tail import read_items

ROOT = Path(__file__).parents[2]
CASES = sorted((Path(__file__).parent / "cases").iterdir())

NUMBERS = (
    "input_tokens", "output_tokens", "cache_write_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens",
    "cache_read_tokens", "responses", "estimated_responses", "web_searches", "cost_micros", "unpriced_tokens",
)  # fmt: skip
TOKENS = ("input_tokens", "output_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "cache_read_tokens")
VIEWS = {"daily": "date", "sessions": "session", "models": "model"}

Line = tuple[str, Response]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


# What the library says.


@each_case
def test_the_library_counts_as_expected(case: Path) -> None:
    expected = expectation(case)
    counted = [one.response for one in count_once(lines(case))]
    assert viewed(told(counted, expected["zone"]), expected) == rows(expected)


@each_case
def test_the_order_of_files_and_lines_changes_nothing(case: Path) -> None:
    expected = expectation(case)
    counted = [one.response for one in count_once(reversed(lines(case)))]
    assert viewed(told(counted, expected["zone"]), expected) == rows(expected)


def lines(case: Path) -> list[Line]:
    """Return what each line of a case's sessions and agents says of a response, with its file."""
    sources = unspool.open(case / "config").tree.of(Kind.SESSION, Kind.AGENT)
    entries = (
        (str(source.path), item) for source in sources for item in read_items(source.path) if isinstance(item, Entry)
    )
    found = ((path, response_of_entry(entry, path)) for path, entry in entries)
    return [(path, response) for path, response in found if isinstance(response, Response)]


def told(responses: Iterable[Response], zone: str) -> list[dict[str, Any]]:
    """Return responses the way `expected.json` lists them."""
    return [described(response, zone) for response in responses]


def described(response: Response, zone: str) -> dict[str, Any]:
    known = find_price(response.model)
    return {
        "date": day(response.timestamp, zone),
        "session": response.session_id,
        "model": response.model,
        "input_tokens": response.input,
        "output_tokens": response.output,
        "cache_write_5m_tokens": response.cache_write_5m,
        "cache_write_1h_tokens": response.cache_write_1h,
        "cache_read_tokens": response.cache_read,
        "web_searches": response.web_searches,
        "estimated": not response.final,
        "bill": "by the table" if known else None,
        "cost_micros": cost_micros(response, known) if known else None,
    }


def day(timestamp: str | None, zone: str) -> str | None:
    try:
        time = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(ZoneInfo(zone)).date().isoformat()


# What the command says.


@pytest.mark.skipif("usage" not in _COMMANDS, reason="there is no such command yet")
@each_case
def test_the_command_prints_what_is_expected(case: Path, tmp_path: Path) -> None:
    expected = expectation(case)
    (tmp_path / "home").mkdir()
    asked = ("usage", "daily", "--json", "--tz", expected["zone"], "--config-dir", str(case / "config"))
    wanted = {view: found for view, found in rows(expected).items() if view in ("totals", "daily")}
    first = printed(asked, tmp_path)
    again = printed(asked, tmp_path)
    without = printed((*asked, "--no-store"), tmp_path)
    assert [shown(answer, expected) for answer in (first, again, without)] == [wanted, wanted, wanted]


def printed(arguments: Iterable[str], place: Path) -> dict[str, Any]:
    """Run the command in an empty home folder, with a store of the test's own, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "unspool", *arguments],
        env={
            "HOME": str(place / "home"),
            "UNSPOOL_HOME": str(place / "store"),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
        },
        cwd=place,
        capture_output=True,
        check=False,
        timeout=60,
    )
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    # An empty answer is exit code 1, and one line that says so.
    assert (done.returncode, bool(done.stderr)) == (int(not answer["items"]), not answer["items"])
    return answer


def shown(answer: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Return what was printed in the shape of `expected.json`; what it has beyond that is its own business."""
    keys = {"date", *NUMBERS, "models"}
    daily = [{key: value for key, value in row.items() if key in keys} for row in answer["rows"]]
    totals = {key: value for key, value in answer["totals"].items() if key in expected["totals"]}
    return {"totals": totals, "daily": in_order(daily, "date")}


# What is expected agrees with itself: no number is there that cannot be checked by hand.


@each_case
def test_every_cost_is_its_bill_rounded_half_to_even(case: Path) -> None:
    for response in expectation(case)["responses"]:
        bill = response["bill"]
        exact = round(value(ast.parse(bill, mode="eval").body)) if bill else None
        assert response["cost_micros"] == exact, bill


@each_case
def test_the_responses_add_up_to_all_rows(case: Path) -> None:
    expected = expectation(case)
    assert viewed(expected["responses"], expected) == rows(expected)


@each_case
def test_a_case_has_files_and_says_what_it_is_about(case: Path) -> None:
    assert sorted(path.name for path in case.iterdir()) == ["config", "expected.json"]
    assert list(case.glob("config/projects/**/*.jsonl"))
    about = expectation(case)["about"]
    assert about.endswith(".")
    link = f"[`{case.name}`](../tests/conformance/cases/{case.name}/expected.json)"
    assert f"- {link}: {about}" in page().splitlines()


def test_the_page_names_no_case_that_is_not_there() -> None:
    named = [line.split("`")[1] for line in page().splitlines() if line.startswith("- [`")]
    assert sorted(named) == [case.name for case in CASES]


def test_the_cases_are_many() -> None:
    assert len(CASES) >= 40


def page() -> str:
    return (ROOT / "docs" / "conformance.md").read_text()


def expectation(case: Path) -> dict[str, Any]:
    expected = json.loads((case / "expected.json").read_text())
    assert isinstance(expected, dict)
    return expected


def rows(expected: dict[str, Any]) -> dict[str, Any]:
    """Return what a case expects to be printed."""
    return {"totals": expected["totals"], **{view: expected[view] for view in VIEWS if view in expected}}


def viewed(responses: list[dict[str, Any]], expected: dict[str, Any]) -> dict[str, Any]:
    """Return responses added up as a whole and in the views that a case has."""
    views: dict[str, Any] = {"totals": added(responses)}
    for view, key in VIEWS.items():
        if view in expected:
            groups = {response[key] for response in responses}
            found = [(group, [one for one in responses if one[key] == group]) for group in groups]
            views[view] = in_order([{key: group, **added(some), **models(view, some)} for group, some in found], key)
    return views


def added(responses: list[dict[str, Any]]) -> dict[str, int | None]:
    sums = {name: sum(one[name] or 0 for one in responses) for name in (*TOKENS, "web_searches", "cost_micros")}
    sums["cache_write_tokens"] = sums["cache_write_5m_tokens"] + sums["cache_write_1h_tokens"]
    sums["responses"] = len(responses)
    sums["estimated_responses"] = sum(one["estimated"] for one in responses)
    sums["unpriced_tokens"] = sum(one[name] for one in responses if one["bill"] is None for name in TOKENS)
    is_known = sums["cost_micros"] or not sums["unpriced_tokens"]
    return {name: sums[name] if name != "cost_micros" or is_known else None for name in NUMBERS}


def models(view: str, responses: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {} if view == "models" else {"models": sorted({one["model"] for one in responses if one["model"]})}


def in_order(found: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Return rows by their key, those without one last."""
    return sorted(found, key=lambda row: (row[key] is None, row[key] or ""))


def value(node: ast.expr) -> Fraction:
    """Return what a bill comes to: sums and products of decimal numbers, exactly."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return value(left) + value(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return value(left) * value(right)
        case _:
            raise AssertionError(f"no sum: {ast.unparse(node)}")


# The set has teeth: ways of counting that have been seen elsewhere fail where they should.


def every_line(found: list[Line]) -> list[Response]:
    return [response for _, response in found]


def once_by(
    key: Callable[[Line], object], choose: Callable[[list[Response]], Response]
) -> Callable[..., list[Response]]:
    """Return a way of counting: which lines are one response, and which of them counts."""

    def count(found: list[Line]) -> list[Response]:
        groups: dict[object, list[Response]] = {}
        for line in found:
            groups.setdefault(key(line), []).append(line[1])
        return [choose(group) for group in groups.values()]

    return count


def by_id(line: Line) -> object:
    return line[1].id


def most(group: list[Response]) -> Response:
    return max(group, key=operator.attrgetter("output"))


@pytest.mark.parametrize(
    ("count", "notices"),
    [
        pytest.param(every_line, "lines-of-one-message", id="every line"),
        pytest.param(once_by(by_id, operator.itemgetter(0)), "streamed-placeholders", id="the first line"),
        pytest.param(once_by(by_id, operator.itemgetter(-1)), "later-line-has-fewer", id="the last line"),
        pytest.param(once_by(by_id, most), "tie-sidechain-comes-first", id="whichever chain comes first"),
        pytest.param(once_by(by_id, most), "straddles-midnight", id="the day of the line that counts"),
        pytest.param(
            once_by(lambda line: (line[1].id, line[1].request_id), most), "request-ids-differ", id="request ids too"
        ),
        pytest.param(once_by(lambda line: line[1].request_id, most), "one-request-id", id="request ids alone"),
        pytest.param(once_by(lambda line: (line[0], line[1].id), most), "resumed-new-uuids", id="each file for itself"),
        pytest.param(
            once_by(lambda line: (line[1].session_id, line[1].id), most),
            "resumed-new-session-id",
            id="each session for itself",
        ),
    ],
)
def test_a_wrong_way_of_counting_is_noticed(count: Callable[[list[Line]], list[Response]], notices: str) -> None:
    case = next(case for case in CASES if case.name == notices)
    expected = expectation(case)
    assert viewed(told(count(lines(case)), expected["zone"]), expected) != rows(expected)
