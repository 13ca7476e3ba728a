"""Commands that real sessions made most often, and that only look, need no question and say the same in the sandbox."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.real_files import corpus
from unspool.client.command_sandbox import CommandSandbox
from unspool.client.permissions.policy import PermissionPolicy
from unspool.client.tool_context import ToolBackends, ToolContext, Workspace
from unspool.client.tools.shell.bash import BashArguments, BashTool
from unspool.sandbox import find_mechanism

_EVERYDAY = """
1de700c2 e62b04aa c7b68ac3 ca225b06 e5f33164 dbd57dc1 6f015e9c 21f4233f 6cf6e38f c5146630 b1ac3ebd 0c9b65cd 43cb9fc3
544adf37 bcf996cc fbb97a21 679bf7b5 59b28614 5b66bec1 c875ab33 7226c690 56988b70 91748028 575d6893 a7a49cbf 215d67c1
4fafb8ac d9507ae5 401549e3 f0359a33 521c6f53 1f41663c c95bfc63 4cea8ce0 258ab06c 905b1b24 6b4107ed 7e05c825 16250537
3392b221 da929f5a 246050b6 531a8e77 4eb99cb8 b4acdf0d 9697a0a5 2027c226 0c4be50d e153323f 0f39a9c6 7fa0633a 1d58cc22
f102af79 93a69acb 96ea4ca1 c7ad727a 028ff206 fee569ce aabaa533 a6a52f3b
"""
"""The 60 most frequent commands of the real sessions that only look, as the first digits of their SHA-256.

Each ran without a question in a trusted folder before there were a closed grammar and tables of options (commit
`dedaf9f`). The folder worked in is written `@ROOT@`.
"""


def read_commands() -> Counter[str]:
    """Return how often each command was run in the real sessions."""
    found: Counter[str] = Counter()
    for path in corpus().rglob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            if b'"Bash"' not in line:
                continue
            try:
                record = json.loads(line)
            except ValueError:
                continue
            match record:
                case {"type": "assistant", "message": {"content": list(blocks)}}:
                    root = str(record.get("cwd") or "")
                case _:
                    continue
            for block in blocks:
                match block:
                    case {"type": "tool_use", "name": "Bash", "input": {"command": str(command)}}:
                        found[command.replace(root, "@ROOT@") if len(root) > 1 else command] += 1
    return found


@pytest.fixture(scope="module")
def everyday() -> list[str]:
    """Return the commands, the most frequent first."""
    wanted = {*_EVERYDAY.split()}
    commands = [command for command, _ in read_commands().most_common() if _digest(command) in wanted]
    if len(commands) < len(wanted):
        pytest.skip("these are other real sessions than those that the commands were taken from")
    return commands


def _digest(command: str) -> str:
    return hashlib.sha256(command.encode(errors="surrogatepass")).hexdigest()[:8]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a repository with a commit and a change."""
    root = tmp_path / "project"
    for name in ("README.md", "src/a.py", "types/a.ts", "work/research.md", "js/drone.js", "docs/a.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("one\ntwo\n")
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.com")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*identity, "commit", "-qm", "First")):
        subprocess.run(["git", *words], cwd=root, check=True, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    (root / "README.md").write_text("one\nthree\n")
    return root


def make_context(project: Path) -> ToolContext:
    """Return the context of a chat in the project."""
    config = project.parent / "config"
    environment = {"PATH": os.environ["PATH"], "HOME": str(project.parent), "LANG": "C.UTF-8"}
    backends = ToolBackends(sandbox=CommandSandbox("on", environment, config))
    return ToolContext(Workspace(config, config / "projects" / "p", "s", project), environment, backends=backends)


def asked(commands: list[str], project: Path, *, trusted: bool) -> list[str]:
    """Return the commands that are not allowed without a question."""
    context, policy = make_context(project), PermissionPolicy(root=project, trusted=trusted)
    calls = {command: {"command": command.replace("@ROOT@", str(project))} for command in commands}
    return [command for command, call in calls.items() if policy.judge("Bash", call, context).behaviour != "allow"]


def test_everyday_commands_need_no_question(everyday: list[str], project: Path) -> None:
    asks = asked(everyday, project, trusted=True)
    assert len(asks) <= 0.15 * len(everyday), asks


def test_in_a_folder_that_is_not_trusted_only_git_asks(everyday: list[str], project: Path) -> None:
    asks = asked(everyday, project, trusted=False)
    assert [command for command in asks if "git " not in command] == []


@pytest.mark.skipif(find_mechanism() is None, reason="no sandbox works on this machine")
def test_everyday_commands_say_the_same_in_the_sandbox(everyday: list[str], project: Path) -> None:
    async def run(command: str, *, sandboxed: bool) -> object:
        context = make_context(project)
        if sandboxed:
            context.sandbox_levels["call"] = "read"
        outcome = await BashTool().execute(BashArguments(command=command), context, "call")
        return outcome.content, outcome.is_error

    for command in everyday:
        if "sleep" not in command:
            here = command.replace("@ROOT@", str(project))
            assert asyncio.run(run(here, sandboxed=True)) == asyncio.run(run(here, sandboxed=False)), command
