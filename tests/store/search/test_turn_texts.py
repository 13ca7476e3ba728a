"""The texts of a turn: its prompt and its last answer, from the store, from files alone, and from the archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.search.test_search import Searched
from unspool.store.search import SearchHit, SearchRequest, parse_terms, read_turn_texts, search_corpora
from unspool.store.search.corpus import Corpus
from unspool.testing.build import assistant, session, tool_result, tool_use, user

ID = "11111111-1111-4111-8111-111111111111"


@pytest.fixture
def searched(tmp_path: Path) -> Searched:
    """A session of three turns: one with an answer before and after a large result, one that ends with a result."""
    session(
        user("Paint the wall."),
        assistant("I begin with harbour paint."),
        assistant(tool_use("Bash", command="paint")),
        tool_result("x" * 3_000_000),
        assistant("The harbour is blue."),
        user("Count the harbour boats."),
        assistant("I count them."),
        assistant(tool_use("Bash", command="count")),
        tool_result("y" * 3_000_000),
        user("Never mind the harbour."),
        id=ID,
    ).save(tmp_path / "claude")
    made = Searched(tmp_path / "claude", tmp_path / "own")
    made.sync()
    return made


def hits_by_turn(corpus: Corpus) -> dict[int | None, SearchHit]:
    found = search_corpora([corpus], parse_terms(SearchRequest(words="harbour")))
    return {hit.turn: hit for hit in found}


def test_the_prompt_and_the_last_answer_of_each_turn_are_read_wherever_the_lines_are(searched: Searched) -> None:
    for corpus in (searched.kept, searched.files):
        hits = hits_by_turn(corpus)
        assert read_turn_texts(corpus, hits[1]) == ("Paint the wall.", "The harbour is blue.")
        # What comes before three megabytes of results is not looked for.
        assert read_turn_texts(corpus, hits[2]) == ("Count the harbour boats.", "")
        assert read_turn_texts(corpus, hits[3]) == ("Never mind the harbour.", "")
    hits = hits_by_turn(searched.kept)
    next(searched.root.glob("projects/*/*.jsonl")).unlink()
    searched.sync()
    assert read_turn_texts(searched.kept, hits[1]) == ("Paint the wall.", "The harbour is blue.")


def test_a_hit_without_a_turn_or_with_one_that_is_not_there_has_no_texts(searched: Searched) -> None:
    hit = hits_by_turn(searched.kept)[1]
    for other in (hit._replace(turn=None), hit._replace(turn=9), hit._replace(session=None), hit._replace(session="x")):
        assert read_turn_texts(searched.kept, other) == ("", "")


def test_broken_and_nested_lines_at_the_end_of_a_turn_cost_nothing(tmp_path: Path) -> None:
    made = session(user("Paint the harbour."), assistant("Blue."), id=ID).save(tmp_path / "claude")
    with made.open("ab") as file:
        file.write(b'{"type": "assistant", "message": {"content": [{"type": "text", "text": 3}]}}\n')
        file.write(b'{"type": "assistant", "a": ' + b"[" * 100_000 + b"\n")
        file.write(b'["assistant"]\n{"type": "assistant", "isSidechain": true, "message": {"content": "agent"}}\n')
    searched = Searched(tmp_path / "claude", tmp_path / "own")
    searched.sync()
    assert read_turn_texts(searched.kept, hits_by_turn(searched.kept)[1]) == ("Paint the harbour.", "Blue.")
