"""Words as a person writes them, as the index takes them, and as they are found in a text."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unspool.store.database import open_in_memory
from unspool.store.search.terms import WordQuery, compile_re2, identifier_parts, parse_words, separate_unspaced

PIECES = ["foo", "Bar", "HTTP", "Server", "x", "2345", "TS", "_", ".", "/", "-", " ", "\n", "\\n", "é", "É", "数", "据",
          "ß", "s", "K", '"', "*", "ok"]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
questions = st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join)


def asked(text: str) -> WordQuery:
    found = parse_words(text)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def database() -> sqlite3.Connection:
    return open_in_memory()


@settings(deadline=None)
@given(text=texts, question=questions)
@example(text="fooBar", question="bar")
@example(text="x\\nfoo", question="foo")
@example(text="数据库", question="据库")
@example(text="TS2345", question="2345")
@example(text="foo", question="\\nfoo")
@example(text="\\néfoo数", question="éfoo")
@example(text="foo数\\n", question="foo\\n")
@example(text="foo Bar", question="fooBar")
@example(text="xFooBar", question="fooBar")
def test_what_the_index_finds_is_what_is_found_in_the_text(text: str, question: str) -> None:
    wanted = parse_words(question)
    if wanted is None:
        return
    with closing(open_in_memory()) as database:
        row = (1, separate_unspaced(text), identifier_parts(text))
        database.execute("INSERT INTO words (rowid, text, parts) VALUES (?, ?, ?)", row)
        query = "SELECT count(*) FROM words WHERE words MATCH ?"
        (found,) = database.execute(query, (wanted.expression,)).fetchone()
    assert bool(found) == bool(wanted.count(text))


@settings(deadline=None)
@given(text=texts, question=questions, escaped=st.booleans())
@example(text="fooBar", question="fooBarß", escaped=False)
def test_a_text_that_matches_is_never_passed_over_in_the_bytes(text: str, question: str, escaped: bool) -> None:
    wanted = parse_words(question)
    if wanted is None or not wanted.count(text):
        return
    line = json.dumps({"text": text}, ensure_ascii=escaped).encode()
    assert compile_re2(wanted.byte_pattern).search(line, 0, len(line)) is not None
    assert wanted.may_match(line)
    assert wanted.spans(text) != []


@pytest.mark.parametrize(
    ("question", "expression"),
    [
        ("two words", '"two" AND "words"'),
        ('"two words" more', '"two words" AND "more"'),
        ("begin*", '"begin" *'),
        ("foo_bar", '"foo bar"'),
        ("src/app.py", '"src app py"'),
        ("fooBar", '("foobar" OR parts : "foo bar")'),
        ('NOT "OR', '"not" AND "or"'),
        ("a:b ^c", '"a b" AND "c"'),
        ("same same", '"same"'),
    ],
)
def test_questions_as_the_index_takes_them(question: str, expression: str) -> None:
    assert asked(question).expression == expression


@settings(deadline=None)
@given(st.text(max_size=40))
def test_whatever_is_typed_is_no_error(question: str) -> None:
    wanted = parse_words(question)
    if wanted is not None:
        with closing(open_in_memory()) as database:
            query = "SELECT count(*) FROM words WHERE words MATCH ?"
            assert database.execute(query, (wanted.expression,)).fetchone() == (0,)
        wanted.count(question)
        compile_re2(wanted.byte_pattern)


def test_signs_alone_are_no_words() -> None:
    assert [parse_words(text) for text in ("", "->", '""', "*", "_ . /")] == [None] * 5


def test_parts_of_identifiers() -> None:
    assert identifier_parts("see fooBar, HTTPServer and TS2345") == "foo Bar HTTP Server TS 2345"
    assert identifier_parts("2026-01-05T09:00 plain_words CAPITALS") == ""
    assert identifier_parts(r"C:\new \nfoo") == "ew foo"
