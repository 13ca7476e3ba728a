"""Nine things that people want of the page, each done by touch on a phone and by keys alone, in at most three actions.

Rules
  1. A tap and a key are one action; typing words into a field is none, and a key that is pressed again to go on in a
     list (`j`) is the same action. All presses are counted too.
  2. What a person reads is on the screen when the task is done: in the window, not only in the page.
  3. Each test prints its row of the table of tasks: `pytest -rP tests/browser/test_nine_tasks.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser import showcase, showcase_beside
from tests.browser.happening import happening, living, session_id, started
from tests.browser.visiting import READY, let_in, visited
from tests.browser.watching import DEADLINE, NARROW, WIDE
from tests.serving import Served
from unspool.format.base import encode_json
from unspool.testing.build import Built, assistant, session, tool_result, tool_use, user

MOST_ACTIONS = 3
MOVES = ("j", "k")
TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6"
SHARED, FULL, GROWING = (f"9a5c0000-0000-4000-8000-00000000000{number}" for number in range(3))
PROMPT = f"Publish the harbour list.\nThe token is {TOKEN}."
BIG_FILE = "/home/me/tidewatch/data/every_harbour.csv"
NEWS = "The eighth harbour is measured."
FAILURE = "Exit code 1\nTraceback (most recent call last):\nKeyError: 'total'"
UP_TO_DATE = "() => document.documentElement.dataset.connection === 'connected'"


def moment(ago: float = 0) -> str:
    return (datetime.now(UTC) - timedelta(seconds=ago)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def growing() -> Built:
    """Return a session that works; its last line comes later."""
    return session(
        user("Measure the harbours."),
        *(assistant(f"Harbour {number} is measured.") for number in range(40)),
        assistant(NEWS),
        id=GROWING, cwd="/home/me/tidewatch", start=moment(60),
    )  # fmt: skip


class World(NamedTuple):
    """A server of a folder with eight sessions that run, and the file of the one that grows."""

    served: Served
    growing: Path
    last_line: bytes


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    config = tmp_path / "claude"
    showcase.build(config)
    session(
        user(PROMPT), assistant("I publish it.", tool_use("Bash", id="t", command=f"publish --token {TOKEN}")),
        tool_result("published", id="t"), assistant("It is published."), id=SHARED, cwd="/home/me/tidewatch",
        start="2026-03-03T10:00:00.000Z",
    ).save(config)  # fmt: skip
    usage = {"input_tokens": 10, "cache_read_input_tokens": 4_000, "cache_creation_input_tokens": 31_000}
    session(
        user("What is in it?"), assistant(tool_use("Read", id="r", file_path=BIG_FILE)),
        tool_result("1\tharbour,tide\n" * 6_000, id="r"), assistant("Harbours.", usage={**usage, "output_tokens": 20}),
        id=FULL, cwd="/home/me/tidewatch", start="2026-03-03T11:00:00.000Z",
    ).save(config)  # fmt: skip
    for number, project in enumerate(("shop", "ledger", "shop")):
        session(
            user(f"Add up {number}."), assistant(tool_use("Bash", id="t", command="python a.py")),
            tool_result(FAILURE, id="t", error=True), assistant("It fails."), cwd=f"/home/me/{project}",
            id=f"fa110000-0000-4000-8000-00000000000{number}", start=moment(5), step=0.001,
        ).save(config)  # fmt: skip
    made = growing()
    path = made.save(config)
    path.write_bytes(b"".join(made.lines[:-1]))
    with happening(config), living() as process, visited(config, tmp_path / "unspool") as served:
        entry = {"pid": process.pid, "sessionId": GROWING, "cwd": made.cwd, "procStart": started(process.pid)}
        entry |= {"version": "2.1.325", "kind": "interactive", "entrypoint": "cli", "name": "Measure", "status": "busy"}
        now = round(time.time() * 1000)
        entry |= {"startedAt": now - 60_000, "updatedAt": now, "statusUpdatedAt": now}
        (config / "sessions" / f"{process.pid}.json").write_bytes(encode_json(entry))
        while served.get("/sessions.json").json["undigested"] or not served.get("/inbox.json").json["failures"]:
            pass
        yield World(served, path, made.lines[-1])


class Hands:
    """What a person does with a page, counted."""

    def __init__(self, page: Page, world: World) -> None:
        self.page, self.world = page, world
        self.actions = self.presses = 0
        self._last = ""
        self._began = time.monotonic()

    def open(self, path: str) -> None:
        """Begin at a page; the clock starts when it is there."""
        self.page.goto(self.world.served.address + path)
        if path.startswith("/session/"):
            self.page.wait_for_selector(READY)
        elif path == "/":
            self.page.wait_for_function(UP_TO_DATE)
        self._began = time.monotonic()

    def tap(self, place: Locator) -> None:
        self.actions, self.presses = self.actions + 1, self.presses + 1
        place.tap()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.actions += key != self._last or key not in MOVES
            self.presses += 1
            self._last = key
            self.page.keyboard.press(key)

    def type(self, words: str) -> None:
        self.page.keyboard.type(words)

    def sees(self, place: Locator) -> None:
        """Wait until something is on the screen."""
        expect(place).to_be_in_viewport(timeout=DEADLINE)

    def copied(self, text: str) -> None:
        """Wait until the clipboard has a text."""
        self.page.wait_for_function("async (text) => await navigator.clipboard.readText() === text", arg=text)

    def row(self, task: str, how: str) -> str:
        return f"| {task} | {how} | {self.actions} | {self.presses} | {time.monotonic() - self._began:.1f} |"


@pytest.fixture(params=["touch", "keys"])
def hands(request: pytest.FixtureRequest, browser: Browser, world: World) -> Iterator[Hands]:
    touch = request.param == "touch"
    width, height = NARROW if touch else WIDE
    context = browser.new_context(
        viewport={"width": width, "height": height}, has_touch=touch, is_mobile=touch, accept_downloads=True,
        reduced_motion="reduce", permissions=["clipboard-read", "clipboard-write"],
    )  # fmt: skip
    context.set_default_timeout(DEADLINE)
    let_in(context, world.served)
    used = Hands(context.new_page(), world)
    yield used
    context.close()
    print(used.row(request.function.__name__.removeprefix("test_").replace("_", " "), request.param))
    assert used.actions <= MOST_ACTIONS


def is_touch(hands: Hands) -> bool:
    return bool(hands.page.evaluate("navigator.maxTouchPoints > 0"))


def by(hands: Hands, touch: Callable[[], None], keys: Callable[[], None]) -> None:
    """Do it in one of the two ways."""
    (touch if is_touch(hands) else keys)()


def test_a_which_of_eight_running_sessions_needs_me_and_what_does_it_ask(hands: Hands) -> None:
    hands.open("/")
    data = hands.world.served.get("/inbox.json").json
    running = [one for name in ("needs_you", "working", "finished", "waiting") for one in data.get(name, [])]
    assert len({one["sessionId"] for one in running}) >= 8
    asking = hands.page.locator("#section-needs_you .ask")
    assert {one.get_attribute("data-item") for one in asking.all()} == {
        session_id("question"),
        session_id("permission"),
    }
    hands.sees(asking.first.locator(".question p", has_text="How should half a cent be rounded?").first)
    hands.sees(asking.first.get_by_text("Half even"))
    by(hands, lambda: None, lambda: hands.press("j", "j"))
    asking.nth(1).scroll_into_view_if_needed()
    hands.sees(asking.nth(1).get_by_text("git push --tags").first)


def test_b_find_the_fix_of_a_bug_and_its_exact_diff(hands: Hands) -> None:
    page = hands.page
    hands.open("/")

    def touch() -> None:
        hands.tap(page.get_by_role("button", name="Menu"))
        hands.tap(page.get_by_role("link", name="Search"))
        page.locator("main input[type=search]").focus()
        hands.type("total.quantize")
        page.keyboard.press("Enter")
        hands.tap(page.locator(".hits li a", has_text="quantize").first)

    def keys() -> None:
        hands.press("Control+k")
        page.get_by_role("option").first.wait_for()
        hands.type("total.quantize")
        hands.press("Enter")
        page.locator(".hits li a", has_text="quantize").first.wait_for()
        page.wait_for_load_state("load")  # keys do nothing before the script of the page has run
        hands.press("Enter")

    by(hands, touch, keys)
    hands.sees(page.locator("#drawer .patch"))
    lines = page.locator("#drawer .patch .plus, #drawer .patch .minus").all_inner_texts()
    said = [line.replace("\t", "").strip().lstrip("0123456789").strip() for line in lines]
    assert [" ".join(line.split()) for line in said] == [
        "- total = round(total, 0)", "+ total = total.quantize(CENT)", "+ check(total)", "+ log(total)",
    ]  # fmt: skip


def test_c_why_did_this_session_cost_so_much(hands: Hands) -> None:
    page = hands.page
    hands.open(f"/session/{showcase.ID}")
    by(hands, lambda: hands.tap(page.locator(".strip a[href$='/cost']")), lambda: hands.press("$"))
    page.wait_for_url("**/cost")
    hands.sees(page.locator(".expensive .first").first)
    dearest = hands.world.served.get(f"/session/{showcase.ID}/cost.json").json["expensive"][0]
    assert dearest["reasons"][0]["words"] in page.locator(".expensive > li").first.inner_text()


def test_d_what_did_agent_3_do_and_return(hands: Hands) -> None:
    page, agent = hands.page, showcase_beside.ORDERS[2]
    hands.open(f"/session/{showcase.ID}")

    def touch() -> None:
        hands.tap(page.locator("[data-show=agents]"))
        hands.tap(page.locator(f".crew a[data-agent='{agent.agent}']"))

    def keys() -> None:
        hands.press("a")
        page.wait_for_function("() => document.activeElement?.closest('.crew')")
        for _ in range(10):
            if page.evaluate("document.activeElement.dataset.agent") == agent.agent:
                break
            hands.press("j")
        hands.press("Enter")

    by(hands, touch, keys)
    steps = page.locator(f".nested[data-agent='{agent.agent}'] .inner")
    hands.sees(steps.locator(".row.call", has_text="Grep"))
    hands.sees(steps.locator(".row.answer", has_text=agent.report))


def test_e_where_did_the_context_fill_up(hands: Hands) -> None:
    page = hands.page
    hands.open(f"/session/{FULL}")
    by(hands, lambda: hands.tap(page.locator(".filling > summary")), lambda: hands.press("w"))
    row = page.locator(".filling table").nth(1).locator("tbody tr").first
    row.wait_for()
    row.scroll_into_view_if_needed()
    hands.sees(row)
    assert "every_harbour.csv" in row.inner_text()
    assert int(row.locator(".number").inner_text().replace(",", "")) > 20_000


def test_f_what_failed_today_across_projects(hands: Hands) -> None:
    page = hands.page
    hands.open("/")
    failed = page.locator("#section-failed")
    failed.scroll_into_view_if_needed()
    hands.sees(failed.get_by_text("in 3 sessions"))
    assert "3×" in failed.inner_text()
    link = failed.locator(".sessions a").first

    by(hands, lambda: hands.tap(link), lambda: hands.press("e", "Enter"))
    page.wait_for_selector(READY)
    hands.sees(page.locator("#drawer").get_by_text("KeyError").first)


def test_g_copy_a_prompt_and_the_resume_command(hands: Hands) -> None:
    page = hands.page
    hands.open(f"/session/{SHARED}")
    resume = page.locator("[data-copy='the resume command']")
    command = resume.get_attribute("data-text") or ""
    assert command.startswith("cd /home/me/tidewatch && ")
    assert command.endswith(f"claude --resume {SHARED}")
    by(hands, lambda: hands.tap(resume), lambda: hands.press("r"))
    hands.copied(command)

    def touch() -> None:
        hands.tap(page.locator(".row.prompt > .line").first)
        hands.tap(page.locator("#drawer .part [data-copy]").first)

    by(hands, touch, lambda: hands.press("J", "p"))
    hands.copied(PROMPT)


def test_h_share_a_session_redacted(hands: Hands, tmp_path: Path) -> None:
    page = hands.page
    hands.open(f"/session/{SHARED}")
    by(hands, lambda: hands.tap(page.locator(".strip a.share")), lambda: hands.press("S"))
    download = page.get_by_role("button", name="Download")
    download.wait_for()
    page.wait_for_load_state()
    assert "github" in page.locator(".replacements").inner_text().lower()
    with page.expect_download() as waiting:
        by(hands, lambda: hands.tap(download), lambda: hands.press("d"))
    path = tmp_path / "shared.html"
    waiting.value.save_as(path)
    text = path.read_text()
    assert "Publish the harbour list" in text
    assert TOKEN not in text


def test_i_follow_a_live_session(hands: Hands) -> None:
    page = hands.page
    hands.open("/")
    link = page.locator(f"#section-working [data-item='{GROWING}'] .open")

    def keys() -> None:
        for _ in range(10):
            hands.press("j")
            if page.evaluate("document.activeElement.closest('[data-item]').dataset.item") == GROWING:
                break
        hands.press("Enter")
        page.wait_for_selector(READY)
        hands.press("f")

    def touch() -> None:
        hands.tap(link)
        page.wait_for_selector(READY)
        hands.tap(page.locator("[data-follow]"))

    by(hands, touch, keys)
    page.wait_for_selector(".session.following-along")
    with hands.world.growing.open("ab") as file:
        file.write(hands.world.last_line)
    hands.sees(page.locator(".row.answer", has_text=NEWS))
