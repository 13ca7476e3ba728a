from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from unspool.client.headless.control_protocol import Bad, Control, Remote, Replied, Said, hear
from unspool.client.protocols import Choice, Permit, Ruling, Wish

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
WISH = Wish("call", "Bash", {"command": "rm x"}, "rm x")
RULING = Ruling(behaviour="ask", why="no rule", suggestions=("Bash(rm:*)",))


def test_messages_and_requests_are_understood() -> None:
    said = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "hi"}]}, "uuid": "u"}
    assert hear(json.dumps(said).encode()) == Said([{"type": "text", "text": "hi"}], "u")
    asked = {"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}}
    assert hear(json.dumps(asked).encode()) == Control("1", "interrupt", {"subtype": "interrupt"})
    assert hear(b"\n") is None
    assert isinstance(hear(b'{"type": "user", "message": {"content": "  "}}'), Bad)


@given(st.binary(max_size=40) | anything.map(lambda value: json.dumps(value).encode()))
def test_whatever_a_line_is_it_is_heard(line: bytes) -> None:
    assert hear(line) is None or isinstance(hear(line), Said | Control | Replied | Bad)


@given(st.dictionaries(st.sampled_from(["type", "message", "request", "request_id", "response"]), anything))
def test_whatever_an_object_holds_it_is_heard(value: dict[str, Any]) -> None:
    for kind in ("user", "control_request", "control_response"):
        hear(json.dumps({**value, "type": kind}).encode())


def asked(response: dict[str, Any] | None, error: str | None = None) -> Permit:
    """Return what a permit becomes if the other end says this."""
    sent: list[dict[str, Any]] = []
    remote = Remote(sent.append, lambda: "id")

    async def ask() -> Permit:
        job = asyncio.ensure_future(remote.permit(WISH, RULING))
        await asyncio.sleep(0)
        if response is None and error is None:
            remote.gone()
        else:
            remote.replied(Replied("id", response or {}, error))
        return await job

    permit = asyncio.run(ask())
    assert sent[0]["request"]["subtype"] == "can_use_tool"
    return permit


def test_only_what_is_allowed_as_it_is_is_allowed() -> None:
    assert asked({"behavior": "allow", "updatedInput": {"command": "rm x"}}) == Permit(allowed=True)
    assert asked({"behavior": "allow"}) == Permit(allowed=True)
    assert asked({"behavior": "deny", "message": "no"}) == Permit(allowed=False, words="no")
    assert asked(None, "broken") == Permit(allowed=False, words="broken")
    assert not asked({"behavior": "allow", "updatedInput": {"command": "rm -rf /"}}).allowed
    assert not asked({}).allowed
    assert not asked(None).allowed


def test_a_rule_that_was_suggested_can_be_kept() -> None:
    rule = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "rm:*"}], "destination": "session"}
    permit = asked({"behavior": "allow", "updatedPermissions": [rule]})
    assert permit == Permit(allowed=True, rule="Bash(rm:*)", keep="session")
    other = {**rule, "rules": [{"toolName": "Bash"}]}
    assert asked({"behavior": "allow", "updatedPermissions": [other]}) == Permit(allowed=True)


def test_questions_are_answered_over_the_wire() -> None:
    sent: list[dict[str, Any]] = []
    remote = Remote(sent.append, lambda: "id")

    async def ask() -> dict[str, str] | None:
        job = asyncio.ensure_future(remote.choose((Choice(question="Tea?", options=(("yes", ""), ("no", ""))),)))
        await asyncio.sleep(0)
        remote.replied(Replied("id", {"behavior": "allow", "updatedInput": {"answers": {"Tea?": "yes"}}}, None))
        return await job

    assert asyncio.run(ask()) == {"Tea?": "yes"}
    assert sent[0]["request"]["input"]["questions"][0]["question"] == "Tea?"
