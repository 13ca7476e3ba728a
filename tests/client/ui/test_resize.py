"""A window that changes its size, in tmux: it wraps its lines again, as most terminals do."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.client.conftest import Place
from tests.client.ui.rig import bash, decline_trust
from tests.pseudo_terminal import until

WAITS = "seq 1 60; until [ -e go ]; do sleep 0.02; done"
SIZES = [(90, 30), (80, 30), (50, 20), (120, 25), (40, 12), (100, 30)]
pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    """A window of tmux that runs a chat."""

    def __init__(self, place: Place) -> None:
        self._socket = str(place.root / "tmux")

    def run(self, *arguments: str) -> str:
        command = ["tmux", "-S", self._socket, "-f", "/dev/null", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

    @property
    def shown(self) -> str:
        """What can be seen, and what has scrolled away above it."""
        return self.run("capture-pane", "-p", "-J", "-S", "-500")

    def resize(self, columns: int, rows: int, sees: str) -> None:
        """Give the window another size, and wait until it shows something."""
        self.run("resize-window", "-x", str(columns), "-y", str(rows))
        self.see(sees)

    def count_each(self, *words: str) -> None:
        """Wait until each of these is shown once: a screen may be captured while it is drawn."""
        until(lambda: [self.shown.count(word) for word in words] == [1] * len(words), lambda: self.shown)

    def see(self, *words: str) -> None:
        until(lambda: all(word in self.shown for word in words), lambda: f"never saw {words}:\n{self.shown}")


@contextmanager
def in_tmux(place: Place, script: object, *flags: str) -> Iterator[Tmux]:
    decline_trust(place)
    window = Tmux(place)
    values = [f"{name}={value}" for name, value in place.environment.items()]
    chat = [sys.executable, "-m", "unspool", "chat", "--model", place.script(script), *flags]
    command = shlex.join(["env", "-C", str(place.work), *values, *chat])
    window.run("new-session", "-d", "-x", "100", "-y", "30", command)
    try:
        yield window
    finally:
        window.run("kill-server")


def test_no_row_is_left_behind_when_the_window_changes_its_size(place: Place) -> None:
    script = {"cues": {"run": [{"content": [bash(WAITS)]}, "Done."]}, "default": "Some words. " * 20}
    with in_tmux(place, script, "--permission-mode", "bypassPermissions") as window:
        window.see("/help", "bypassPermissions: never asks")
        window.run("send-keys", "hello", "Enter")
        window.see("$0.0")
        window.run("send-keys", "run", "Enter")
        window.see("Ctrl-B: background", "\n60\n")
        for columns, rows in SIZES:
            window.resize(
                columns, rows, "bypassPermissions: never asks (shift-tab) · claude-opus-5-5 · 1 % of"[: columns - 1]
            )
            window.count_each("56\n", "never asks", "> run")
        assert "opening…" not in window.shown
        (place.work / "go").touch()
        window.see("Done.")
        until(lambda: "\n56\n" not in window.shown, lambda: window.shown)


def test_a_list_stays_whole_when_the_window_changes_its_size(place: Place) -> None:
    with in_tmux(place, ["Hello."]) as window:
        window.see("/help", "asks before changes")
        window.run("send-keys", "/model", "Enter")
        window.see("Use which model?", "Esc: no")
        for columns, rows in SIZES:
            window.resize(columns, rows, "❯ claude-opus-5-5")
            window.count_each("Use which model?", "> /model")
