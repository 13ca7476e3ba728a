"""A program in a pseudo-terminal: keys in, a screen to look at out, and every byte that was sent to it."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyte

PATIENCE = 20.0
ESCAPE, ENTER, UP, DOWN, SHIFT_TAB = "\x1b", "\r", "\x1b[A", "\x1b[B", "\x1b[Z"
CTRL_C, CTRL_D, CTRL_V = "\x03", "\x04", "\x16"


class PseudoTerminal:
    """A program that somebody types to; it is ended when the `with` ends."""

    patience = PATIENCE
    tells_cursor = False
    """Whether it answers where its cursor is, as most terminals do."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path | None = None,
        size: tuple[int, int] = (100, 40),
    ) -> None:
        self._leader, self._follower = pty.openpty()
        self.before = self.settings()
        """The settings of the terminal before the program began."""
        self._set_size(*size)
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=self._follower,
            stdout=self._follower,
            stderr=self._follower,
            start_new_session=True,
        )
        self.screen = pyte.HistoryScreen(*size, history=2000, ratio=0.5)
        self._stream = pyte.ByteStream(self.screen)
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read)
        self.sent = b""
        """Every byte that the terminal was sent."""

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._follower)
        self._reader.join()
        os.close(self._leader)

    @property
    def seen(self) -> str:
        """What can be seen, without what has scrolled away."""
        with self._lock:
            return "\n".join(line.rstrip() for line in self.screen.display)

    @property
    def shown(self) -> str:
        """What can be seen, and what has scrolled away above it."""
        with self._lock:
            above = ["".join(line[at].data for at in sorted(line)) for line in self.screen.history.top]
            return "\n".join(line.rstrip() for line in [*above, *self.screen.display])

    def settings(self) -> list[Any]:
        """Return the settings of the terminal."""
        return termios.tcgetattr(self._follower)

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal another size."""
        with self._lock:
            self.screen.resize(lines, columns)
        self._set_size(columns, lines)
        self.process.send_signal(signal.SIGWINCH)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._leader, keys.encode())

    def see(self, *words: str) -> None:
        """Wait until all of these can be seen."""
        self.until(lambda: all(word in self.shown for word in words), f"never saw {words}")

    def until(self, holds: Callable[[], bool], words: str) -> None:
        """Wait until something holds; if it does not, fail with words and the screen."""
        until(holds, lambda: f"{words}:\n{self.shown}", self.patience)

    def leave(self) -> int:
        """Press Ctrl-D; return the exit code."""
        self.press(CTRL_D)
        return self.process.wait(timeout=self.patience)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._leader, 65536)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            if self.tells_cursor and b"\x1b[6n" in data:
                os.write(self._leader, b"\x1b[1;1R")
            with self._lock:
                self.sent += data
                self._stream.feed(data)


def came(holds: Callable[[], bool], patience: float) -> bool:
    """Tell whether something came to hold soon enough."""
    try:
        until(holds, patience=patience)
    except AssertionError:
        return False
    return True


def until(holds: Callable[[], bool], words: Callable[[], object] = str, patience: float = PATIENCE) -> float:
    """Look again and again until something holds; return how long that took."""
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > patience:
            raise AssertionError(words())
        time.sleep(0.005)
    return time.monotonic() - begun
