from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from unspool.client.ui.render_events import MarkdownStream

lines = st.sampled_from(
    ["", "text", "# head", "- item", "1. one", "  more", "```", "```python", "~~~", "> quote", "| a |", "    code"]
)
texts = st.lists(lines).map("\n".join)


def blocks(text: str) -> list[str]:
    flow = MarkdownStream()
    return [*flow.feed(text), flow.flush()]


@given(texts, st.lists(st.integers(0, 60)))
def test_how_a_text_is_cut_does_not_matter(text: str, cuts: list[int]) -> None:
    flow, places = MarkdownStream(), sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in itertools.pairwise(places)]
    found = [block for piece in pieces for block in flow.feed(piece)]
    assert [*found, flow.flush()] == blocks(text)
    assert "".join(blocks(text)) == text


def test_a_paragraph_is_settled_when_the_next_one_begins() -> None:
    flow = MarkdownStream()
    assert flow.feed("One\ntwo\n\n") == []
    assert flow.feed("three\n") == ["One\ntwo\n\n"]
    assert flow.tail == "three\n"


def test_a_fence_is_settled_when_it_closes_and_not_before() -> None:
    flow = MarkdownStream()
    assert flow.feed("```python\na\n\n# not a heading\n\nb\n") == []
    assert flow.feed("```\n") == ["```python\na\n\n# not a heading\n\nb\n```\n"]


def test_a_longer_fence_holds_a_shorter_one() -> None:
    text = "````\n```\n\nx\n```\n````\n"
    assert blocks(text) == [text, ""]


def test_a_list_with_gaps_is_one_block() -> None:
    listed = "1. one\n\n   more\n\n   ```\n   code\n   ```\n\n2. two\n\n"
    assert blocks(listed + "after\n") == [listed, "after\n"]


def test_a_heading_begins_a_block_without_a_gap() -> None:
    assert blocks("text\n# head\n") == ["text\n", "# head\n"]
