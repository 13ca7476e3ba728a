"""Thinking of any JSON type is remembered and compared."""

from __future__ import annotations

import pytest

from unspool.api.rules.turns import ThinkingMemory


@pytest.mark.parametrize("thinking", [["x"], {"x": 1}, 3, None])
def test_thinking_of_any_json_type_is_remembered_and_compared(thinking: object) -> None:
    memory, block = ThinkingMemory(), {"type": "thinking", "thinking": thinking, "signature": "s"}
    memory.keep({"content": [block]})
    assert not memory.denies(block)
    assert memory.denies({**block, "thinking": ["y"]})
