"""Commands that nobody approved run in a sandbox; those that a person or a rule allowed do so if it is required."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.conftest import Chat, Place
from unspool.client.command_sandbox import CommandSandbox
from unspool.client.permissions.policy import PermissionPolicy
from unspool.client.tool_context import ToolContext, Workspace
from unspool.sandbox import find_mechanism, landlock, seccomp

needs_sandbox = pytest.mark.skipif(find_mechanism() is None, reason="no sandbox works on this machine")


def result_of(chat: Chat, place: Place, command: str, *flags: str) -> str:
    """Return what the model is told of a command."""
    (place.root / ".ssh").mkdir(exist_ok=True)
    (place.root / ".ssh" / "id").write_text("SECRET\n")
    (place.work / "a").write_text("words\n")
    script = [{"content": [{"type": "tool_use", "name": "Bash", "input": {"command": command}}]}, "Done."]
    done = chat("-p", "Go.", "--add-dir", str(place.root), *flags, script=script)
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in place.sessions()[-1].read_text().splitlines()]
    (block,) = [
        block
        for line in lines
        if line["type"] == "user" and isinstance(line["message"]["content"], list)
        for block in line["message"]["content"]
        if block["type"] == "tool_result"
    ]
    content: str = block["content"]
    return content


@needs_sandbox
def test_a_command_that_nobody_approved_reads_no_secret(chat: Chat, place: Place) -> None:
    told = result_of(chat, place, "cat ~/.ssh/id")
    assert "SECRET" not in told
    assert "Permission denied" in told or "No such file" in told
    assert result_of(chat, place, "cat a; cd ../work && pwd") == f"words\n{place.work}"


@needs_sandbox
def test_the_model_is_told_which_wall_a_command_met(chat: Chat, place: Place) -> None:
    told = result_of(chat, place, "cat ~/.ssh/id")
    assert "This command ran in a sandbox: it could only read" in told
    assert "dangerouslyDisableSandbox" in told
    assert "sandbox" not in result_of(chat, place, "cat missing")


@needs_sandbox
def test_a_rule_is_enough_without_a_sandbox_unless_it_is_required(chat: Chat, place: Place) -> None:
    (place.work / "reads.py").write_text("print(open('../.ssh/id').read())\n")
    (place.work / "writes.py").write_text("open('../../pwned', 'w')\n")
    flags = ("--allowedTools", "Bash(python3:*)")
    assert result_of(chat, place, "python3 reads.py", *flags) == "SECRET"
    assert "SECRET" not in result_of(chat, place, "python3 reads.py", *flags, "--sandbox", "require")
    told = result_of(chat, place, "python3 writes.py", *flags, "--sandbox", "require")
    assert "Permission denied" in told or "Read-only file system" in told
    assert not (place.root.parent / "pwned").exists()


@needs_sandbox
def test_what_a_rule_allows_in_part_runs_in_the_sandbox_as_a_whole(chat: Chat, place: Place) -> None:
    (place.work / "reads.py").write_text("open('made', 'w'); print(open('../.ssh/id').read())\n")
    rule = ("--allowedTools", "Bash(python3:*)")
    told = result_of(chat, place, "python3 reads.py | cat", *rule)
    assert "SECRET" not in told
    assert (place.work / "made").exists()
    both = ("--allowedTools", "Bash(python3:*), Bash(cat:*)")
    assert result_of(chat, place, "python3 reads.py | cat", *both) == "SECRET"
    assert result_of(chat, place, "cd . && python3 reads.py", *rule) == "SECRET"


@needs_sandbox
def test_where_edits_are_accepted_files_are_written_in_the_project(chat: Chat, place: Place) -> None:
    told = result_of(chat, place, "mkdir d && cp a d && cat d/a > out", "--permission-mode", "acceptEdits")
    assert told == "(Bash completed with no output)"
    assert (place.work / "out").read_text() == "words\n"


def test_it_can_be_switched_off_by_a_flag_and_by_the_users_own_settings(chat: Chat, place: Place) -> None:
    assert result_of(chat, place, "cat ~/.ssh/id", "--sandbox", "off") == "SECRET"
    place.config.mkdir(exist_ok=True)
    (place.config / "settings.json").write_text('{"sandbox": {"enabled": false}}')
    assert result_of(chat, place, "cat ~/.ssh/id") == "SECRET"
    (place.config / "settings.json").unlink()


@needs_sandbox
def test_a_project_cannot_switch_it_off(chat: Chat, place: Place) -> None:
    (place.work / ".claude").mkdir()
    (place.work / ".claude" / "settings.json").write_text('{"sandbox": {"enabled": false}}')
    assert "SECRET" not in result_of(chat, place, "cat ~/.ssh/id", "--trust")


def judged(tmp_path: Path, sandbox: CommandSandbox, mode: str = "default", **input: object) -> str:
    config = tmp_path / "config"
    context = ToolContext(Workspace(config, config / "projects" / "p", "s", tmp_path), {"HOME": "/", "PATH": "/bin"})
    context.mode = mode
    return PermissionPolicy(root=tmp_path, sandbox=sandbox).judge("Bash", {"command": "ls", **input}, context).behaviour


_LANDLOCK_CALLS = (444, 445, 446)


def explain_without(place: Place, refused: tuple[int, ...], *flags: str) -> str:
    """Return what is said of `ls` on a machine that has no namespaces, and refuses some system calls, too."""
    calls = seccomp.make_filter(sockets="all", in_namespaces=True, more=refused)
    run = subprocess.run(
        [sys.executable, "-m", "unspool", "chat", "--explain", "Bash(ls)", *flags],
        env=place.environment,
        cwd=place.work,
        preexec_fn=calls.restrict_self,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return run.stdout


@pytest.mark.skipif(os.geteuid() != 0 or not seccomp.is_available(), reason="refusing system calls needs root here")
def test_where_no_sandbox_works_everything_is_asked(place: Place) -> None:
    assert explain_without(place, _LANDLOCK_CALLS).startswith("ask: no sandbox works on this machine")
    assert explain_without(place, _LANDLOCK_CALLS, "--permission-mode", "plan").startswith("deny: no sandbox works")
    assert explain_without(place, _LANDLOCK_CALLS, "--permission-mode", "acceptEdits").startswith("ask: no sandbox")
    assert explain_without(place, _LANDLOCK_CALLS, "--sandbox", "off").startswith("allow: `ls` only looks")


@pytest.mark.skipif(os.geteuid() != 0 or not seccomp.is_available(), reason="refusing system calls needs root here")
@pytest.mark.skipif(landlock.abi_version() < 3, reason="there is no Landlock to take the place of bubblewrap")
def test_where_bubblewrap_does_not_work_landlock_takes_its_place(place: Place) -> None:
    assert explain_without(place, ()).startswith("allow: `ls` only looks")


@needs_sandbox
def test_who_wants_to_leave_the_sandbox_asks(tmp_path: Path) -> None:
    sandbox = CommandSandbox("on", {}, tmp_path)
    assert judged(tmp_path, sandbox) == "allow"
    assert judged(tmp_path, sandbox, dangerouslyDisableSandbox=True) == "ask"
    assert judged(tmp_path, sandbox, dangerouslyDisableSandbox=False) == "allow"


def test_a_chat_says_which_sandbox_it_has(chat: Chat, place: Place) -> None:
    said = chat("-p", "/sandbox", script=["unused"]).out
    assert said.startswith("sandbox: on\n")
    assert "commands" in said


@needs_sandbox
def test_a_rule_that_is_kept_for_the_sandbox_runs_its_commands_in_it(chat: Chat, place: Place) -> None:
    (place.work / "reads.py").write_text("open('made', 'w'); print(open('../.ssh/id').read())\n")
    own = place.root / "unspool"
    own.mkdir()
    rules = {"folders": {str(place.work): {"sandboxed": ["Bash(python3:*)"]}}}
    (own / "rules.json").write_text(json.dumps(rules))
    told = result_of(chat, place, "python3 reads.py")
    assert "SECRET" not in told
    assert "This command ran in a sandbox: it could write in the working folders only" in told
    assert (place.work / "made").exists()
    assert "SECRET" not in result_of(chat, place, "python3 reads.py", "--sandbox", "off")  # the rule does not act


@needs_sandbox
def test_commands_in_a_custom_command_run_in_the_sandbox_too(chat: Chat, place: Place) -> None:
    (place.root / ".ssh").mkdir()
    (place.root / ".ssh" / "id").write_text("SECRET\n")
    folder = place.config / "commands"
    folder.mkdir(parents=True)
    (folder / "leak.md").write_text("It says: !`cat ~/.ssh/id; echo over`\n")
    done = chat("-p", "/leak", "--add-dir", place.root, script=["Done."])
    assert done.code == 0, done.err
    written = place.sessions()[-1].read_text()
    assert "over" in written
    assert "SECRET" not in written
