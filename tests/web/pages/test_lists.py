"""The pages that list things, asked over a real socket: what they say is what the commands say."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest
from starlette.datastructures import QueryParams

from tests.serving import Served, serving
from unspool.demo.write import write_demo
from unspool.store import Preferences
from unspool.store.catalog import CatalogCache
from unspool.testing.build import assistant, note, session, tool_result, tool_use, user
from unspool.web.pages import sessions
from unspool.web.serving.site import Site

S = [f"{number}0000000-0000-4000-8000-00000000000{number}" for number in range(10)]
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
PAGES = [
    "/sessions", "/sessions?hidden=1&sort=title", "/sessions?group=project", "/sessions/values?facet=branch",
    "/usage", "/usage?period=blocks&range=all", "/usage?range=all&sort=output",
    "/usage?period=model&metric=tokens", "/usage?period=agent",
    "/search/errors?since=all", "/search?errors=1", "/search", "/search?q=alert",
    "/search?q=a*&errors=1", "/sql", "/sql?q=SELECT+title+FROM+sessions", "/library",
    "/library/plans", "/library/todos", "/library/tasks", "/library/history", "/library/memory", "/library/settings",
    "/library/versions",
]  # fmt: skip


class Place:
    """A server on a folder that a test has made, and the same asked on the command line."""

    def __init__(self, served: Served, config: Path, home: Path) -> None:
        self.served, self.config, self.home = served, config, home

    def get(self, path: str) -> Any:
        answer = self.served.get(path)
        assert answer.status == 200, answer.text[:2000]
        return answer.json

    def page(self, path: str) -> str:
        answer = self.served.get(path)
        assert answer.status == 200, answer.text[:2000]
        return answer.text

    def command(self, *words: str) -> Any:
        command = [sys.executable, "-m", "unspool", *words, "--json", "--config-dir", str(self.config)]
        environment = {"UNSPOOL_HOME": str(self.home), "TZ": "UTC", "PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server on the demo folder, with a session in which everything is hostile."""
    folder = tmp_path_factory.mktemp("lists")
    config = folder / "claude"
    write_demo(config)
    hostile(config)
    with serving(config, home=folder / "unspool") as served:
        served.enter()
        one = Place(served, config.resolve(), folder / "unspool")
        settled(one)
        yield one


def hostile(config: Path) -> None:
    edit = assistant(tool_use(EVIL, file_path=EVIL), tool_use("Edit", file_path=f"/p/{EVIL}"), model=EVIL)
    patch = {"structuredPatch": [{"lines": [f"+{EVIL}"]}]}
    steps = [user(EVIL), edit, tool_result(EVIL, error=True), tool_result("ok", structured=patch)]
    link = note("pr-link", prNumber=1, prUrl=f"javascript:{EVIL}", prRepository=EVIL)
    session(*steps, link, note("custom-title", customTitle=EVIL), id=S[1], cwd=f"/p/{EVIL}", branch=EVIL).save(config)
    (config / "plans").mkdir(exist_ok=True)
    (config / "plans" / "evil-plan.md").write_text(f"# {EVIL}\n\n- [ ] {EVIL}\n- [x] done {EVIL}\n")
    (config / "todos").mkdir(exist_ok=True)
    todo = [{"content": EVIL, "status": EVIL, "activeForm": EVIL}]
    (config / "todos" / f"{S[1]}-agent-{S[1]}.json").write_text(json.dumps(todo))
    tasks = config / "tasks" / S[1]
    tasks.mkdir(parents=True)
    task = {
        "id": "1",
        "subject": EVIL,
        "description": EVIL,
        "status": "pending",
        "owner": EVIL,
        "blocks": [],
        "blockedBy": [EVIL],
    }
    (tasks / "1.json").write_text(json.dumps(task))
    with (config / "history.jsonl").open("a") as file:
        file.write(
            json.dumps({"display": EVIL, "timestamp": 1767600000000, "project": EVIL, "pastedContents": {}}) + "\n"
        )


def settled(place: Place) -> None:
    """Wait until the server has read and indexed everything."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = place.get("/sessions.json")
        if found["sessions"] > 10 and not found["undigested"]:
            return
        time.sleep(0.05)
    raise AssertionError("the store was not filled in time")


class Seen(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_has_a_twin_and_nothing_in_it_runs(place: Place, path: str) -> None:
    text = place.page(path)
    head, mark, query = path.partition("?")
    place.get(f"{head}.json{mark}{query}")
    seen = Seen(text)
    assert all((one.get("src") or "").startswith("/static/") for one in seen.all("script"))
    assert seen.all("img") == []
    for _, attributes in seen.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
        href = attributes.get("href") or ""
        assert href.startswith(("/", "#", "https://")) or not href
    assert "alert(1)</script>" not in text


def test_the_hostile_session_is_seen_as_it_is(place: Place) -> None:
    (row,) = [row for row in place.get("/sessions.json")["rows"] if row["id"] == S[1]]
    assert (row["title"], row["branch"], row["models"]) == (EVIL, EVIL, [EVIL])
    assert (row["files"], row["added"], row["removed"]) == (1, 1, 0)
    assert "&lt;script&gt;alert(1)" in place.page("/sessions")
    assert "&lt;script&gt;alert(1)" in place.page(f"/library/plans?{urlencode({'name': 'evil-plan'})}")
    (hit, *_) = place.get("/search.json?q=alert&in=prompt")["hits"]
    assert hit["session"] == S[1]


def test_sessions_are_those_of_ls_with_the_same_numbers(place: Place) -> None:
    listed = {row["id"]: row for row in place.command("ls")["items"]}
    found = place.get("/sessions.json?limit=1000")
    rows = {row["id"]: row for row in found["rows"]}
    assert {id for row in found["rows"] for id in (row["id"], *row["folded"])} == set(listed)
    for name in ("title", "project", "branch", "turns", "tool_calls", "errors", "agents", "cost_micros", "started"):
        assert {id: row[name] for id, row in rows.items()} == {id: listed[id][name] for id in rows}, name
    assert found["hidden"]


def test_a_page_of_sessions_leads_to_the_next_one_until_all_were_shown(place: Place) -> None:
    whole = [row["id"] for row in place.get("/sessions.json?limit=1000&sort=cost")["rows"]]
    path, shown = "/sessions?sort=cost&limit=4", list[str]()
    while path:
        text = place.page(path)
        shown += re.findall(r'<tr data-session="([^"]+)">', text)
        found = [one for one in Seen(text).all("a") if one.get("id") == "next"]
        path = found[0]["href"] or "" if found else ""
    assert shown == whole


def test_the_first_page_of_a_long_list_is_short_and_all_rows_come_once(tmp_path: Path) -> None:
    for number in range(120):
        session(user(f"Prompt {number}"), assistant("Yes"), id=f"{number:08d}-0000-4000-8000-000000000000").save(
            tmp_path / "claude"
        )
    with serving(tmp_path / "claude", home=tmp_path / "unspool") as served:
        served.enter()
        assert until(lambda: len(served.get("/sessions.json").json["rows"]) == 120)
        shown: list[list[str]] = []
        path: str | None = "/sessions"
        while path:
            page = served.get(path).text
            shown.append(re.findall(r'<tr data-session="([^"]+)"', page))
            following = re.search(r'id="next" href="([^"]+)"', page)
            path = following[1].replace("&amp;", "&") if following else None
        expected = [row["id"] for row in served.get("/sessions.json").json["rows"]]
    assert list(map(len, shown)) == [50, 70]
    assert [id for rows in shown for id in rows] == expected


def test_what_a_menu_says_is_what_choosing_it_gives(place: Place) -> None:
    facets = place.get("/sessions.json")["facets"]
    for name in ("project", "branch", "model", "tool", "month"):
        assert facets[name]
        for value, count in facets[name]:
            assert place.get(f"/sessions.json?{urlencode({name: value})}")["sessions"] == count, (name, value)
    for name, count in facets["has"].items():
        assert place.get(f"/sessions.json?has={name}")["sessions"] == count


def test_all_values_of_a_filter_have_a_page_on_which_each_is_a_link(place: Place) -> None:
    facets = place.get("/sessions.json")["facets"]
    for name in ("project", "branch", "model", "tool", "file", "month"):
        told = place.get(f"/sessions/values.json?facet={name}&sort=cost")
        assert told["total"] == len(told["values"]) == facets["totals"][name]
        text = place.page(f"/sessions/values?facet={name}&sort=cost")
        links = [one["href"] for one in Seen(text).all("a") if (one.get("href") or "").startswith("/sessions?")]
        found = [value for href in links for value in parse_qs(urlsplit(href or "").query).get(name, [])]
        assert found == [one["value"] for one in told["values"]]
    found = place.get("/sessions/values.json?facet=project&find=tide")["values"]
    assert [one["value"] for one in found] == ["tidewatch"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/sessions?sort=nothing", "unknown column"),
        ("/sessions?has=nothing", "unknown filter"),
        ("/sessions?offset=-1", "invalid number"),
        ("/sessions?group=odd", "unknown group"),
        ("/sessions/values?facet=odd", "unknown filter"),
        ("/sessions?since=soon", "invalid time"),
        ("/sessions?month=13", "invalid time"),
        ("/usage?period=hourly", "unknown period"),
        ("/usage?metric=joy", "unknown number"),
        ("/usage?order=odd", "unknown order"),
        ("/usage?range=odd", "unknown range"),
        ("/usage?sort=odd", "unknown column"),
        ("/search?q=a&in=nothing", "unknown kind"),
        ("/search?q=a&limit=x", "invalid number"),
        ("/search?q=%2B", "no word to search for in"),
        ("/library/history?offset=x", "invalid number"),
    ],
)
def test_what_is_asked_wrong_is_said_in_one_line(place: Place, path: str, words: str) -> None:
    answer = place.served.get(path)
    assert answer.status == 400
    assert words in answer.text
    head, mark, query = path.partition("?")
    told = place.served.get(f"{head}.json{mark}{query}").json
    assert words in told["error"]
    assert told["hint"]


def test_nothing_is_at_a_shelf_or_plan_or_form_that_is_not_there(place: Place) -> None:
    for path in (
        "/library/nothing",
        "/library/plans?name=nothing",
        "/library/versions?session=nothing",
        "/sql/rows.exe?q=1",
    ):
        assert place.served.get(path).status == 404, path


@pytest.mark.parametrize(
    "period", ["daily", "weekly", "monthly", "model", "project", "branch", "agent", "session", "blocks"]
)
def test_usage_says_what_the_command_says(place: Place, period: str) -> None:
    said = place.command("usage", period)
    found = place.get(f"/usage.json?period={period}&range=all")
    # The command has more names for the same: `session_id` beside `session`.
    items = [{name: item[name] for name in row} for item, row in zip(said["items"], found["rows"], strict=True)]
    assert (found["rows"], found["totals"]) == (items, said["totals"])


@pytest.mark.parametrize(("metric", "column"), [("cost", "cost_micros"), ("tokens", "total_tokens")])
@pytest.mark.parametrize("period", ["daily", "weekly", "monthly"])
def test_the_columns_of_a_chart_add_up_to_the_rows(place: Place, period: str, metric: str, column: str) -> None:
    found = place.get(f"/usage.json?period={period}&metric={metric}&range=all")
    chart = {one["label"]: sum(one["values"]) for one in found["chart"]["columns"]}
    label = {"daily": "date", "weekly": "week", "monthly": "month"}[period]
    assert {name: total for name, total in chart.items() if total} == {
        row[label]: row[column] for row in found["rows"] if row[column]
    }
    assert sum(chart.values()) == found["totals"][column]


def test_usage_covers_the_last_thirty_days_unless_another_range_is_chosen(place: Place) -> None:
    for query, name in (
        ("", "30d"),
        ("?range=7d", "7d"),
        ("?range=month", "month"),
        ("?range=last-month", "last-month"),
    ):
        found = place.get(f"/usage.json{query}")
        times = [word for key in ("since", "until") if found[key] for word in (f"--{key}", found[key])]
        said = place.command("usage", "daily", *times)
        assert (found["range"], found["rows"], found["totals"]) == (name, said["items"], said["totals"])
        days = [column["label"] for column in found["chart"]["columns"] if column["label"] != "no time"]
        first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
        assert days == [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]
        assert days[0] == found["since"]
    assert len(place.get("/usage.json")["chart"]["columns"]) == 30


def test_the_overview_adds_up_to_what_the_command_says(place: Place) -> None:
    found = place.get("/usage.json?range=all")
    overview, totals = found["overview"], place.command("usage", "daily")["totals"]
    assert overview["totals"] == totals
    timed = sum(row["cost_micros"] or 0 for row in found["rows"] if row["date"])
    assert sum(overview["hours"].values()) == timed
    by_day = {row["date"]: row["cost_micros"] or 0 for row in found["rows"]}
    assert overview["peak"] == by_day[overview["peak_day"]] == max(by_day.values())
    assert {day: by_day[day] for day in overview["calendar"]} == overview["calendar"]
    projects = {row["project"]: row["cost_micros"] for row in place.command("usage", "project")["items"]}
    assert [(one["name"], one["value"]) for one in overview["projects"]] == sorted(
        ((name, cost) for name, cost in projects.items() if name and cost), key=lambda item: -item[1]
    )[:6]
    sessions = {row["session"]: row["cost_micros"] for row in place.command("usage", "session")["items"]}
    assert all(sessions[one["name"]] == one["value"] for one in overview["sessions"])


def test_rows_of_usage_have_titles_lead_on_and_can_be_sorted(place: Place) -> None:
    titles = {row["id"]: row["title"] for row in place.get("/sessions.json?limit=1000&hidden=1")["rows"]}
    text = place.page("/usage?period=session&range=all")
    rows = [row["session"] for row in place.get("/usage.json?period=session&range=all")["rows"] if row["session"]]
    known = [id for id in rows if titles.get(id) and "<" not in titles[id]]
    assert known
    for id in known:
        assert f'<a href="/session/{id}">' in text
    day = place.get("/usage.json?range=all")["rows"][0]["date"]
    assert f'href="/usage?period=session&amp;since={day}&amp;until={day}"' in place.page("/usage?range=all")
    outputs = re.findall(r'<tr><td title.*?</td><td class="wide">.*?</tr>', place.page("/usage?range=all&sort=output"))
    numbers = [int(re.findall(r'<td class="number">([\d,]+)</td>', row)[-1].replace(",", "")) for row in outputs]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) > 3


def test_usage_of_a_time_and_a_project_is_that_of_the_command(place: Place) -> None:
    words = ["--since", "2026-10-10", "--until", "2026-11-09", "--project", "ledger"]
    said = place.command("usage", "daily", *words)
    query = urlencode({name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)})
    found = place.get(f"/usage.json?{query}")
    assert found["rows"] == said["items"]
    assert found["rows"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("q=tide&limit=2000", ["tide"]),
        ("q=tide&limit=200000", ["tide"]),
        ("q=tide&in=tool_result&limit=2000", ["tide", "--in", "tool_result"]),
        ("q=ti.e&regex=1&limit=2000", ["--regex", "ti.e"]),
        ("q=station&tool=Edit&limit=2000", ["station", "--tool", "Edit"]),
        ("q=the&project=ledger&since=2026-10-01&limit=2000", ["the", "--project", "ledger", "--since", "2026-10-01"]),
    ],
)  # fmt: skip
def test_search_finds_what_the_command_finds(place: Place, query: str, words: list[str]) -> None:
    said = place.command("search", *words, "--limit", "0")
    found = place.get(f"/search.json?{query}")["hits"]
    items = [{name: item[name] for name in found[0]} for item in said["items"]]
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, items))
    assert found


def test_errors_are_found_without_words(place: Place) -> None:
    said = place.command("search", "--errors", "--limit", "0")["items"]
    found = place.get("/search.json?errors=1&limit=2000")["hits"]
    assert sorted((hit["file"], hit["offset"]) for hit in found) == sorted((hit["file"], hit["offset"]) for hit in said)
    assert found


def test_the_page_says_that_a_number_of_hits_is_the_limit_and_how_many_there_are(place: Place) -> None:
    found = place.get("/search.json?q=the&limit=5")
    assert (len(found["hits"]), found["more"]) == (5, True)
    assert found["matching"] > 5
    assert f"the best 5 hits of about {found['matching']:,}" in place.page("/search?q=the&limit=5")


def test_failures_are_grouped_by_kind_and_every_session_is_linked(place: Place) -> None:
    found = place.get("/search/errors.json?since=all")
    hits = place.get("/search.json?errors=1&limit=2000")["hits"]
    assert sum(kind["failures"] for kind in found["kinds"]) == found["failures"]
    assert found["failures"] + found["rejected"] == len(hits)
    links = {one["href"] for one in Seen(place.page("/search/errors?since=all")).all("a")}
    for kind in found["kinds"]:
        assert kind["failures"] == sum(one["failures"] for one in kind["sessions"])
        for one in kind["sessions"]:
            assert any((href or "").startswith(f"/session/{quote(one['session'])}?step=") for href in links)


def test_kinds_of_text_have_plain_words(place: Place) -> None:
    text = place.page("/search?q=tide&limit=2000")
    assert "tool_result" not in re.sub(r'value="[^"]*"', "", text)
    for words in ("in tool results", "in details of results", "regex", "fast (index only)"):
        assert words in text


def test_a_hit_leads_to_its_step_and_an_agents_to_the_agent_in_its_session(place: Place) -> None:
    hits = place.get("/search.json?q=tide&limit=2000")["hits"]
    text = place.page("/search?q=tide&limit=2000")
    links = {one["href"] for one in Seen(text).all("a") if (one.get("href") or "").startswith("/session/")}
    steps = {(urlsplit(href).path, *parse_qs(urlsplit(href).query).get("step", [])) for href in links if href}
    expected = [hit for hit in hits if hit["session"] and hit["kind"] not in ("plan", "todo", "history")]
    assert expected
    for hit in expected:
        step = f"{hit['agent']}/{hit['offset']}" if hit["agent"] else str(hit["offset"])
        # Several hits with the same text are one entry.
        same = [one for one in expected if (one["session"], one["turn"]) == (hit["session"], hit["turn"])]
        is_alone = sum(_plain(one) == _plain(hit) for one in same) == 1
        assert (f"/session/{quote(hit['session'])}", step) in steps or not is_alone
    assert any(hit["agent"] and f"agent={hit['agent']}" in href for hit in expected for href in links if href)
    assert "<mark>" in text
    some = next(hit for hit in expected if hit["kind"] == "tool_result" and not hit["agent"])
    assert place.served.get(f"/session/{some['session']}?step={some['offset']}").status == 200


def _plain(hit: Any) -> str:
    return str(hit["snippet"]).replace("«", "").replace("»", "")


def test_sql_answers_with_rows_that_are_cut_and_the_downloads_have_everything(place: Place) -> None:
    query = "SELECT range AS n, repeat('x', 1000) AS long, NULL AS nothing, [1, 2] AS some FROM range(600)"
    found = place.get(f"/sql.json?{urlencode({'q': query})}")
    assert (found["columns"], len(found["rows"]), found["more"]) == (["n", "long", "nothing", "some"], 500, True)
    assert found["rows"][7] == ["7", "x" * 400 + "…", None, "[1,2]"]
    kept = place.served.get(f"/sql/rows.csv?{urlencode({'q': query})}")
    assert kept.headers["content-disposition"] == 'attachment; filename="rows.csv"'
    rows = list(csv.DictReader(io.StringIO(kept.text)))
    assert (len(rows), rows[599]["n"], len(rows[0]["long"]), rows[0]["nothing"]) == (600, "599", 1000, "")
    objects = place.served.get(f"/sql/rows.json?{urlencode({'q': query})}").json
    assert (len(objects), objects[599]["n"], objects[0]["some"]) == (600, 599, [1, 2])


def test_a_page_shows_control_characters_as_signs_and_sends_a_form_back_as_it_was(place: Place) -> None:
    query = "SELECT chr(27) || '[31mred' || chr(8238) AS cell, '\u200b' AS nothing"
    path = f"/sql?{urlencode({'q': query})}"
    text = place.page(path)
    assert "<td>red&lt;U+202E&gt;</td><td>&lt;U+200B&gt;</td>" in text
    assert "\x1b" not in text
    assert "&#39;\u200b&#39; AS nothing</textarea>" in text
    assert place.get(path.replace("/sql", "/sql.json"))["rows"] == [["\x1b[31mred\u202e", "\u200b"]]


def test_sql_sorts_all_rows_and_links_the_sessions_among_its_cells(place: Place) -> None:
    query = "SELECT range AS n, -range AS m FROM range(2000); -- all"
    plain = urlencode({"q": query.partition(";")[0]})
    assert place.get(f"/sql.json?{plain}&sort=1&reverse=1")["rows"][0] == ["1999", "-1999"]
    assert place.get(f"/sql.json?{plain}&sort=2")["rows"][0] == ["1999", "-1999"]
    assert place.get(f"/sql.json?{plain}%3B&sort=2")["rows"][0] == ["1999", "-1999"]
    assert f'href="/sql?{plain}&amp;sort=1&amp;reverse=1"' in place.page(f"/sql?{plain}&sort=1").replace("%27", "'")
    found = place.get("/sql.json?q=SELECT+session_id+AS+x,+title+FROM+sessions")
    shown = {row[0] for row in found["rows"]}
    assert set(found["sessions"]) == shown
    text = place.page("/sql?q=SELECT+session_id+AS+x,+title+FROM+sessions")
    assert all(f'href="/session/{quote(id)}"' in text for id in shown)
    assert place.served.get("/sql?q=SELECT+1&sort=9").status == 400
    assert place.served.get("/sql?q=SELECT+1&sort=x").status == 400


def test_sql_says_what_the_command_says(place: Place) -> None:
    query = "SELECT name, count(*) AS calls FROM tool_calls GROUP BY name ORDER BY name"
    said = place.command("sql", query)
    assert place.served.get(f"/sql/rows.json?{urlencode({'q': query})}").json == said["items"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELEC 1", "syntax error"),
        ("CREATE TABLE a (b INT)", ""),
        ("COPY (SELECT 1) TO '/tmp/unspool-was-here'", ""),
        ("SELECT * FROM read_text('/etc/passwd')", ""),
        ("INSTALL httpfs", ""),
        ("SELECT 1; SELECT 2", ""),
    ],
)
def test_sql_that_is_wrong_or_not_for_reading_is_refused_in_words(place: Place, query: str, words: str) -> None:
    answer = place.served.get(f"/sql.json?{urlencode({'q': query})}")
    assert answer.status == 400
    assert answer.json["error"]
    assert words in answer.json["error"]
    assert answer.json["rows"] == []
    assert place.served.get(f"/sql/rows.csv?{urlencode({'q': query})}").status in (400, 403)
    assert not Path("/tmp/unspool-was-here").exists()


def test_sql_ends_when_nobody_waits_for_it_any_more(place: Place) -> None:
    import http.client

    query = urlencode({"q": "SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c"})
    asked = http.client.HTTPConnection(place.served.host, place.served.port, timeout=30)
    headers = {**place.served.own_headers, "Host": f"{place.served.host}:{place.served.port}"}
    asked.request("GET", f"/sql.json?{query}", headers=headers)
    assert until(lambda: engines(place.served.pid) == 1)
    asked.close()
    assert until(lambda: engines(place.served.pid) == 0)
    assert place.get("/sql.json?q=SELECT+1")["rows"] == [["1"]]


def engines(pid: int) -> int:
    """Return how many engines a server runs."""
    found = 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            words = (entry.parent / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        found += parent == pid and b"unspool.store.sql.engine" in words
    return found


def until(true: Any, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False


def test_the_library_has_what_lies_beside_the_sessions(place: Place) -> None:
    counts = place.get("/library.json")["counts"]
    assert all(counts[name] for name in ("plans", "todos", "history", "settings", "versions", "tasks"))
    assert len(place.get("/library/plans.json")["plans"]) == counts["plans"]
    plan = place.get("/library/plans.json?name=evil-plan")["plan"]
    assert [(task["text"], task["done"]) for task in plan["tasks"]] == [(EVIL, False), (f"done {EVIL}", True)]
    assert len(place.get("/library/todos.json")["lists"]) == counts["todos"]
    assert EVIL in [item["subject"] for one in place.get("/library/tasks.json")["lists"] for item in one["items"]]


def test_settings_are_masked(place: Place) -> None:
    (file, *_) = place.get("/library/settings.json")["files"]
    secret = json.loads((place.config / "settings.json").read_text())["env"]
    assert secret
    assert {one["value"] for one in file["values"] if one["key"].startswith("env.")} == {'"***"'}
    text = place.page("/library/settings")
    assert not [value for value in secret.values() if value in text]


def test_prompts_are_searched_and_paged(place: Place) -> None:
    lines = (place.config / "history.jsonl").read_text().splitlines()
    found = place.get("/library/history.json")
    assert found["total"] == len(lines)
    assert [one["time"] for one in found["prompts"]] == sorted((one["time"] for one in found["prompts"]), reverse=True)
    assert [one["display"] for one in place.get("/library/history.json?q=ALERT")["prompts"]] == [EVIL]
    rest = place.get(f"/library/history.json?offset={len(lines) - 1}")
    assert len(rest["prompts"]) == 1


def test_versions_of_a_file_are_compared(place: Place) -> None:
    sessions = place.get("/library/versions.json")["sessions"]
    most = max(sessions, key=lambda one: one["versions"])
    found = place.get(f"/library/versions.json?session={most['session_id']}")
    several = next(file for file in found["files"] if len([v for v in file["versions"] if v["copy"] == "present"]) > 1)
    new = several["versions"][-1]["version"]
    query = urlencode({"session": most["session_id"], "file": several["path"], "to": new})
    told = place.get(f"/library/versions.json?{query}")["difference"]
    assert (told["to"], told["from"]) == (new, several["versions"][-2]["version"])
    assert any(line.startswith("+") for line in told["lines"])
    assert 'class="plus"' in place.page(f"/library/versions?{query}")
    assert place.served.get(f"/library/versions?{query}9").status == 404
    outside = urlencode({"session": most["session_id"], "file": "../../../etc/passwd"})
    assert place.served.get(f"/library/versions?{outside}").status == 404


def test_the_usage_page_has_the_5_hour_window_of_the_command(place: Place) -> None:
    rows = place.command("usage", "blocks")["rows"]
    active = next((row for row in rows if row["is_active"]), None)
    found = place.get("/usage.json")["active_window"]
    assert (found is None) == (active is None)
    if found is not None and active is not None:
        for name in ("cost_micros", "total_tokens", "cost_per_hour_micros", "limit_unit", "limit_amount"):
            assert found[name] == active[name]
        assert "5-hour window until" in place.page("/usage")


@pytest.mark.parametrize(
    ("words", "title", "href"),
    [
        ("fail", "Failures of today", "/search/errors?since=today"),
        ("tidew", "tidewatch", "/sessions?project=tidewatch"),
        ("yesterday", "Sessions of yesterday", "/sessions?since=yesterday&until=yesterday"),
        ("2026-10-03", "Usage of 2026-10-03", "/usage?since=2026-10-03&until=2026-10-03"),
        ("7d", "Sessions of 7d", "/sessions?since=7d"),
        ("by day", "Sessions by day", "/sessions?group=day"),
    ],
)
def test_the_palette_knows_commands_dates_and_projects(place: Place, words: str, title: str, href: str) -> None:
    places = {one["title"]: one["href"] for one in place.get(f"/palette.json?{urlencode({'q': words})}")["places"]}
    assert places[title] == href
    assert place.served.get(href).status == 200


def test_every_place_of_the_palette_exists(place: Place) -> None:
    for words in ("s", "e", "a"):
        for one in place.get(f"/palette.json?q={words}")["places"]:
            assert place.served.get(one["href"]).status == 200, one


@pytest.mark.parametrize(
    "query", ["", "sort=cost", "group=project&has=error", "project=tidewatch&sort=title&reverse=1"]
)
def test_neighbours_are_the_rows_before_and_after_in_the_list(place: Place, query: str) -> None:
    found = place.get(f"/sessions.json?{query}&limit=1000")["rows"]
    folder = OpenCatalog(place)
    ids = [row["id"] for row in found]
    for number, id in enumerate(ids):
        before, after = folder.neighbours(id, query)
        assert before == (ids[number - 1] if number else None)
        assert after == (ids[number + 1] if number + 1 < len(ids) else None)
    assert folder.neighbours("nothing", query) == (None, None)


class OpenCatalog:
    """The catalogue of a server's store, asked without the server."""

    def __init__(self, place: Place) -> None:
        self._site = Site(place.config, place.home, Preferences(), lambda: datetime.now(UTC), lambda: (), UTC)
        self._catalog = CatalogCache(place.config, place.home, Preferences())

    def neighbours(self, id: str, query: str) -> tuple[str | None, str | None]:
        request = sessions.parse_request(QueryParams(query), self._site)
        before, after = self._catalog.neighbours(id, request, UTC)
        return before.id if before else None, after.id if after else None
