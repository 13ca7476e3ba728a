"""The review inside an exported file: marked words, both forms of a diff, and a patch that git applies."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page

import unspool
from tests.browser.measuring import measure
from tests.browser.watching import NARROW, WIDE, Size, Tabs
from tests.web.pages.test_review import edit, nonsense
from unspool.page import PageView
from unspool.page.analysis import format_patch
from unspool.page.html import render_standalone
from unspool.page.readers import find_changed_files, read_reviews
from unspool.testing.build import assistant, session, tool_result, tool_use, user

ID = "30000000-0000-4000-8000-000000000001"
CWD = "/home/me/shop"
BEFORE = {
    "cart.py": "".join(f"line {number} = 'é 😀 <b>'\n" for number in range(60)),
    "end.txt": "one\ntwo",
    "crlf.txt": "a\r\nb\r\n",
}
AFTER = {
    "cart.py": BEFORE["cart.py"]
    .replace("line 5 = 'é 😀 <b>'", "line 5 = 'é 😀 <i>'")
    .replace("line 50 =", "line fifty ="),
    "end.txt": "one\nthree\n",
    "crlf.txt": "a\r\nc\r\n",
    "new.txt": "first\nlast",
}
_CATCH = "Object.defineProperty(navigator.clipboard, 'writeText', { value: async (text) => { window.copied = text } })"
"""A file that is opened from the disk may not read what it has copied."""
_PRESS = "one => one.click()"
"""Without the focus, so that Tab goes on from the beginning of the page."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return an exported file, and the patch of its session."""
    folder = tmp_path_factory.mktemp("exported")
    made = {"type": "create", "filePath": f"{CWD}/new.txt", "content": AFTER["new.txt"], "structuredPatch": []}
    steps = [step for name, before in BEFORE.items() for step in edit(before, AFTER[name], f"{CWD}/{name}")]
    session(
        user("Change them"), *steps,
        assistant(tool_use("Write", file_path=f"{CWD}/new.txt", content=AFTER["new.txt"])),
        tool_result("ok", structured=made), id=ID, cwd=CWD,
    ).save(folder / "claude")  # fmt: skip
    one = unspool.open(folder / "claude").session(ID)
    view = PageView.read(one)
    files = [file for file in find_changed_files(view).files if "crlf" not in file.path]
    (folder / "session.html").write_text("".join(render_standalone(one)))
    return folder / "session.html", format_patch(read_reviews(view, files, 3), CWD)


def opened(exported: tuple[Path, str], tabs: Tabs, size: Size = WIDE) -> Page:
    page = tabs(size).go(f"{exported[0].as_uri()}?review=1")
    page.wait_for_selector(".review:not([hidden]) .file")
    return page


def test_words_that_differ_are_marked(exported: tuple[Path, str], tabs: Tabs) -> None:
    page = opened(exported, tabs)
    marked = page.eval_on_selector_all(
        ".review .file:first-of-type .patch mark",
        "all => all.map((one) => [one.parentNode.className, one.textContent])",
    )
    assert marked == [["minus", "b"], ["plus", "i"], ["minus", "50"], ["plus", "fifty"]]
    assert "line 5 = 'é 😀 <i>'" in page.inner_text(".review .plus:has(mark)")


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1440", "390"])
def test_the_rows_stand_side_by_side_or_below_each_other(size: Size, exported: tuple[Path, str], tabs: Tabs) -> None:
    page = opened(exported, tabs, size)
    below = page.inner_text(".review .patch >> nth=0")
    page.eval_on_selector("[data-form=split]", _PRESS)
    left, right = (page.locator(f".review .patch >> nth=0 >> div.{name}").bounding_box() for name in ("minus", "plus"))
    assert left is not None
    assert right is not None
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"] + 1
    assert measure(page) == []
    page.get_by_role("button", name="side by side").click()
    assert page.inner_text(".review .patch >> nth=0") == below
    page.get_by_role("button", name="wrap").click()
    assert page.eval_on_selector_all(".review .patch", "all => all.every((one) => one.scrollWidth <= one.clientWidth)")


def test_what_is_copied_is_the_patch_of_the_session_and_git_applies_it(
    exported: tuple[Path, str], tabs: Tabs, tmp_path: Path
) -> None:
    page = opened(exported, tabs)
    page.evaluate(_CATCH)
    page.get_by_role("button", name="side by side").click()
    page.locator(".forms").get_by_role("button", name="copy as patch").click()
    page.wait_for_function("() => document.querySelector('.toast')?.textContent.includes('without 1 file')")
    patch = page.evaluate("window.copied")
    assert patch == exported[1]
    for name, text in BEFORE.items():
        (tmp_path / name).write_bytes(text.encode())
    subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd=tmp_path, check=True, capture_output=True)
    assert {name: (tmp_path / name).read_text() for name in AFTER if name != "crlf.txt"} == {
        name: text for name, text in AFTER.items() if name != "crlf.txt"
    }
    page.get_by_role("button", name="copy end.txt as patch").click()
    page.wait_for_function("() => window.copied.startsWith('diff --git a/end.txt')")
    page.evaluate("window.copied = null")
    page.get_by_role("button", name="copy crlf.txt as patch").click()
    page.wait_for_function("() => document.querySelector('.toast').textContent.includes('unspool serve')")
    assert page.evaluate("window.copied") is None


def test_a_session_of_nonsense_has_a_review_too(tabs: Tabs, tmp_path: Path) -> None:
    nonsense(tmp_path / "claude")
    (one,) = unspool.open(tmp_path / "claude").sessions()
    file = tmp_path / "session.html"
    file.write_text("".join(render_standalone(one)))
    page = opened((file, ""), tabs)
    page.eval_on_selector("[data-patch=all]", _PRESS)
    page.wait_for_selector(".toast:not(:empty)")
    assert measure(page) == []
