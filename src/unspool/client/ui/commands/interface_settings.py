"""Reads and changes the settings of the terminal: theme, key bindings, notifications, status line.

They are keys of Claude Code's own settings files, as 2.1.326 reads them, so both programs look and behave alike:

    {"theme": "light", "editorMode": "vim", "preferredNotifChannel": "terminal_bell",
     "statusLine": {"type": "command", "command": "unspool statusline"}}

Rules
  1. Of several files the nearest counts: flag, local, project, user. Those of a folder count only if it is trusted.
  2. A value that is not known counts as not set.
  3. A status line is a command: it runs only in a trusted folder.
  4. A change is written to the user's own file; all its other keys stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unspool.client.permissions.settings import ALL_SETTINGS, SettingsSelection, read_settings
from unspool.errors import UnspoolError
from unspool.files import atomic
from unspool.permissions import decode_settings

THEMES = ("dark", "light", "dark-daltonized", "light-daltonized", "dark-ansi", "light-ansi")
EDITOR_MODES = ("normal", "vim")
NOTIFICATIONS = ("auto", "terminal_bell", "iterm2", "iterm2_with_bell", "notifications_disabled")
CHOICES = {"theme": THEMES, "editorMode": EDITOR_MODES, "preferredNotifChannel": NOTIFICATIONS}
"""The keys that `/config` changes, with their values; the first is the default."""


class InterfaceSettings(NamedTuple):
    """How the terminal looks and behaves."""

    theme: str = THEMES[0]
    editor_mode: str = EDITOR_MODES[0]
    notifications: str = NOTIFICATIONS[0]
    notification_seconds: float = 10.0
    """How long no key was pressed before the user is called."""
    status_line: str | None = None
    """The command of the status line."""
    has_ignored_status_line: bool = False
    """Whether there is one that does not run, because the folder is not trusted."""


def load_interface_settings(
    config: Path, root: Path, *, trusted: bool, selection: SettingsSelection = ALL_SETTINGS
) -> InterfaceSettings:
    """Return the settings of the terminal in a folder."""
    try:
        found, _ = read_settings(config, root, trusted=trusted, selection=selection)
        documents = [decode_settings(data, file.path) for file, data in found]
    except UnspoolError:  # opening the chat reports it
        return InterfaceSettings()
    values: dict[str, Any] = {}
    for document in documents:
        for key, choices in CHOICES.items():
            if document.get(key) in choices:
                values[key] = document[key]
        wait = document.get("messageIdleNotifThresholdMs")
        if isinstance(wait, int | float) and not isinstance(wait, bool) and wait >= 0:
            values["seconds"] = wait / 1000
        if "statusLine" in document:
            values["statusLine"] = _parse_status_line(document["statusLine"])
    status_line = values.get("statusLine")
    return InterfaceSettings(
        theme=values.get("theme", THEMES[0]),
        editor_mode=values.get("editorMode", EDITOR_MODES[0]),
        notifications=values.get("preferredNotifChannel", NOTIFICATIONS[0]),
        notification_seconds=values.get("seconds", InterfaceSettings().notification_seconds),
        status_line=status_line if trusted else None,
        has_ignored_status_line=status_line is not None and not trusted,
    )


def user_settings_file(config: Path) -> Path:
    """Return the user's own settings file."""
    return config / "settings.json"


def write_user_setting(config: Path, key: str, value: object) -> None:
    """Set a key of the user's own settings file; None removes it."""
    path = user_settings_file(config)
    before = atomic.read_current(path, within=config)
    document = decode_settings(before.data, str(path)) if before.data is not None else {}
    if value is None:
        document.pop(key, None)
    else:
        document[key] = value
    atomic.replace_file(before, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def _parse_status_line(value: Any) -> str | None:
    match value:
        case {"type": "command", "command": str(command)} if command.strip():
            return command
        case _:
            return None
