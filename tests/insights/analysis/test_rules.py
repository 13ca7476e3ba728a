"""Permission rules that are suggested allow what was approved, and nothing that can change or send something else."""

from __future__ import annotations

from typing import Any

import pytest

from unspool.insights.analysis import AskedCall, asks, suggest_rules
from unspool.permissions import CallCheck, RuleSet, WorkspacePaths, decide_call, parse_rule

ROOT = "/home/me/project"
CHECK = CallCheck(RuleSet(), WorkspacePaths(ROOT, environment={}), mode="default", trusted=True)


def called(tool: str, *, rejected: bool = False, failed: bool = False, **input: Any) -> AskedCall:
    return AskedCall(tool, input, CHECK, rejected, failed, 5000, None, {"time": 1})


def rules(*calls: AskedCall) -> list[str]:
    return [one.text for one in suggest_rules(calls)]


def test_a_command_that_was_approved_twice_is_a_rule() -> None:
    made = rules(called("Bash", command="make deploy"), called("Bash", command="make deploy"))
    assert made == ["Bash(make deploy)"]
    rule = parse_rule(made[0], "local", ROOT)
    assert rule is not None
    allowing = CHECK.with_allowed([rule])
    assert decide_call(allowing, "Bash", {"command": "make deploy"})[0].behaviour == "allow"
    assert asks(allowing, "Bash", {"command": "make deploy --force"})


@pytest.mark.parametrize(
    "command",
    ["make $TARGET", "rm -rf *", "echo `date` > a", "git push\ngit push", "make $(cat x)", "ls ?", "  ", "x:"],
)
def test_a_command_that_may_be_another_one_the_next_time_is_no_rule(command: str) -> None:
    assert rules(called("Bash", command=command), called("Bash", command=command)) == []


def test_one_rejection_is_enough() -> None:
    yes, no = called("Bash", command="make x"), called("Bash", command="make x", rejected=True)
    assert rules(yes, yes, no) == []
    assert rules(yes) == []


def test_a_command_that_always_failed_is_no_rule() -> None:
    failed = called("Bash", command="make x", failed=True)
    assert rules(failed, failed) == []
    assert rules(failed, called("Bash", command="make x")) == ["Bash(make x)"]


@pytest.mark.parametrize(
    ("tool", "input"),
    [
        ("WebFetch", {"url": "https://example.org/a", "prompt": "read"}),
        ("Write", {"file_path": f"{ROOT}/a.py", "content": "x"}),
        ("Edit", {"file_path": f"{ROOT}/a.py", "old_string": "x", "new_string": "y"}),
        ("mcp__mail__send", {"to": "somebody"}),
        ("WebSearch", {"query": "x"}),
    ],
)
def test_nothing_is_suggested_for_what_changes_or_sends(tool: str, input: dict[str, Any]) -> None:
    assert rules(called(tool, **input), called(tool, **input)) == []


def test_a_folder_that_was_read_from_is_a_rule_unless_it_is_hidden() -> None:
    reads = [called("Read", file_path=f"/srv/docs/{name}.md") for name in "ab"]
    assert rules(*reads) == ["Read(//srv/docs/**)"]
    keys = [called("Read", file_path=f"/home/me/.ssh/{name}") for name in "ab"]
    assert rules(*keys) == []


@pytest.mark.parametrize("command", [None, 7, [], {}, "\0", "a" * 5000, "((((", "'"])
def test_any_command_is_a_value(command: Any) -> None:
    assert all(one.kind == "permission" for one in suggest_rules([called("Bash", command=command)] * 2))
