"""Diffs as HTML: what a transcript holds stays text, elements stay closed, marks are around what differs."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from unspool.page.analysis import RecordedChange, Replaced, review_file
from unspool.page.html import DiffRows
from unspool.page.html.diff_rows import mark_html

EVIL = "<script>alert(1)</script>\"'&amp;\x1b[31m"


class Checker(HTMLParser):
    """Notes elements that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check(html: str) -> set[str]:
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    return checker.seen


def test_words_that_differ_are_marked_inside_coloured_code() -> None:
    change = RecordedChange("1.0", "/p/a.py", before="x = load(1)\n", replaced=(Replaced("load(1)", "load(2)"),))
    review = review_file("/p/a.py", [change])
    html = DiffRows(review).unified(review.hunks[0])
    assert re.findall(r"<mark>(.*?)</mark>", html) == ["1", "2"]
    assert "function" not in html or check(html)


@given(before=st.text(max_size=60), after=st.text(max_size=60), path=st.sampled_from(["/p/a.py", "/p/a.html", "/p/a"]))
def test_any_content_is_only_rows_and_spans(before: str, after: str, path: str) -> None:
    change = RecordedChange("1.0", path, before=EVIL + before, after=after + EVIL)
    review = review_file(path, [change])
    for hunk in review.hunks:
        rows = DiffRows(review)
        for html in (rows.unified(hunk), rows.side_by_side(hunk)):
            assert check(html) <= {"tr", "td", "span", "mark"}
            assert "\x1b" not in html


@given(
    pieces=st.lists(st.sampled_from(["a", "&lt;", '<span class="k">b</span>', " ", "é"]), max_size=12),
    first=st.integers(0, 6),
    length=st.integers(1, 6),
)
def test_marks_never_cross_elements(pieces: list[str], first: int, length: int) -> None:
    html = "".join(pieces)
    marked = mark_html(html, [(first, first + length)])
    check(marked)
    assert marked.replace("<mark>", "").replace("</mark>", "") == html


def test_a_line_of_a_megabyte_is_cut() -> None:
    change = RecordedChange("1.0", "/p/a.py", before="", after="x" * 1_000_000, is_new=True)
    review = review_file("/p/a.py", [change])
    html = DiffRows(review).unified(review.hunks[0])
    assert len(html) < 6_000
    assert "more characters" in html
