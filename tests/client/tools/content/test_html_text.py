"""Pages as text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.client.tools.content.html_text import html_to_text

PAGE = """<!doctype html><html><head><title>Tea &amp; milk</title><style>p { color: red }</style></head>
<body><!-- <p>not this --> <h1>Tea   for
two</h1><p>One <b>strong</b> cup, <a href="/x?a=1&amp;b=2">see <i>here</i></a>; <a href="#top">up</a>.
<ul><li>black<li>green<ol><li>first</li><li>second</li></ol></ul>
<pre><code>if a &lt; b:
    pour()</code></pre>
<table><tr><th>kind</th><th>cups</th></tr><tr><td>oolong</td><td>12</td></tr></table>
<p>12</p><script>if (a<b) { say("</p>") }</script><img src=x alt="a pot"><br>end <button>Buy</button>"""


def test_a_page_keeps_its_words_and_its_shape() -> None:
    assert html_to_text(PAGE, "https://e.org/tea/") == (
        "Tea & milk\n\n# Tea for two\n\nOne **strong** cup, [see *here*](https://e.org/x?a=1&b=2); up.\n\n"
        "- black\n- green\n\n  1. first\n  2. second\n\n```\nif a < b:\n    pour()\n```\n\n"
        "kind | cups\noolong | 12\n\n12\n\n[image: a pot]\nend"
    )


def test_a_quoted_angle_does_not_end_a_tag() -> None:
    assert html_to_text("<a href=\"/a>b\" title='x>y'>go</a>", "https://e.org") == "[go](https://e.org/a>b)"


def test_an_empty_heading_makes_no_heading_of_what_follows() -> None:
    assert html_to_text("<h2></h2><p>text</p><li></li>more") == "text\n\nmore"


@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<a ",
        '<a "" ',
        "<!--",
        "<a href='",
        "<script>",
        "<p>",
        "&amp",
        "<b>",
        "<li>",
        "<a href=x>y",
        "<ul>",
        "<pre>\n",
    ],
)
def test_a_malicious_page_takes_no_longer_than_any_other(piece: str) -> None:
    began = time.process_time()
    html_to_text(piece * (1_000_000 // len(piece)))
    assert time.process_time() - began < 5


@given(
    st.lists(
        st.sampled_from(
            ["<", ">", "a", "pre", "/", '"', "'", "=", "!--", " ", "li", "&lt;", "\n", "h1", "td", "b", "é"]
        )
    )
)
def test_any_text_is_a_page(parts: list[str]) -> None:
    assert isinstance(html_to_text("".join(parts), "https://e.org/"), str)


@given(
    st.text(
        st.characters(
            exclude_characters="<&\r\f\xa0\x85\u2028\u2029\x0b\x1c\x1d\x1e\x1f", exclude_categories=["Cs", "Cc", "Z"]
        )
    )
)
def test_a_text_without_tags_is_kept(text: str) -> None:
    kept = html_to_text(text)
    assert kept == text or not text.strip("*` |")
