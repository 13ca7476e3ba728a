"""What a chat has started ends with it, however its terminal goes away."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import Place
from tests.client.ui.rig import Open, bash
from tests.client.ui.test_background_tasks import in_background
from tests.pseudo_terminal import until

WAITS = "echo $$ > pid; until [ -e never ]; do sleep 0.05; done"
ERRAND = {"description": "An errand", "prompt": "Wait there.", "subagent_type": "general-purpose"}
SCRIPTS: dict[str, Any] = {
    "in the background": [{"content": [in_background(WAITS)]}, "It runs."],
    "in the foreground": [{"content": [bash(WAITS)]}],
    "of an agent": {
        "cues": {
            "go": [{"content": [{"type": "tool_use", "name": "Task", "input": ERRAND}]}],
            "Wait there.": [{"content": [bash(f"trap '' HUP TERM; {WAITS}")]}],
        }
    },
    "left behind by a call": [{"content": [bash(f"({WAITS.replace('$$', '$BASHPID')}) & true")]}, "It runs."],
    "typed": ["Never said."],
}


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
@pytest.mark.parametrize("command", SCRIPTS)
def test_no_command_outlives_a_chat_that_is_ended(
    open_chat: Open, place: Place, command: str, number: signal.Signals
) -> None:
    pid = place.work / "pid"
    with open_chat(SCRIPTS[command], "--permission-mode", "bypassPermissions") as terminal:
        terminal.say(f"!{WAITS}" if command == "typed" else "go")
        terminal.until(lambda: pid.exists() and pid.read_text().endswith("\n"), "the command did not begin")
        terminal.process.send_signal(number)
        assert terminal.process.wait(terminal.patience) == 0
    assert not is_running(pid)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_no_command_outlives_a_script_that_is_ended(place: Place, number: signal.Signals) -> None:
    pid = place.work / "pid"
    script = place.script([{"content": [in_background(WAITS)]}, {"content": "Never said.", "until": "/nonexistent"}])
    flags = ("-p", "go", "--permission-mode", "bypassPermissions", "--model", script)
    command = [sys.executable, "-m", "unspool", "chat", *flags]
    with subprocess.Popen(command, cwd=place.work, env=place.environment, stdin=subprocess.DEVNULL) as process:
        until(lambda: pid.exists() and pid.read_text().endswith("\n"))
        process.send_signal(number)
    assert process.returncode == 128 + number
    assert not is_running(pid)


def is_running(pid: Path) -> bool:
    """Tell whether a process is there whose number a file has, and is no corpse."""
    status = Path("/proc", pid.read_text().strip(), "stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
