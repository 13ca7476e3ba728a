"""Which lines are looked at: all that could bill something, however they are written or damaged."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.prices.candidates import candidates
from unspool.prices.responses import Counting
from unspool.prices.tally import Tally
from unspool.prices.texts import take_text

FILE = "/c/projects/-w/s1.jsonl"

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


def found(text: bytes, before: bytes = b"") -> list[bytes]:
    data = before + text
    return [data[begin:end] for begin, end in candidates(data, len(before), len(data))]


@given(lines, st.binary(max_size=9), st.booleans())
def test_every_line_that_could_bill_is_found_whole_and_in_order(lines: list[bytes], before: bytes, cut: bool) -> None:
    text = b"".join(lines)[: -1 if cut else None]
    whole = [line for line in _cut(text) if line]
    looked_at = found(text, before)
    assert [line for line in whole if line in looked_at] == looked_at
    assert [line for line in whole if _could_bill(line) and line not in looked_at] == []


def _could_bill(line: bytes) -> bool:
    """Tell whether a line has a key `usage`."""
    return re.search(rb'(?<!\\)"usage"', line) is not None


@pytest.mark.parametrize("answer", [WRITTEN, SPACED, REORDERED], ids=["written", "spaced", "reordered"])
@pytest.mark.parametrize("length", [10, 4000, 5000, 100_000])
def test_what_was_appended_to_a_users_line_without_a_line_end_is_found(answer: bytes, length: int) -> None:
    for line in (user(length) + answer, user(length)[:-20] + answer, user(length) + answer + user(10)):
        assert found(user(5000) + b"\n" + line + b"\n" + user(5000)) == [line + b"\n"]


@pytest.mark.parametrize("answer", [WRITTEN, SPACED, REORDERED], ids=["written", "spaced", "reordered"])
def test_an_answer_between_two_long_lines_of_a_user_counts_though_no_line_end_is_there(answer: bytes) -> None:
    text = user(100_000) + answer + user(100_000) + b"\n"
    counting = Counting[str]()
    tally = Tally(counting, FILE, FILE)
    take_text(tally, 0, text, 0, len(text))
    tally.finish()
    assert [(one.input, one.output) for _, one in counting.billed()] == [(1, 2)]


def _cut(text: bytes) -> list[bytes]:
    lines = text.split(b"\n")
    return [*(line + b"\n" for line in lines[:-1]), lines[-1]]
