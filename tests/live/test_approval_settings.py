"""The board says that a call waits for approval where the client's permission check would ask."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.client.permissions.test_policy import ALLOWED, DENIED, rows
from tests.profiles import examples
from unspool.client.permissions.policy import PermissionPolicy
from unspool.client.permissions.settings import load_settings
from unspool.client.tool_context import ToolContext, Workspace
from unspool.live.approval_settings import ApprovalSettings
from unspool.live.state.approval import may_need_approval
from unspool.live.state.model import PendingCall
from unspool.permissions import split_rules
from unspool.permissions.settings import MODES

NOW = datetime(2026, 1, 5, tzinfo=UTC)
COMMANDS = ("git log | rm x", "cat /etc/passwd", "find . -delete", "date 01010000", "diff <(ls) x", "sort -o x y", "ls")
CALLS: list[tuple[str, dict[str, str]]] = [
    ("Read", {"file_path": "src/a.py"}),
    ("Read", {"file_path": "/etc/passwd"}),
    ("Read", {"file_path": "secrets/token"}),
    ("Grep", {"pattern": "x"}),
    ("Glob", {"pattern": "/etc/*"}),
    ("Edit", {"file_path": "docs/a.md"}),
    ("Edit", {"file_path": "src/a.py"}),
    ("Write", {"file_path": ".git/hooks/pre-commit"}),
    ("Write", {"file_path": "/tmp/x"}),
    ("NotebookEdit", {"notebook_path": "src/n.ipynb"}),
    ("WebFetch", {"url": "https://docs.example.com/x"}),
    ("WebFetch", {"url": "https://example.com/"}),
    ("WebSearch", {"query": "x"}),
    ("Task", {"subagent_type": "Explore"}),
    ("TodoWrite", {}),
    ("mcp__birds__count", {}),
    ("Skill", {"skill": "count"}),
    ("Bash", {}),
]

Asks = Callable[[str, dict[str, Any], str], bool]


@pytest.fixture(scope="module")
def deciders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Asks, Asks]:
    """Whether a call waits, by the board and by the client, in a folder without links."""
    world = tmp_path_factory.mktemp("world").resolve()
    config, root = world / "config", world / "project"
    for folder in (config, root / "src", root / "docs", root / ".claude"):
        folder.mkdir(parents=True)
    allow, deny = ([rule for text in texts for rule in split_rules(text)] for texts in (ALLOWED, DENIED))
    shared = {"allow": allow, "ask": ["Bash(git fetch:*)"], "additionalDirectories": ["../other"]}
    (config / "settings.json").write_text(json.dumps({"permissions": {"deny": deny, "defaultMode": "acceptEdits"}}))
    (root / ".claude" / "settings.json").write_text(json.dumps({"permissions": shared}))
    (root / ".claude" / "settings.local.json").write_text(json.dumps({"permissions": {"defaultMode": "plan"}}))
    policy = PermissionPolicy(load_settings(config, root, trusted=True), root=root, trusted=True)
    added = tuple(map(Path, policy.settings.added))
    environment = {"HOME": os.environ["HOME"], "PATH": os.environ["PATH"]}
    context = ToolContext(Workspace(config, config / "projects" / "p", "s", root, added), environment)
    rules = ApprovalSettings(config).rules(str(root), NOW)
    assert (rules.settings.mode, rules.settings.rules) == (policy.settings.mode, policy.settings.rules)

    def client_asks(tool: str, input: dict[str, Any], mode: str) -> bool:
        context.mode = mode
        return policy.judge(tool, input, context).behaviour == "ask"

    return lambda tool, input, mode: may_need_approval(PendingCall("t", tool, "", input), mode, rules), client_asks


@pytest.mark.parametrize("mode", MODES)
def test_a_call_waits_where_the_client_would_ask(deciders: tuple[Asks, Asks], mode: str) -> None:
    board_asks, client_asks = deciders
    commands = [*COMMANDS, *(command for _, command in rows())]
    calls = [*CALLS, *(("Bash", {"command": command}) for command in commands)]
    assert [call for call in calls if board_asks(*call, mode) != client_asks(*call, mode)] == []
    assert mode != "default" or {board_asks(*call, mode) for call in calls} == {True, False}


WORDS = """
cat ls rm git log push -C .. npm run test src/a.py /etc/passwd ~/x $x cd src && ; | > < out cp touch docs/b *.py {a,b}
$(ls) 'pwd' find . -exec {} + timeout 5 bash -c CI=1 secrets/token ../other/x sed -n 1p
"""


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(WORDS.split()), min_size=1, max_size=8), st.sampled_from(MODES))
def test_any_command_waits_where_the_client_would_ask(deciders: tuple[Asks, Asks], words: list[str], mode: str) -> None:
    board_asks, client_asks = deciders
    call = ("Bash", {"command": " ".join(words)}, mode)
    assert board_asks(*call) == client_asks(*call)


def test_a_folder_that_is_not_known_or_not_readable_has_no_settings_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"permissions": {"allow": ["Bash"]}}')
    (tmp_path / "work" / ".claude").mkdir(parents=True)
    (tmp_path / "work" / ".claude" / "settings.json").write_text('{"permissions": ')
    (tmp_path / "work" / ".claude" / "settings.local.json").mkdir()
    for cwd in (None, "", "not absolute", "/a\0b", str(tmp_path / "work"), "/" + "x" * 5000):
        rules = ApprovalSettings(tmp_path).rules(cwd, NOW)
        assert [rule.text for rule in rules.settings.rules.allow] == ["Bash"]
