"""`unspool` in a pseudo-terminal, and a person who types prompts and answers questions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from tests.client.conftest import Place
from tests.pseudo_terminal import ENTER, PseudoTerminal


class Typed(PseudoTerminal):
    """A Python program that somebody types to; it is ended when the `with` ends."""

    def __init__(
        self, *command: str, cwd: Path, environment: Mapping[str, str], size: tuple[int, int] = (100, 40)
    ) -> None:
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color", **environment}
        super().__init__([sys.executable, *command], environment, cwd, size)

    def __exit__(self, *error: object) -> None:
        # As when a window is closed. A program that is killed could not end what it has started.
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGHUP)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(self.patience)
        super().__exit__(*error)

    @property
    def title(self) -> str:
        """The window's title."""
        with self._lock:
            return str(self.screen.title)

    def say(self, text: str) -> None:
        """Type a line and send it."""
        self.press(text)
        end = "".join(text.rsplit("\n", maxsplit=1)[-1][-30:].split())
        # A long line is wrapped wherever the terminal ends.
        self.until(lambda: end in "".join(self.shown.split()), f"never saw {end}")
        self.press(ENTER)

    def answer(self, key: str, question: str) -> None:
        """See a question, and that it takes keys; answer it, and see it gone."""
        self.ask_key(key, question)
        self.until(lambda: question not in self.seen, f"{question!r} is still there")

    def answer_in_words(self, key: str, question: str, wanted: str, words: str) -> None:
        """Answer a question with a key that asks for words, and say them."""
        self.ask_key(key, question)
        self.see(wanted)
        self.say(words)

    def ask_key(self, key: str, question: str) -> None:
        """Press a key when a question takes keys: not as soon as it can be seen."""
        ready = "Esc: no"[: max(self.screen.columns - 41, 0)] or "↑ ↓"
        self.until(lambda: question in self.seen and ready in self.seen, f"{question!r} was not asked")
        self.press(key)


TRUST = "Do you trust this folder?"
Open: TypeAlias = Callable[..., AbstractContextManager[Typed]]


def bash(command: str) -> dict[str, Any]:
    return {"type": "tool_use", "name": "Bash", "input": {"command": command}}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def decline_trust(place: Place) -> None:
    """Answer the question whether the folder is trusted, as it was asked before."""
    (place.root / "unspool").mkdir()
    (place.root / "unspool" / "trusted.json").write_text(json.dumps({"declined": [str(place.work)]}))


def unspool(place: Place, *arguments: str) -> str:
    """Run another command of unspool in the folder; return what it prints."""
    command = [sys.executable, "-m", "unspool", *arguments]
    done = subprocess.run(
        command, env=place.environment, cwd=place.work, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout
