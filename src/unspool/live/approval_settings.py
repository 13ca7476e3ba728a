"""Reads which tool calls the settings of a config folder and a project allow, for `live/state/approval.py`.

Rules
  1. The settings of the config folder and those in `.claude` of the session's working folder are read, at most once in
     a few seconds. Only permissions and hooks are used; nothing else of them is kept or shown.
  2. A file that is missing, a link, too large or not JSON allows nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from unspool.errors import UnspoolError
from unspool.files import read_whole
from unspool.format.side_files import ClaudeCodeSettings, parse_settings
from unspool.live.hooks import installed_events
from unspool.live.state.approval import ApprovalRules

REREAD_AFTER = timedelta(seconds=5)
MAX_FILE_BYTES = 1024 * 1024
_MAX_FOLDERS = 200
_FILE_NAMES = ("settings.json", "settings.local.json")


class ApprovalSettings:
    """The approval rules for each working folder, kept for a few seconds."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cache: dict[str | None, tuple[datetime, ApprovalRules]] = {}

    def rules(self, cwd: str | None, now: datetime) -> ApprovalRules:
        """Return the rules that apply to a session with this working folder."""
        cached = self._cache.get(cwd)
        if cached is not None and now - cached[0] < REREAD_AFTER:
            return cached[1]
        if len(self._cache) > _MAX_FOLDERS:
            self._cache.clear()
        rules = self._read(cwd)
        self._cache[cwd] = (now, rules)
        return rules

    def _read(self, cwd: str | None) -> ApprovalRules:
        folders = [self._root]
        # `cwd` comes from a line of the session file, so it may be anything.
        if cwd and "\0" not in cwd and Path(cwd).is_absolute():
            folders.append(Path(cwd) / ".claude")
        documents = [document for folder in folders for name in _FILE_NAMES if (document := _read_file(folder / name))]
        found = [settings for document in documents if (settings := _parse(document))]
        return ApprovalRules(
            allow=tuple(rule for settings in found for rule in settings.permissions.allow),
            ask=tuple(rule for settings in found for rule in settings.permissions.ask),
            mode=next((mode for settings in reversed(found) if (mode := settings.permissions.default_mode)), None),
            signals=frozenset(event for document in documents for event in _hook_events(document)),
        )


def _read_file(path: Path) -> bytes:
    try:
        return read_whole(path.resolve() if path.parent.name != ".claude" else path, MAX_FILE_BYTES)
    except (UnspoolError, OSError, RuntimeError):
        return b""


def _parse(document: bytes) -> ClaudeCodeSettings | None:
    try:
        return parse_settings(document)
    except msgspec.MsgspecError:
        return None


def _hook_events(document: bytes) -> frozenset[str]:
    try:
        return installed_events(document)
    except UnspoolError:
        return frozenset()
