"""The live board: what each running session is doing, which one needs the user, and how that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.live import hook_signals, hooks
    from unspool.live.approval_settings import ApprovalSettings
    from unspool.live.board import DEFAULT_RECENT, Board
    from unspool.live.hook_signals import SIGNALS_FOLDER, HookSignals
    from unspool.live.session_files import find_session_files, projects_folder
    from unspool.live.state.model import describe_verdict
    from unspool.live.terminal import TerminalPlace, find_terminal
    from unspool.live.watch import Watcher, follow

__all__ = [
    "DEFAULT_RECENT", "SIGNALS_FOLDER", "ApprovalSettings", "Board", "HookSignals", "TerminalPlace", "Watcher",
    "describe_verdict", "find_session_files", "find_terminal", "follow", "hook_signals", "hooks", "projects_folder",
]

__getattr__ = lazy_door(__name__, {
    "approval_settings": "ApprovalSettings",
    "board": "DEFAULT_RECENT Board",
    "hook_signals": "SIGNALS_FOLDER HookSignals",
    "session_files": "find_session_files projects_folder",
    "state.model": "describe_verdict",
    "terminal": "TerminalPlace find_terminal",
    "watch": "Watcher follow",
})
