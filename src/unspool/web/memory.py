"""What pages remember of long sessions, kept from one server to the next: a file's path in, bytes out.

Rules
  1. It may be deleted at any time: a session is then read again. What does not fit the file any more is noticed there.
  2. Folder and files are for the user alone (0700, 0600); a file appears whole or not at all.
  3. Few are kept: the ones looked at last.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from unspool.errors import UnspoolError
from unspool.read.files import read_whole

FOLDER: Final = "pages"
LONG: Final = 8_000_000
"""Bytes of a session that takes noticeably long to read."""
_MOST: Final = 40
_LARGEST: Final = 200_000_000


class Memory:
    """The folder they are kept in."""

    def __init__(self, data: Path) -> None:
        self._folder = data / FOLDER

    def get(self, path: Path) -> bytes | None:
        """Return what was kept of a file."""
        place = self._place(path)
        try:
            found = read_whole(place, _LARGEST)
        except UnspoolError:
            return None
        with suppress(OSError):
            os.utime(place)
        return found

    def put(self, path: Path, data: bytes) -> None:
        """Keep something of a file. Where nothing can be written, nothing is kept."""
        place = self._place(path)
        beside = place.with_name(f".{place.name}.{secrets.token_hex(8)}.tmp")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            beside.replace(place)
            self._clear()
        except OSError:
            with suppress(OSError):
                beside.unlink()

    def _clear(self) -> None:
        kept = sorted(self._folder.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in kept[_MOST:]:
            old.unlink(missing_ok=True)

    def _place(self, path: Path) -> Path:
        return self._folder / hashlib.blake2b(os.fsencode(path), digest_size=16).hexdigest()
