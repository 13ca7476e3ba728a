"""A session is shared from its page: the preview lists what is replaced, and the download is what was previewed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.measuring import measure
from tests.browser.visiting import visit, visited, wide_elements
from tests.browser.watching import NARROW, Tab, Tabs
from tests.serving import Served
from unspool.testing.build import assistant, session, tool_result, tool_use, user

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6"[:36]
ID = "5ba4e000-0000-4000-8000-000000000000"
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("share")
    session(
        user(f"Use {EVIL} {TOKEN} {EVIL}."),
        assistant("I use it.", tool_use("Bash", id="t1", command="cat a")),
        tool_result("RESULT", id="t1"),
        assistant("Done."),
        user("And the second."),
        assistant("Second done."),
        id=ID,
        cwd="/home/ann/shop",
    ).save(place / "claude")
    with visited(place / "claude", place / "unspool") as running:
        yield running


def download(tab: Tab, path: Path) -> str:
    with tab.page.expect_download() as waiting:
        tab.page.get_by_role("button", name="Download").click()
    waiting.value.save_as(path)
    return path.read_text()


@pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])
def test_the_download_is_what_was_previewed(script: bool, browser: Browser, served: Served, tmp_path: Path) -> None:
    tab = Tab(browser, script=script, downloads=True)
    tab.allow(served.address)
    tab.page.goto(served.next_link() if served.cookie else served.link)
    tab.page.wait_for_selector("#board")
    page = tab.page
    page.goto(f"{served.address}/session/{ID}/share")
    assert "github token" in page.inner_text(".replacements")
    assert TOKEN not in page.content()
    words = download(tab, tmp_path / "a.html")
    assert "Done." in words
    for secret in (TOKEN, "/home/ann", "RESULT"):
        assert secret not in words
    page.get_by_label("Markdown").check()
    page.get_by_label("turns").fill("1")
    page.locator(".replacements label", has_text="github token").get_by_role("checkbox").check()
    page.get_by_role("button", name="Preview again").click()
    page.wait_for_url("**format=md**")
    assert "token=" not in page.url
    words = download(tab, tmp_path / "b.md")
    assert TOKEN in words
    assert "Second done." not in words
    assert "/home/ann" not in words
    tab.close()
    assert tab.problems == []


def test_the_session_leads_to_its_share_page(served: Served, tabs: Tabs) -> None:
    page = visit(tabs(), served, f"/session/{ID}")
    page.get_by_role("link", name="Share…").click()
    page.wait_for_url(f"**/session/{ID}/share")


def test_no_text_around_a_replacement_becomes_markup(served: Served, tabs: Tabs) -> None:
    page = visit(tabs(), served, f"/session/{ID}/share")
    assert EVIL in page.inner_text(".replacements")
    assert page.locator("main img").count() == 0


def test_a_download_needs_the_key_of_the_page(served: Served) -> None:
    headers = {"Cookie": served.cookie, "Origin": served.address, "Content-Type": "application/x-www-form-urlencoded"}
    path = f"/session/{ID}/share/file"
    assert served.ask("POST", path, headers, b"format=md").status == 403
    answer = served.ask("POST", path, {**headers, "X-Unspool": served.page_key}, b"format=md")
    assert answer.status == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="share-5ba4e000.md"'
    assert served.ask("POST", path, {**headers, "X-Unspool": served.page_key}, b"format=exe").status == 400


def test_the_json_lists_what_the_page_lists(served: Served) -> None:
    data = served.get(f"/session/{ID}/share.json").json
    assert {one["kind"] for one in data["replacements"]} == {"github-token", "home"}
    assert data["shared"] == {"prompts": 2, "answers": 3, "tool calls": 1}
    assert TOKEN not in served.get(f"/session/{ID}/share.json").text


def test_everybody_can_share(served: Served, tabs: Tabs) -> None:
    assert wide_elements(visit(tabs(NARROW), served, f"/session/{ID}/share")) == []
    assert measure(visit(tabs(), served, f"/session/{ID}/share")) == []
