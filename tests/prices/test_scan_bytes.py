"""What text bills: all of it, however it is written or damaged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prices.long_way import FILE, line_at, ordered, the_long_way
from unspool.prices.responses import CountedResponse, LineCounter, ResponseCounter, UnbilledLine
from unspool.prices.scan_bytes import count_text

ANSWER: dict[str, Any] = {
    "parentUuid": None,
    "sessionId": "s1",
    "message": {"model": "claude-opus-5", "id": "m1", "content": [], "usage": {"input_tokens": 1, "output_tokens": 2}},
    "type": "assistant",
    "timestamp": "2026-01-05T09:00:00.000Z",
}
WRITTEN = json.dumps(ANSWER, separators=(",", ":")).encode()
SPACED = json.dumps(ANSWER).encode()
REORDERED = WRITTEN.replace(b'"input_tokens":1,"output_tokens":2', b'"output_tokens":2,"input_tokens":1')


def user(length: int, text: bytes = b"") -> bytes:
    """Return a user's line of about that length."""
    head = b'{"parentUuid":null,"isSidechain":false,"type":"user","message":{"role":"user","content":"'
    return head + text + b"x" * length + b'"},"uuid":"u1","timestamp":"2026-01-05T09:00:00.000Z"}'


quoted = json.dumps(WRITTEN.decode())[1:-1].encode()
parts = st.one_of(
    st.sampled_from(
        [WRITTEN, SPACED, REORDERED, b'{"usage":null}', b'"usage"', b'"usag', b'"assistant"', b'{"type":"user"}', b""]
    ),
    st.builds(user, st.sampled_from([0, 100, 3000, 4090, 5000, 40_000]), st.sampled_from([b"", quoted])),
    st.binary(max_size=8),
)
lines = st.lists(st.builds(lambda parts, end: b"".join(parts).replace(b"\n", b"") + end,
                           st.lists(parts, max_size=3), st.sampled_from([b"\n", b"\r\n"])), max_size=8)  # fmt: skip


def taken(text: bytes, before: bytes = b"") -> tuple[list[CountedResponse[str]], list[UnbilledLine]]:
    """Return what was billed in a text that stands behind another."""
    counting = ResponseCounter[str]()
    tally = LineCounter(counting, FILE, FILE)
    count_text(tally, -len(before), before + text, len(before), len(before) + len(text))
    tally.finish()
    return ordered(list(counting.counted())), sorted(tally.unbilled)


@given(lines, st.binary(max_size=9), st.booleans())
def test_every_line_that_bills_counts_however_it_is_written_or_damaged(
    lines: list[bytes], before: bytes, cut: bool
) -> None:
    text = b"".join(lines)[: -1 if cut else None]
    counted, dropped = the_long_way(text)
    expected = sorted(one for one in dropped if b'"usage"' in line_at(text, one.offset))
    assert taken(text, before) == (ordered(counted), expected)


@pytest.mark.parametrize("answer", [WRITTEN, SPACED, REORDERED], ids=["written", "spaced", "reordered"])
@pytest.mark.parametrize("length", [10, 4000, 5000, 100_000])
def test_what_was_appended_to_a_users_line_without_a_line_end_counts(answer: bytes, length: int) -> None:
    for line in (user(length) + answer, user(length)[:-20] + answer, user(length) + answer + user(10)):
        text = user(5000) + b"\n" + line + b"\n" + user(5000)
        assert [(one.response.input, one.response.output) for one in taken(text)[0]] == [(1, 2)]


@pytest.mark.parametrize("answer", [WRITTEN, SPACED, REORDERED], ids=["written", "spaced", "reordered"])
def test_an_answer_between_two_long_lines_of_a_user_counts_though_no_line_end_is_there(answer: bytes) -> None:
    text = user(100_000) + answer + user(100_000) + b"\n"
    assert [(one.response.input, one.response.output) for one in taken(text)[0]] == [(1, 2)]
