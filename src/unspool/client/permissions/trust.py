"""The folders that a user trusts: kept in `trusted.json` of the data folder, readable by the user alone.

Rules
  1. Of a folder that is not trusted nothing acts: no settings, commands or agents of its own, and no file outside it
     that its instructions import.
  2. What is below a trusted folder is trusted too, except below the home folder and the root of the disk: there it
     means only the folder itself.
  3. A list that cannot be read trusts nobody, and is not overwritten.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from unspool.errors import Unreadable, UnspoolError
from unspool.files import atomic

FILE_NAME = "trusted.json"
_ACTING = (".claude/settings.json", ".claude/settings.local.json", ".claude/agents", ".claude/commands", "CLAUDE.md")
"""What in a folder acts only, or in full, once it is trusted."""


class _TrustFile(msgspec.Struct):
    folders: list[str] = []


class TrustedFolders:
    """The list of trusted folders in a data folder."""

    def __init__(self, folder: Path, home: Path | None = None) -> None:
        self._folder = folder
        # Everything below them would be trusted, downloads included.
        self._shallow = {Path("/"), *([home.resolve()] if home is not None else [])}

    def is_trusted(self, root: Path) -> bool:
        """Return whether a folder is trusted."""
        folder = root.resolve()
        listed = {Path(name) for name in self.folders()}
        return folder in listed or any(above in listed and above not in self._shallow for above in folder.parents)

    def add(self, root: Path) -> None:
        """Trust a folder from now on."""
        folder = str(root.resolve())
        before = atomic.read_current(self._folder / FILE_NAME, within=self._folder)
        listed = _decode(before.data)
        if listed is None:
            raise Unreadable(f"cannot read `{before.path}`", hint="mend the file, or take it away")
        if folder not in listed.folders:
            listed.folders.append(folder)
            atomic.replace_file(before, msgspec.json.format(msgspec.json.encode(listed), indent=2) + b"\n")

    def folders(self) -> list[str]:
        """Return the folders in the list."""
        try:
            listed = _decode(atomic.read_current(self._folder / FILE_NAME, within=self._folder).data)
        except UnspoolError:
            return []
        return listed.folders if listed is not None else []


def find_acting_files(root: Path) -> list[str]:
    """Return the files of a folder that act once it is trusted; a front end asks for trust only if there are some."""
    return [name for name in _ACTING if (root / name).exists()]


def _decode(data: bytes | None) -> _TrustFile | None:
    if data is None:
        return _TrustFile()
    try:
        return msgspec.json.decode(data, type=_TrustFile)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
