"""Which folders a person trusts: kept in `trusted.json` of the data folder, for the user alone.

Rules
  1. A folder that is not trusted gets nothing to act from it: no settings, commands or agents of its own, and no file
     outside it that its instructions import.
  2. A trusted folder's folders are trusted too, except below the home folder and the root of the disk: who trusts those
     means only what lies there itself.
  3. A list that cannot be read trusts nobody, and is not written over.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from unspool.errors import Unreadable, UnspoolError
from unspool.files import atomic

NAME = "trusted.json"
ACTING = (".claude/settings.json", ".claude/settings.local.json", ".claude/agents", ".claude/commands", "CLAUDE.md")
"""What in a folder acts only, or in full, once it is trusted."""


class _Kept(msgspec.Struct):
    folders: list[str] = []


class Trust:
    """The list of a data folder."""

    def __init__(self, folder: Path, home: Path | None = None) -> None:
        self._folder = folder
        self._alone = {Path("/"), *([home.resolve()] if home is not None else [])}

    def holds(self, root: Path) -> bool:
        """Tell whether a folder is trusted."""
        place = root.resolve()
        listed = {Path(folder) for folder in self.folders()}
        return place in listed or any(above in listed and above not in self._alone for above in place.parents)

    def add(self, root: Path) -> None:
        """Trust a folder from now on."""
        place = str(root.resolve())
        before = atomic.current(self._folder / NAME, within=self._folder)
        kept = _decoded(before.data)
        if kept is None:
            raise Unreadable(f"cannot read `{before.path}`", hint="mend the file, or take it away")
        if place not in kept.folders:
            kept.folders.append(place)
            atomic.replace(before, msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")

    def folders(self) -> list[str]:
        """Return the folders that were trusted."""
        try:
            kept = _decoded(atomic.current(self._folder / NAME, within=self._folder).data)
        except UnspoolError:
            return []
        return kept.folders if kept is not None else []


def acting(root: Path) -> list[str]:
    """Return what there is in a folder that trust is about; a front end asks only if there is something."""
    return [name for name in ACTING if (root / name).exists()]


def _decoded(data: bytes | None) -> _Kept | None:
    if data is None:
        return _Kept()
    try:
        return msgspec.json.decode(data, type=_Kept)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
