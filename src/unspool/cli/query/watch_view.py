"""Draws the board of `unspool watch` on the whole terminal and reads keys; restores the terminal at the end.

Rules
  1. The alternate screen is used, and left whatever happens: an error, a signal, Ctrl-C.
  2. Only lines that have changed are written again. `show` takes lines that are already safe for a terminal.
  3. Every key counts, however many come at once. The bytes of a key may arrive in two reads; unknown keys do nothing.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from types import FrameType, TracebackType
from typing import Any

import click

from unspool.display import clean_line, table, units
from unspool.live.state import BoardGroup, BoardRow, describe_verdict, format_elapsed

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[2J", "\x1b[?25h\x1b[?1049l"
_KEYS = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b": "escape",
}
_KEY = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO[@-~]|[\xc0-\xff][\x80-\xbf]+|.", re.DOTALL)
_TORN = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O)?\Z")
_REST_SECONDS = 0.05
"""How long the rest of a key's bytes may take; after the Esc key itself nothing follows."""


class TerminalScreen:
    """The whole terminal, from entering the context until leaving it."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._settings: list[Any] | None = None
        self._wake, self._waker = os.pipe()
        self._shown: list[str] = []
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> TerminalScreen:
        # A signal handler and another thread write to the pipe: a full one must not block them.
        os.set_blocking(self._waker, False)
        os.set_blocking(self._wake, False)
        # The default handlers end the process at once and leave the terminal on the alternate screen.
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._handlers[number] = signal.signal(number, _exit)
        for number in (signal.SIGWINCH, signal.SIGCONT):
            self._handlers[number] = signal.signal(number, self._redraw)
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # the terminal may have gone
            _write(_LEAVE)
        if self._settings is not None and self._input is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._input, termios.TCSADRAIN, self._settings)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._wake)
        os.close(self._waker)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return shutil.get_terminal_size((80, 24))

    def wake(self) -> None:
        """Let `keys` return at once, from any thread."""
        with suppress(OSError):  # full, which wakes as well; or closed
            os.write(self._waker, b"!")

    def keys(self, seconds: float) -> list[str]:
        """Wait so many seconds for keys, or until woken; return the keys that were pressed, in order."""
        watched = [self._wake, *([self._input] if self._input is not None else [])]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._wake in ready:
            with suppress(OSError):
                os.read(self._wake, 4096)
        if self._input is None or self._input not in ready:
            return []
        data = os.read(self._input, 4096)
        if not data:  # stdin was closed: select would return at once for ever
            self._input = None
            return []
        while _TORN.search(data) and select.select([self._input], [], [], _REST_SECONDS)[0]:
            more = os.read(self._input, 4096)
            if not more:
                break
            data += more
        return [_KEYS.get(key, key.decode(errors="replace")) for key in _KEY.findall(data)]

    def show(self, lines: Sequence[str]) -> None:
        """Show lines, as many as fit."""
        height = self.size[1]
        lines = [*lines[:height], *[""] * (height - len(lines))]
        before = self._shown + [""] * (height - len(self._shown))
        changed = [
            f"\x1b[{at + 1};1H{line}\x1b[0m\x1b[K"
            for at, line in enumerate(lines)
            if line != before[at] or not self._shown
        ]
        if changed:
            _write("".join(changed))
        self._shown = list(lines)

    def _begin(self) -> None:
        if self._input is not None:
            # Kept from the first time: after Ctrl-Z and `fg` the settings may already be our own.
            self._settings = self._settings or termios.tcgetattr(self._input)
            tty.setcbreak(self._input)
        _write(_ENTER)
        self._shown = []

    def _redraw(self, number: int, frame: FrameType | None) -> None:
        """Draw everything again: the size has changed, or the shell has used the terminal meanwhile."""
        if number == signal.SIGCONT:
            self._begin()
        _write("\x1b[2J")
        self._shown = []
        self.wake()


def _exit(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _write(text: str) -> None:
    data = text.encode(errors="replace")
    while data:
        data = data[os.write(sys.stdout.fileno(), data) :]


_COLOURS = {BoardGroup.NEEDS_YOU: "yellow", BoardGroup.WORKING: "green", BoardGroup.BACKGROUND: "green"}
_MARKS = {
    BoardGroup.NEEDS_YOU: "!",
    BoardGroup.WORKING: "*",
    BoardGroup.WAITING: "-",
    BoardGroup.BACKGROUND: "+",
    BoardGroup.ENDED: "x",
    BoardGroup.IDLE: " ",
}
COLUMNS = [
    table.TextColumn(" "),
    table.TextColumn("session", least=16),
    table.TextColumn("doing", least=24),
    table.TextColumn("for", right=True),
    table.TextColumn("project", least=8, expendable=True),
    table.TextColumn("branch", least=6, expendable=True),
    table.TextColumn("context", right=True, expendable=True),
    table.TextColumn("known by", expendable=True),
]


def board_lines(rows: Sequence[BoardRow], now: datetime, width: int) -> list[str]:
    """Return the board by group: a heading, then a line for each session."""
    formatted = list(table.format_table(COLUMNS, [board_cells(row, now) for row in rows], width))
    lines, heading = [formatted[0]] if rows else [], None
    for row, line in zip(rows, formatted[1:], strict=True):
        if row.group is not heading:
            heading = row.group
            count = sum(1 for other in rows if other.group is heading)
            lines += ["", click.style(f"{heading.value} ({count})", bold=True, fg=_COLOURS.get(heading))]
        lines.append(click.style(line, fg=_COLOURS.get(heading)) if heading is BoardGroup.NEEDS_YOU else line)
    return lines


def board_cells(row: BoardRow, now: datetime) -> list[str]:
    """Return the cells of a session in the order of `COLUMNS`."""
    name = row.title or row.goal or f"({row.session_id[:8]})"
    if row.agent_id is not None:
        name = f"↳ {name}"
    return [
        _MARKS[row.group],
        name,
        describe_verdict(row.verdict, now),
        format_elapsed(row.verdict.since, now),
        row.project or "",
        row.branch or "",
        units.tokens(row.context_tokens),
        row.verdict.source.value,
    ]


def board_summary(rows: Sequence[BoardRow], now: datetime, mode: str, unread: int) -> str:
    """Return the first line of the board."""
    counts = [(group, sum(1 for row in rows if row.group is group)) for group in BoardGroup]
    groups = " · ".join(f"{count} {group.value.lower()}" for group, count in counts if count) or "no sessions"
    more = f" · {unread:,} older" if unread else ""
    return clean_line(f"{groups}{more} · {now.astimezone():%H:%M:%S} · {mode}")
