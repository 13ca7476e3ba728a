"""Sends what is new to a receiver of OpenTelemetry while the server runs.

Rules
  1. A process of its own sends (`unspool export --otlp`): reading sessions takes processor time that pages need. It is
     started when files have changed, and again after a failure; never two at a time, and ended with the server.
  2. What goes wrong is told to the terminal once, and does not end the server.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

import anyio
from anyio import to_thread

from unspool.web.serving.background import BoardWatcher

SEND_SECONDS: Final = 10.0
"""Between two starts: a session at work writes many lines a second."""
RETRY_SECONDS: Final = 60.0
"""After a failure."""
_DONE: Final = (0, 1)
"""The exit codes of a run that sent all there was, or found nothing."""


class TelemetryTask:
    """Starts processes that send, as long as the server runs."""

    def __init__(self, command: Sequence[str], warn: Callable[[str], None]) -> None:
        """Take the command that sends, and what tells the terminal."""
        self._command, self._warn = [*command], warn
        self._told = ""

    async def run(self, watcher: BoardWatcher) -> None:
        """Send at once, and whenever something has changed, until cancelled."""
        while True:
            # Before the run: what changes while it reads is for the next one.
            seen = watcher.changes.number
            if await self._send():
                await anyio.sleep(SEND_SECONDS)
                while watcher.changes.number <= seen:
                    await watcher.changes.wait(seen, RETRY_SECONDS)
            else:
                await anyio.sleep(RETRY_SECONDS)

    async def _send(self) -> bool:
        """Run the command once; return whether it did what it should."""
        # In a session of its own: Ctrl-C in the terminal is for the server, which ends it when it is cancelled.
        done = await anyio.run_process(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False, start_new_session=True
        )
        is_done = done.returncode in _DONE
        words = "" if is_done else done.stderr.decode("utf-8", "replace").strip()
        first = next((line for line in words.splitlines() if line.startswith("unspool: ")), words[:200])
        if first and first != self._told:
            await to_thread.run_sync(self._warn, f"telemetry: {first.removeprefix('unspool: ')}; trying again")
        self._told = first
        return is_done


def telemetry_command(address: str, config_dirs: Sequence[str | None]) -> list[str]:
    """Return the command that sends what is new of some folders; the keys are in the environment, not in it."""
    named = [word for folder in config_dirs if folder for word in ("--config-dir", folder)]
    return [sys.executable, "-m", "unspool", "export", f"--otlp={address}", *named]
