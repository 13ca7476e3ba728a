"""`unspool` in a pseudo-terminal: keys in, a screen to look at out, and every byte that was sent to it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

import pyte

PATIENCE = 20.0
ESCAPE, ENTER, UP, DOWN, SHIFT_TAB = "\x1b", "\r", "\x1b[A", "\x1b[B", "\x1b[Z"
CTRL_C, CTRL_D = "\x03", "\x04"


class Typed:
    """A program that somebody types to; it is ended when the `with` ends."""

    def __init__(
        self, *command: str, cwd: Path, environment: Mapping[str, str], size: tuple[int, int] = (100, 40)
    ) -> None:
        self._leader, follower = pty.openpty()
        columns, lines = size
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=cwd,
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color", **environment},
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
        )
        os.close(follower)
        self._screen = pyte.HistoryScreen(columns, lines, history=2000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read)
        self.sent = b""
        """Every byte that the terminal was sent."""

    def __enter__(self) -> Typed:
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
    def shown(self) -> str:
        """What can be seen, and what has scrolled away above it."""
        with self._lock:
            above = ["".join(line[at].data for at in sorted(line)) for line in self._screen.history.top]
            return "\n".join(line.rstrip() for line in [*above, *self._screen.display])

    @property
    def title(self) -> str:
        """The window's title."""
        with self._lock:
            return str(self._screen.title)

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._leader, keys.encode())

    def say(self, text: str) -> None:
        """Type a line and send it."""
        self.press(text)
        end = "".join(text.rsplit("\n", maxsplit=1)[-1][-30:].split())
        # A long line is wrapped wherever the terminal ends.
        until(lambda: end in "".join(self.shown.split()), lambda: f"never saw {end}:\n{self.shown}")
        self.press(ENTER)

    def see(self, *words: str) -> None:
        """Wait until all of these can be seen."""
        until(lambda: all(word in self.shown for word in words), lambda: f"never saw {words}:\n{self.shown}")

    def answer(self, key: str, question: str) -> None:
        """See a question, and that it takes keys; answer it, and see it gone."""
        self.ask_key(key, question)
        until(lambda: question not in self.seen, lambda: f"{question!r} is still there:\n{self.shown}")

    def answer_in_words(self, key: str, question: str, wanted: str, words: str) -> None:
        """Answer a question with a key that asks for words, and say them."""
        self.ask_key(key, question)
        self.see(wanted)
        self.say(words)

    def ask_key(self, key: str, question: str) -> None:
        """Press a key when a question takes keys: not as soon as it can be seen."""
        ready = "Esc: no"[: max(self._screen.columns - 41, 0)] or "↑ ↓"
        until(
            lambda: question in self.seen and ready in self.seen, lambda: f"{question!r} was not asked:\n{self.shown}"
        )
        self.press(key)

    @property
    def seen(self) -> str:
        """What can be seen, without what has scrolled away."""
        with self._lock:
            return "\n".join(line.rstrip() for line in self._screen.display)

    def leave(self) -> int:
        """Press Ctrl-D; return the exit code."""
        self.press(CTRL_D)
        return self.process.wait(timeout=PATIENCE)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._leader, 65536)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            with self._lock:
                self.sent += data
                self._stream.feed(data)


def came(holds: Callable[[], bool], patience: float) -> bool:
    """Tell whether something came to hold soon enough."""
    try:
        until(holds, str, patience)
    except AssertionError:
        return False
    return True


def until(holds: Callable[[], bool], words: Callable[[], str], patience: float = PATIENCE) -> None:
    """Look again and again until something holds."""
    deadline = time.monotonic() + patience
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(words())
        time.sleep(0.005)
