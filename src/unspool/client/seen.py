"""Which files were read, and how they were then: a file is changed only by who knows what is in it.

Rules
  1. A file that was not read, or has changed since, is not written.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple


class Look(NamedTuple):
    """A file as it was when it was looked at."""

    modified: int
    size: int
    digest: bytes
    whole: bool
    """Whether all of it was shown."""


class Seen:
    """What has been seen of files, by their real paths."""

    def __init__(self) -> None:
        self._looks: dict[Path, Look] = {}

    def note(self, path: Path, data: bytes, modified: int, *, whole: bool = True) -> None:
        """Remember a file as it is now."""
        self.keep(path, Look(modified, len(data), hashlib.sha256(data).digest(), whole))

    def keep(self, path: Path, look: Look) -> None:
        """Remember a look at a file."""
        self._looks[path] = look

    def look(self, path: Path) -> Look | None:
        """Return how a file was seen last."""
        return self._looks.get(path)

    def is_current(self, path: Path, data: bytes) -> bool:
        """Tell whether a file is as it was seen."""
        look = self._looks.get(path)
        return look is not None and look.digest == hashlib.sha256(data).digest()

    def paths(self) -> list[Path]:
        """Return the files in the order they were first seen."""
        return list(self._looks)
