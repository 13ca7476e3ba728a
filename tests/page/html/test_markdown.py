"""Markdown that nobody need trust."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.page.html.markdown import is_safe_link, render_markdown

PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<iframe src='javascript:alert(1)'></iframe>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](java\nscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](vbscript:msgbox(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](file:///etc/passwd)",
    "[x](//evil.test/x)",
    "[x](/session/1)",
    "![x](http://evil.test/pixel.png)",
    "![x](javascript:alert(1))",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "[![x](http://evil.test/p.png)](http://ok.test/)",
    "<javascript:alert(1)>",
    "<http://ok.test/\" onmouseover=alert(1)>",
    "[x](http://ok.test/ \"a\\\" onmouseover=alert(1) b\")",
    "```html\"><script>alert(1)</script>\nx\n```",
    "`<script>alert(1)</script>`",
    "| <script>alert(1)</script> |\n|---|\n| x |",
    "<!--<img src=x onerror=alert(1)>-->",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<style>*{background:url(http://evil.test)}</style>",
    "<base href=http://evil.test>",
    "<form action=http://evil.test><button>x",
    "<a href=\"javascript:alert(1)\">x</a>",
    "[a]: javascript:alert(1)\n[a]",
    "\x1b]0;title\x07\x1b[31m",
    "\u202etxt.exe",
]  # fmt: skip
_TAGS = {
    "p",
    "br",
    "hr",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "em",
    "strong",
    "s",
    "code",
    "pre",
    "blockquote",
    "ul",
    "ol",
    "li",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "a",
    "span",
}
_NAMES = {"href", "title", "class", "rel", "target", "start", "tabindex", "aria-level"}


class Wall(HTMLParser):
    """Fails at anything that may not be there."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS
        for name, value in attrs:
            assert name in _NAMES
            if name == "href":
                assert is_safe_link(value or "")
                assert dict(attrs)["rel"] == "noopener noreferrer"

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def check(text: str) -> str:
    made = str(render_markdown(text))
    wall = Wall()
    wall.feed(made)
    wall.close()
    assert "\x1b" not in made
    return made


@pytest.mark.parametrize("text", PAYLOADS)
def test_nothing_runs_and_nothing_is_fetched(text: str) -> None:
    made = check(text)
    assert "<img" not in made
    assert "<script" not in made


@given(
    st.lists(st.sampled_from(PAYLOADS) | st.text(max_size=8) | st.sampled_from(list("[]()<>`*_|#\n\"'")), max_size=6)
)
def test_no_mixture_of_them_does_either(parts: list[str]) -> None:
    check("".join(parts))


def test_what_people_write_looks_as_they_meant_it() -> None:
    made = str(render_markdown("# A\n\n**b** `c`\n\n- d\n\n```python\nx = 1\n```\n\n[e](https://x.test/?a=1&b=2)"))
    assert '<h1 aria-level="3">A</h1>' in made
    assert "<strong>b</strong> <code>c</code>" in made
    assert '<span class="number">1</span>' in made
    link = '<a href="https://x.test/?a=1&amp;b=2" target="_blank" rel="noopener noreferrer">e</a>'
    assert link in made


@pytest.mark.parametrize("text", ["[" * 60_000, "*a " * 30_000, "> " * 30_000, "`" * 60_000])
def test_a_text_that_would_take_for_ever_is_shown_as_it_is(text: str) -> None:
    assert len(check(text)) > 0
