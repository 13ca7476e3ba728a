"""Finds the terminal in which a process runs, and the command that shows it: a tmux pane, a kitty or WezTerm window.

Rules
  1. Only what a process was started with tells (`/proc/PID/environ`, Linux). Of that, only the variables below are
     used, and only in the form that the terminal writes them.
  2. A process of another user, or one that is gone, has no known terminal. Nothing raises.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from unspool.display import quote_for_paste

_MAX_ENVIRONMENT: Final = 1 << 20
_TMUX_PANE: Final = re.compile(r"%\d{1,9}")
_NUMBER: Final = re.compile(r"\d{1,9}")
_TERMINAL: Final = re.compile(r"/dev/(pts/\d{1,9}|tty[A-Za-z0-9]{1,12})")


class TerminalPlace(NamedTuple):
    """Where a process runs."""

    words: str
    """`tmux pane %3`, `terminal pts/4`."""
    command: str | None = None
    """Shows it, if it can be shown by a command."""


def find_terminal(pid: int) -> TerminalPlace | None:
    """Return the terminal of a process; None if it is not known."""
    variables = _read_environment(pid)
    pane, window, tile = (variables.get(name, "") for name in ("TMUX_PANE", "KITTY_WINDOW_ID", "WEZTERM_PANE"))
    if _TMUX_PANE.fullmatch(pane):
        return TerminalPlace(f"tmux pane {pane}", _tmux_command(pane, variables.get("TMUX", "")))
    if _NUMBER.fullmatch(window):
        return TerminalPlace(f"kitty window {window}", f"kitten @ focus-window --match id:{window}")
    if _NUMBER.fullmatch(tile):
        return TerminalPlace(f"WezTerm pane {tile}", f"wezterm cli activate-pane --pane-id {tile}")
    name = _read_terminal_name(pid)
    return TerminalPlace(f"terminal {name}") if name else None


def _tmux_command(pane: str, variable: str) -> str:
    """Return the command that shows a pane, from inside tmux or from outside."""
    socket = variable.partition(",")[0]
    is_default = not socket or re.fullmatch(r"/tmp/tmux-\d+/default", socket)
    tmux = "tmux" if is_default else f"tmux -S {quote_for_paste(socket)}"
    return f"{tmux} switch-client -t {pane} 2>/dev/null || {tmux} attach-session -t {pane}"


def _read_environment(pid: int) -> dict[str, str]:
    try:
        with Path(f"/proc/{pid}/environ").open("rb") as file:
            data = file.read(_MAX_ENVIRONMENT)
    except OSError:
        return {}
    pairs = (item.partition(b"=") for item in data.split(b"\0"))
    return {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in pairs}


def _read_terminal_name(pid: int) -> str | None:
    try:
        path = str(Path(f"/proc/{pid}/fd/0").readlink())
    except OSError:
        return None
    found = _TERMINAL.fullmatch(path)
    return found[1] if found else None
