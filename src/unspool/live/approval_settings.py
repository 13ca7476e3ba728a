"""Reads the settings that decide which tool calls of a session ask, for `live/state/approval.py`.

Rules
  1. The settings files for the session's working folder are read, at most once in a few seconds. Only permissions and
     hooks are used; nothing else of them is kept or shown.
  2. A file that cannot be read, or is no JSON, allows nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from unspool.errors import UnspoolError
from unspool.files import list_settings_files
from unspool.live.hooks import installed_events
from unspool.live.state.approval import ApprovalRules
from unspool.paths import project_key
from unspool.permissions import EffectiveSettings, add_settings

REREAD_AFTER = timedelta(seconds=5)
_MAX_FOLDERS = 200


class ApprovalSettings:
    """The approval rules for each working folder, kept for a few seconds."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self._cache: dict[str | None, tuple[datetime, ApprovalRules]] = {}

    def rules(self, cwd: str | None, now: datetime) -> ApprovalRules:
        """Return the rules that apply to a session with this working folder."""
        cached = self._cache.get(cwd)
        if cached is not None and now - cached[0] < REREAD_AFTER:
            return cached[1]
        if len(self._cache) > _MAX_FOLDERS:
            self._cache.clear()
        # `cwd` comes from a line of the session file, so it may be anything.
        root = Path(cwd) if cwd and "\0" not in cwd and Path(cwd).is_absolute() else None
        rules = self._read(root)
        self._cache[cwd] = (now, rules)
        return rules

    def _read(self, root: Path | None) -> ApprovalRules:
        files = list_settings_files(self._config, root or self._config)
        settings = EffectiveSettings()
        signals: frozenset[str] = frozenset()
        for file in files if root is not None else files[:1]:
            with suppress(UnspoolError):
                data = file.read()
                settings = add_settings(settings, file, data, any_mode=True)
                signals |= installed_events(data or b"{}")
        return ApprovalRules(
            settings,
            signals,
            root=str(root or "/"),
            home=os.environ.get("HOME", ""),
            config=str(self._config),
            results=str(self._config / "projects" / project_key(str(root))) if root is not None else "",
        )
