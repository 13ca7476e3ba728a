"""Reads the signal files that our hooks write: the last signal of each hook event, by session.

A hook writes the beginning of its input to `<session>.<event>.json` (`hook_command`). Each file holds the last signal
of its event; its modification time is when the hook ran.

Rules
  1. The hook is one line of POSIX shell that needs nothing of unspool: it prints nothing, consumes all its input, and
     exits with 0 whatever happens. Without the folder it does nothing.
  2. A signal is untrusted: at most 16 kB are read, of regular files with a name of the right form; the session is the
     one in the name, and the content must name the same. It may be cut off anywhere: its complete members are used.
  3. Files are readable for the user alone and appear whole. Those older than two days, and the temporary files of
     killed hooks, are removed.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from unspool.errors import UnspoolError
from unspool.files import open_regular
from unspool.format import json_edit
from unspool.live.state.model import HookSignal
from unspool.paths import SESSION_ID
from unspool.read import ChangingFiles, Stamp, list_folder

HOOK_EVENTS = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Notification", "PreCompact",
    "SubagentStop", "Stop", "SessionEnd",
)  # fmt: skip
SIGNALS_FOLDER = "signals"
"""The name of their folder in unspool's data folder."""
MAX_SIGNAL_BYTES = 16 * 1024
"""A hook writes at most half of that."""
KEEP_FOR = timedelta(days=2)
COMMAND_PREFIX = ": unspool signal"
"""How the command of each of our hooks begins."""
_SIGNAL_NAME = re.compile(rf"((?i:{SESSION_ID.pattern}))\.({'|'.join(HOOK_EVENTS)})\.json")
_INPUT_KEY = b'"tool_input":'
_TEMPORARY_NAME = re.compile(r"\.[A-Za-z]+\.[0-9]+")


def hook_command(event: str, folder: Path) -> str:
    """Return the shell command of the hook for an event."""
    # The session id comes first in the input, so the 8 kB that are kept always hold it.
    extract_id = r's/^{"session_id":"\([0-9a-fA-F-]\{36\}\)".*/\1/p'
    return (
        f"{COMMAND_PREFIX} {event}; umask 077; cd {shlex.quote(str(folder))} 2>/dev/null || exit 0; "
        f"{{ head -c 8192 >.{event}.$$; cat >/dev/null; "
        f"s=$(sed -n -e '1{extract_id}' .{event}.$$); "
        f'if [ -n "$s" ]; then mv -f .{event}.$$ "$s.{event}.json"; else rm -f .{event}.$$; fi; }} >/dev/null 2>&1; '
        "exit 0"
    )


class HookSignals:
    """The signal files in a folder; each is read again only when it has changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = ChangingFiles(folder, _SIGNAL_NAME, _read_signal)
        self._signals: dict[str, dict[str, HookSignal]] = {}
        self._changed_at = 0
        """When the folder last changed, or 0 if that cannot tell the next change (`_folder_changed_at`)."""

    def by_session(self) -> dict[str, dict[str, HookSignal]]:
        """Return the last signal of each event, by session id in lower case."""
        changed = _folder_changed_at(self.folder)
        if changed and changed == self._changed_at:  # every signal is renamed into the folder, which changes it
            return self._signals
        found: dict[str, dict[str, HookSignal]] = {}
        for name, signal in self._files.read().items():
            found.setdefault(name.partition(".")[0].lower(), {})[signal.event] = signal
        self._signals, self._changed_at = found, changed
        return found

    def remove_old(self, now: datetime) -> int:
        """Remove old signals and temporary files; return how many files were removed."""
        removed = 0
        for child in list_folder(self.folder):
            is_signal = _SIGNAL_NAME.fullmatch(child.name)
            if not is_signal and not _TEMPORARY_NAME.fullmatch(child.name):
                continue
            with suppress(OSError):
                age = now.timestamp() - child.stat(follow_symlinks=False).st_mtime
                if age > (KEEP_FOR.total_seconds() if is_signal else 3600):
                    os.unlink(child.path)  # noqa: PTH108 - a name in our own folder, which is not followed
                    removed += 1
        return removed


def _folder_changed_at(folder: Path) -> int:
    """Return when a folder last changed; 0 if that was just now: the next change may have the same time."""
    try:
        changed = folder.stat().st_mtime_ns
    except OSError:
        return 0
    return changed if time.time_ns() - changed > 100_000_000 else 0


def _read_signal(path: Path, name: re.Match[str], stamp: Stamp) -> HookSignal | None:
    session, event = name[1], name[2]
    try:
        with open_regular(path) as file:
            data = os.pread(file, MAX_SIGNAL_BYTES, 0)
    except (UnspoolError, OSError):
        return None
    content = _complete_members(data, json_edit.skip_space(data, 0))
    if str(content.get("session_id")).lower() != session.lower() or content.get("hook_event_name", event) != event:
        return None
    return HookSignal(
        event=event,
        at=datetime.fromtimestamp(stamp.modified / 1e9, UTC),
        tool=_string(content, "tool_name"),
        input=content.get("tool_input"),
        call=_string(content, "tool_use_id"),
        agent=_string(content, "agent_id"),
        kind=_string(content, "notification_type"),
        message=_string(content, "message") or "",
        mode=_string(content, "permission_mode"),
        agents=_count_running(content.get("background_tasks"), shells=False),
        commands=_count_running(content["background_tasks"], shells=True) if "background_tasks" in content else None,
    )


def _complete_members(data: bytes, start: int) -> dict[str, Any]:
    """Return the members of a JSON object that are not cut off."""
    found: dict[str, Any] = {}
    if data[start : start + 1] != b"{":
        return found
    for slot in json_edit.iter_slots(data, start):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if slot.key is not None:
                found[slot.key] = msgspec.json.decode(data[slot.value_start : slot.end])
    if "tool_name" in found and "tool_input" not in found:
        # The input was cut off, as that of a large `Write` is: its first members still say what it is about.
        at = data.find(_INPUT_KEY)
        start = json_edit.skip_space(data, at + len(_INPUT_KEY))
        found["tool_input"] = _complete_members(data, start) if at >= 0 else {}
    return found


def _string(content: Mapping[str, Any], key: str) -> str | None:
    value = content.get(key)
    return value[:2000] if isinstance(value, str) else None


def _count_running(tasks: Any, *, shells: bool) -> int:
    """Return how many commands, or how many other tasks, a hook says to be running."""
    running = [task for task in tasks if isinstance(task, dict)] if isinstance(tasks, list) else []
    return sum(task.get("status") == "running" and (task.get("type") == "shell") is shells for task in running)
