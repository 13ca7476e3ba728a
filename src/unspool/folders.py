"""Names the folders that unspool and Claude Code keep their data in, as text.

Apart from `paths.py`, and without `pathlib` (4 ms): the status line must start fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def home_folder_name(environment: Mapping[str, str]) -> str:
    """Return the user's home folder."""
    return environment.get("HOME") or os.path.expanduser("~")


def data_folder_name(environment: Mapping[str, str], platform: str = sys.platform) -> str:
    """Return unspool's data folder: `$UNSPOOL_HOME`, else the place for such data on this system."""
    if named := environment.get("UNSPOOL_HOME"):
        return os.path.expanduser(named)
    home = home_folder_name(environment)
    if platform == "darwin":
        return f"{home}/Library/Application Support/unspool"
    if platform == "win32":
        return f"{environment.get('LOCALAPPDATA') or f'{home}/AppData/Local'}/unspool"
    shared = environment.get("XDG_DATA_HOME") or ""
    return f"{shared if shared.startswith('/') else f'{home}/.local/share'}/unspool"
