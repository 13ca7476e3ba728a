"""Counting line by line gives what the long way gives."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.prices.long_way import FILE, entries, line_at, ordered, the_long_way
from unspool.prices.from_entries import add_entry
from unspool.prices.responses import LineCounter, ResponseCounter
from unspool.prices.scan_bytes import count_text

times = st.sampled_from(
    [
        None,
        "",
        "soon",
        "2026-01-05T09:00:0+.000Z",
        "2026-01-05T09:00:00.000Z",
        "2026-01-05T09:00:01.000Z",
        "2026-01-05T10:30:00.000+02:00",
    ]
)
usages = st.fixed_dictionaries(
    {"output_tokens": st.integers(-1, 3)},
    optional={
        "input_tokens": st.integers(0, 2) | st.just(10**30),
        "cache_creation_input_tokens": st.integers(0, 2),
        "cache_creation": st.fixed_dictionaries(
            {"ephemeral_5m_input_tokens": st.integers(-1, 2), "ephemeral_1h_input_tokens": st.integers(0, 1)}
        ),
        "server_tool_use": st.none() | st.just({"web_search_requests": 1}),
        "speed": st.sampled_from([None, "fast", 7]),
    },
)
messages = st.fixed_dictionaries(
    {"id": st.sampled_from(["m1", "m2", None]), "model": st.sampled_from(["claude-opus-5", "<synthetic>", None])},
    optional={
        "usage": usages | st.none(),
        "stop_reason": st.sampled_from([None, "end_turn"]),
        "content": st.sampled_from([[], "limit", [{"type": "text", "text": '"usage" limit reached'}]]),
    },
)
answers = st.fixed_dictionaries(
    {"type": st.sampled_from(["assistant", "assistant", "assistant", "user", "new-type"]), "message": messages},
    optional={
        "uuid": st.sampled_from(["u1", "u2", None]),
        "timestamp": times,
        "isSidechain": st.booleans() | st.none(),
        "sessionId": st.sampled_from(["s1", "s2"]),
        "agentId": st.sampled_from(["a1", None]),
        "forkedFrom": st.sampled_from([None, {"sessionId": "s0"}]),
        "cwd": st.sampled_from(["/w", 7]),
    },
)
told = st.builds(
    lambda answer: {"type": "progress", "data": {"type": "agent_progress", "agentId": "a1", "message": answer}}, answers
)


def written(line: dict[str, Any], style: int) -> bytes:
    """Return a line: as the program writes it, with spaces, with another document before it, or torn."""
    text = json.dumps(line, separators=(", ", ": ") if style == 1 else (",", ":")).encode()
    return {2: b'{"type":"user","message":{"content":"hi"}}' + text, 3: text[: len(text) // 2]}.get(style, text)


lines = st.lists(st.builds(written, answers | told, st.sampled_from([0, 0, 0, 1, 2, 3])), max_size=8)


@given(lines, st.integers(0, 60))
def test_text_is_counted_as_its_entries_are(lines: list[bytes], before: int) -> None:
    text = b"".join(line + b"\n" for line in lines)
    counting = ResponseCounter[str]()
    tally = LineCounter(counting, FILE, FILE)
    count_text(tally, -before, b"x" * before + text, before, before + len(text))
    tally.finish()
    counted, dropped = the_long_way(text)
    assert ordered(list(counting.counted())) == ordered(counted)
    assert sorted(tally.unbilled) == sorted(one for one in dropped if b'"usage"' in line_at(text, one.offset))


@given(lines)
def test_entries_are_counted_one_by_one(lines: list[bytes]) -> None:
    text = b"\n".join(lines)
    counting = ResponseCounter[str]()
    tally = LineCounter(counting, FILE, FILE)
    for entry in entries(text):
        add_entry(tally, entry)
    tally.finish()
    counted, dropped = the_long_way(text)
    assert ordered(list(counting.counted())) == ordered(counted)
    assert sorted(tally.unbilled) == sorted(dropped)
