"""Remembers which finished sessions the user has seen: the file `inbox.json` in the data folder.

    {"seen_until": 1790000000000, "sessions": {"3f2a…": 1790000001000}}

Rules
  1. Times are those of the sessions' last lines, in milliseconds. A session that goes on and finishes again is news.
  2. What cannot be read is as if nothing was seen. The file is replaced whole or not at all, mode 0600.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from unspool.errors import UnspoolError
from unspool.files import make_data_folder, raise_unwritable, read_whole, write_atomically

FILE_NAME: Final = "inbox.json"
_MAX_BYTES: Final = 4_000_000
_MAX_SESSIONS: Final = 2_000


class SeenSessions(msgspec.Struct, frozen=True):
    """What was seen: everything until a time, and some sessions until later ones."""

    seen_until: int = 0
    sessions: dict[str, int] = {}

    def has_seen(self, session_id: str, time: int) -> bool:
        """Tell whether a session was seen after its last line was written."""
        return time <= max(self.seen_until, self.sessions.get(session_id, 0))


class SeenFile:
    """The file of what was seen."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def read(self) -> SeenSessions:
        """Return what was seen."""
        try:
            return msgspec.json.decode(read_whole(self._folder / FILE_NAME, _MAX_BYTES), type=SeenSessions)
        except (UnspoolError, msgspec.DecodeError, UnicodeDecodeError):
            return SeenSessions()

    def mark_all(self, until: int) -> None:
        """Note that everything until a time was seen."""
        with self._lock:
            before = self.read()
            until = max(until, before.seen_until)
            later = {id: time for id, time in before.sessions.items() if time > until}
            self._write(SeenSessions(until, later))

    def mark(self, session_ids: Iterable[str], until: int) -> None:
        """Note that some sessions were seen until a time."""
        with self._lock:
            before = self.read()
            marked = {**before.sessions, **{id: max(until, before.sessions.get(id, 0)) for id in session_ids}}
            newest = sorted(marked.items(), key=lambda item: item[1])[-_MAX_SESSIONS:]
            self._write(SeenSessions(before.seen_until, dict(newest)))

    def _write(self, seen: SeenSessions) -> None:
        with raise_unwritable(f"cannot write `{self._folder / FILE_NAME}`"):
            make_data_folder(self._folder)
            write_atomically(self._folder / FILE_NAME, msgspec.json.encode(seen))
