"""Addresses and homes: the fast searches find what the patterns find, line by line."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.real_files import corpus
from tests.redact.secrets import PLANTED
from unspool.redact import rules
from unspool.redact.lines import redact_line, redact_suspect_lines
from unspool.redact.options import RedactionOptions, RedactionRule
from unspool.redact.personal import find_emails, find_homes
from unspool.redact.redactor import Redactor

PERSONAL = Redactor(b"k", RedactionOptions(emails=True, homes=True))
REDACTORS = (
    Redactor(b"k"),
    PERSONAL,
    Redactor(b"k", RedactionOptions(homes=True)),
    Redactor(b"k", RedactionOptions(emails=True)),
    Redactor(b"k", RedactionOptions(homes=True, rules=(RedactionRule("digits", "[0-9]{12,}x"),))),
)

FRAGMENTS = (
    *("/home/", "/Users/", "/home", "Users", "C:", "c:/users/", "C:\\Users\\", "D:\\\\USERS\\\\", "\\/Users\\/"),
    *(
        "-home-",
        "/-home-",
        '"-Users-',
        "-",
        "/",
        ":",
        "\\",
        '"',
        " ",
        "me",
        "you.1",
        "@",
        "me@example.com",
        ".com",
        "x@y",
    ),
    *("\\n", "\\u00e9", "é", "\\\\n"),
)
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=2), max_size=12).map("".join)


def spans_of_pattern(pattern: str, before: str, data: bytes) -> list[tuple[int, int]]:
    """Return what one pattern finds, without what stands before the secret: the slow way."""
    left, spans = re.compile(before.encode(), re.DOTALL), []
    for match in rules.compile_pattern(pattern, captures=False).finditer(data):
        start, end = match.span()
        found = left.match(data, start, end)
        spans.append((found.end() if found else start, end))
    return spans


BEFORE_HOME = r'/(?:home|Users)\\?/|[A-Za-z]:(?:\\+|\\?/)(?i:users)(?:\\+|\\?/)|[/"]?-(?:home|Users)-'


@given(texts)
@example("c:/users/Users/home/me")
@example("C:\\Users\\meD:\\Users\\you")
@example("/home/a/-home-b-home-c /-home-home-d")
def test_homes_are_those_that_one_pattern_finds(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass").replace(b"\n", b" ")
    for raw, pattern in ((True, rules.RAW_HOME), (False, rules.HOME)):
        assert list(find_homes(data, raw=raw)) == spans_of_pattern(pattern, BEFORE_HOME, data)


@given(texts)
@example("a@b.comC:/Users/x")
@example("\\n@a.bc me@a.b-c.de,you@x.yz")
def test_addresses_are_those_that_the_pattern_finds(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    assert list(find_emails(data)) == spans_of_pattern(rules.EMAIL, rules.BEFORE_EMAIL, data)


lines = st.one_of(
    texts,
    texts.map(lambda text: json.dumps({"cwd": text, text: [text]})),
    texts.map(lambda text: json.dumps({"cwd": text}, ensure_ascii=False)),
    st.tuples(texts, st.sampled_from(PLANTED)).map(lambda both: json.dumps([both[0], {both[0]: both[1].text}])),
)


@given(st.lists(lines, max_size=5), st.sampled_from(REDACTORS))
@example(["-home-me-project", '"-home-me"', "me@example.com", '{"cwd":"/home/me"}'], PERSONAL)
def test_many_lines_are_redacted_as_each_one_alone(found: list[str], redactor: Redactor) -> None:
    data = b"\n".join(line.encode("utf-8", "surrogatepass") for line in found)
    together, at = dict(redact_suspect_lines(redactor, data)), 0
    for line in data.split(b"\n"):
        alone = redact_line(redactor, line)
        assert together.pop(at, None) == alone or (not alone.hits and at not in together)
        at += len(line) + 1
    assert not together


def test_real_lines_are_redacted_together_as_each_one_alone() -> None:
    for path in sorted(corpus().rglob("*.jsonl"))[::7]:
        data = path.read_bytes()
        together, at = dict(redact_suspect_lines(PERSONAL, data)), 0
        for line in data.split(b"\n"):
            if len(line) < 20_000:
                alone = redact_line(PERSONAL, line)
                assert together.get(at, alone) == alone, (path, at)
                assert at in together or not alone.hits, (path, at)
            at += len(line) + 1


@pytest.mark.parametrize("raw", [True, False])
def test_in_a_long_text_of_paths_in_paths_the_same_ones_are_found(raw: bool) -> None:
    data = b"c:/users/Users/home/me-home-" * 20_000
    pattern = rules.RAW_HOME if raw else rules.HOME
    assert list(find_homes(data, raw=raw)) == spans_of_pattern(pattern, BEFORE_HOME, data)


def test_a_name_of_a_file_is_redacted_too() -> None:
    assert "me" not in PERSONAL.redact_name("/home/me").split("/")[-1].split(":")[0]
    assert PERSONAL.redact_name("projects/a.jsonl") == "projects/a.jsonl"
    counts: Counter[str] = Counter()
    PERSONAL.redact_text("me@example.com in C:\\Users\\me", counts)
    assert counts == {"email": 1, "home": 1}
