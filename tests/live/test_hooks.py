"""Our hooks in a settings file: put in, found, taken out, and nothing else touched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.errors import Refused
from unspool.live.hook_signals import COMMAND_PREFIX, HOOK_EVENTS
from unspool.live.hooks import add_hooks, installed_events, is_same_settings, remove_hooks, supported_events

FOLDER = Path("/home/me/.local/share/unspool/signals")
THEIRS = {"hooks": [{"type": "command", "command": "say done"}]}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
groups = st.lists(st.just(THEIRS) | st.fixed_dictionaries({"matcher": st.text(max_size=5)}), min_size=1, max_size=2)
settings = st.dictionaries(st.text(max_size=6).filter(lambda key: key != "hooks"), values, max_size=4)
hooks = st.none() | st.dictionaries(st.sampled_from([*HOOK_EVENTS, "Other"]), groups, min_size=1, max_size=3)
indents = st.sampled_from([None, 1, 2, 4, "\t"])


@given(settings, hooks, indents, st.sampled_from(["", "\n"]), st.booleans())
def test_what_is_put_in_can_be_taken_out_byte_for_byte(
    chosen: dict[str, Any], theirs: Any, indent: Any, end: str, first: bool
) -> None:
    value = {**({"hooks": theirs} if theirs and first else {}), **chosen, **({"hooks": theirs} if theirs else {})}
    document = (json.dumps(value, indent=indent, ensure_ascii=False) + end).encode()
    changed = add_hooks(document, FOLDER)
    assert installed_events(changed) == set(HOOK_EVENTS)
    assert add_hooks(changed, FOLDER) == changed
    assert remove_hooks(changed) == document


def test_what_others_put_there_stays_in_its_place() -> None:
    document = json.dumps({"model": "opus", "hooks": {"Stop": [THEIRS]}, "unknown": [1.50]}).encode()
    changed = json.loads(add_hooks(document, FOLDER))
    assert list(changed) == ["model", "hooks", "unknown"]
    assert changed["hooks"]["Stop"][0] == THEIRS
    assert changed["hooks"]["Stop"][1]["hooks"][0]["command"].startswith(COMMAND_PREFIX)
    assert b"1.5" in add_hooks(document, FOLDER)


def test_what_is_added_is_indented_like_the_rest() -> None:
    document = b'{\n    "model": "opus"\n}\n'
    changed = add_hooks(document, FOLDER)
    assert changed == json.dumps(json.loads(changed), indent=4).encode() + b"\n"


def test_hooks_that_lead_elsewhere_are_replaced() -> None:
    moved = add_hooks(add_hooks(b"{}\n", Path("/old")), FOLDER)
    assert moved == add_hooks(b"{}\n", FOLDER)


def test_an_empty_or_missing_file_becomes_one_with_hooks_alone() -> None:
    assert list(json.loads(add_hooks(b"", FOLDER))) == ["hooks"]
    assert remove_hooks(add_hooks(b"", FOLDER)) == b"{}\n"


@pytest.mark.parametrize(
    "document", [b"// mine\n{}", b"{", b"[]", b'{"hooks": []}', b'{"hooks": {"Stop": {}}}', b"\xff", b'{"a": 1,}']
)
def test_what_is_no_settings_file_is_refused(document: bytes) -> None:
    with pytest.raises(Refused):
        add_hooks(document, FOLDER)
    with pytest.raises(Refused):
        remove_hooks(document)


def test_a_version_is_given_no_event_that_it_does_not_know() -> None:
    assert "PermissionRequest" not in supported_events("2.0.36")
    assert supported_events("2.0.76") == supported_events("2.1.325") == supported_events(None) == HOOK_EVENTS
    assert "PermissionRequest" not in json.loads(add_hooks(b"", FOLDER, "1.0.44"))["hooks"]


def test_two_files_that_say_the_same() -> None:
    assert is_same_settings(b'{"a":1}', b'{ "a": 1 }')
    assert not is_same_settings(b'{"a":1,"b":2}', b'{"b":2,"a":1}')
    assert not is_same_settings(b"{}", b"nonsense")
