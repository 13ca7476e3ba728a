"""Finds out whether somebody works with a session: then its file is not written.

Rules
  1. A process that has the file open, or is registered as running it (`sessions/<pid>.json`), has it in use. Claude
     Code opens the file only to append a line, so the registry is the surer sign; a file that a killed process left
     there is recognised by the time that the process with that number started.
  2. A call that nobody has answered means that a tool may be running, or that a person is asked for permission.
"""

from __future__ import annotations

import os
from pathlib import Path

from unspool.edit.planning.session_view import view_session
from unspool.edit.session_text import SessionText
from unspool.processes import find_opener
from unspool.read import is_running, registry_files


def find_other_process(path: Path, session_id: str, config: Path | None) -> int | None:
    """Return the id of a process, not this one, that works with a session."""
    registered = _find_registered(config, session_id) if config is not None else None
    return registered if registered not in (None, os.getpid()) else find_opener(path)


def in_use_reason(path: Path, session_id: str, config: Path | None, text: SessionText) -> str | None:
    """Return why a session cannot be written, None if it can."""
    if config is not None and (pid := _find_registered(config, session_id)) is not None:
        return f"process {pid} is running this session"
    if (pid := find_opener(path)) is not None:
        return f"process {pid} has the file open"
    view = view_session(text)
    if any(call.result is None and call.use_entry.offset >= view.last_group_from for call in view.calls):
        return "its last tool call has no result yet"
    return None


def _find_registered(config: Path, session_id: str) -> int | None:
    for entry in registry_files(config / "sessions").read().values():
        if entry.session_id == session_id and is_running(entry) is not False:
            return entry.pid
    return None
