"""Decides by an administrator's notice which files and lines a device must not send again.

Rules
  1. The notice names streams and hashes of sessions. The device finds out which of its files, sessions and projects are
     meant: a project by the streams of its files, also of those that are only in the archive by now.
  2. No file of a forgotten session or project is sent, whatever is added to it. A line of another file that has the
     id of a forgotten session is left out.
  3. A device that was forgotten as a whole sends nothing (`refuse`), or everything that it still has (`restart`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from unspool.collect.trust.tombstones import REFUSE, ForgottenNotice, hash_session, session_ids
from unspool.errors import Refused


class CollectedFile(Protocol):
    """What is asked of a file that may be sent."""

    @property
    def path(self) -> str:
        """Where it is."""

    @property
    def project(self) -> str | None:
        """The project's key."""

    @property
    def session_id(self) -> str | None:
        """The session that it belongs to."""


_File = TypeVar("_File", bound=CollectedFile)


class NoticeFilter:
    """Says what of a device must not be sent; without a notice, nothing."""

    def __init__(self, notice: ForgottenNotice | None = None) -> None:
        self._notice = notice
        self._known: dict[str, bool] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is no notice."""
        return self._notice is None

    def refuse_device(self) -> None:
        """Raise `Refused` if the device was forgotten and must not send anything."""
        whole = self._notice.whole if self._notice else None
        if whole is not None and whole.then == REFUSE:
            raise Refused(
                "an administrator has removed this device: it must not send anything",
                hint="end its enrolment with `unspool collect leave`, or ask the administrator",
            )

    def must_restart(self, sequence: int) -> bool:
        """Return whether a device with so many segments starts anew: it has sent none since it was forgotten."""
        whole = self._notice.whole if self._notice else None
        return whole is not None and whole.then != REFUSE and 0 < sequence <= whole.sequence

    def select(self, files: Iterable[_File], stream_of: Callable[[_File], str]) -> list[_File]:
        """Return the files that may be sent, in their order."""
        files, notice = list(files), self._notice
        if notice is None:
            return files
        streams, of_projects = {*notice.streams}, {*notice.project_streams}
        if not (streams or notice.sessions):
            return files
        named = [(file, stream_of(file)) for file in files]
        projects = {file.project for file, stream in named if stream in of_projects and file.project is not None}
        return [
            file
            for file, stream in named
            if stream not in streams and file.project not in projects and not self._is_session(file.session_id)
        ]

    def drops_line(self, text: str) -> bool:
        """Return whether a line has the id of a forgotten session."""
        if self._notice is None or not self._notice.sessions:
            return False
        return any(map(self._is_session, session_ids(text)))

    def _is_session(self, id: str | None) -> bool:
        if id is None or self._notice is None:
            return False
        if id not in self._known:
            self._known[id] = hash_session(self._notice.salt, id) in self._notice.sessions
        return self._known[id]
