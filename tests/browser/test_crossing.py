"""Another page in the same browser, which has the cookie, gets nothing: neither to read nor to change.

And another server of this machine gets nothing that it could use: on another address no cookie at all, on another port
of ours only the cookie, which opens no JSON, no stream and no change.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Download

from tests.browser import showcase
from tests.browser.trap import Trap, listening
from tests.browser.visiting import let_in, visited
from tests.browser.watching import Tab
from tests.serving import Served
from unspool.web import link_file

ATTEMPTS = {
    "read": "fetch(OURS + '/palette.json', {credentials: 'include'})",
    "read unseen": "fetch(OURS + '/palette.json', {credentials: 'include', mode: 'no-cors'})",
    "post text": "fetch(OURS + '/palette.json', {method: 'POST', body: '{}', credentials: 'include', mode: 'no-cors'})",
    "post JSON": "fetch(OURS + '/palette.json', {method: 'POST', body: '{}', credentials: 'include',"
    " headers: {'content-type': 'application/json', 'x-unspool': '1'}})",
    "stream": "new EventSource(OURS + '/events', {withCredentials: true})",
    "picture": "new Image().src = OURS + '/static/icon.svg'",
    "script": "document.head.append(Object.assign(document.createElement('script'), {src: OURS + '/static/frame.js'}))",
    "style": "document.head.append(Object.assign(document.createElement('link'), {rel: 'stylesheet',"
    " href: OURS + '/static/frame.css'}))",
    "frame": "document.body.append(Object.assign(document.createElement('iframe'), {src: OURS + '/'}))",
    "form": "document.body.append(Object.assign(document.createElement('form'), {action: OURS + '/palette.json',"
    " method: 'post'})), document.forms[0].submit()",
    "navigation": "location = OURS + '/palette.json'",
}
REFUSED = {401, 403}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("crossing")
    showcase.build(place / "claude")
    with visited(place / "claude", place / "unspool") as running:
        yield running


@pytest.fixture
def neighbour(served: Served) -> Iterator[Trap]:
    """A server on another port of our address."""
    with listening(served.host) as made:
        yield made


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "ours"])
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_page_of_another_origin_gets_nothing(
    attempt: str, name: str, browser: Browser, served: Served, trap: Trap, neighbour: Trap
) -> None:
    tab = Tab(browser)
    let_in(tab.context, served)
    # A file, not a page: nothing else is asked for after it.
    assert status(tab, f"{served.address}/static/icon.svg") == 200
    answers: list[int] = []
    tab.context.on(
        "response", lambda answer: answers.append(answer.status) if answer.url.startswith(served.address) else None
    )
    blocked: list[str] = []
    tab.context.on("requestfailed", lambda request: blocked.append(request.url))
    foreign = neighbour if name == "ours" else trap
    page = foreign.put("/", "<!doctype html><title>elsewhere</title><body>")
    tab.page.goto(page if name == "ours" else page.replace("127.0.0.1", name))
    tab.page.evaluate(f"OURS => {{ {ATTEMPTS[attempt]} }}", served.address)
    for _ in range(250):
        if answers or blocked:
            break
        tab.page.wait_for_timeout(20)
    tab.close()
    assert answers or blocked
    assert set(answers) <= REFUSED


def test_the_link_works_once(browser: Browser, served: Served) -> None:
    first, second = Tab(browser), Tab(browser)
    link = served.next_link()
    first.page.goto(link)
    first.page.wait_for_url(f"{served.address}/")
    assert status(first, f"{served.address}/sessions") == 200
    assert asked(first, "/palette.json") == 200
    assert status(second, link) == 401
    assert status(second, f"{served.address}/sessions") == 401
    assert not first.page.evaluate("document.cookie")
    first.close()
    second.close()


def test_another_server_of_this_machine_receives_nothing_it_can_use(
    browser: Browser, served: Served, trap: Trap, neighbour: Trap
) -> None:
    tab = Tab(browser)
    tab.page.goto(served.next_link())
    tab.page.wait_for_url(f"{served.address}/")
    key = tab.page.evaluate("localStorage.getItem('unspool-key')")
    assert len(key) == 43
    for server in (trap, neighbour):
        own = server.put("/", "<!doctype html><img src='/session/1/events'><script src='/palette.json'></script>")
        tab.page.goto(own)
        # Once more from the page itself: a strict cookie is not sent when another site leads here.
        with tab.page.expect_navigation():
            tab.page.evaluate("location.reload()")
        assert not tab.page.evaluate("localStorage.getItem('unspool-key')")
        assert not [one for one in server.received if key in one]
    tab.close()
    assert trap.hits
    assert not [one for one in trap.received if "cookie" in one.lower()]
    stolen = {line.partition(": ")[2] for one in neighbour.received for line in one.splitlines() if "unspool_" in line}
    assert len(stolen) == 1, "browsers send a cookie to every port: the rest of this test is for those that do"
    cookie = stolen.pop()
    # What remains, and is said in docs/security.md: pages can be read with the cookie. None of them contains the key.
    pages = [served.get(path, cookie=cookie, page_key="") for path in ("/", "/sessions", "/sql?q=SELECT+1", "/library")]
    assert [page.status for page in pages] == [200] * 4
    assert not [page for page in pages if key in page.text]
    for path in ("/palette.json", "/sessions.json", "/events", "/sql/rows.json?q=SELECT+1", "/sql/rows.csv?q=SELECT+1"):
        assert served.get(path, cookie=cookie, page_key="").status == 403
        assert served.get(path, cookie=cookie, page_key=cookie.partition("=")[2]).status == 403
        bearer = f"Bearer {cookie.partition('=')[2]}"
        assert served.get(path, cookie="", page_key="", Authorization=bearer).status == 401
    for kind, body in (("application/json", b"{}"), ("application/x-www-form-urlencoded", b"token=&q=SELECT+1")):
        forged = {"Origin": served.address, "Content-Type": kind, "Cookie": cookie}
        assert served.ask("POST", "/sql/rows.json", forged, body).status == 403


def test_the_browser_is_led_to_the_link_from_a_file(browser: Browser, served: Served, tmp_path: Path) -> None:
    tab = Tab(browser)
    with link_file(tmp_path, served.next_link()) as path:
        tab.page.goto(path.as_uri())
        tab.page.wait_for_url(f"{served.address}/")
        assert asked(tab, "/palette.json") == 200
    tab.close()


def test_without_scripts_a_form_carries_the_key(browser: Browser, served: Served) -> None:
    tab = Tab(browser, script=False, downloads=True)
    tab.page.goto(served.next_link())
    tab.page.wait_for_url(f"{served.address}/")
    tab.page.goto(f"{served.address}/sql?q=SELECT+42+AS+answer")
    for form, rows in (("CSV", "answer\n42\n"), ("JSON", '[{"answer":42}]')):
        with tab.page.expect_event("download") as download:
            tab.page.get_by_role("button", name=form, exact=True).click()
        assert download.value.suggested_filename == f"rows.{form.lower()}"
        assert "".join(served_text(download.value).split()) == "".join(rows.split())
    tab.close()


def test_with_scripts_the_form_takes_the_key_from_storage(browser: Browser, served: Served) -> None:
    tab = Tab(browser, downloads=True)
    let_in(tab.context, served)
    tab.page.goto(f"{served.address}/sql?q=SELECT+42+AS+answer")
    assert served.page_key not in served.get("/sql?q=SELECT+42+AS+answer").text
    with tab.page.expect_event("download") as download:
        tab.page.get_by_role("button", name="JSON", exact=True).click()
    assert "42" in served_text(download.value)
    tab.close()


def served_text(download: Download) -> str:
    """Return what was downloaded."""
    return Path(download.path()).read_text()


def asked(tab: Tab, path: str) -> int:
    """Ask from a script of the page; return how it was answered."""
    script = "path => import('/static/requests.js').then(({ ask }) => ask(path)).then((answer) => answer.status)"
    return int(tab.page.evaluate(script, path))


def status(tab: Tab, address: str) -> int:
    """Open an address; return how it was answered."""
    answer = tab.page.goto(address)
    assert answer is not None
    return answer.status
