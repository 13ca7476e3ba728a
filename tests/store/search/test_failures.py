"""Failures by kind: what differs from case to case is left out, and nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.store.search.failures import SessionFailure, describe_failure, group_failures, reduce_failure


def failure(text: str, session: str = "a", tool: str | None = "Bash", time: int = 1) -> SessionFailure:
    return SessionFailure(session, None, "p", 0, time, tool, describe_failure(text))


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
    assert failure(text).kind == failure(other).kind
    assert failure(text).kind != failure(other, tool="Read").kind


def test_failures_that_differ_in_numbers_paths_and_names_are_of_one_kind() -> None:
    failures = [
        failure("File /a/b.py does not exist. Line 12", "a"),
        failure("File /c/d.py does not exist. Line 7", "a", time=3),
        failure("File /e.py does not exist. Line 1", "b", time=2),
        failure("No module named 'x'", "b"),
        failure("File /e.py does not exist. Line 1", "b", tool="Read"),
    ]
    first, *rest = group_failures(failures)
    assert (first.failures, [(one.session, one.failures) for one in first.sessions]) == (3, [("a", 2), ("b", 1)])
    assert first.words == "File /c/d.py does not exist. Line 7"
    assert sorted((kind.tool or "", kind.failures) for kind in rest) == [("Bash", 1), ("Read", 1)]


def test_the_tags_around_an_error_are_not_shown() -> None:
    (kind,) = group_failures([failure("<tool_use_error>File has not been read yet.</tool_use_error>")])
    assert kind.words == "File has not been read yet."


@given(st.lists(st.tuples(st.text(max_size=60), st.sampled_from("abc"))))
def test_every_failure_is_in_exactly_one_kind(given_texts: list[tuple[str, str]]) -> None:
    kinds = group_failures(failure(text, session) for text, session in given_texts)
    assert sum(kind.failures for kind in kinds) == len(given_texts)
    assert len(kinds) == len({reduce_failure(describe_failure(text)) for text, _ in given_texts})


def test_words_that_were_cut_say_so() -> None:
    assert describe_failure("Error: " + "x" * 200).endswith("x…")
    assert len(describe_failure("Error: " + "x" * 200)) == len(describe_failure("Error: " + "x" * 153)) == 160
    assert not describe_failure("Error: " + "x" * 153).endswith("…")
