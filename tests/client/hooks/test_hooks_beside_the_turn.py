"""Hooks with `async` and `asyncRewake`: the event goes on without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import Chat, Place
from tests.client.hooks.test_settings_hooks import ALLOW, DENY, TOUCH, attachments, say, specific, write_hooks
from unspool.client.hooks.answers import parse_exit
from unspool.client.hooks.settings import HookServices, HookSource, load_hooks

WAIT = "until [ -e made ]; do sleep 0.02; done"
SECOND = {"type": "tool_use", "name": "Bash", "input": {"command": "until [ -e told ]; do sleep 0.02; done; sleep 0.3"}}


def beside(command: str, **fields: Any) -> dict[str, Any]:
    return {"type": "command", "command": command, "async": True, **fields}


def test_a_call_does_not_wait_for_an_async_hook_and_the_model_is_told_later(chat: Chat, place: Place) -> None:
    told = specific("PreToolUse", additionalContext="It was made after all.")
    # It ends only after the call that it is about: who waits for it waits for ever.
    write_hooks(place.config, "PreToolUse", beside(f"{WAIT}; {told}; touch told"), matcher="Bash")
    script = [
        {"content": [TOUCH]},
        {"content": [SECOND]},
        {"content": "Done.", "expect": {"anywhere": "It was made after all."}},
    ]
    done = chat("-p", "go", *ALLOW, script=script)
    assert (done.code, done.out) == (0, "Done.\n")
    assert {one["type"] for one in attachments(place)} == {"hook_success"}


def test_an_async_hook_that_denies_holds_nothing_up_and_that_is_said(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "PreToolUse", beside(f"{WAIT}; {say(DENY)}; touch told"), matcher="Bash")
    done = chat("-p", "go", *ALLOW, script=[{"content": [TOUCH]}, {"content": [SECOND]}, "Done."])
    assert (done.code, (place.work / "made").exists()) == (0, True)
    assert "a `PreToolUse` hook of the user settings cannot deny: it is not waited for (`async`)" in done.err
    assert "PreToolUse:Bash hook: No. (it is `async`, so nothing was held up)" in done.err


def test_an_async_hook_that_still_runs_ends_with_the_chat(chat: Chat, place: Place) -> None:
    write_hooks(place.config, "UserPromptSubmit", beside("echo $$ > pid; exec sleep 600"))
    # The turn ends only when the hook has begun.
    call = {"type": "tool_use", "name": "Bash", "input": {"command": "until [ -s pid ]; do sleep 0.02; done"}}
    done = chat("-p", "go", *ALLOW, script=[{"content": [call]}, "Done."])
    assert done.out == "Done.\n"
    assert not Path("/proc", (place.work / "pid").read_text().strip()).exists()


def test_a_hook_that_would_wake_the_model_is_waited_for_in_a_script(chat: Chat, place: Place) -> None:
    once = "test -e once && exit 0; touch once; echo look again >&2; exit 2"
    write_hooks(place.config, "Stop", {"type": "command", "command": once, "asyncRewake": True})
    script = ["Done.", {"content": "Looked.", "expect": {"text": "look again"}}]
    assert chat("-p", "go", script=script).out == "Looked.\n"


@pytest.mark.parametrize(
    ("fields", "timing", "interactive"),
    [
        ({}, "waited", True),
        ({"async": "yes"}, "waited", True),
        ({"async": True}, "beside", False),
        ({"asyncRewake": True}, "wakes", True),
        ({"asyncRewake": True, "async": True}, "waited", False),
    ],
)
def test_the_settings_say_whether_a_hook_is_waited_for(
    tmp_path: Path, fields: dict[str, Any], timing: str, interactive: bool
) -> None:
    settings = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true", **fields}]}]}}
    loaded = load_hooks([HookSource("user", settings)], HookServices({}, tmp_path, interactive=interactive))
    assert [hook.timing for hook in loaded.hooks] == [timing]
    assert loaded.problems == ()


def test_an_answer_that_is_announced_first_counts_as_it_was_waited_for() -> None:
    later = json.dumps({"decision": "block", "reason": "later"})
    reply = parse_exit("PreToolUse", 0, '{"async": true, "asyncTimeout": 5000}\n' + later, "")
    assert (reply.failure, reply.answer.reason) == (None, "later")
    assert parse_exit("PreToolUse", 0, '{"async": true}', "").failure is None
    assert parse_exit("PreToolUse", 0, '{"async": 1}\nwords', "").failure is not None
