"""Tables and cut text: every line has the width that a terminal gives it."""

from __future__ import annotations

import re

import pyte
import pytest
import wcwidth
from hypothesis import given
from hypothesis import strategies as st

from unspool.display.safe import clean_line
from unspool.display.table import _NARROW, _WIDE, TextColumn, cell_width, format_table, truncate

LISTED = [chr(code) for code in range(0x20, 0x20000) if re.fullmatch(f"[{_NARROW}{_WIDE}]", chr(code))]


def test_characters_that_are_measured_without_the_library_have_the_width_that_it_gives() -> None:
    shown = [character for character in LISTED if clean_line(character) == character]
    assert [character for character in shown if cell_width(character) != wcwidth.wcwidth(character)] == []
    assert {cell_width(character) for character in shown} == {1, 2}


@given(st.text(st.sampled_from(LISTED)), st.integers(0, 40))
def test_texts_that_are_measured_without_the_library_are_measured_and_cut_as_it_does(text: str, width: int) -> None:
    assert cell_width(text) == wcwidth.width(text, control_codes="ignore")
    if cell_width(text) > width:
        assert truncate(text, width) == wcwidth.clip(text, 0, max(0, width - 1)).rstrip() + "…"


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("abc", 3),
        ("Grünfink", 8),
        ("日本", 4),
        ("e\u0301", 1),
        ("👍", 2),
        ("👍🏽", 2),
        ("👩\u200d👩\u200d👧", 2),
        ("❤\ufe0f", 2),
    ],
)
def test_a_text_is_as_wide_as_a_terminal_shows_it(text: str, cells: int) -> None:
    assert cell_width(text) == cells


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 4, "abc…"),
        ("ab cdef", 4, "ab…"),
        ("Grünfink", 4, "Grü…"),
        ("日本語", 4, "日…"),
        ("e\u0301a" * 3, 4, "e\u0301ae\u0301…"),
        ("👩\u200d👩\u200d👧 zu dritt", 4, "👩\u200d👩\u200d👧…"),
        ("abc", 1, "…"),
        ("日本", 0, "…"),
    ],
)
def test_a_text_is_cut_between_characters_and_ends_in_a_mark(text: str, width: int, cut: str) -> None:
    assert truncate(text, width) == cut


@given(st.text().map(clean_line), st.integers(1, 40))
def test_a_cut_text_is_never_wider_than_allowed(text: str, width: int) -> None:
    assert cell_width(truncate(text, width)) <= width


@given(st.lists(st.text(st.sampled_from("ab ü日👍…\u0301"), max_size=30), min_size=1, max_size=4))
def test_the_second_column_begins_at_the_same_cell_in_every_row(cells: list[str]) -> None:
    lines = list(format_table([TextColumn("one", least=8), TextColumn("two")], [[cell, "|x"] for cell in cells], 24))
    screen = pyte.Screen(40, len(lines))
    pyte.Stream(screen).feed("\r\n".join(lines))
    rows = [[screen.buffer[y][x].data for x in range(40)] for y in range(1, len(lines))]
    assert len({row.index("|") for row in rows}) == 1
