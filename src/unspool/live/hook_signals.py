"""What hooks tell: a folder of signal files in, the last signal of each event by session out.

A hook writes the beginning of what the program hands it to `<session>.<event>.json` (`command`). Each file holds the
last signal of its event; its time is when the hook ran.

Rules
  1. The hook is one line of POSIX shell that needs nothing of unspool: it prints nothing, takes all its input, and ends
     with 0 whatever happens. Without the folder it does nothing.
  2. A signal is untrusted: at most 16 kB are read, of regular files with a name of the right form; the session is the
     one in the name, and the text must say the same. It may be cut off anywhere: what is whole in it is taken.
  3. Files are for the user alone and appear whole. Those older than two days, and what a killed hook left, are removed.
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
from unspool.files.open import open_regular
from unspool.format import json_edit
from unspool.live.evidence import Signal
from unspool.paths import SESSION_ID
from unspool.read.scan import Stamp, stamp_of

EVENTS = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Notification", "PreCompact",
    "SubagentStop", "Stop", "SessionEnd",
)  # fmt: skip
FOLDER = "signals"
"""Where they are, in the data folder."""
LARGEST = 16 * 1024
"""Bytes of a signal; a hook keeps half of that."""
KEPT = timedelta(days=2)
MARK = ": unspool signal"
"""How the command of each of our hooks begins."""
_NAME = re.compile(rf"((?i:{SESSION_ID.pattern}))\.({'|'.join(EVENTS)})\.json")
_LEFT = re.compile(r"\.[A-Za-z]+\.[0-9]+")


def command(event: str, folder: Path) -> str:
    """Return the line of shell that a hook runs."""
    find = r's/^{"session_id":"\([0-9a-fA-F-]\{36\}\)".*/\1/p'
    return (
        f"{MARK} {event}; umask 077; cd {shlex.quote(str(folder))} 2>/dev/null || exit 0; "
        f"{{ head -c 8192 >.{event}.$$; cat >/dev/null; "
        f"s=$(sed -n -e '1{find}' .{event}.$$); "
        f'if [ -n "$s" ]; then mv -f .{event}.$$ "$s.{event}.json"; else rm -f .{event}.$$; fi; }} >/dev/null 2>&1; '
        "exit 0"
    )


class Signals:
    """The signals in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, tuple[Stamp, Signal | None]] = {}
        self._found: dict[str, dict[str, Signal]] = {}
        self._at = 0
        """When the folder last changed, if that was long enough ago to tell the next change by it."""

    def by_session(self) -> dict[str, dict[str, Signal]]:
        """Return what there is now: by session, the last signal of each event. What is unchanged is not read again."""
        changed = _changed(self.folder)
        if changed and changed == self._at:  # every signal is a new name in the folder
            return self._found
        before, self._read = self._read, {}
        found: dict[str, dict[str, Signal]] = {}
        for child in self._children():
            match = _NAME.fullmatch(child.name)
            try:
                stamp = stamp_of(child.stat(follow_symlinks=False))
            except OSError:
                continue
            if match is None:
                continue
            known = before.get(child.name)
            signal = known[1] if known and known[0] == stamp else _signal(Path(child.path), match, stamp)
            self._read[child.name] = (stamp, signal)
            if signal is not None:
                found.setdefault(match[1].lower(), {})[signal.event] = signal
        self._found, self._at = found, changed
        return found

    def clean(self, now: datetime) -> int:
        """Remove what is old; return how many files that were."""
        removed = 0
        for child in self._children():
            if not (_NAME.fullmatch(child.name) or _LEFT.fullmatch(child.name)):
                continue
            with suppress(OSError):
                age = now.timestamp() - child.stat(follow_symlinks=False).st_mtime
                if age > (KEPT.total_seconds() if _NAME.fullmatch(child.name) else 3600):
                    os.unlink(child.path)  # noqa: PTH108 - a name in our own folder, which is not followed
                    removed += 1
        return removed

    def _children(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.folder) as listing:
                return list(listing)
        except OSError:
            return []


def _changed(folder: Path) -> int:
    """Return when a folder last changed; nothing if that was just now: the next change may have the same time."""
    try:
        changed = folder.stat().st_mtime_ns
    except OSError:
        return 0
    return changed if time.time_ns() - changed > 100_000_000 else 0


def _signal(path: Path, name: re.Match[str], stamp: Stamp) -> Signal | None:
    session, event = name[1], name[2]
    try:
        with open_regular(path) as file:
            data = os.pread(file, LARGEST, 0)
    except (UnspoolError, OSError):
        return None
    said = _members(data, json_edit.skip_space(data, 0))
    if str(said.get("session_id")).lower() != session.lower() or said.get("hook_event_name", event) != event:
        return None
    return Signal(
        event=event,
        at=datetime.fromtimestamp(stamp.modified / 1e9, UTC),
        tool=_text(said, "tool_name"),
        input=said.get("tool_input"),
        call=_text(said, "tool_use_id"),
        agent=_text(said, "agent_id"),
        kind=_text(said, "notification_type"),
        message=_text(said, "message") or "",
        mode=_text(said, "permission_mode"),
        agents=_agents(said.get("background_tasks")),
    )


def _members(data: bytes, start: int) -> dict[str, Any]:
    """Return the members of an object that are whole."""
    found: dict[str, Any] = {}
    if data[start : start + 1] != b"{":
        return found
    for slot in json_edit.slots(data, start):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if slot.key is not None:
                found[slot.key] = msgspec.json.decode(data[slot.value_start : slot.end])
    if "tool_name" in found and "tool_input" not in found:
        found["tool_input"] = _cut_input(data)
    return found


def _cut_input(data: bytes) -> dict[str, Any]:
    """Return what is whole of an input that was cut off."""
    at = data.find(b'"tool_input":')
    return _members(data, json_edit.skip_space(data, at + len(b'"tool_input":'))) if at >= 0 else {}


def _text(said: Mapping[str, Any], key: str) -> str | None:
    value = said.get(key)
    return value[:2000] if isinstance(value, str) else None


def _agents(tasks: Any) -> int:
    if not isinstance(tasks, list):
        return 0
    return sum(1 for task in tasks if isinstance(task, dict) and task.get("status") == "running")
