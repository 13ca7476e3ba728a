"""`unspool watch --notify`: runs a command when a session needs you, waits, or has ended.

Rules
  1. The command is a list of words, no shell sees it; the facts are in its environment and, as JSON, on its input.
  2. It never blocks the board: it is started and not waited for. At most eight run at once.
  3. A state must hold for a moment before the command runs, longer where the state is only probable. The command runs
     once for each state, and not at all for the states at the beginning.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from unspool.display import clean_line
from unspool.errors import UsageError
from unspool.live.state import BoardGroup, BoardRow, describe_verdict, row_to_json

NOTIFIED_GROUPS = (BoardGroup.NEEDS_YOU, BoardGroup.WAITING, BoardGroup.ENDED)
STABLE_SECONDS = 0.5
"""Seconds that a state must hold."""
PROBABLE_STABLE_SECONDS = 3.0
"""Seconds that a state must hold if it was only guessed from the lines of a session."""
_MAX_CHILDREN = 8


class Notifier:
    """Runs a command when the state of a session changes, and remembers for which states it ran."""

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"--notify is not a valid command: {str(error).lower()}") from None
        if not self._words or shutil.which(self._words[0]) is None:
            raise UsageError(
                f"command not found: `{command}`",
                hint="pass a program and its arguments, like `--notify 'notify-send unspool'`",
            )
        self._known: dict[str, tuple[tuple[object, ...], float, bool]] = {}
        """By session: its state, since when, whether the command ran for it."""
        self._children: list[subprocess.Popen[bytes]] = []
        self._is_first = True

    def update(self, rows: Iterable[BoardRow], now: datetime) -> None:
        """Run the command for each session whose new state has held long enough."""
        moment = time.monotonic()
        # Asking each child whether it has ended also reaps it: nobody waits for them.
        self._children = [child for child in self._children if child.poll() is None]
        current: dict[str, tuple[tuple[object, ...], float, bool]] = {}
        for row in rows:
            if row.agent_id is not None:
                continue
            state = (row.group, row.verdict.activity.kind, row.verdict.activity.tool, row.verdict.activity.target)
            known = self._known.get(row.session_id)
            is_new = known is None or known[0] != state
            since, is_notified = (moment, self._is_first) if is_new or known is None else (known[1], known[2])
            if (
                row.group in NOTIFIED_GROUPS
                and not is_notified
                and moment - since >= (PROBABLE_STABLE_SECONDS if row.verdict.probably else STABLE_SECONDS)
            ):
                is_notified = self._start(row, now)
            current[row.session_id] = (state, since, is_notified)
        self._known, self._is_first = current, False

    def _start(self, row: BoardRow, now: datetime) -> bool:
        """Start the command; return whether the session counts as notified."""
        if len(self._children) >= _MAX_CHILDREN:
            return False  # tried again at the next update
        try:
            child = subprocess.Popen(
                self._words,
                env={**os.environ, **row_variables(row, now)},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return True  # the program was there at the start and has gone since; the board goes on
        self._children.append(child)
        assert child.stdin is not None
        value = row_to_json(row, now)
        value["pendingToolUse"] = {"id": row.pending.id, "name": row.pending.name} if row.pending else None
        with suppress(OSError):  # the command need not read its input
            child.stdin.write(json.dumps(value).encode() + b"\n")  # less than a pipe holds, so it does not block
            child.stdin.close()
        return True


def row_variables(row: BoardRow, now: datetime) -> dict[str, str]:
    """Return the environment variables of a command, without characters that a terminal would obey."""
    values = {
        "SESSION": row.session_id,
        "TITLE": row.title,
        "PROJECT": row.project or "",
        "CWD": row.cwd or "",
        "GROUP": row.group.value,
        "DETAIL": describe_verdict(row.verdict, now),
        "KIND": row.verdict.activity.kind.value,
        "STATUS": row.status.value,
        "SOURCE": row.verdict.source.value,
    }
    return {f"UNSPOOL_{name}": clean_line(value) for name, value in values.items()}
