"""Writes the file-history backups of the demo.

A backup has the name that Claude Code gives it: `sha256(path)[:16]@v<n>`. A file that did not exist has none.
"""

from __future__ import annotations

import hashlib

import msgspec

from unspool.demo.session_builder import Json, Writer
from unspool.demo.tool_calls import ToolSimulator


class DemoFileVersion(msgspec.Struct, frozen=True):
    """One version of a file; `text` is None if it did not exist."""

    path: str
    text: str | None
    version: int
    time: str

    @property
    def name(self) -> str | None:
        """The name of the backup file; None if there is none."""
        digest = hashlib.sha256(self.path.encode()).hexdigest()
        return None if self.text is None else f"{digest[:16]}@v{self.version}"

    def as_json(self, *, folder: bool) -> Json:
        """Return the backup as a line of the session has it, optionally with its folder."""
        line = {"backupFileName": self.name, "version": self.version, "backupTime": self.time}
        return {**line, "realParentDir": self.path.rpartition("/")[0]} if folder else line


class Backups:
    """The backups of the files that one session changes."""

    def __init__(self, writer: Writer, tools: ToolSimulator, *, enabled: bool) -> None:
        self._writer = writer
        self._simulator = tools
        # Scripts and agents make no backups, and versions before 2.0.36 made none at all.
        self._enabled = enabled and writer.version >= (2, 0, 36)
        self._newest: dict[str, DemoFileVersion] = {}
        self.kept: list[DemoFileVersion] = []

    def at_prompt(self, uuid: str) -> None:
        """Back up tracked files that have changed since the last prompt, and write a snapshot line."""
        if not self._enabled:
            return
        for name, backup in list(self._newest.items()):
            if self._simulator.files.get(name) != backup.text:
                self._keep(name, self._simulator.files.get(name))
        self._note(uuid, uuid, update=False)

    def before_change(self, name: str, text: str | None, uuid: str, prompt: str) -> None:
        """Back up a file that is changed for the first time."""
        if not self._enabled or name in self._newest:
            return
        backup = self._keep(name, text)
        # Before 2.1.325 the whole snapshot was written again; since then only what is new.
        if self._writer.version < (2, 1, 325):
            self._note(uuid, prompt, update=True)
            return
        line: Json = {"type": "file-history-delta", "messageId": uuid, "snapshotMessageId": prompt}
        self._writer.add(line | {"trackingPath": name, "backup": backup.as_json(folder=True), "timestamp": backup.time})

    def _keep(self, name: str, text: str | None) -> DemoFileVersion:
        version = self._newest[name].version + 1 if name in self._newest else 1
        backup = self._newest[name] = DemoFileVersion(self._simulator.path(name), text, version, self._writer.clock.now)
        if text is not None:
            self.kept.append(backup)
        return backup

    def _note(self, uuid: str, prompt: str, *, update: bool) -> None:
        # `realParentDir` is written since 2.1.290.
        folder = self._writer.version >= (2, 1, 290)
        files = {name: backup.as_json(folder=folder) for name, backup in self._newest.items()}
        snapshot = {"messageId": prompt, "trackedFileBackups": files, "timestamp": self._writer.clock.now}
        line = {"type": "file-history-snapshot", "messageId": uuid, "snapshot": snapshot}
        self._writer.add({**line, "isSnapshotUpdate": update})
