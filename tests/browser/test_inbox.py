"""The inbox in a real browser: what asks is there whole, what was seen is gone, nothing is told twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.happening import happening, session_id
from tests.browser.measuring import measure
from tests.browser.visiting import visit, visited, wide_elements
from tests.browser.watching import NARROW, Tab, Tabs
from tests.serving import Served
from unspool.testing.build import assistant, session, tool_result, tool_use, user

UP_TO_DATE = "() => document.documentElement.dataset.connection === 'connected'"
FAKE_NOTICES = """
window.notices = JSON.parse(sessionStorage.getItem("notices") ?? "[]");
window.Notification = class {
  static permission = "granted";
  static async requestPermission() { return "granted"; }
  constructor(title, { body, tag }) {
    window.notices.push([tag, title, body]);
    sessionStorage.setItem("notices", JSON.stringify(window.notices));
  }
};
"""
FAKE_CLIPBOARD = """
Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => { window.copied = text; } } });
"""
FAILURE = "Exit code 1\nTraceback (most recent call last):\n  File 'a.py', line {line}\nKeyError: 'total{line}'"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("inbox") / "claude"
    for number in range(3):
        steps = [user(f"Add up {number}.")]
        for line in range(number + 1):
            steps += [assistant(tool_use("Bash", id=f"t{number}{line}", command="python a.py"))]
            steps += [tool_result(FAILURE.format(line=line), id=f"t{number}{line}", error=True)]
        steps.append(assistant("It fails."))
        id = f"fa000000-0000-4000-8000-00000000000{number}"
        session(*steps, id=id, start=now(), step=0.001).save(folder)
    with happening(folder):
        yield folder


@pytest.fixture
def served(config: Path, tmp_path: Path) -> Iterator[Served]:
    with visited(config, tmp_path / "unspool") as running:
        while running.get("/sessions.json").json["undigested"] or not running.get("/inbox.json").json["failures"]:
            pass
        yield running


def open_inbox(tab: Tab, served: Served) -> Page:
    page = visit(tab, served)
    tab.until(UP_TO_DATE)
    return page


def test_what_asks_is_there_whole_with_the_way_there(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    tab.context.add_init_script(FAKE_CLIPBOARD)
    page = open_inbox(tab, served)
    asks = page.inner_text("#section-needs_you")
    assert "git push --tags" in asks
    for words in ("How should half a cent be rounded?", "Half even", "As banks do", "Half up", "As shops do"):
        assert words in asks
    # The oldest wait is first: one key for the row, one to copy.
    page.keyboard.press("j")
    page.keyboard.press("c")
    tab.until("() => window.copied")
    config = served.get("/inbox.json").json["needs_you"][0]["path"].partition("/projects/")[0]
    command = f"cd /home/me/shop && CLAUDE_CONFIG_DIR={config} claude --resume {session_id('question')}"
    assert page.evaluate("window.copied") == command
    assert command in asks
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/session/{session_id('question')}")


def test_what_works_and_what_has_finished_is_there_and_what_was_seen_is_gone(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    page = open_inbox(tab, served)
    assert {"Time every harbour", "Read bank statements"} <= {*page.locator("#section-working .open").all_inner_texts()}
    finished = page.locator("#section-finished .open").all_inner_texts()
    assert {"Empty list on the page of today", "Check the gauges", "Add up 0."} <= {*finished}
    row = page.locator("#section-finished .row", has_text="Check the gauges")
    row.get_by_role("button", name="Seen").click()
    row.wait_for(state="detached")
    page.get_by_role("button", name="Mark all seen").click()
    page.wait_for_selector("#section-finished", state="detached")
    page.reload()
    tab.until(UP_TO_DATE)
    assert page.locator("#section-finished").count() == 0
    # Sessions that are open and wait stay; those that have ended are in the list of all sessions.
    assert "Empty list on the page of today" in page.inner_text("#section-waiting")
    assert "Check the gauges" not in page.inner_text("#board")


def test_without_script_all_can_be_read_and_marked_seen(served: Served, tabs: Tabs) -> None:
    tab = tabs(script=False)
    tab.allow(served.address)
    served.next_link()
    page = tab.go(served.link)
    page.wait_for_selector("#board")
    assert "As banks do" in page.inner_text("#section-needs_you")
    page.get_by_role("button", name="Mark all seen").click()
    page.wait_for_selector("#section-waiting")
    assert page.locator("#section-finished").count() == 0


def test_what_failed_today_is_grouped_by_kind_and_linked(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    page = open_inbox(tab, served)
    (failure,) = served.get("/inbox.json").json["failures"]
    assert (failure["kind"], failure["count"], failure["sessions"]) == ("Bash: keyerror: …", 6, 3)
    words = page.inner_text("#section-failed")
    assert "6×" in words
    assert "in 3 sessions" in words
    page.locator("#section-failed .sessions a").first.click()
    page.wait_for_selector(".session[data-ready]")
    page.wait_for_selector(".drawer .detail")
    assert "KeyError" in page.inner_text(".drawer")


def test_a_notification_comes_once_also_after_a_reload(config: Path, served: Served, tabs: Tabs) -> None:
    tab = tabs()
    tab.context.add_init_script(FAKE_NOTICES)
    page = open_inbox(tab, served)
    page.get_by_role("button", name="Notify me").click()
    page.get_by_role("button", name="Notifications are on").wait_for()
    page.reload()
    tab.until(UP_TO_DATE)
    page.get_by_role("button", name="Notifications are on").wait_for()
    assert page.evaluate("window.notices") == []
    # Asked while no inbox is open: the next one tells it.
    page.goto(f"{served.address}/sql")
    made = session(
        user("Delete it."), assistant(tool_use("AskUserQuestion", questions=[{"question": "All of it?"}])),
        id="de000000-0000-4000-8000-000000000000", start=now(), step=0.001,
    )  # fmt: skip
    path = made.save(config)
    try:
        while len(served.get("/inbox.json").json["needs_you"]) < 3:
            pass
        page.goto(served.address)
        tab.until("() => window.notices.length")
        assert [one[0] for one in page.evaluate("window.notices")] == [made.id]
        assert "All of it?" in page.evaluate("window.notices")[0][2]
        page.reload()
        tab.until(UP_TO_DATE)
        assert len(page.evaluate("window.notices")) == 1
    finally:
        path.unlink()


def test_the_icon_counts(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    page = open_inbox(tab, served)
    count = len(served.get("/inbox.json").json["needs_you"])
    assert page.get_attribute("link[rel=icon]", "href") == f"/icon/{count}.svg"
    assert f">{count}</text>" in served.get(f"/icon/{count}.svg").text
    assert page.title().startswith(f"({count}) ")


def test_no_text_of_a_session_becomes_markup(config: Path, served: Served, tabs: Tabs) -> None:
    evil = "<img src=x onerror=alert(1)>\"'"
    question = [{"question": evil, "header": evil, "options": [{"label": evil, "description": evil}, {"label": 3}]}]
    made = session(
        user(evil), assistant(tool_use("AskUserQuestion", questions=question)), cwd=f"/home/me/{evil}\n; touch x",
        id="ee000000-0000-4000-8000-000000000000", start=now(), step=0.001,
    )  # fmt: skip
    path = made.save(config)
    try:
        while not any(row["sessionId"] == made.id for row in served.get("/inbox.json").json["needs_you"]):
            pass
        page = open_inbox(tabs(), served)
        card = page.locator(f'[data-item="{made.id}"]')
        assert card.inner_text().count(evil) >= 4
        assert page.locator("#board img").count() == 0
        go = card.get_attribute("data-go")
        assert go is not None
        assert "\n" not in go
        assert go.startswith("cd $'/home/me/<img")
    finally:
        path.unlink()


@pytest.mark.parametrize("size", [(1440, 900), (1024, 768), NARROW], ids=["1440", "1024", "390"])
def test_a_full_inbox_fits(size: tuple[int, int], served: Served, tabs: Tabs) -> None:
    page = open_inbox(tabs(size), served)
    assert wide_elements(page) == []


def test_everybody_can_use_a_full_inbox(served: Served, tabs: Tabs) -> None:
    assert measure(open_inbox(tabs(), served)) == []


def test_the_json_has_what_the_page_has(served: Served) -> None:
    data = served.get("/inbox.json").json
    assert served.get("/board.json").json.keys() == data.keys()
    question = next(row for row in data["needs_you"] if row["sessionId"] == session_id("question"))
    assert question["asks"]["questions"][0]["options"][0] == {"label": "Half even", "description": "As banks do"}
    assert json.dumps(data)
