"""Failures of one kind are one kind, whatever numbers, paths and names are in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import json_values
from unspool.web.serving.failures import Failure, classify_failure, find_failures, group_failures


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Exit code 1\nTraceback\nKeyError: 'a'", "Exit code 1\nTraceback\n  x\nKeyError: 'b'"),
        ("ls: cannot access '/a/b': No such file or directory", "ls: cannot access '/c': No such file or directory"),
        ("File has 20000 tokens, the limit is 3", "File has 7 tokens, the limit is 25000"),
        ("ENOENT: no such file or directory, open /a/b.py", "ENOENT: no such file or directory, open /x/y/z.py"),
    ],
)
def test_the_same_failure_is_one_kind(text: str, other: str) -> None:
    assert classify_failure("Bash", text)[0] == classify_failure("Bash", other)[0]
    assert classify_failure("Bash", text)[0] != classify_failure("Read", other)[0]


def test_a_rejected_call_has_not_failed() -> None:
    def line(text: str) -> Any:
        block = {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": text}
        return {"type": "user", "message": {"content": [block]}}

    assert find_failures(line("The user doesn't want to proceed with this tool use.")) == []
    assert find_failures(line("Exit code 1")) == [("t", "Exit code 1")]


def test_the_kind_that_occurs_most_often_is_first() -> None:
    failures = [Failure("s", None, 0, time, kind, "", str(time)) for time, kind in ((1, "a"), (2, "b"), (3, "b"))]
    assert [(group.kind, len(group.failures)) for group in group_failures(failures)] == [("b", 2), ("a", 1)]


@given(st.text(), json_values)
def test_no_text_and_no_line_raises(text: str, value: Any) -> None:
    assert classify_failure("Bash", text)[0].startswith("Bash: ")
    for line in (
        value,
        {"type": "user", "message": {"content": [value]}},
        {"type": "system", "subtype": "api_error", "error": value},
    ):
        find_failures(line)
