"""The program's own interface in a pseudo-terminal: keys in, a screen to look at out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.claude.program import Place, Program, environment
from tests.pseudo_terminal import ENTER, PseudoTerminal, came


class Interface(PseudoTerminal):
    """A running program that a person would see; it is ended when the `with` ends."""

    patience = 60.0

    def __init__(self, program: Program, place: Place, url: str, *arguments: str) -> None:
        super().__init__([*program.command, *arguments], environment(place, url), place.work, size=(140, 50))

    def see(self, *words: str) -> None:
        """Wait until one of these can be seen."""
        self.until(self.shows(*words), f"never saw {words}")

    def press_until(self, keys: str, holds: Callable[[], bool]) -> None:
        """Press keys until something holds: what has just appeared does not take keys yet."""
        for _ in range(int(self.patience / 3)):
            self.press(keys)
            if came(holds, 3.0):
                return
        raise AssertionError(f"nothing came of {keys!r}:\n{self.seen}")

    def shows(self, *words: str) -> Callable[[], bool]:
        """Return what tells whether one of these can be seen."""
        return lambda: any(one in self.seen for one in words)

    def say(self, text: str, holds: Callable[[], bool]) -> None:
        """Type something and send it, until something holds that tells that it has arrived.

        What is typed while the program starts may be shown and then be lost.
        """
        for _ in range(int(self.patience / 3)):
            if not self.shows(text)():
                self.press(text)
            if came(self.shows(text), 3.0):
                self.press(ENTER)
            if came(holds, 3.0):
                return
        raise AssertionError(f"`{text}` did not arrive:\n{self.seen}")


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
