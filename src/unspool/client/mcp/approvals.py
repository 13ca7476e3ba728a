"""The servers of `.mcp.json` that a user approved or declined, by folder: in `mcp-servers.json` of the data folder.

    {"folders": {"/home/me/project": {"approved": {"db": "9f2c…"}, "declined": {}}}}

Rules
  1. An approval is for a name with its configuration: a server whose command or address was changed is asked about
     again.
  2. A file that cannot be read approves nothing, and is not overwritten.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from unspool.client.mcp.server_config import ServerConfig
from unspool.errors import Unreadable, UnspoolError
from unspool.files import atomic

FILE_NAME = "mcp-servers.json"
Approval: TypeAlias = Literal["approved", "declined"]


class FolderApprovals(msgspec.Struct):
    """What was answered in one folder: the digest of each server's configuration, by name."""

    approved: dict[str, str] = {}
    declined: dict[str, str] = {}

    def answer(self, server: ServerConfig) -> Approval | None:
        """Return what the user answered about a server as it is configured now; None: nothing."""
        if self.declined.get(server.name) == server.digest:
            return "declined"
        return "approved" if self.approved.get(server.name) == server.digest else None


class _ApprovalsFile(msgspec.Struct):
    folders: dict[str, FolderApprovals] = {}


class ServerApprovals:
    """The approvals in a data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, root: Path) -> FolderApprovals:
        """Return what was answered in a folder."""
        try:
            kept = _decode(atomic.read_current(self._folder / FILE_NAME, within=self._folder).data)
        except UnspoolError:
            return FolderApprovals()
        return (kept or _ApprovalsFile()).folders.get(str(root.resolve()), FolderApprovals())

    def keep(self, root: Path, server: ServerConfig, answer: Approval) -> None:
        """Keep an answer about a server in a folder."""
        before = atomic.read_current(self._folder / FILE_NAME, within=self._folder)
        kept = _decode(before.data)
        if kept is None:
            raise Unreadable(f"cannot read `{before.path}`", hint="fix or delete the file")
        of_folder = kept.folders.setdefault(str(root.resolve()), FolderApprovals())
        for answers in (of_folder.approved, of_folder.declined):
            answers.pop(server.name, None)
        (of_folder.approved if answer == "approved" else of_folder.declined)[server.name] = server.digest
        atomic.replace_file(before, msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")


def _decode(data: bytes | None) -> _ApprovalsFile | None:
    if data is None:
        return _ApprovalsFile()
    try:
        return msgspec.json.decode(data, type=_ApprovalsFile)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
