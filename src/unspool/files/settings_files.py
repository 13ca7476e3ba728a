"""Finds and reads the settings files of Claude Code that apply in a folder.

<config>/settings.json              user      the user's own
<root>/.claude/settings.json        project   shared, comes with the folder
<root>/.claude/settings.local.json  local     the user's own for this folder, but it may come with it too
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from unspool.errors import NotFound, Unreadable
from unspool.files.open import read_whole

_MAX_BYTES = 1024 * 1024


class SettingsFile(NamedTuple):
    """A settings file: whose it is, and where. It need not exist."""

    source: str
    """user, project or local."""
    path: str
    folder: str
    """The folder that paths in its rules are relative to, without links."""

    def read(self) -> bytes:
        """Return the bytes of the file; none if there is no file."""
        try:
            return read_whole(Path(self.path).resolve(), _MAX_BYTES)
        except NotFound:
            return b""
        except (OSError, RuntimeError) as error:
            raise Unreadable(f"cannot read `{self.path}`: {error}") from None


def list_settings_files(config: Path, root: Path) -> list[SettingsFile]:
    """Return the settings files for work in a folder; what a later one says takes precedence."""
    files = [SettingsFile("user", str(config / "settings.json"), str(config.resolve()))]
    inner = root / ".claude"
    # In the home folder, `.claude` is the config folder: its file is the user's, and must not count twice.
    if inner.resolve() != config.resolve():
        folder = str(root.resolve())
        files.append(SettingsFile("project", str(inner / "settings.json"), folder))
        files.append(SettingsFile("local", str(inner / "settings.local.json"), folder))
    return files
