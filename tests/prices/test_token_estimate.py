"""How many tokens a request may be."""

from __future__ import annotations

from typing import Any

import pytest

from unspool.prices.token_estimate import estimate_request_tokens
from unspool.testing.build import DOT, document, image, text, thinking


def body(*content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}]}


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ([], 4),
        ([text("a" * 35)], 14),
        ([text("é" * 35)], 24),
        ([thinking("", "s" * 35)], 14),
        ([image()], 5),
        ([image("%%%")], 1604),
        ([image("é")], 1604),
        ([document("A" * 75_001)], 4004),
        ([{"type": "tool_result", "tool_use_id": "a", "content": "a" * 35}], 18),
        ([{"type": "tool_result", "tool_use_id": "a", "content": [image(), text("a" * 35)]}], 19),
        ([{"type": "unheard", "of": "it", "cache_control": {"type": "ephemeral"}}], 16),
        ([None, "a", 5], 4),
    ],
)
def test_each_block_weighs_something(content: list[Any], tokens: int) -> None:
    assert estimate_request_tokens(body(*content)) == tokens


def test_system_and_tools_count_too() -> None:
    assert estimate_request_tokens({"system": "a" * 35, "tools": [{"name": "a"}]}) == 10 + 12 + 4
    assert estimate_request_tokens({"system": [text("a" * 35)], "messages": "none", "tools": None}) == 10


def test_a_large_picture_is_scaled_down() -> None:
    assert (
        estimate_request_tokens(body(image(DOT)))
        < estimate_request_tokens(body(image("iVBORw0KGgoAAAANSUhEUgAAB9AAAAfQ")))
        == 1604
    )
