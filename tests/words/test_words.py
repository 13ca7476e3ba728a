"""What unspool says is plain English: short sentences, few passives, none of the phrases that had to be read twice."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.words.readability import BANNED, BANNED_IN_PROGRAM, Figures, find_banned, long_sentences, measure
from tests.words.texts import Text, document_texts, page_texts, source_texts

ROOT = Path(__file__).parents[2]
OLD = Path(__file__).parent / "texts-0.2.tsv"
KINDS = ("help", "error", "hint", "label")
PASSIVE_SHARE = {"help": 0.08, "error": 0.12, "hint": 0.1, "label": 0.1, "page": 0.2}
"""The largest share of sentences in the passive voice."""
MEAN_WORDS = {"help": 11, "error": 7, "hint": 7, "label": 7, "page": 14}
"""The largest mean length of a sentence."""
RECORDS = ("CHANGELOG.md", "docs/benchmarks.md")
"""Documents that record what was said or measured at some time."""


@cache
def program_texts() -> tuple[Text, ...]:
    """Return every text in the package."""
    return (*source_texts(ROOT), *page_texts(ROOT))


@cache
def pages() -> dict[str, list[Text]]:
    """Return the texts of each document."""
    texts: dict[str, list[Text]] = {}
    for text in document_texts(ROOT):
        texts.setdefault(text.place, []).append(text)
    return texts


def old_texts(kind: str) -> list[str]:
    """Return the help texts, errors or hints of version 0.2."""
    lines = (line.partition("\t") for line in OLD.read_text().splitlines())
    return [text.replace("⏎", "\n") for found, _, text in lines if found == kind]


def assert_plain(kind: str, figures: Figures) -> None:
    """Fail if texts are not plain enough for their kind."""
    assert figures.banned == 0
    assert figures.too_long == 0
    assert figures.mean_words <= MEAN_WORDS[kind]
    assert figures.passive_share <= PASSIVE_SHARE[kind]


def test_the_collector_finds_the_texts() -> None:
    counts = {kind: sum(text.kind == kind for text in program_texts()) for kind in KINDS}
    assert counts["help"] > 200
    assert counts["error"] > 250
    assert counts["hint"] > 150
    assert counts["label"] > 500
    assert len(pages()) > 25


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_program_says_is_plain(kind: str) -> None:
    texts = [text for text in program_texts() if text.kind == kind]
    assert [(f"{text.place}:{text.line}", found) for text in texts for found in find_banned(text.text)] == []
    assert [(f"{text.place}:{text.line}", found) for text in texts for found in long_sentences(text.text)] == []
    assert_plain(kind, measure(text.text for text in texts))


def test_the_pages_are_plain() -> None:
    wrong = {}
    for place, texts in pages().items():
        if place in RECORDS:
            continue
        found = [(text.line, phrase) for text in texts for phrase in find_banned(text.text, BANNED)]
        found += [(text.line, sentence) for text in texts for sentence in long_sentences(text.text)]
        figures = measure((text.text for text in texts), BANNED)
        if found or figures.mean_words > MEAN_WORDS["page"] or figures.passive_share > PASSIVE_SHARE["page"]:
            wrong[place] = figures, found
    assert wrong == {}


def test_pages_that_are_named_exist() -> None:
    assert {*RECORDS} <= pages().keys()


@pytest.mark.parametrize("kind", ["help", "error", "hint"])
def test_the_texts_of_version_0_2_were_not_plain(kind: str) -> None:
    with pytest.raises(AssertionError):
        assert_plain(kind, measure(old_texts(kind)))


def test_every_banned_phrase_was_in_version_0_2_or_is_named_by_its_rule() -> None:
    everything = "\n".join(text for kind in ("help", "error", "hint") for text in old_texts(kind))
    assert sum(bool(pattern.search(everything)) for pattern in BANNED_IN_PROGRAM) > len(BANNED_IN_PROGRAM) / 2


def test_errors_and_hints_are_lower_case_and_have_no_full_stop() -> None:
    wrong = [
        (f"{text.place}:{text.line}", text.text)
        for text in program_texts()
        if text.kind in ("error", "hint") and len(text.text) > 12
        if re.match(r"[A-Z][a-z]+ (?!Code\b)", text.text) or re.search(r"[.!?]$", text.text)
    ]
    assert wrong == []


def test_a_help_text_begins_with_a_capital_letter() -> None:
    wrong = [
        (f"{text.place}:{text.line}", text.text)
        for text in program_texts()
        if text.kind == "help" and len(text.text) > 12 and re.match(r"(?!unspool )[a-z]", text.text)
    ]
    assert wrong == []
