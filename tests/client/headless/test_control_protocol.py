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
    PromptMessage,
    RemoteUser,
    parse_line,
)
from unspool.client.protocols import PermissionAnswer, PermissionRequest, UserQuestion
from unspool.client.tool_result import FileChange
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
    assert parse_line(json.dumps(said).encode()) == PromptMessage([{"type": "text", "text": "hi"}], "u")
    asked = {"type": "control_request", "request_id": "1", "request": {"subtype": "interrupt"}}
    assert parse_line(json.dumps(asked).encode()) == ControlRequest("1", "interrupt", {"subtype": "interrupt"})
    assert parse_line(b"\n") is None
    assert isinstance(parse_line(b'{"type": "user", "message": {"content": "  "}}'), InvalidInput)


@given(st.binary(max_size=40) | anything.map(lambda value: json.dumps(value).encode()))
def test_whatever_a_line_is_it_is_heard(line: bytes) -> None:
    assert parse_line(line) is None or isinstance(
        parse_line(line), PromptMessage | ControlRequest | ControlResponse | InvalidInput
    )


@given(st.dictionaries(st.sampled_from(["type", "message", "request", "request_id", "response"]), anything))
def test_whatever_an_object_holds_it_is_heard(value: dict[str, Any]) -> None:
    for kind in ("user", "control_request", "control_response"):
        parse_line(json.dumps({**value, "type": kind}).encode())


def asked(
    response: dict[str, Any] | None,
    error: str | None = None,
    *,
    request: PermissionRequest = WISH,
    decision: RuleDecision = RULING,
    sent: list[dict[str, Any]] | None = None,
) -> PermissionAnswer:
    """Return what a permit becomes if the other end says this."""
    sent = [] if sent is None else sent
    remote = RemoteUser(sent.append, lambda: "id")

    async def ask() -> PermissionAnswer:
        job = asyncio.ensure_future(remote.ask_permission(request, decision))
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
    changed = asked({"behavior": "allow", "updatedInput": {"command": "rm y"}})
    assert changed == PermissionAnswer(allowed=True, input={"command": "rm y"})
    assert not asked({"behavior": "allow", "updatedInput": "rm y"}).allowed
    stopped = asked({"behavior": "deny", "message": "no", "interrupt": True})
    assert stopped == PermissionAnswer(allowed=False, words="no", stops=True)
    assert not asked({"behavior": "deny", "message": "no", "interrupt": "yes"}).stops
    assert not asked({}).allowed
    assert not asked(None).allowed


def test_a_rule_that_was_suggested_can_be_kept() -> None:
    rule = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "rm:*"}], "destination": "session"}
    permit = asked({"behavior": "allow", "updatedPermissions": [rule]})
    assert permit == PermissionAnswer(allowed=True, rule="Bash(rm:*)", keep="session")
    other = {**rule, "rules": [{"toolName": "Bash"}]}
    assert asked({"behavior": "allow", "updatedPermissions": [other]}) == PermissionAnswer(allowed=True)


def test_all_rules_of_a_suggestion_are_kept_together() -> None:
    decision = RuleDecision(behaviour="ask", why="no rule", suggestions=("Bash(rm:*), Bash(ls:*)",))
    rules = [{"toolName": "Bash", "ruleContent": "rm:*"}, {"toolName": "Bash", "ruleContent": "ls:*"}]
    sent: list[dict[str, Any]] = []
    update = {"type": "addRules", "rules": rules, "destination": "localSettings"}
    permit = asked({"behavior": "allow", "updatedPermissions": [update]}, decision=decision, sent=sent)
    assert permit == PermissionAnswer(allowed=True, rule="Bash(rm:*), Bash(ls:*)", keep="local")
    assert sent[0]["request"]["permission_suggestions"][0]["rules"] == rules


def test_a_rule_for_the_sandbox_is_suggested_and_kept_as_one() -> None:
    request = PermissionRequest(
        "call", "Bash", {"command": "rm x"}, "rm x", rule_file="/p/local.json", sandboxed_rule_file="/own/rules.json"
    )
    sent: list[dict[str, Any]] = []
    asked({}, request=request, sent=sent)
    always, boxed, session = sent[0]["request"]["permission_suggestions"]
    assert (always["destination"], boxed["sandboxed"], session["destination"]) == ("localSettings", True, "session")
    assert "always, in the sandbox: Bash(rm:*) is written to /own/rules.json" in sent[0]["request"]["description"]
    kept = PermissionAnswer(allowed=True, rule="Bash(rm:*)", keep="local", sandboxed=True)
    assert asked({"behavior": "allow", "updatedPermissions": [boxed]}, request=request) == kept
    # The SDK for Python drops what it does not know.
    del boxed["sandboxed"]
    assert asked({"behavior": "allow", "updatedPermissions": [boxed]}, request=request) == kept
    assert not asked({"behavior": "allow", "updatedPermissions": [always]}, request=request).sandboxed
    # Where nothing can run in a sandbox, nothing is kept for it.
    assert asked({"behavior": "allow", "updatedPermissions": [boxed]}) == PermissionAnswer(allowed=True)


def test_a_rule_without_content_is_known_again_with_a_null() -> None:
    decision = RuleDecision(behaviour="ask", why="no rule", suggestions=("WebSearch",))
    rules = [{"toolName": "WebSearch", "ruleContent": None}]
    permit = asked(
        {"behavior": "allow", "updatedPermissions": [{"type": "addRules", "rules": rules}]}, decision=decision
    )
    assert permit == PermissionAnswer(allowed=True, rule="WebSearch", keep="session")


def test_an_edit_is_asked_about_with_its_change() -> None:
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 300, "lines": ["-one", *["+two"] * 300]}
    change = FileChange(path="/p/a", is_new=False, hunks=[hunk])
    request = PermissionRequest("call", "Edit", {"file_path": "/p/a"}, "/p/a", change=change)
    sent: list[dict[str, Any]] = []
    mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    decision = RuleDecision(behaviour="ask", why="no rule")
    permit = asked({"behavior": "allow", "updatedPermissions": [mode]}, request=request, decision=decision, sent=sent)
    assert permit == PermissionAnswer(allowed=True, mode="acceptEdits")
    asking = sent[0]["request"]
    assert asking["description"].startswith("changes /p/a\n@@ -1,1 +1,300 @@\n-one\n+two\n")
    assert asking["description"].endswith("… 103 more lines")
    assert asking["file_change"] == {"file_path": "/p/a", "is_new": False, "structured_patch": [hunk]}
    assert asking["permission_suggestions"] == [mode]
    # A command does not change the mode, whatever comes back.
    assert asked({"behavior": "allow", "updatedPermissions": [mode]}).mode is None


@given(anything)
def test_whatever_comes_back_as_updates_allows_no_more(updates: object) -> None:
    permit = asked({"behavior": "allow", "updatedPermissions": updates})
    assert (permit.rule, permit.mode, permit.sandboxed) == (None, None, False)


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
