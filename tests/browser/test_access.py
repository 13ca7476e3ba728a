"""Everybody can use every page, measured in a real browser; and the measurement itself can fail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from tests.browser import showcase
from tests.browser.addresses import FILES, PAGES, PARTS, SESSION
from tests.browser.happening import happening
from tests.browser.measuring import measure
from tests.browser.visiting import READY, visit, visited
from tests.browser.watching import Tabs
from tests.serving import Served
from unspool.demo.write import write_demo
from unspool.web.app import all_routes

GOOD = """<!doctype html><html lang="en"><head><title>Good</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>:root { color-scheme: light dark; background: Canvas; color: CanvasText; } a { color: inherit; }
:focus-visible { outline: 2px solid CanvasText; }
button { min-width: 24px; min-height: 24px; } {style}</style></head>
<body><main><h1>Good</h1>{body}</main></body></html>"""

PLANTED = {
    "scroll": ("", '<pre style="width: 2000px">A line that never ends</pre>'),
    "targets": ("button { min-width: 0; min-height: 0; padding: 0; }", "<button>a</button><button>b</button>"),
    "cut": ("", '<p style="width: 60px; overflow: hidden; white-space: nowrap">Words that go on and on</p>'),
    "squeezed": ("p { width: 3px; overflow: hidden; white-space: nowrap }", '<p title="A title">A title of 3</p>'),
    "contrast": ("", '<p style="color: #98958a; background: #fcfcfa">The faint grey that pages once had</p>'),
    "headings": ("", "<h3>Of the third level after the first</h3>"),
    "order": ("", '<a href="#a" tabindex="2">Second</a> <a href="#b" tabindex="1">First</a>'),
    "focus": (":focus-visible { outline: none; }", '<a href="#a">A link that does not show the focus</a>'),
    "charts": ("", '<svg width="9" height="9"><a href="#a"><text>a</text></a><a href="#b"><text>b</text></a></svg>'),
    "motion": ("@keyframes m { to { opacity: .9; } } h1 { animation: m 9s infinite; }", ""),
    "axe": ("", '<button></button><img src="data:,">'),
}  # fmt: skip
"""For each rule, a style and an element that break it."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("access")
    write_demo(place / "claude")
    showcase.build(place / "claude")
    with happening(place / "claude"), visited(place / "claude", place / "unspool") as running:
        while not is_read(running.get("/sessions.json").json):
            pass
        yield running


@pytest.mark.parametrize("path", PAGES)
def test_everybody_can_use_a_page(path: str, served: Served, tabs: Tabs) -> None:
    page = visit(tabs(), served, path)
    if page.query_selector(".session"):
        page.wait_for_selector(READY)
    assert measure(page) == []


@pytest.mark.parametrize("name", ["Agent", "Bash", "Edit"])
def test_everybody_can_use_an_opened_step(name: str, served: Served, tabs: Tabs) -> None:
    tab = tabs()
    page = visit(tab, served, f"{SESSION}?depth=all")
    line = page.locator(".row.call > a.line").filter(has=page.locator(".name", has_text=name)).first
    page.goto(f"{served.address}{line.get_attribute('href')}")
    page.wait_for_selector(READY)
    page.wait_for_selector("#drawer .detail")
    assert measure(page) == []


def test_every_page_of_the_server_is_measured() -> None:
    routes = {route.path for route in all_routes() if isinstance(route, Route)}
    pages = {path for path in routes if not path.endswith(".json")} - PARTS - FILES
    patterns = {path: re.compile(re.sub(r"\{[^}]*\}", "[^/]+", path)) for path in pages}
    addresses = [address.partition("?")[0] for address in PAGES]
    assert [path for path, pattern in patterns.items() if not any(map(pattern.fullmatch, addresses))] == []
    assert routes >= PARTS | FILES


def test_a_page_that_is_in_order_has_no_problem(tabs: Tabs) -> None:
    assert problems(tabs, "", '<p>Words and <a href="#a">a link</a>.</p><button>Press</button>') == []


@pytest.mark.parametrize("rule", PLANTED)
def test_the_measurement_finds_what_breaks_a_rule(rule: str, tabs: Tabs) -> None:
    assert [problem for problem in problems(tabs, *PLANTED[rule]) if f"{rule}: " in problem]


def test_words_of_an_empty_field_are_measured_too(tabs: Tabs) -> None:
    field = '<input style="width: 60px" aria-label="When" placeholder="yesterday, 2026-01-31">'
    assert [problem for problem in problems(tabs, "", field) if "cut: " in problem and "yesterday" in problem]
    assert not [problem for problem in problems(tabs, "", field.replace("60px", "260px")) if "cut: " in problem]


def test_every_rule_that_is_listed_has_something_that_breaks_it() -> None:
    listed = re.findall(r"^  `(\w+)`", Path(__file__).with_name("measuring.py").read_text(), re.MULTILINE)
    assert listed == [*dict.fromkeys(listed)]
    assert {*listed} == {*PLANTED}


def is_read(data: dict[str, Any]) -> bool:
    """Tell whether the store has read and indexed the folder."""
    return len(data["rows"]) > 10 and not data["undigested"]


def problems(tabs: Tabs, style: str, body: str) -> list[str]:
    """Return what is wrong with a page that is in order but for a style and an element."""
    tab = tabs(dark=False)
    tab.page.set_content(GOOD.replace("{style}", style).replace("{body}", body))
    return measure(tab.page)
