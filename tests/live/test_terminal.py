"""The terminal of a process is found by what the process was started with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.pseudo_terminal import until
from unspool.live.terminal import find_terminal

linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads /proc")


@contextmanager
def started(**variables: str) -> Iterator[int]:
    """Run a process with these variables; give its pid."""
    command = [sys.executable, "-S", "-c", "print(flush=True); input()"]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"], **variables}
    )
    assert process.stdout is not None
    process.stdout.readline()  # from here on its environment is its own
    try:
        yield process.pid
    finally:
        process.communicate(b"\n", timeout=30)


@linux
@pytest.mark.parametrize(
    ("variables", "words", "command"),
    [
        (
            {"TMUX": "/tmp/tmux-1000/default,1,0", "TMUX_PANE": "%3"},
            "tmux pane %3",
            "tmux switch-client -t %3 2>/dev/null || tmux attach-session -t %3",
        ),
        ({"KITTY_WINDOW_ID": "7"}, "kitty window 7", "kitten @ focus-window --match id:7"),
        ({"WEZTERM_PANE": "2"}, "WezTerm pane 2", "wezterm cli activate-pane --pane-id 2"),
    ],
)
def test_a_terminal_is_found_by_its_variables(variables: dict[str, str], words: str, command: str) -> None:
    with started(**variables) as pid:
        assert find_terminal(pid) == (words, command)


@linux
@pytest.mark.parametrize("variables", [{}, {"TMUX_PANE": "%3; rm -rf ~"}, {"KITTY_WINDOW_ID": "$(id)"}])
def test_what_no_terminal_writes_is_none(variables: dict[str, str]) -> None:
    with started(**variables) as pid:
        assert find_terminal(pid) is None


@linux
def test_a_socket_with_another_name_is_quoted() -> None:
    with started(TMUX="/tmp/a b;c,1,0", TMUX_PANE="%3") as pid:
        found = find_terminal(pid)
    assert found is not None
    assert found.command is not None
    assert found.command.startswith("tmux -S '/tmp/a b;c' switch-client -t %3 ")


def test_a_process_that_is_gone_has_no_terminal() -> None:
    assert find_terminal(2**30) is None


@linux
@pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux")
def test_the_command_leads_to_the_pane(tmp_path: Path) -> None:
    socket = tmp_path / "socket"

    def tmux(*arguments: str) -> str:
        answer = subprocess.run(["tmux", "-S", str(socket), *arguments], capture_output=True, text=True, check=True)
        return answer.stdout.strip()

    tmux("-f", "/dev/null", "new-session", "-d", "-s", "one", "-x", "80", "-y", "24", "cat")
    try:
        tmux("new-session", "-d", "-s", "two", "cat")
        pid = int(tmux("list-panes", "-t", "one", "-F", "#{pane_pid}"))
        # Between fork and exec the process still has the environment of tmux itself.
        until(lambda: (place := find_terminal(pid)) is not None and place.command is not None)
        found = find_terminal(pid)
        assert found is not None
        assert found.command is not None
        # Nobody looks at tmux here, so that the second half runs; it ends at once without a terminal.
        pane = found.words.removeprefix("tmux pane ")
        assert tmux("display-message", "-p", "-t", pane, "#{session_name}") == "one"
        ended = subprocess.run(
            ["sh", "-c", found.command], capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]}
        )
        assert "not a terminal" in ended.stderr
    finally:
        tmux("kill-server")
