"""A session that goes on while somebody looks: new rows come, nothing moves, nothing that is open closes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.browser.visiting import visit_session, visited
from tests.browser.watching import NARROW, WIDE, Size, Tabs
from tests.serving import Served
from unspool.testing.build import Built, Step, assistant, session, thinking, tool_result, tool_use, user

BEFORE: tuple[Step, ...] = (
    user("Count to sixty."),
    assistant(thinking("That is easy.")),
    *(assistant(f"This is {number}, and there is more to come.") for number in range(60)),
    user("Go on."),
    assistant("I do.", tool_use("Bash", command="seq 61 99", description="Count")),
)
AFTER: tuple[Step, ...] = (
    tool_result("61 to 99", structured={"stdout": "61 to 99", "stderr": "", "interrupted": False}),
    assistant("The first that is new."),
    assistant("The second that is new."),
)


class Growing:
    """A session's file, written a step at a time."""

    def __init__(self, config: Path, number: int) -> None:
        start = (datetime.now(UTC) - timedelta(seconds=80)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        id = f"6a000000-0000-4000-8000-{number:012d}"
        self.whole: Built = session(*BEFORE, *AFTER, id=id, cwd="/home/me/growing", start=start)
        self.path = self.whole.save(config)
        self._left = list(self.whole.lines)
        self.path.write_bytes(b"")
        self.write(len(session(*BEFORE).lines))

    @property
    def id(self) -> str:
        return self.whole.id

    def write(self, lines: int = 1) -> None:
        """Append so many lines."""
        with self.path.open("ab") as file:
            file.write(b"".join(self._left[:lines]))
        del self._left[:lines]

    def write_part(self) -> None:
        """Append the first half of a line; the next `write` appends the rest of it."""
        line = self._left[0]
        with self.path.open("ab") as file:
            file.write(line[: len(line) // 2])
        self._left[0] = line[len(line) // 2 :]


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("follow") / "claude"


@pytest.fixture(scope="module")
def served(config: Path) -> Iterator[Served]:
    Growing(config, 0)
    with visited(config, config.parent / "unspool") as running:
        yield running


def followed(page: Page) -> None:
    """Wait until the page listens."""
    page.keyboard.press("f")
    page.wait_for_selector(".session.following-along")


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1440", "390"])
def test_new_rows_come_where_they_belong_and_once(size: Size, config: Path, served: Served, tabs: Tabs) -> None:
    growing = Growing(config, 1 + size[0])
    page = visit_session(tabs(size), served, growing.id)
    followed(page)
    growing.write()
    page.wait_for_function("() => document.querySelector('.row.call.done')?.innerText.includes('1 line')")
    growing.write()
    seen(page, "The first that is new.")
    growing.write()
    seen(page, "The second that is new.")
    rows = [row.inner_text() for row in page.locator(".row.answer").all()]
    assert [row.strip().splitlines()[-1] for row in rows[-2:]] == ["The first that is new.", "The second that is new."]
    keys = [row.get_attribute("data-key") for row in page.locator(".row").all()]
    assert len(keys) == len(set(keys))


def test_what_is_read_does_not_move_and_what_is_open_stays_open(config: Path, served: Served, tabs: Tabs) -> None:
    growing = Growing(config, 2)
    page = visit_session(tabs(), served, growing.id)
    followed(page)
    page.locator("details.row.thought > summary").click()
    page.locator(".row.answer a.line").nth(3).click()
    page.wait_for_selector(".drawer .detail")
    page.evaluate("() => scrollTo(0, 600)")
    drawer, place = page.inner_text(".drawer"), where(page)
    growing.write(3)
    seen(page, "The second that is new.")
    assert where(page) == place
    assert page.inner_text(".drawer") == drawer
    assert page.locator("details.row.thought").evaluate("one => one.open")
    pill = page.locator(".pill")
    assert pill.is_visible()
    assert "2 new" in pill.inner_text()
    pill.click()
    page.wait_for_function("() => scrollY > 600")


def test_who_is_at_the_end_stays_there_and_the_address_says_that_it_is_followed(
    config: Path, served: Served, tabs: Tabs
) -> None:
    growing = Growing(config, 6)
    page = visit_session(tabs(), served, growing.id)
    followed(page)
    assert "follow=1" in page.url
    page.wait_for_function("() => document.querySelector('.rows').getBoundingClientRect().bottom <= innerHeight + 40")
    growing.write(3)
    seen(page, "The second that is new.")
    page.wait_for_function("() => document.querySelector('.rows').getBoundingClientRect().bottom <= innerHeight + 40")
    assert page.locator(".pill").is_hidden()
    page.keyboard.press("f")
    page.wait_for_selector(".session:not(.following-along)")
    assert "follow=1" not in page.url


def test_the_facts_and_the_chart_follow_too(config: Path, served: Served, tabs: Tabs) -> None:
    growing = Growing(config, 7)
    page = visit_session(tabs(), served, growing.id)
    before = page.get_attribute("svg.chart", "data-columns")
    followed(page)
    page.wait_for_selector(".strip .status")
    growing.write(3)
    page.wait_for_function("before => document.querySelector('svg.chart').dataset.columns !== before", arg=before)
    assert "1 call" in page.inner_text(".strip")


def test_half_a_line_is_no_line(config: Path, served: Served, tabs: Tabs) -> None:
    growing = Growing(config, 3)
    page = visit_session(tabs(), served, growing.id)
    followed(page)
    growing.write()
    growing.write_part()
    page.wait_for_function("() => document.querySelector('.row.call.done')")
    assert "bad line" not in page.inner_text("body")
    growing.write()
    seen(page, "The first that is new.")
    assert "bad line" not in page.inner_text("body")


def test_who_comes_back_has_missed_nothing(config: Path, served: Served, tabs: Tabs) -> None:
    growing = Growing(config, 4)
    page = visit_session(tabs(), served, growing.id)
    followed(page)
    growing.write()
    page.wait_for_function("() => document.querySelector('.row.call.done')")
    page.keyboard.press("f")
    page.wait_for_selector(".session:not(.following-along)")
    growing.write(2)
    followed(page)
    seen(page, "The second that is new.")
    rows = page.inner_text(".rows")
    assert rows.count("The first that is new.") == rows.count("The second that is new.") == 1


def test_a_file_that_is_written_anew_is_shown_anew(config: Path, served: Served, tabs: Tabs) -> None:
    growing = Growing(config, 5)
    page = visit_session(tabs(), served, growing.id, "?follow=1")
    page.wait_for_selector(".session.following-along")
    other = session(user("Something else."), assistant("Quite another file."), id=growing.id, cwd="/home/me/growing")
    growing.path.write_bytes(other.data)
    seen(page, "Quite another file.")
    assert "Count to sixty." not in page.inner_text(".rows")


def seen(page: Page, words: str) -> None:
    """Wait until the page says so."""
    page.wait_for_function("words => document.querySelector('.rows')?.textContent.includes(words)", arg=words)


def where(page: Page) -> tuple[float, float]:
    """Return how far the page is scrolled, and where what one reads stands in the window."""
    scrolled, top = page.evaluate(
        """() => [scrollY, [...document.querySelectorAll(".row")].map((one) => one.getBoundingClientRect().top)
             .find((top) => top > 100)]"""
    )
    return scrolled, top
