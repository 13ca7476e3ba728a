"""The time page, asked over a real socket: spans of model, tools, agents and people, each with its step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from itertools import pairwise
from urllib.parse import quote

import pytest

from tests.serving import serving
from tests.web.pages.test_lists import Place, S, hostile, settled
from unspool.demo.write import write_demo
from unspool.testing.build import assistant, session, tool_result, tool_use, user, wait

LONG = S[7]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("time")
    config = folder / "claude"
    write_demo(config)
    hostile(config)
    asked = tool_use("AskUserQuestion", questions=[{"question": "Which?", "options": []}])
    session(
        user("Do it"), wait(4), assistant(tool_use("Bash", command="make"), tool_use("Bash", command="ls")), wait(10),
        tool_result("made"), tool_result("listed"), wait(5), assistant(asked), wait(30),
        tool_result("this one", structured={"questions": [], "answers": {"Which?": "this one"}}),
        wait(3), assistant("Done."), wait(600), user("Thanks"), wait(2), assistant("Welcome."),
        assistant(tool_use("WebFetch", url="https://example.com")), wait(20),
        tool_result("page", structured={"bytes": 1, "code": 200, "codeText": "OK", "result": "page", "durationMs": 5000,
                                        "url": "https://example.com"}),
        id=S[4],
    ).save(config)  # fmt: skip
    steps = [
        step for number in range(400) for step in (assistant(tool_use("Bash", command=str(number))), tool_result("ok"))
    ]
    session(user("Many"), *steps, id=LONG).save(config)
    with serving(config, home=folder / "unspool") as served:
        served.enter()
        one = Place(served, config.resolve(), folder / "unspool")
        settled(one)
        yield one


def test_a_turn_is_divided_into_model_tools_and_waiting(place: Place) -> None:
    data = place.get(f"/session/{S[4]}/time.json?turn=1")
    kinds = [(span["kind"], span["name"]) for span in data["spans"]]
    assert kinds.count(("tool", "Bash")) == 2
    assert ("person", "AskUserQuestion") in kinds
    assert kinds.count(("model", "model")) == 3
    question = next(span for span in data["spans"] if span["kind"] == "person")
    assert question["milliseconds"] >= 30_000
    first, second = (span for span in data["spans"] if span["name"] == "Bash")
    assert first["start"] + first["milliseconds"] > second["start"], "they ran at the same time"
    assert sum(data["sums"].values()) == data["milliseconds"]
    assert data["sums"]["person"] >= 30_000
    requests = [
        (span["start"], span["start"] + span["milliseconds"]) for span in data["spans"] if span["kind"] == "model"
    ]
    assert all(end <= start for (_, end), (start, _) in pairwise(requests)), "a conversation has one request at a time"


def test_a_tool_that_reports_its_time_waited_before_it_ran(place: Place) -> None:
    spans = place.get(f"/session/{S[4]}/time.json?turn=2")["spans"]
    waiting, ran = (span for span in spans if span["name"] == "WebFetch")
    assert (waiting["kind"], ran["kind"], ran["milliseconds"]) == ("person", "tool", 5_000)
    assert waiting["milliseconds"] >= 15_000


def test_the_strip_has_every_turn_and_the_wait_between_them(place: Place) -> None:
    data = place.get(f"/session/{S[4]}/time.json")
    assert [(part["kind"], part["first"]) for part in data["strip"]] == [("turn", 1), ("wait", 2), ("turn", 2)]
    assert data["strip"][1]["milliseconds"] >= 600_000
    assert data["turn"] == 1, "the longest"


def test_each_span_leads_to_its_step(place: Place) -> None:
    for span in place.get(f"/session/{S[4]}/time.json?turn=1")["spans"]:
        detail = place.get(f"/session/{S[4]}/detail.json?step={span['step']}")
        assert span["kind"] == "model" or detail["row"]["name"] == span["name"]


def test_a_long_turn_is_read_in_parts(place: Place) -> None:
    data = place.get(f"/session/{LONG}/time.json?turn=1")
    assert data["parts"] > 1
    assert len(data["spans"]) < 500
    seen = {
        span["step"]
        for part in range(data["parts"])
        for span in place.get(f"/session/{LONG}/time.json?turn=1&part={part}")["spans"]
        if span["kind"] == "tool"
    }
    assert len(seen) == 400
    assert place.served.get(f"/session/{LONG}/time?turn=1&part=99").status == 404
    assert place.served.get(f"/session/{LONG}/time?turn=99").status == 404


def test_every_session_of_the_demo_has_its_time_and_links_are_answered(place: Place) -> None:
    for row in place.get("/sessions.json?hidden=1")["rows"]:
        html = place.page(f"/session/{quote(row['id'], safe='')}/time")
        assert "<script>alert" not in html
    html = place.page(f"/session/{S[4]}/time")
    for address in sorted({unescape(found) for found in re.findall(r'href="(/[^"#]*)', html)}):
        assert place.served.get(address).status == 200, address
    assert f'href="/session/{S[4]}/time"' in place.page(f"/session/{S[4]}")
