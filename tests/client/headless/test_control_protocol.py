from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from unspool.client.headless.control_protocol import (
    ControlRequest,
    ControlResponse,
    InvalidInput,
    RemoteUser,
    UserMessage,
    parse_line,
)
from unspool.client.protocols import PermissionAnswer, PermissionRequest, UserQuestion
from unspool.permissions import RuleDecision

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
WISH = PermissionRequest("call", "Bash", {"command": "rm x"}, "rm x")
RULING = RuleDecision(behaviour="ask", why="no rule", suggestions=("Bash(rm:*)",))


def test_messages_and_requests_are_understood() -> None:
    said = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]}, "uuid": "u"}
    assert parse_line(json.dumps(said).encode()) == UserMessage([{"type": "text", "text": "hi"}], "u")
    asked = {"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}}
    assert parse_line(json.dumps(asked).encode()) == ControlRequest("1", "interrupt", {"subtype": "interrupt"})
    assert parse_line(b"\n") is None
    assert isinstance(parse_line(b'{"type": "user", "message": {"content": "  "}}'), InvalidInput)


@given(st.binary(max_size=40) | anything.map(lambda value: json.dumps(value).encode()))
def test_whatever_a_line_is_it_is_heard(line: bytes) -> None:
    assert parse_line(line) is None or isinstance(
        parse_line(line), UserMessage | ControlRequest | ControlResponse | InvalidInput
    )


@given(st.dictionaries(st.sampled_from(["type", "message", "request", "request_id", "response"]), anything))
def test_whatever_an_object_holds_it_is_heard(value: dict[str, Any]) -> None:
    for kind in ("user", "control_request", "control_response"):
        parse_line(json.dumps({**value, "type": kind}).encode())


def asked(response: dict[str, Any] | None, error: str | None = None) -> PermissionAnswer:
    """Return what a permit becomes if the other end says this."""
    sent: list[dict[str, Any]] = []
    remote = RemoteUser(sent.append, lambda: "id")

    async def ask() -> PermissionAnswer:
        job = asyncio.ensure_future(remote.ask_permission(WISH, RULING))
        await asyncio.sleep(0)
        if response is None and error is None:
            remote.close()
        else:
            remote.resolve(ControlResponse("id", response or {}, error))
        return await job

    permit = asyncio.run(ask())
    assert sent[0]["request"]["subtype"] == "can_use_tool"
    return permit


def test_only_what_is_allowed_as_it_is_is_allowed() -> None:
    assert asked({"behavior": "allow", "updatedInput": {"command": "rm x"}}) == PermissionAnswer(allowed=True)
    assert asked({"behavior": "allow"}) == PermissionAnswer(allowed=True)
    assert asked({"behavior": "deny", "message": "no"}) == PermissionAnswer(allowed=False, words="no")
    assert asked(None, "broken") == PermissionAnswer(allowed=False, words="broken")
    assert not asked({"behavior": "allow", "updatedInput": {"command": "rm -rf /"}}).allowed
    assert not asked({}).allowed
    assert not asked(None).allowed


def test_a_rule_that_was_suggested_can_be_kept() -> None:
    rule = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "rm:*"}], "destination": "session"}
    permit = asked({"behavior": "allow", "updatedPermissions": [rule]})
    assert permit == PermissionAnswer(allowed=True, rule="Bash(rm:*)", keep="session")
    other = {**rule, "rules": [{"toolName": "Bash"}]}
    assert asked({"behavior": "allow", "updatedPermissions": [other]}) == PermissionAnswer(allowed=True)


def test_questions_are_answered_over_the_wire() -> None:
    sent: list[dict[str, Any]] = []
    remote = RemoteUser(sent.append, lambda: "id")

    async def ask() -> dict[str, str] | None:
        job = asyncio.ensure_future(
            remote.ask_questions((UserQuestion(question="Tea?", options=(("yes", ""), ("no", ""))),))
        )
        await asyncio.sleep(0)
        remote.resolve(ControlResponse("id", {"behavior": "allow", "updatedInput": {"answers": {"Tea?": "yes"}}}, None))
        return await job

    assert asyncio.run(ask()) == {"Tea?": "yes"}
    assert sent[0]["request"]["input"]["questions"][0]["question"] == "Tea?"
