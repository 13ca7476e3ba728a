"""Failures by kind: what differs from case to case is left out, and nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unspool.store.search import SearchHit
from unspool.store.search.failures import group_failures, reduce_failure


def hit(text: str, session: str = "a", tool: str | None = "Bash", time: str = "2026-01-01T00:00:00Z") -> SearchHit:
    return SearchHit(session, None, "p", 1, "user", "tool_result", tool, time, text, "f", 0, None, 1.0)


def test_failures_that_differ_in_numbers_paths_and_names_are_of_one_kind() -> None:
    hits = [
        hit("File /a/b.py does not exist. Line 12", "a"),
        hit("File /c/d.py does not exist. Line 7", "a", time="2026-01-03T00:00:00Z"),
        hit("File /e.py does not exist. Line 1", "b", time="2026-01-02T00:00:00Z"),
        hit("No module named 'x'", "b"),
        hit("File /e.py does not exist. Line 1", "b", tool="Read"),
    ]
    first, *rest = group_failures(hits)
    assert (first.failures, [(one.session, one.failures) for one in first.sessions]) == (3, [("a", 2), ("b", 1)])
    assert first.words == "File /c/d.py does not exist. Line 7"
    assert sorted((kind.tool or "", kind.failures) for kind in rest) == [("Bash", 1), ("Read", 1)]


def test_what_the_user_rejected_is_one_kind_whatever_the_tool() -> None:
    words = "The user doesn't want to proceed with this tool use. The tool use was rejected"
    (kind,) = group_failures([hit(words, tool="Edit"), hit(words, tool="Bash"), hit(f"{words} (eg. 7)", tool="Write")])
    assert (kind.tool, kind.words, kind.failures) == (None, "Rejected by the user", 3)


def test_the_tags_around_an_error_are_not_shown() -> None:
    (kind,) = group_failures([hit("<tool_use_error>File has not been read yet.</tool_use_error>")])
    assert kind.words == "File has not been read yet."


@given(st.lists(st.tuples(st.text(max_size=60), st.sampled_from("abc"))))
def test_every_failure_is_in_exactly_one_kind(given_hits: list[tuple[str, str]]) -> None:
    kinds = group_failures(hit(text, session) for text, session in given_hits)
    assert sum(kind.failures for kind in kinds) == len(given_hits)
    assert len(kinds) == len({reduce_failure(text) for text, _ in given_hits})
