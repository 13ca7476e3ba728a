"""The rules that a user chose to keep for a folder, outside of it: `rules.json` of the data folder.

    {"folders": {"/home/me/project": {"allow": ["Bash(git status:*)"], "sandboxed": ["Bash(npm test:*)"]}}}

Claude Code does not read this file. `allow` is for folders that are not trusted, whose own settings do not act;
`sandboxed` for commands that run in the sandbox, of which Claude Code's settings cannot say so for a single rule.

Rules
  1. The file is the user's own, so its rules act also where the folder is not trusted. They hold in the folder itself,
     not below it.
  2. A file that cannot be read allows nothing, and is not overwritten.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from unspool.errors import Unreadable, UnspoolError
from unspool.files import atomic

FILE_NAME = "rules.json"


class FolderRules(msgspec.Struct):
    """The rules that are kept for one folder."""

    allow: list[str] = []
    sandboxed: list[str] = []
    """Rules whose commands run in the sandbox."""


class _RulesFile(msgspec.Struct):
    folders: dict[str, FolderRules] = {}


class KeptRules:
    """The rules in a data folder, for all folders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def path(self) -> Path:
        """The file that the rules are in."""
        return self._folder / FILE_NAME

    def read(self, root: Path) -> FolderRules:
        """Return the rules that are kept for a folder."""
        try:
            kept = _decode(atomic.read_current(self.path, within=self._folder).data)
        except UnspoolError:
            return FolderRules()
        return (kept or _RulesFile()).folders.get(str(root.resolve()), FolderRules())

    def add(self, root: Path, rules: list[str], *, sandboxed: bool) -> None:
        """Keep rules for a folder."""
        before = atomic.read_current(self.path, within=self._folder)
        kept = _decode(before.data)
        if kept is None:
            raise Unreadable(f"cannot read `{before.path}`", hint="fix or delete the file")
        of_folder = kept.folders.setdefault(str(root.resolve()), FolderRules())
        listed = of_folder.sandboxed if sandboxed else of_folder.allow
        if added := [rule for rule in rules if rule not in listed]:
            listed += added
            atomic.replace_file(before, msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")


def _decode(data: bytes | None) -> _RulesFile | None:
    if data is None:
        return _RulesFile()
    try:
        return msgspec.json.decode(data, type=_RulesFile)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
