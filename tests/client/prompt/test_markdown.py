"""What Markdown files say of themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.client.prompt.text.markdown import FrontMatter, parse_front_matter, parse_list

FILE = """---
name: reviewer
description: "Reads: all of it.\\nThen \\"says\\" so"
tools: Read, Grep  # no more
folded: >-
  one
  two
kept: |
  one
  two
list:
  - a
  - 'b''c'
long: it goes
  on here
nonsense
---

# Text
---
more
"""


def test_a_file_is_parted_into_fields_and_text() -> None:
    assert parse_front_matter(FILE) == FrontMatter(
        {
            "name": "reviewer",
            "description": 'Reads: all of it.\nThen "says" so',
            "tools": "Read, Grep",
            "folded": "one two",
            "kept": "one\ntwo",
            "list": "a, b'c",
            "long": "it goes on here",
        },
        "# Text\n---\nmore",
    )


@pytest.mark.parametrize("text", ["", "text", "--- \ntext", "---\nname: a\n", " ---\nname: a\n---\n"])
def test_a_file_that_says_nothing_of_itself_is_text(text: str) -> None:
    assert parse_front_matter(text) == FrontMatter({}, text.strip())


def test_a_file_of_windows_is_parted_too() -> None:
    assert parse_front_matter("\ufeff---\r\nname: a\r\n---\r\nb\r\n") == FrontMatter({"name": "a"}, "b")


@pytest.mark.parametrize("value", ["Read, Grep", "[Read, Grep]", "['Read',\"Grep\",]", " Read ,Grep"])
def test_a_list_has_items(value: str) -> None:
    assert parse_list(value) == ("Read", "Grep")


@given(st.lists(st.sampled_from(["---", "a: ", "b", "- x", "  ", "|", ">", '"', "'", "\n", "#", ":", "é"])))
def test_any_text_can_be_parted(parts: list[str]) -> None:
    assert isinstance(parse_front_matter("---\n" + "".join(parts)).body, str)


@given(st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.text(st.characters(categories=["L", "N", "Po"])))
def test_a_value_in_quotes_is_kept_whole(name: str, value: str) -> None:
    quoted = value.replace("'", "''")
    assert parse_front_matter(f"---\n{name}: '{quoted}'\n---\n").fields == {name: value}
