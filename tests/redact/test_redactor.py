"""Secrets in a text: found, marked, and nothing else."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.redact.formats import FORMATS
from tests.redact.secrets import IDS, PLANTED, Planted
from unspool.redact.options import RedactionOptions, RedactionRule
from unspool.redact.redactor import Redactor, _find_token
from unspool.redact.rules import compile_pattern
from unspool.redact.token_formats import TOKENS

REDACTOR = Redactor(b"a key")


def redacted(text: str, redactor: Redactor = REDACTOR) -> tuple[str, Counter[str]]:
    counts: Counter[str] = Counter()
    return redactor.redact_text(text, counts), counts


@pytest.mark.parametrize("planted", PLANTED, ids=IDS)
def test_a_planted_secret_is_replaced_by_a_marker_of_its_kind(planted: Planted) -> None:
    text, counts = redacted(planted.text)
    assert planted.secret not in text
    assert counts == {planted.kind: 1}
    assert f"[redacted:{planted.kind}:" in text
    assert redacted(text) == (text, Counter())


def test_all_patterns_at_once_find_the_kind_that_one_after_the_other_finds() -> None:
    chance = random.Random(7)
    for one in FORMATS:
        secret = one.draw(chance).encode()
        kinds = (token for token in TOKENS if compile_pattern(token.pattern).fullmatch(secret))
        assert _find_token(secret) is next(kinds, None), one.name


def test_equal_secrets_have_equal_markers_and_another_key_makes_others() -> None:
    one, two = PLANTED[0].secret, PLANTED[7].secret
    text, _ = redacted(f"{one} {two} {one}")
    first, second, third = text.split()
    assert first == third != second
    assert redacted(one, Redactor(b"another key"))[0] != first


@pytest.mark.parametrize(
    "text",
    [
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "b6f1f5a8-6e0b-4c7e-9d0a-2f7f6f8e9a10 msg_01XFDUDYJgAACzvnptvVoYEL toolu_01A09q90qw90lq917835lq9",
        "sha512-" + "Ab3+/" * 17 + "==",
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
        "token = next_token(stream)",
        "const token: string = process.env.TOKEN",
        "password: str | None = None",
        'parser.add_argument("--password", help="the password")',
        "secret=os.environ['SECRET'] token=${TOKEN} password=<password> api_key=YOUR_API_KEY",
        "max_tokens: 4096, input_tokens=12, total_token: 100",
        "connect(user=user, password=password, token=self.token)",
        "https://example.com:8080/path@2x.png git@github.com:me/project.git",
        "Basic authentication, bearer of news; the Bearer scheme",
        'if "-----BEGIN PRIVATE KEY-----" in text: # and not "-----END PRIVATE KEY-----"',
        "task-0123456789abcdefghij disk-usage risk-free",
        "PWD=/home/me/project",
        'password: "Enter your password", secret="The secret of it", label_password = "Old and new passwords"',
        "docker run -u 1000:1000 image; git push -u origin main",
        "the password is wrong, your password must have ten letters",
        "interface Login {\n  user: string\n  password: string\n}",
        "self.cache.lookup.something_long_enough_to_be_a_token",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redacted(text) == (text, Counter())


@pytest.mark.parametrize(
    "text",
    [
        "     1\t-----BEGIN RSA PRIVATE KEY-----\n     2\tMIIEow{0}\n     3\t{0}\n",
        "+-----BEGIN PRIVATE KEY-----\n+{0}\n+{0}",
        "-----BEGIN PRIVATE KEY-----\\n{0}\\n{0}\\n",
        "{0}\n{0}\nshort==\n-----END RSA PRIVATE KEY-----",
        "   12→{0}\n   13→{0}\n   14→-----END EC PRIVATE KEY-----",
    ],
)
def test_a_private_key_of_which_one_end_is_missing_is_replaced(text: str) -> None:
    row = "q7Zk" * 16
    changed, counts = redacted(text.format(row))
    assert row not in changed
    assert counts == {"private-key": 1}


@pytest.mark.parametrize("planted", PLANTED, ids=IDS)
def test_colours_of_a_terminal_hide_nothing(planted: Planted) -> None:
    for colour in ("\x1b[32m", "\x1b[m", "\\x1b[1;31m", "\\u001b[0m"):
        changed, _ = redacted(planted.text.replace(planted.secret, f"{colour}{planted.secret}\x1b[0m"))
        if planted.kind not in {
            "url-password",
            "bearer-token",
            "basic-auth",
            "login",
            "slack-webhook",
            "azure-signature",
        }:
            assert planted.secret not in changed


@given(st.text())
def test_redacting_twice_changes_nothing(text: str) -> None:
    once, _ = redacted(text)
    assert redacted(once)[0] == once


WORDS = ("password", "=", ": ", '"', "'", "\\", "token", "Bearer ", "://", "a:b@c", " ", "\n", "hunter2x")
MARKED = "[redacted:jwt:0123456789]"
fragments = st.sampled_from([*WORDS, MARKED, *(planted.text for planted in PLANTED)])


@given(st.lists(fragments, max_size=8).map("".join))
def test_redacting_twice_changes_nothing_of_what_is_nearly_a_secret(text: str) -> None:
    once, _ = redacted(text)
    assert redacted(once)[0] == once


@given(st.lists(st.lists(fragments, max_size=6).map("".join), max_size=30))
def test_what_was_redacted_before_does_not_change_what_is_found(texts: list[str]) -> None:
    redactor = Redactor(b"a key")
    for text in [*texts, *texts]:
        counts: Counter[str] = Counter()
        changed = redactor.redact_text(text, counts)
        assert (changed, counts) == redacted(text, Redactor(b"a key"))
        assert (changed is text) == (not counts)


@given(st.text(), st.sampled_from(PLANTED), st.text())
def test_what_stands_around_a_secret_does_not_hide_it(before: str, planted: Planted, after: str) -> None:
    changed, _ = redacted(f"{before}\n{planted.text}\n{after}")
    assert planted.secret not in changed


def test_addresses_and_homes_are_redacted_by_option_only() -> None:
    text = "me@example.com in /home/me/project and C:\\Users\\me\\x"
    assert redacted(text)[0] == text
    changed, counts = redacted(text, Redactor(b"k", RedactionOptions(emails=True, homes=True)))
    assert counts == {"email": 1, "home": 2}
    assert "me@" not in changed
    assert changed.count("/home/[redacted:home:") == 1


def test_a_rule_of_ones_own_counts_too() -> None:
    rule = RedactionRule("acme-token", "acme_[a-z0-9]{8}", "acme_")
    changed, counts = redacted("acme_1234abcd", Redactor(b"k", RedactionOptions(rules=(rule,))))
    assert (counts, changed[:21]) == ({"acme-token": 1}, "[redacted:acme-token:")
    assert Redactor(b"k", RedactionOptions(rules=(rule,))).version != REDACTOR.version
