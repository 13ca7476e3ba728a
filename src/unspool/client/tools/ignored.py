"""What git is told to ignore: the lines of a `.gitignore` in, whether a path is ignored out. Pure.

Rules
  1. The last line that fits a path decides; a line in a deeper folder is later. `!` takes back.
  2. A line that is no pattern says nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from unspool.client.tools.names import BadPattern, Fits, any_of, fits


class Line(NamedTuple):
    """A line that says something."""

    fits: Fits
    takes_back: bool
    only_folders: bool


class Listing(NamedTuple):
    """What one file says of what is in its folder."""

    folder: str
    """As the paths that are asked about begin, with a slash at its end."""
    lines: tuple[Line, ...]
    fits: Fits
    """Whether any line fits: most paths fit none."""


class Ignores(NamedTuple):
    """What the files of some folders say, the deepest last."""

    listings: tuple[Listing, ...] = ()

    def and_in(self, folder: str, text: str) -> Ignores:
        """Return the same with what one more file says."""
        patterns, lines = _parsed(text)
        return Ignores((*self.listings, Listing(folder, lines, any_of(patterns)))) if lines else self

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether a path is ignored; the folders it is in are not asked about."""
        for listing in reversed(self.listings):
            inner = path.removeprefix(listing.folder)
            if inner is path or not listing.fits(inner):
                continue
            for line in reversed(listing.lines):
                if (is_folder or not line.only_folders) and line.fits(inner):
                    return not line.takes_back
        return False


def _parsed(text: str) -> tuple[list[str], tuple[Line, ...]]:
    """Return the patterns and the lines that say something."""
    patterns: list[str] = []
    lines: list[Line] = []
    for line in text.splitlines():
        pattern = line.rstrip() if not line.endswith("\\ ") else line
        if not pattern or pattern.startswith("#"):
            continue
        takes_back = pattern.startswith("!")
        pattern = pattern[1:] if takes_back else pattern
        try:
            lines.append(Line(fits(pattern), takes_back, pattern.endswith("/")))
        except BadPattern:
            continue
        patterns.append(pattern)
    return patterns, tuple(lines)
