"""Formats of secrets × carriers × escapings: 99 % of the values that are drawn for a cell are found."""

from __future__ import annotations

import json
import os
import random

import pytest

from tests.redact.formats import BLOCKS, CARRIERS, ESCAPINGS, FORMATS, Format
from unspool.redact import redactor as redaction
from unspool.redact import rules
from unspool.redact.lines import find_suspect_lines, redact_line
from unspool.redact.redactor import Redactor
from unspool.redact.token_formats import TOKENS

VALUES = int(os.environ.get("UNSPOOL_REDACT_VALUES", "1"))
"""Values that are drawn for each cell; `make redact-cells` draws 200."""
SEED = os.environ.get("UNSPOOL_REDACT_SEED", "20260107")
REDACTOR = Redactor(b"a key")
ALL = (*FORMATS, *BLOCKS)


def is_leaked(redactor: Redactor, one: Format, carrier: str, escaping: str, chance: random.Random) -> bool:
    """Tell whether a drawn secret, or the end of it, is left in the line after redaction."""
    value = one.draw(chance)
    line = ESCAPINGS[escaping](CARRIERS[carrier](one.text.format(value)))
    if list(find_suspect_lines(redactor, line)) != [0]:
        return True
    redacted = redact_line(redactor, line)
    text = redacted.text + json.dumps(json.loads(redacted.text), ensure_ascii=False)
    rows = value.split("\n")[-3:-1] if "\n" in value else [value]
    return any(row in text for row in rows) or value[-12:] in text


def count_leaks(redactor: Redactor, one: Format, carrier: str, escaping: str, number: int) -> int:
    chance = random.Random(f"{SEED} {one.name} {carrier} {escaping}")
    return sum(is_leaked(redactor, one, carrier, escaping, chance) for _ in range(number))


def test_the_matrix_is_as_large_as_it_claims_to_be() -> None:
    assert len({one.name for one in ALL}) == len(ALL) >= 240
    assert len(CARRIERS) >= 12
    assert len(ESCAPINGS) >= 2


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_99_of_100_values_are_found_in_every_carrier(one: Format) -> None:
    below = []
    for carrier in CARRIERS:
        for escaping in ESCAPINGS:
            leaks, number = count_leaks(REDACTOR, one, carrier, escaping, VALUES), VALUES
            # One value of a cell may be unlucky (a "random" password that is a word): then the cell is drawn larger.
            if leaks and number < 200:
                leaks, number = count_leaks(REDACTOR, one, carrier, escaping, 200), 200
            if leaks > number / 100:
                below.append((carrier, escaping, leaks, number))
    assert below == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [("github-token", "github-personal"), ("nuget-key", "nuget"), ("brevo-key", "brevo"), ("voyage-key", "voyage")],
)
def test_without_its_rule_a_format_is_not_found(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix can fail."""
    others = tuple(token for token in TOKENS if token.kind != kind)
    monkeypatch.setattr(redaction, "TOKENS", others)
    for cached in (redaction._any_token, redaction._late_tokens, redaction._token_set, rules.suspect_pattern):
        cached.cache_clear()
    try:
        one = next(one for one in FORMATS if one.name == name)
        assert count_leaks(Redactor(b"a key"), one, "a line of Read", "Python", 20) == 20
    finally:
        monkeypatch.undo()
        for cached in (redaction._any_token, redaction._late_tokens, redaction._token_set, rules.suspect_pattern):
            cached.cache_clear()


@pytest.mark.parametrize("kind", sorted({rule.kind for rule in rules.GROUP_RULES} - {"login", "private-key"}))
def test_without_its_rule_a_carrier_is_not_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {
        "aws-secret-key": "aws-secret-csv", "url-password": "git-url", "call": "define",
        "url-signature": "presigned-s3", "bearer-token": "bearer", "authorization": "okta", "basic-auth": "docker-auth",
        "secure-string": "secure-string", "element": "app-setting", "sentence": "sentence",
    }  # fmt: skip
    if kind not in names:
        pytest.skip("held by a test of its own")
    one = next(one for one in FORMATS if one.name == names[kind])
    steps = tuple(rule for rule in rules.GROUP_RULES if rule.kind != kind)
    monkeypatch.setattr(rules, "GROUP_RULES", steps)
    assert count_leaks(Redactor(b"a key"), one, "a log", "Node", 20) > 0
    monkeypatch.undo()
    assert count_leaks(Redactor(b"a key"), one, "a log", "Node", 20) == 0


@pytest.mark.parametrize("name", ["github-personal", "google-api", "npm", "anthropic", "huggingface", "aws-access-key"])
@pytest.mark.parametrize("cut", ["\n", "\r\n", "\n    ", "\n     8→", "\u200b", "\u2060", "\ufeff"])
def test_a_token_that_is_cut_is_found(name: str, cut: str) -> None:
    one, chance = next(one for one in FORMATS if one.name == name), random.Random(f"{SEED} {name} {cut!r}")
    for _ in range(20):
        value = one.draw(chance)
        at = len(value) - chance.randrange(4, 12)
        text = f"use it:\n{value[:at]}{cut}{value[at:]}\nand go on"
        for escaping in ESCAPINGS.values():
            assert value[at:] not in redact_line(REDACTOR, escaping(text)).text


@pytest.mark.parametrize("name", ["github-personal", "openai-project", "stripe-live", "token", "password-quoted"])
def test_escapes_of_letters_in_text_hide_nothing(name: str) -> None:
    one, chance = next(one for one in FORMATS if one.name == name), random.Random(f"{SEED} {name}")
    for _ in range(20):
        value = one.draw(chance)
        text = one.text.format(value)
        escaped = "".join(f"\\u{ord(mark):04x}" for mark in text[:3]) + text[3:]
        redacted = json.loads(redact_line(REDACTOR, ESCAPINGS["Node"](f"he wrote {escaped} here")).text)
        assert value[3:] not in str(redacted)


@pytest.mark.parametrize("name", ["token", "api_key", "**password**", "`X-API-Key`"])
def test_a_value_in_a_markdown_table_is_found(name: str) -> None:
    chance = random.Random(f"{SEED} {name}")
    for _ in range(20):
        value = "".join(chance.choices("abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=32))
        for text in (f"| name | value |\n|---|---|\n| {name} | {value} |\n", f"| {name} | `{value}` | note |"):
            for escaping in ESCAPINGS.values():
                assert value not in redact_line(REDACTOR, escaping(text)).text
