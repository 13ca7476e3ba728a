"""Which files were read, and how they were then: a file is changed only by who knows what is in it.

Rules
  1. A file that was not read, or has changed since, is not written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
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
        self._earlier: Callable[[], Mapping[Path, str]] | None = None
        self._texts: Mapping[Path, str] = {}

    def remember(self, earlier: Callable[[], Mapping[Path, str]]) -> None:
        """Let texts that were seen before the session was gone on with count; they are asked for when one is needed."""
        self._earlier = earlier

    def text(self, path: Path) -> str | None:
        """Return what was in a file when it was seen before the session was gone on with."""
        if self._earlier is not None:
            self._texts, self._earlier = self._earlier(), None
        return self._texts.get(path)

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
        """Return the files in the order they were first seen, without those that were seen earlier."""
        return list(self._looks)
