"""Which calls may wait for a person."""

from __future__ import annotations

import json
from typing import Any

import pytest

from unspool.files import SettingsFile
from unspool.live.state.approval import ApprovalRules, may_need_approval
from unspool.live.state.model import PendingCall
from unspool.permissions import EffectiveSettings, add_settings


def rules_of(**permissions: Any) -> ApprovalRules:
    """The rules of a user's settings file with these permissions."""
    data = json.dumps({"permissions": permissions}).encode()
    return ApprovalRules(add_settings(EffectiveSettings(), SettingsFile("user", "", ""), data))


def bash(command: str) -> PendingCall:
    return PendingCall("t", "Bash", command, {"command": command})


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        ("make", True),
        ("ls -la | head", False),
        ("cd src && git status", False),
        ("git push", True),
        ("cat a > b", True),
        ("echo $(rm a)", True),
        ("tail -f notes.md", False),
        ("touch made; echo ok", True),
    ],
)
def test_a_command_that_only_looks_does_not_ask(command: str, asks: bool) -> None:
    assert may_need_approval(bash(command), "default", ApprovalRules()) is asks


@pytest.mark.parametrize(
    ("rule", "command", "asks"),
    [
        ("Bash", "make", False),
        ("Bash(*)", "make", False),
        ("Bash(make:*)", "make test", False),
        ("Bash(make:*)", "makeover", True),
        ("Bash(make test)", "make test", False),
        ("Bash(make test)", "make all", True),
        ("Bash(npm run *)", "npm run lint", False),
        ("Bash(make:*)", "make && rm -r x", True),
        ("Bash(make:*)", "cd a && make", False),
        ("Read", "make", True),
        ("Bash(", "make", True),
    ],
)
def test_a_rule_allows_a_command(rule: str, command: str, asks: bool) -> None:
    assert may_need_approval(bash(command), None, rules_of(allow=[rule])) is asks


def test_what_must_be_asked_is_asked_whatever_else_allows_it() -> None:
    assert may_need_approval(bash("make"), None, rules_of(allow=["Bash"], ask=["Bash(make:*)"]))


@pytest.mark.parametrize(
    ("name", "value", "rule", "asks"),
    [
        ("WebFetch", {"url": "https://docs.example.com/a"}, "WebFetch(domain:docs.example.com)", False),
        ("WebFetch", {"url": "https://evil.example/docs.example.com"}, "WebFetch(domain:docs.example.com)", True),
        ("mcp__birds__count", {}, "mcp__birds", False),
        ("mcp__birds__count", {}, "mcp__birds__*", False),
        ("mcp__birds__count", {}, "mcp__bird", True),
        ("Edit", {"file_path": "/p/src/a.py"}, "Edit(/p/src/*)", False),
        ("Edit", {"file_path": "/p/a.py"}, "Edit(/p/src/*)", True),
        ("Skill", {"skill": "count"}, "Skill(count)", False),
        ("Glob", {"pattern": "*"}, "", False),
        ("Agent", {}, "", False),
    ],
)
def test_rules_of_other_tools(name: str, value: dict[str, str], rule: str, asks: bool) -> None:
    assert may_need_approval(PendingCall("t", name, "", value), "default", rules_of(allow=[rule])) is asks


def test_modes() -> None:
    edit = PendingCall("t", "Edit", "a", {"file_path": "a"})
    assert may_need_approval(edit, "default", ApprovalRules())
    assert not may_need_approval(edit, "acceptEdits", ApprovalRules())
    assert may_need_approval(bash("make"), "acceptEdits", ApprovalRules())
    assert not may_need_approval(bash("make"), None, rules_of(defaultMode="bypassPermissions"))
    assert may_need_approval(bash("make"), "default", rules_of(defaultMode="bypassPermissions"))
    for name in ("AskUserQuestion", "ExitPlanMode"):
        assert may_need_approval(PendingCall("t", name), "bypassPermissions", ApprovalRules())
