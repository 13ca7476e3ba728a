"""Another page in the same browser, which has the cookie, gets nothing: neither to read nor to change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser import showcase
from tests.browser.trap import Trap
from tests.browser.watching import Tab
from tests.serving import Served, serving

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
    with serving(place / "claude", "--token", "a" * 43, home=place / "unspool") as running:
        yield running


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_page_of_another_origin_gets_nothing(
    attempt: str, name: str, browser: Browser, served: Served, trap: Trap
) -> None:
    tab = Tab(browser)
    tab.context.add_cookies(
        [
            {
                "name": f"unspool_{served.port}",
                "value": "a" * 43,
                "url": served.address,
                "httpOnly": True,
                "sameSite": "Strict",
            }
        ]
    )
    assert status(tab, f"{served.address}/palette.json") == 200
    answers: list[int] = []
    tab.context.on(
        "response", lambda answer: answers.append(answer.status) if answer.url.startswith(served.address) else None
    )
    blocked: list[str] = []
    tab.context.on("requestfailed", lambda request: blocked.append(request.url))
    page = trap.put("/", "<!doctype html><title>elsewhere</title><body>")
    tab.page.goto(page.replace("127.0.0.1", name))
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
    first.page.goto(served.link)
    first.page.wait_for_url(f"{served.address}/")
    assert status(first, f"{served.address}/palette.json") == 200
    assert status(second, served.link) == 401
    assert status(second, f"{served.address}/palette.json") == 401
    assert not first.page.evaluate("document.cookie")
    first.close()
    second.close()


def status(tab: Tab, address: str) -> int:
    """Open an address; return how it was answered."""
    answer = tab.page.goto(address)
    assert answer is not None
    return answer.status
