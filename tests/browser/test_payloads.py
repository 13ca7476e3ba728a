"""260 payloads in every field, on every page and in the exported file: no dialog, no request, nothing but words.

Rules
  1. A page is looked at in a real browser, as the server sends it. What a payload does, or would do if it were
     touched, fails the test (`watching`, `auditing`).
  2. The drawers of a session are thousands: they are asked for one by one, as the page would, and put side by side in
     pages without any content policy. There is no second line of defence there.
  3. All of it takes a quarter of an hour: with `UNSPOOL_PAYLOADS=all` (`make payloads`). Else every row and every page
     is looked at, and of what is opened every seventh: each kind of it many times.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.browser import poisoned
from tests.browser.auditing import audit, unfold
from tests.browser.payloads import Payload, payloads
from tests.browser.trap import Document, Trap, listening
from tests.browser.visiting import visit, visit_session, visited
from tests.browser.watching import Tab, Tabs
from tests.serving import Served
from unspool.testing.pictures import curve

EVERY = os.environ.get("UNSPOOL_PAYLOADS") == "all"
DEPTHS = ("prompts", "answers", "steps", "all") if EVERY else ("all",)
OTHERS = ("input", "result", "structured", "raw")
SQL = "SELECT * FROM {} LIMIT 2000"
PAGES = [
    "/",
    "/sessions",
    "/sessions?hidden=1",
    "/sessions?has=error&sort=cost",
    *(f"/usage?period={period}" for period in ("daily", "model", "project", "branch", "agent", "session")),
    *(f"/search?q={word}" for word in ("alert", "script", "onerror", "javascript", "nothing%20like%20it")),
    "/search?q=%3Cscript%3Ealert(1)%3C/script%3E",
    "/sessions?q=%3Cscript%3Ealert(1)%3C/script%3E&project=%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E",
    "/sql",
    *(
        f"/sql?q={quote(SQL.format(table))}"
        for table in ("sessions", "messages", "tool_calls", "agents", "history", "todos", "plans", "bad_lines")
    ),
    f"/sql?q={quote('SELECT <script>alert(1)</script>')}",
    "/library",
    *(
        f"/library/{shelf}"
        for shelf in ("plans", "todos", "tasks", "history", "memory", "settings", "versions", "%3Cscript%3E")
    ),
    "/session/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    "/palette.json?q=alert",
]
"""Every page that is not a session's."""
TOGETHER = 400
"""How many drawers are put into one page."""


@pytest.fixture(scope="module")
def listener() -> Iterator[Trap]:
    with listening() as made:
        made.documents["/blob/"] = Document(curve(), "image/png")
        yield made


@pytest.fixture(scope="module")
def every(listener: Trap) -> list[Payload]:
    return payloads(listener.origin)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, every: list[Payload]) -> Path:
    folder = tmp_path_factory.mktemp("poisoned")
    poisoned.build(folder, every)
    return folder


@pytest.fixture(scope="module")
def served(config: Path, tmp_path_factory: pytest.TempPathFactory, every: list[Payload]) -> Iterator[Served]:
    with visited(config, tmp_path_factory.mktemp("home")) as running:
        await_sessions(running, len(every))
        yield running


@pytest.fixture(autouse=True)
def nothing_is_asked_of_the_trap(listener: Trap) -> Iterator[None]:
    listener.hits.clear()
    yield
    assert [path for path in listener.hits if "pwn" in path] == []


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("group", poisoned.GROUPS)
def test_a_session_is_nothing_but_words(group: str, depth: str, served: Served, tabs: Tabs) -> None:
    tab = tabs()
    page = visit_session(tab, served, poisoned.group_id(group), f"?depth={depth}")
    look(tab, served.address)
    page.keyboard.press("End")
    page.wait_for_load_state("networkidle")
    look(tab, served.address)


@pytest.mark.parametrize("group", poisoned.GROUPS)
def test_every_drawer_is_nothing_but_words(group: str, served: Served, listener: Trap, tabs: Tabs) -> None:
    base = f"/session/{poisoned.group_id(group)}"
    whole = served.get(f"{base}?turns=1..10000&depth=all").text
    keys = dict.fromkeys(re.findall(r'data-key="([^"]*?)(?:-fold|-inside)?"', whole))
    assert len(keys) > 500
    show(tabs(), listener, [body_of(whole)])
    show(tabs(), listener, drawers(served, base, [*keys][:: 1 if EVERY else 7]))


@pytest.mark.parametrize("group", poisoned.GROUPS)
def test_a_drawer_that_is_opened_with_keys_is_nothing_but_words(group: str, served: Served, tabs: Tabs) -> None:
    tab = tabs()
    page = visit_session(tab, served, poisoned.group_id(group), "?depth=all")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector(".drawer .detail")
    for _ in range(15 if EVERY else 3):
        page.keyboard.press("j")
        page.wait_for_load_state("networkidle")
        look(tab, served.address)


@pytest.mark.parametrize("path", PAGES)
def test_any_other_page_is_nothing_but_words(path: str, served: Served, listener: Trap, tabs: Tabs) -> None:
    answer = served.get(path)
    assert answer.status in {200, 400, 404}
    show(tabs(), listener, [body_of(answer.text)])
    if answer.status == 200 and not path.startswith("/palette"):
        tab = tabs()
        visit(tab, served, path)
        for _ in range(6):
            tab.page.keyboard.press("End")
            # The board keeps a stream of events open: its network is never idle.
            tab.page.wait_for_load_state("load" if path == "/" else "networkidle")
        look(tab, served.address)


def test_the_palette_shows_nothing_but_words(served: Served, tabs: Tabs) -> None:
    tab = tabs()
    page = visit(tab, served, "/library")
    page.keyboard.press("Control+k")
    for word in ("alert", "<script>", "onerror"):
        page.fill("#palette input", word)
        page.wait_for_function("() => document.querySelectorAll('#palette li').length > 3")
        look(tab, served.address)


def test_the_page_of_a_session_that_is_named_so_is_nothing_but_words(
    every: list[Payload], served: Served, listener: Trap, tabs: Tabs
) -> None:
    bodies = []
    for payload in every[:: 1 if EVERY else 7]:
        base = f"/session/{poisoned.named_id(payload)}"
        for path in (base, f"{base}?depth=all", f"{base}/agents", f"{base}?agent=a1b2c3d4e5f60718"):
            answer = served.get(path)
            assert answer.status == 200, path
            bodies.append(body_of(answer.text))
    show(tabs(), listener, bodies)


def test_a_session_whose_file_is_named_so_can_be_opened(every: list[Payload], served: Served, tabs: Tabs) -> None:
    tab = tabs()
    for payload in every[::20]:
        if name := poisoned.file_name(payload):
            visit_session(tab, served, quote(name, safe=""))
            look(tab, served.address)


def test_an_exported_file_is_nothing_but_words(config: Path, tmp_path: Path, listener: Trap, tabs: Tabs) -> None:
    for group in [*poisoned.GROUPS][:: 1 if EVERY else 3]:
        file = export(config, poisoned.group_id(group), tmp_path / f"{group}.html")
        tab = tabs()
        page = tab.go(file.as_uri())
        page.wait_for_selector(".session[data-ready]")
        look(tab, file.as_uri())
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        for _ in range(10):
            page.wait_for_selector(".drawer .detail")
            look(tab, file.as_uri())
            page.keyboard.press("j")


def await_sessions(served: Served, least: int) -> None:
    """Wait until the store knows the sessions."""
    deadline = time.monotonic() + 60
    while len(served.get("/sessions.json").json["rows"]) < min(least, 200):
        assert time.monotonic() < deadline, "the sessions are not known"


def look(tab: Tab, origin: str) -> None:
    """Unfold everything and look at all of it."""
    unfold(tab.page)
    assert audit(tab.page, origin) == []
    assert tab.problems == []


def show(tab: Tab, listener: Trap, parts: list[str]) -> None:
    """Put parts of pages side by side, where nothing holds back what they would do."""
    assert parts
    for at in range(0, len(parts), TOGETHER):
        body = "\n".join(f"<div>{part}</div>" for part in parts[at : at + TOGETHER])
        page = listener.put("/parts", f"<!doctype html><meta charset=utf-8><title>parts</title>{body}")
        tab.go(page)
        look(tab, listener.origin)


def drawers(served: Served, base: str, keys: Iterable[str]) -> list[str]:
    """Return the drawer of every step as it is shown first; of every third one more side of it, each in its turn."""
    found = []
    for number, key in enumerate(keys):
        for tab in ("rendered",) if number % 3 else ("rendered", OTHERS[number % 4]):
            answer = served.get(f"{base}/detail?step={quote(key, safe='')}&tab={tab}")
            assert answer.status == 200, key
            found.append(answer.text)
    return found


def body_of(html: str) -> str:
    """Return what a page shows, without the frame's own scripts."""
    return re.sub(r"(?s)^.*?<body[^>]*>|</body>.*$", "", html)


def export(config: Path, id: str, to: Path) -> Path:
    """Export a session as one file."""
    command = [sys.executable, "-m", "unspool", "--config-dir", str(config), "export", id, "--html", "-o", str(to)]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    return to
