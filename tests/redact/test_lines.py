"""Lines: only strings that hold a secret change, and JSON stays JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.real_files import corpus
from tests.redact.secrets import IDS, PLANTED, Planted
from unspool.redact.lines import decode_line, find_suspect_lines, redact_line
from unspool.redact.options import RedactionOptions, RedactionRule
from unspool.redact.redactor import Redactor

REDACTOR = Redactor(b"a key")

PLACES: dict[str, Callable[[str], Any]] = {
    "a prompt": lambda text: {"type": "user", "message": {"role": "user", "content": text}},
    "a tool result": lambda text: {"message": {"content": [{"type": "tool_result", "content": [{"text": text}]}]}},
    "thinking": lambda text: {"message": {"content": [{"type": "thinking", "thinking": text, "signature": "Eq" * 40}]}},
    "a structured result": lambda text: {"toolUseResult": {"stdout": text, "stderr": "", "file": {"content": text}}},
    "a file name": lambda text: {"toolUseResult": {"filenames": [f"/srv/{text}/x.py"]}},
    "a key": lambda text: {"snapshot": {"trackedFileBackups": {text: {"version": 1}}}},
    "JSON in a string": lambda text: {"content": json.dumps({"out": text, "more": [text]})},
    "JSON in JSON in a string": lambda text: {"content": json.dumps({"out": json.dumps([text])})},
    "lines of a patch": lambda text: {"structuredPatch": [{"lines": [f"+{line}" for line in text.split("\n")]}]},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("planted", PLANTED, ids=IDS)
def test_a_planted_secret_is_found_wherever_it_stands(planted: Planted, place: str) -> None:
    document = PLACES[place](planted.text)
    for line in (json.dumps(document), json.dumps(document, ensure_ascii=False, separators=(",", ":"))):
        data = line.encode()
        assert list(find_suspect_lines(REDACTOR, b'{"a":1}\n' + data + b"\n")) == [8]
        redacted = redact_line(REDACTOR, data)
        assert redacted.is_json
        assert redacted.hits
        assert planted.secret not in redacted.text
        assert planted.secret not in str(json.loads(redacted.text))


@pytest.mark.parametrize("planted", PLANTED, ids=IDS)
def test_escapes_hide_nothing(planted: Planted) -> None:
    escaped = "".join(f"\\u{ord(mark):04x}" for mark in planted.text)
    data = f'{{"text":"{escaped}"}}'.encode()
    assert list(find_suspect_lines(REDACTOR, data)) == [0]
    assert planted.secret not in json.loads(redact_line(REDACTOR, data).text)["text"]


@pytest.mark.parametrize("planted", PLANTED, ids=IDS)
def test_a_line_that_is_not_json_is_redacted_as_text(planted: Planted) -> None:
    torn = json.dumps({"type": "user", "text": planted.text}).encode()[:-2] + b"\xff"
    redacted = redact_line(REDACTOR, torn)
    assert not redacted.is_json
    assert planted.secret not in redacted.text


def test_only_what_holds_a_secret_is_written_anew() -> None:
    secret = PLANTED[7].secret
    line = f'{{ "n" : 1.50, "s":"\\u00e9\\/", "t":"x {secret}", "n":1e2 }}'.encode()
    redacted = redact_line(REDACTOR, line)
    (hit,) = redacted.hits
    assert redacted.text == line.decode().replace(secret, REDACTOR.make_marker("github-token", secret.encode()))
    assert (hit.kind, hit.number, hit.path) == ("github-token", 1, "t")


def test_a_member_that_is_called_a_secret_is_one() -> None:
    line = json.dumps(
        {"env": {"DB_PASSWORD": "a b c d", "TOKEN": "q1w2e3r4t5", "HOME": "/root"}, "keys": {"secret": ["abcd"]}}
    )
    redacted = redact_line(REDACTOR, line.encode())
    assert [hit.path for hit in redacted.hits] == ["env.DB_PASSWORD", "env.TOKEN", "keys.secret[0]"]
    assert '"HOME": "/root"' in redacted.text


def test_a_list_of_secrets_is_found_by_its_name_alone() -> None:
    line = b'{"a":1,"client_secret":["abcd1234","efgh5678"]}'
    assert list(find_suspect_lines(REDACTOR, line)) == [0]
    assert [hit.path for hit in redact_line(REDACTOR, line).hits] == ["client_secret[0]", "client_secret[1]"]


def test_a_line_too_deep_to_follow_is_let_through_by_nobody() -> None:
    line = b"[" * 20_000 + b'"password=hunter2x"' + b"]" * 20_000
    redacted = redact_line(REDACTOR, line)
    assert "hunter2x" not in redacted.text


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(documents, st.booleans())
def test_a_line_without_secrets_stays_as_it_is(document: Any, ascii_only: bool) -> None:
    line = json.dumps(document, ensure_ascii=ascii_only).encode("utf-8", "replace")
    if decode_line(line)[1] and not (redacted := redact_line(REDACTOR, line)).hits:
        assert redacted.text.encode() == line


everything = Redactor(b"k", RedactionOptions(emails=True, homes=True, rules=(RedactionRule("digits", "[0-9]{12,}x"),)))


@given(documents, st.lists(st.sampled_from(PLANTED), max_size=3))
def test_valid_json_stays_valid_json_and_redacting_twice_changes_nothing(document: Any, planted: list[Planted]) -> None:
    line = json.dumps([document, {one.text: [two.text for two in planted] for one in planted}]).encode()
    for redactor in (REDACTOR, everything):
        once = redact_line(redactor, line)
        assert once.is_json
        json.loads(once.text)
        assert redact_line(redactor, once.text.encode()).text == once.text


words = st.sampled_from(
    [planted.text for planted in PLANTED] + ["password", "=", ": ", '"', "\\\\", " ", "\\n", "ü", "Bearer"]
)


@given(st.lists(words, max_size=6).map("".join), st.booleans())
def test_the_search_through_raw_bytes_misses_nothing(text: str, ascii_only: bool) -> None:
    line = json.dumps({"text": text, "more": [text, {text: 1}]}, ensure_ascii=ascii_only).encode()
    assert redact_line(REDACTOR, line).hits == () or list(find_suspect_lines(REDACTOR, line)) == [0]


@given(st.sampled_from(PLANTED), st.integers(0, 2000), st.integers(0, 2000))
def test_a_long_text_hides_nothing(planted: Planted, before: int, after: int) -> None:
    filler = "some words of no importance, all of them harmless. "
    text = filler * (before // 50) + " " * (before % 9) + planted.text + "\n" + filler * (after // 50)
    redacted = redact_line(REDACTOR, json.dumps([text]).encode())
    assert planted.secret not in redacted.text
    assert json.loads(redacted.text)[0].count("harmless") == text.count("harmless")


@given(st.binary())
def test_any_bytes_will_do(line: bytes) -> None:
    assert isinstance(redact_line(REDACTOR, line).text, str)


def test_what_is_not_suspect_holds_nothing() -> None:
    """The search through raw bytes must not miss what the rules would find."""
    for path in sorted(corpus().rglob("*.jsonl")):
        data = path.read_bytes()
        starts = set(find_suspect_lines(REDACTOR, data))
        at = 0
        for line in data.split(b"\n"):
            if at not in starts and len(line) < 20_000:
                assert not redact_line(REDACTOR, line).hits, (path, at)
            at += len(line) + 1


def test_real_files_are_hardly_altered() -> None:
    characters = altered = 0
    for path in sorted(corpus().rglob("*.jsonl")):
        data = path.read_bytes()
        characters += len(data)
        for start in find_suspect_lines(REDACTOR, data):
            line = data[start:].partition(b"\n")[0]
            redacted = redact_line(REDACTOR, line)
            if redacted.hits:
                altered += sum(len(part) for part in _removed(line.decode(), redacted.text))
    assert altered <= characters / 1000


def _removed(before: str, after: str) -> list[str]:
    from difflib import SequenceMatcher

    changes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes() if len(before) < 5000 else []
    return [before[start:end] for tag, start, end, _, _ in changes if tag != "equal"] or [after[:200]]
