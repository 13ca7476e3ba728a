"""The folders that a user trusts or has declined to trust: in `trusted.json` of the data folder, for the user alone.

Rules
  1. Of a folder that is not trusted nothing acts: no settings, commands or agents of its own, and no file outside it
     that its instructions import.
  2. What is below a trusted folder is trusted too, except below the home folder and the root of the disk: there it
     means only the folder itself. The nearest folder that the user has decided about counts.
  3. The user is asked once about a folder; a "no" is kept as well.
  4. A list that cannot be read trusts nobody, and is not overwritten.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from unspool.errors import Unreadable, UnspoolError
from unspool.files import atomic

FILE_NAME = "trusted.json"
_ACTING = (
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/agents",
    ".claude/commands",
    ".claude/skills",
    ".claude/output-styles",
    ".mcp.json",
    "CLAUDE.md",
)
"""What in a folder acts only, or in full, once it is trusted."""


class _TrustFile(msgspec.Struct):
    folders: list[str] = []
    declined: list[str] = []
    """Folders that the user does not trust, and is not asked about again."""


class TrustedFolders:
    """The list of trusted folders in a data folder."""

    def __init__(self, folder: Path, home: Path | None = None) -> None:
        self._folder = folder
        # Everything below them would be trusted, downloads included.
        self._shallow = {Path("/"), *([home.resolve()] if home is not None else [])}

    def is_trusted(self, root: Path) -> bool:
        """Return whether a folder is trusted."""
        listed = self._read()
        folder = root.resolve()
        for place in (folder, *folder.parents):
            if str(place) in listed.declined:
                return False
            if str(place) in listed.folders and (place == folder or place not in self._shallow):
                return True
        return False

    def is_declined(self, root: Path) -> bool:
        """Return whether the user was asked about a folder and does not trust it."""
        return str(root.resolve()) in self._read().declined

    def add(self, root: Path) -> None:
        """Trust a folder from now on."""
        self._decide(root, trusted=True)

    def decline(self, root: Path) -> None:
        """Do not trust a folder from now on, and do not ask about it again."""
        self._decide(root, trusted=False)

    def folders(self) -> list[str]:
        """Return the trusted folders."""
        return self._read().folders

    def _decide(self, root: Path, *, trusted: bool) -> None:
        folder = str(root.resolve())
        before = atomic.read_current(self._folder / FILE_NAME, within=self._folder)
        listed = _decode(before.data)
        if listed is None:
            raise Unreadable(f"cannot read `{before.path}`", hint="fix or delete the file")
        chosen, other = (listed.folders, listed.declined) if trusted else (listed.declined, listed.folders)
        if folder in chosen and folder not in other:
            return
        other[:] = [name for name in other if name != folder]
        chosen.append(folder)
        atomic.replace_file(before, msgspec.json.format(msgspec.json.encode(listed), indent=2) + b"\n")

    def _read(self) -> _TrustFile:
        try:
            listed = _decode(atomic.read_current(self._folder / FILE_NAME, within=self._folder).data)
        except UnspoolError:
            return _TrustFile()
        return listed or _TrustFile()


def find_acting_files(root: Path) -> list[str]:
    """Return the files of a folder that act once it is trusted: a front end names them when it asks."""
    return [name for name in _ACTING if (root / name).exists()]


def _decode(data: bytes | None) -> _TrustFile | None:
    if data is None:
        return _TrustFile()
    try:
        return msgspec.json.decode(data, type=_TrustFile)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
