"""The cost page, asked over a real socket: its sums are those of the commands, and each request leads to its step."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.pseudo_terminal import until
from tests.serving import Served, serving
from tests.web.pages.test_lists import Place, S, hostile, settled
from unspool.demo.write import write_demo
from unspool.testing.build import assistant, session, user


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server on the demo folder, with a session in which everything is hostile."""
    folder = tmp_path_factory.mktemp("cost")
    config = folder / "claude"
    write_demo(config)
    hostile(config)
    with serving(config, home=folder / "unspool") as served:
        served.enter()
        one = Place(served, config.resolve(), folder / "unspool")
        settled(one)
        yield one


def test_the_sums_of_every_session_are_those_of_usage(place: Place) -> None:
    rows = place.command("usage", "session")["rows"]
    assert len(rows) > 10
    for row in rows:
        data = place.get(f"/session/{row['session']}/cost.json")
        assert (data["cost_micros"], data["unpriced_tokens"]) == (row["cost_micros"], row["unpriced_tokens"])
        assert data["requests"] == row["responses"]
        for name in ("kinds", "threads", "tiers", "models"):
            assert sum(one["cost_micros"] or 0 for one in data[name]) == (row["cost_micros"] or 0), name
        assert data["estimated_cost_micros"] == row["estimated_cost_micros"]


def test_the_sums_of_a_day_and_a_project_are_those_of_usage(place: Place) -> None:
    for options in ({"since": "2020-01-01"}, {"since": "2020-01-01", "project": "ledger"}):
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        totals = place.command("usage", *words)["totals"]
        data = place.get("/cost.json?" + "&".join(f"{name}={value}" for name, value in options.items()))
        assert data["cost_micros"] == totals["cost_micros"] > 0
        assert sum(one["cost_micros"] or 0 for one in data["sessions"]) == totals["cost_micros"]
    (day, *_) = place.command("usage", "--since", "2020-01-01")["rows"]
    data = place.get(f"/cost.json?since={day['date']}&until={day['date']}")
    assert data["cost_micros"] == day["cost_micros"]


def test_the_header_of_a_session_and_its_cost_page_say_the_same(place: Place) -> None:
    for row in place.get("/sessions.json?sort=cost")["rows"][:5]:
        assert place.get(f"/session/{row['id']}/cost.json")["cost_micros"] == row["cost_micros"]


def test_every_request_leads_to_a_step_of_its_response(place: Place) -> None:
    seen = 0
    for row in place.get("/sessions.json?sort=cost")["rows"][:6]:
        for one in place.get(f"/session/{row['id']}/cost.json")["listed"][:10]:
            detail = place.get(f"/session/{row['id']}/detail.json?step={one['step']}")
            assert any(one["id"] in raw["text"] for raw in detail["raw"]), one
            seen += 1
    assert seen > 20


def test_requests_are_paged_and_ordered_by_any_part(place: Place) -> None:
    whole = place.get("/cost.json?since=2020-01-01&order=output")
    amounts = [one["parts"].get("output", 0) for one in whole["listed"]]
    assert amounts == sorted(amounts, reverse=True)
    second = place.get("/cost.json?since=2020-01-01&order=output&offset=50")
    assert len(whole["listed"]) == 50
    assert not {one["id"] for one in whole["listed"]} & {one["id"] for one in second["listed"]}


def test_links_of_the_page_are_answered_and_nothing_hostile_is_in_it(place: Place) -> None:
    for path in ("/cost?since=2020-01-01", f"/session/{place.get('/sessions.json?sort=cost')['rows'][0]['id']}/cost"):
        html = place.page(path)
        assert "<script>alert" not in html
        for address in sorted({unescape(found) for found in re.findall(r'href="(/[^"#]*)', html)})[:40]:
            assert place.served.get(address).status == 200, address


def test_a_wrong_request_is_one_line(place: Place) -> None:
    for path, status in (
        ("/cost?order=x", 400),
        ("/cost?since=x", 400),
        ("/session/none/cost", 404),
        ("/cost?offset=99999999", 400),
    ):
        answer = place.served.get(path)
        assert answer.status == status, path
        assert "Traceback" not in answer.text


def test_the_usage_page_leads_to_the_cost_page(demo: Served) -> None:
    assert 'href="/cost?since=7d"' in demo.get("/usage?since=7d").text


def test_every_sum_leads_to_its_requests(place: Place) -> None:
    data = place.get("/cost.json?since=2020-01-01")
    seen = 0
    for name, groups in (("model", "models"), ("tier", "tiers"), ("thread", "threads")):
        for group in data[groups]:
            address = urlencode({"since": "2020-01-01", name: group[name]})
            found = place.get(f"/cost.json?{address}")
            assert found["listed_requests"] == group["requests"]
            assert found["cost_micros"] == data["cost_micros"]
            assert f"{address}#requests" in unescape(place.page("/cost?since=2020-01-01"))
            if name == "model":
                assert {one["model"] or "no model" for one in found["listed"]} == {group[name]}
            seen += 1
    assert seen > 4
    assert place.served.get("/cost?thread=nothing").status == 400


def test_sessions_have_their_titles(place: Place) -> None:
    data, text = place.get("/cost.json?since=2020-01-01"), unescape(place.page("/cost?since=2020-01-01"))
    titles = [data["titles"][group["session"]] for group in data["sessions"][:5] if group["session"] in data["titles"]]
    assert titles
    assert [title for title in titles if title not in text] == []


def test_a_request_whose_session_is_nowhere_any_more_is_shown_without_a_link(tmp_path: Path) -> None:
    config, home = tmp_path / "claude", tmp_path / "unspool"
    home.mkdir()
    (home / "settings.json").write_text('{"archive": false}')
    path = session(user("Try"), assistant("Done."), id=S[1]).save(config)
    session(user("Stay"), assistant("Here."), id=S[2]).save(config)
    with serving(config, home=home) as served:
        served.enter()
        place = Place(served, config.resolve(), home)
        while len(place.get("/cost.json?since=2020-01-01")["listed"]) < 2:
            pass
        path.unlink()
        session(user("Next"), assistant("New."), id=S[3]).save(config)
        while len(place.get("/cost.json?since=2020-01-01")["listed"]) < 3:
            pass
        listed = {one["session"]: one["is_readable"] for one in place.get("/cost.json?since=2020-01-01")["listed"]}
        assert listed == {S[1]: False, S[2]: True, S[3]: True}
        for page in ("/cost?since=2020-01-01", f"/session/{S[1]}/cost"):
            text = place.page(page)
            assert "its session file is gone" in text
            for href in re.findall(r'href="(/session/[^"]*step=[^"]*)"', text):
                assert served.get(unescape(href)).status == 200


def test_the_users_own_prices_hold_on_the_page_of_a_session(tmp_path: Path) -> None:
    config, home = tmp_path / "claude", tmp_path / "unspool"
    home.mkdir()
    (home / "settings.json").write_text('{"prices": {"house-model": {"input": 1000000, "output": 0}}}')
    usage = {"input_tokens": 7, "output_tokens": 1}
    session(user("Try"), assistant("Done.", model="house-model", usage=usage), id=S[1]).save(config)
    with serving(config, home=home) as served:
        served.enter()
        place = Place(served, config.resolve(), home)
        while not place.get(f"/session/{S[1]}/cost.json")["requests"]:
            pass
        cost = place.get(f"/session/{S[1]}/cost.json")["cost_micros"]
        assert cost > 1_000_000  # nothing but these tokens at the user's own price could cost that much
        assert place.get(f"/session/{S[1]}.json")["head"]["usage"]["cost_micros"] == cost


def build_copies(config: Path) -> None:
    """Write a session that was copied to another folder, and continued in both."""
    turns = [("One", "First.", 90_000), ("Two", "Second.", 1), ("Three", "Third.", 50_000), ("Four", "Fourth.", 70_000)]
    # Each turn is built as a session of its own: the ids of responses follow from that of the session.
    one, two, three, four = (
        [
            line.replace(S[number].encode(), S[1].encode())
            for line in session(user(prompt), assistant(answer, usage={"output_tokens": tokens}), id=S[number]).lines
        ]
        for number, (prompt, answer, tokens) in enumerate(turns, 2)
    )
    before = session(user("A line before all others"), id=S[1]).lines
    for name, lines in (("-p-one", [*one, *two, *four]), ("-p-two", [*before, *one, *two, *three])):
        folder = config / "projects" / name
        folder.mkdir(parents=True)
        (folder / f"{S[1]}.jsonl").write_bytes(b"".join(lines))
    opened = config / "projects" / "-p-two" / f"{S[1]}.jsonl"
    os.utime(opened, (time.time() + 60,) * 2)  # pages open the file that changed last


def test_of_a_session_with_files_in_two_folders_each_request_leads_to_its_step(tmp_path: Path) -> None:
    config = tmp_path / "claude"
    build_copies(config)
    with serving(config, home=tmp_path / "unspool") as served:
        served.enter()
        until(lambda: served.get("/sessions.json").json["sessions"] >= 1, patience=60)
        data = served.get(f"/session/{S[1]}/cost.json").json
        (row,) = served.get("/sessions.json").json["rows"]
        assert data["cost_micros"] == row["cost_micros"]
        assert [one["folder"].rpartition("/")[2] for one in data["folders"]] == ["-p-one", "-p-two"]
        assert sum(one["cost_micros"] for one in data["folders"]) == data["cost_micros"]
        found = {}
        for one in data["listed"]:
            if one["step"] is not None:
                detail = served.get(f"/session/{S[1]}/detail.json?step={one['step']}").text
                found[one["counts"]["output"]] = next(word for word in ("First", "Second", "Third") if word in detail)
        assert {found[90_000], found[50_000]} == {"First", "Third"}
        # The file that the page opens does not have the fourth answer.
        (lost,) = [one for one in data["expensive"] if one["counts"]["output"] == 70_000]
        assert (lost["step"], lost["is_readable"], lost["turn"]) == (None, False, None)
        only = served.get(f"/session/{S[1]}/cost.json?folder={data['folders'][1]['folder']}").json
        assert [one["counts"]["output"] for one in only["listed"]] == [50_000]
        assert "files in 2 folders" in served.get(f"/session/{S[1]}/cost").text
