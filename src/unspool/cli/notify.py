"""`unspool watch --notify`: runs a command when a session needs you, waits, or has ended.

Rules
  1. The command is a list of words, no shell sees it; the facts are in its environment and, as JSON, on its input.
  2. It never keeps the board waiting: it is started and left alone. At most eight run at once.
  3. What does not last is not told: a state must hold for a moment, longer where it is only probable. Each is told
     once, and where everything stood at the beginning is not told at all.
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
_MOST = 8


class Notifier:
    """A command and what it was told."""

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"`--notify` is no command: {str(error).lower()}") from None
        if not self._words or shutil.which(self._words[0]) is None:
            raise UsageError(f"no such command: `{command}`", hint="`--notify` takes a program and its arguments")
        self._known: dict[str, tuple[tuple[object, ...], float, bool]] = {}
        """By session: its state, since when, whether it was told."""
        self._children: list[subprocess.Popen[bytes]] = []
        self._begun = False

    def look(self, rows: Iterable[BoardRow], now: datetime) -> None:
        """Tell what has come to be since the last look."""
        moment = time.monotonic()
        self._children = [child for child in self._children if child.poll() is None]
        current: dict[str, tuple[tuple[object, ...], float, bool]] = {}
        for row in rows:
            if row.agent_id is not None:
                continue
            state = (row.group, row.verdict.activity.kind, row.verdict.activity.tool, row.verdict.activity.target)
            known = self._known.get(row.session_id)
            is_new = known is None or known[0] != state
            since, was_told = (moment, not self._begun) if is_new or known is None else (known[1], known[2])
            if (
                row.group in NOTIFIED_GROUPS
                and not was_told
                and moment - since >= (PROBABLE_STABLE_SECONDS if row.verdict.probably else STABLE_SECONDS)
            ):
                was_told = self._tell(row, now)
            current[row.session_id] = (state, since, was_told)
        self._known, self._begun = current, True

    def _tell(self, row: BoardRow, now: datetime) -> bool:
        if len(self._children) >= _MOST:
            return False
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
            return True  # it was there when we began; the board goes on
        self._children.append(child)
        assert child.stdin is not None
        value = row_to_json(row, now)
        value["pendingToolUse"] = {"id": row.pending.id, "name": row.pending.name} if row.pending else None
        with suppress(OSError):  # it need not listen
            child.stdin.write(json.dumps(value).encode() + b"\n")  # less than a pipe holds
            child.stdin.close()
        return True


def row_variables(row: BoardRow, now: datetime) -> dict[str, str]:
    """Return what a command is told in its environment; nothing in it that a terminal would obey."""
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
