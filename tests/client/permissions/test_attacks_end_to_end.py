"""A chat whose model makes the attacks that once passed writes, runs and shows nothing, in every mode."""

from __future__ import annotations

import json

import pytest

from tests.client.conftest import Chat, Place
from tests.client.permissions.attacks import (
    AGAINST_DENIALS,
    ALLOWED,
    DENIED,
    SECRET,
    SECRET_OF_PROJECT,
    SEEN,
    make_world,
    read_tree,
)


def attack(chat: Chat, place: Place, commands: tuple[str, ...], *flags: str) -> str:
    """Let a model run commands; return what the session has in the end. The project is as it was."""
    place.work.rmdir()
    make_world(place.root, "work")
    calls = [{"type": "tool_use", "name": "Bash", "input": {"command": command}} for command in commands]
    before = read_tree(place.root, "claude", "unspool", "script.json")
    done = chat("-p", "Go.", *flags, script=[{"content": calls}, "Done."], ANTHROPIC_API_KEY=SECRET, MY_TOKEN=SECRET)
    assert done.code == 0, done.err
    assert read_tree(place.root, "claude", "unspool", "script.json") == before
    written = place.sessions()[-1].read_text()
    for secret in (SECRET, SECRET_OF_PROJECT):
        assert secret not in written + done.out + done.err
    return written


def results_of(written: str) -> list[bool]:
    """Return whether each call failed or was refused."""
    lines = [json.loads(line) for line in written.splitlines()]
    messages = [line["message"]["content"] for line in lines if line["type"] == "user"]
    blocks = [block for content in messages if isinstance(content, list) for block in content]
    return [block.get("is_error") is True for block in blocks if block["type"] == "tool_result"]


@pytest.mark.parametrize("sandbox", ["on", "off"])
@pytest.mark.parametrize("mode", ["default", "acceptEdits", "plan"])
def test_what_once_ran_without_a_question_does_not(chat: Chat, place: Place, mode: str, sandbox: str) -> None:
    written = attack(chat, place, SEEN, "--permission-mode", mode, "--sandbox", sandbox, "--trust")
    assert results_of(written) == [True] * len(SEEN)


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "plan", "bypassPermissions"])
def test_rules_that_deny_hold(chat: Chat, place: Place, mode: str) -> None:
    rules = ("--allowedTools", ", ".join(ALLOWED), "--disallowedTools", ", ".join(DENIED))
    written = attack(chat, place, AGAINST_DENIALS, "--permission-mode", mode, *rules)
    assert results_of(written) == [True] * len(AGAINST_DENIALS)
