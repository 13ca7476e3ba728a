"""The program's own interface in a pseudo-terminal: keys in, a screen to look at out."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import pyte

from tests.claude.program import Place, Program, environment

COLUMNS, LINES = 140, 50
PATIENCE = 60.0
ESCAPE, ENTER, DOWN = "\x1b", "\r", "\x1b[B"


class Interface:
    """A running program that a person would see; it is ended when the `with` ends."""

    def __init__(self, program: Program, place: Place, url: str, *arguments: str) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            [*program.command, *arguments],
            cwd=place.work,
            env=environment(place, url),
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
        )
        os.close(follower)
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Interface:
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        os.close(self._leader)

    @property
    def screen(self) -> str:
        """What can be seen."""
        with self._lock:
            return "\n".join(line.rstrip() for line in self._screen.display)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._leader, keys.encode())

    def see(self, *words: str) -> None:
        """Wait until one of these can be seen."""
        until(self.shows(*words), lambda: f"never saw {words}:\n{self.screen}")

    def press_until(self, keys: str, holds: Callable[[], bool]) -> None:
        """Press keys until something holds: what has just appeared does not take keys yet."""
        for _ in range(int(PATIENCE / 3)):
            self.press(keys)
            if came(holds, 3.0):
                return
        raise AssertionError(f"nothing came of {keys!r}:\n{self.screen}")

    def shows(self, *words: str) -> Callable[[], bool]:
        """Return what tells whether one of these can be seen."""
        return lambda: any(one in self.screen for one in words)

    def say(self, text: str, holds: Callable[[], bool]) -> None:
        """Type something and send it, until something holds that tells that it has arrived.

        What is typed while the program starts may be shown and then be lost.
        """
        for _ in range(int(PATIENCE / 3)):
            if not self.shows(text)():
                self.press(text)
            if came(self.shows(text), 3.0):
                self.press(ENTER)
            if came(holds, 3.0):
                return
        raise AssertionError(f"`{text}` did not arrive:\n{self.screen}")

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._leader, 65536)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            with self._lock:
                self._stream.feed(data)


def came(holds: Callable[[], bool], patience: float) -> bool:
    """Tell whether something came to hold soon enough."""
    try:
        until(holds, str, patience)
    except AssertionError:
        return False
    return True


def until(holds: Callable[[], bool], words: Callable[[], str], patience: float = PATIENCE) -> float:
    """Look again and again until something holds; return how long that took."""
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > patience:
            raise AssertionError(words())
        time.sleep(0.005)
    return time.monotonic() - begun


def trust(place: Place, version: str) -> None:
    """Let the program begin without its questions for newcomers."""
    known = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True, "allowedTools": [], "history": []}
    value = {
        "hasCompletedOnboarding": True,
        "lastOnboardingVersion": version,
        "theme": "dark",
        "numStartups": 3,
        "customApiKeyResponses": {"approved": ["sk-ant-dummy"], "rejected": []},
        "projects": {str(Path(place.work).resolve()): known},
    }
    place.config.mkdir(parents=True, exist_ok=True)
    (place.config / ".claude.json").write_text(json.dumps(value))
