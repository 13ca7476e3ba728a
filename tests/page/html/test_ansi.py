"""Colours of a terminal as classes."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.page.html.ansi import drop_overwritten, render_ansi

pieces = st.lists(
    st.sampled_from(
        ["\x1b[31m", "\x1b[0m", "\x1b[1;4m", "\x1b[38;5;208m", "\x1b[48;2;1;2;3m", "\x1b[", "\x1b", "\x1b]0;t\x07",
         "\x1b[2J", "\x9b31m", "\r", "\n", "<b>", "&amp;", "</span>", "\x00", "\x1b[7m", "\x1b[999m", "\x1b[38;5m"]
    )
    | st.text(max_size=6),
    max_size=20,
).map("".join)  # fmt: skip


class Balanced(HTMLParser):
    """Counts what is opened and closed; notes tags that are no `span`."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        self.others: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.depth += 1
        self.others += [] if tag == "span" and [name for name, _ in attrs] == ["class"] else [tag]

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1
        assert self.depth >= 0


@given(pieces)
def test_no_escape_comes_out_and_what_is_opened_is_closed(text: str) -> None:
    made = str(render_ansi(text))
    assert not {"\x1b", "\x9b", "\x00", "\r"} & set(made)
    parser = Balanced()
    parser.feed(made)
    parser.close()
    assert (parser.depth, parser.others) == (0, [])


@given(st.text())
def test_text_without_sequences_stays_as_it_is(text: str) -> None:
    text = "".join(letter for letter in text if letter.isprintable())
    assert render_ansi(text).unescape() == text


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("plain <b>", "plain &lt;b&gt;"),
        ("\x1b[31mred\x1b[0m.", '<span class="f1">red</span>.'),
        ("\x1b[1;92mok\x1b[22m!", '<span class="bold f10">ok</span><span class="f10">!</span>'),
        ("\x1b[38;5;208mo\x1b[39mx", '<span class="f9">o</span>x'),
        ("\x1b[48;2;0;0;0m b", '<span class="g0"> b</span>'),
        ("\x1b[7mx", '<span class="reverse">x</span>'),
        ("\x1b[41;7mx", '<span class="f1">x</span>'),
        ("10 %\r100 %\nend", "100 %\nend"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("\x1b[31m\x1b[0m", ""),
    ],
)
def test_colours_become_classes(text: str, made: str) -> None:
    assert str(render_ansi(text)) == made


@given(st.text(alphabet="ab\r\n", max_size=12))
def test_only_the_last_state_of_a_line_that_was_overwritten_is_shown(text: str) -> None:
    # What it means, in a pattern that takes too long for a long line.
    assert drop_overwritten(text) == re.sub(r"[^\n]*\r(?!\n)", "", text)
