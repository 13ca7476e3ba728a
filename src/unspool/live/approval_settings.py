"""What the settings of a config folder and of a project allow: files in, `Rules` out.

Rules
  1. Read are the settings of the config folder and those in `.claude` of the folder that a session works in, at most
     once in a few seconds. Only permissions and hooks are looked at; nothing of them is kept or shown.
  2. A file that is missing, a link, too large or no JSON allows nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from unspool.errors import UnspoolError
from unspool.files.open import read_whole
from unspool.format.side_files.settings import Settings, parse_settings
from unspool.live.approval import Rules
from unspool.live.hooks import installed

AGAIN = timedelta(seconds=5)
LARGEST = 1024 * 1024
_MOST = 200
_NAMES = ("settings.json", "settings.local.json")


class Allowed:
    """The rules for each folder that is worked in."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str | None, tuple[datetime, Rules]] = {}

    def rules(self, cwd: str | None, now: datetime) -> Rules:
        """Return what holds for a session that works in a folder."""
        known = self._known.get(cwd)
        if known is not None and now - known[0] < AGAIN:
            return known[1]
        if len(self._known) > _MOST:
            self._known.clear()
        rules = self._read(cwd)
        self._known[cwd] = (now, rules)
        return rules

    def _read(self, cwd: str | None) -> Rules:
        folders = [self._root]
        if cwd and "\0" not in cwd and Path(cwd).is_absolute():
            folders.append(Path(cwd) / ".claude")
        documents = [document for folder in folders for name in _NAMES if (document := _document(folder / name))]
        found = [settings for document in documents if (settings := _parsed(document))]
        return Rules(
            allow=tuple(rule for settings in found for rule in settings.permissions.allow),
            ask=tuple(rule for settings in found for rule in settings.permissions.ask),
            mode=next((one.permissions.default_mode for one in reversed(found) if one.permissions.default_mode), None),
            signals=frozenset(event for document in documents for event in _hooks(document)),
        )


def _document(path: Path) -> bytes:
    try:
        return read_whole(path.resolve() if path.parent.name != ".claude" else path, LARGEST)
    except (UnspoolError, OSError, RuntimeError):
        return b""


def _parsed(document: bytes) -> Settings | None:
    try:
        return parse_settings(document)
    except msgspec.MsgspecError:
        return None


def _hooks(document: bytes) -> frozenset[str]:
    try:
        return installed(document)
    except UnspoolError:
        return frozenset()
