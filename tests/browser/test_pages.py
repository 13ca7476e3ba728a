"""Every page in a real browser, wide and narrow, dark and light: it is there, it fits, it runs only files of ours."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.browser import showcase, showcase_beside
from tests.browser.addresses import PAGES, SESSION
from tests.browser.happening import happening
from tests.browser.showcase import EXPECTED
from tests.browser.visiting import inline, tall_rows, visit, visit_session, visited, wide_elements
from tests.browser.watching import NARROW, WIDE, Size, Tabs
from tests.serving import Served
from unspool.testing.build import assistant, session, user

EVERY = pytest.mark.parametrize("path", PAGES)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages") / "claude"
    showcase.build(folder)
    return folder


@pytest.fixture(scope="module")
def served(config: Path) -> Iterator[Served]:
    with visited(config, config.parent / "unspool") as running:
        await_rows(running)
        yield running


@EVERY
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1440", "390"])
def test_a_page_is_there_and_as_wide_as_its_window(path: str, size: Size, served: Served, tabs: Tabs) -> None:
    page = visit(tabs(size, dark=size == WIDE), served, path)
    page.wait_for_load_state("load")
    # Headings are written in capitals by their style.
    assert PAGES[path].lower() in page.inner_text("body").lower()
    assert wide_elements(page) == []
    # On a phone a row of a table is a card of up to three lines, in which nothing is left out.
    assert tall_rows(page, "tbody tr", 36 if size == WIDE else 96) == []


@EVERY
def test_a_page_can_be_read_without_script(path: str, served: Served, tabs: Tabs) -> None:
    page = visit(tabs(script=False), served, path)
    assert PAGES[path].lower() in page.inner_text("body").lower()


@EVERY
def test_a_page_holds_no_style_and_no_script_and_has_a_twin(path: str, served: Served) -> None:
    answer = served.get(path)
    assert inline(answer.text) == []
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    before, mark, after = path.partition("?")
    twin = served.get(f"{'/board' if before == '/' else before}.json{mark}{after}")
    assert twin.status == 200
    assert twin.headers["content-type"] == "application/json"
    assert twin.json


def test_what_is_secret_in_settings_is_nowhere(served: Served) -> None:
    for path in PAGES:
        before, mark, after = path.partition("?")
        for address in (path, f"{'/board' if before == '/' else before}.json{mark}{after}"):
            assert showcase_beside.SECRET not in served.get(address).text, address


def test_the_list_says_what_the_session_says(served: Served, tabs: Tabs) -> None:
    row = next(row for row in served.get("/sessions.json").json["rows"] if row["id"] == showcase.ID)
    made = showcase.ledger()
    agents = showcase_beside.AGENT_REQUESTS * showcase_beside.AGENT_REQUEST_MICROS
    assert row["cost_micros"] == made.cost_micros + agents
    assert (row["added"], row["removed"], row["files"]) == (EXPECTED.added, EXPECTED.removed, 2)
    head = served.get(f"{SESSION}.json").json["head"]
    assert (row["errors"], row["turns"], row["peak_tokens"]) == (head["errors"], head["turns"], head["peak"])
    page = visit(tabs(), served, "/sessions")
    words = page.inner_text(f'tr[data-session="{showcase.ID}"]')
    assert f"+{EXPECTED.added} −{EXPECTED.removed}" in words
    assert f"${row['cost_micros'] / 1e6:.2f}" in words
    assert "#42" in words


def test_the_usage_is_that_of_the_lines(served: Served) -> None:
    totals = served.get("/usage.json?range=all").json["totals"]
    made = showcase.ledger()
    extra, second = showcase_beside.AGENT_REQUESTS, 2
    assert totals["responses"] == EXPECTED.requests + extra + second
    assert totals["output_tokens"] == sum(one.output for one in made.requests) + 120 * (extra + second)


def test_a_hit_leads_to_its_step(served: Served, tabs: Tabs) -> None:
    page = visit(tabs(), served, "/search?q=quantize")
    page.locator("main a[href*='step=']").first.click()
    page.wait_for_selector(".session[data-ready]")
    page.wait_for_selector(".drawer .detail")
    assert "quantize" in page.inner_text(".drawer")


def test_the_sql_page_answers_what_the_command_answers(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    page = visit(tab, served, "/sql")
    page.fill(
        "textarea", "SELECT name, count(*) AS calls FROM tool_calls GROUP BY name ORDER BY calls DESC, name LIMIT 2"
    )
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("table tbody tr")
    rows = [row.inner_text().split() for row in page.locator("table tbody tr").all()][:2]
    assert rows[0] == ["Read", "12"]


@pytest.mark.parametrize("query", ["SELECT nothing FROM nowhere", "COPY (SELECT 1) TO '/tmp/x'", "SELECT 1; SELECT 2"])
def test_a_query_that_is_wrong_is_told_in_words(query: str, served: Served) -> None:
    answer = served.get(f"/sql?q={quote(query)}")
    assert answer.status == 400
    assert "Traceback" not in answer.text
    assert served.get(f"/sql.json?q={quote(query)}").json["error"]


def test_the_filters_of_the_list_are_its_address(served: Served, tabs: Tabs) -> None:
    page = visit(tabs(), served, "/sessions")
    assert page.locator("tbody tr").count() == 2
    page.locator("a.chip", has_text="has compaction").click()
    page.wait_for_url("**has=compaction**")
    assert page.locator("tbody tr").count() == 1
    page.go_back()
    page.fill("input[name=q]", "harbours")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=harbours**")
    assert page.locator("tbody tr").count() == 1


def test_a_page_that_is_not_there_says_so(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    visit(tab, served)
    for path in ("/nowhere", "/session/nobody", f"{SESSION}/detail?step=99999999.0", "/library/nothing"):
        answer = served.get(path)
        assert answer.status == 404, path
        assert "Traceback" not in answer.text


def test_the_board_follows(config: Path, served: Served, tabs: Tabs) -> None:
    """A session that begins while the board is open stands on it."""
    tab = tabs()
    page = visit(tab, served)
    page.wait_for_function("words => document.body.innerText.includes(words)", arg="Nothing needs you.")
    with happening(config):
        page.wait_for_function("words => document.body.innerText.includes(words)", arg="git push --tags")
        page.wait_for_function("() => document.title.includes('2')")


def test_the_session_page_at_once_after_it_began(config: Path, served: Served, tabs: Tabs) -> None:
    """A session is shown before any sync has seen it."""
    made = session(
        user("Just begun."), assistant("Yes."), id="ab000000-0000-4000-8000-000000000000", cwd="/home/me/new"
    )
    made.save(config)
    tab = tabs()
    visit_session(tab, served, made.id)
    assert "Just begun." in tab.page.inner_text("body")


def await_rows(served: Served) -> None:
    """Wait until the store has read and indexed the folder."""
    deadline = time.monotonic() + 60
    while True:
        data = served.get("/sessions.json").json
        if len(data["rows"]) >= 2 and not data["undigested"]:
            return
        assert time.monotonic() < deadline
