"""Markdown that grows: pieces in, blocks that will not change any more out. Pure.

Rules
  1. The blocks put together are the text: nothing is lost, nothing is said twice.
  2. How the text was cut into pieces does not matter.
  3. A fence that is open, and a list that may go on, are not cut.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")


class Flow:
    """A text on its way."""

    def __init__(self) -> None:
        self._partial = ""
        """The last line, which has no end yet."""
        self._lines: list[str] = []
        self._fence = ""
        self._is_list = False
        self._is_blank = False

    @property
    def tail(self) -> str:
        """What is not settled yet."""
        return "".join(self._lines) + self._partial

    def feed(self, text: str) -> list[str]:
        """Take more of the text; return the blocks that are settled now."""
        *lines, self._partial = (self._partial + text).split("\n")
        return [block for line in lines for block in self._take(line + "\n")]

    def end(self) -> str:
        """Return what is left, and begin anew."""
        rest = self.tail
        self._lines, self._partial, self._fence, self._is_list, self._is_blank = [], "", "", False, False
        return rest

    def _take(self, line: str) -> list[str]:
        """Add a line; return the blocks it settles: the one before it, the one it ends."""
        settled = [self._cut()] if self._begins_anew(line) else []
        if not self._lines:
            self._is_list = bool(_ITEM.match(line))
        self._lines.append(line)
        is_closed = self._fenced(line)
        self._is_blank = not line.strip() and not self._fence
        if is_closed and not self._is_list:
            settled.append(self._cut())
        return settled

    def _begins_anew(self, line: str) -> bool:
        if not self._lines or self._fence or not line.strip():
            return False
        if not self._is_blank:
            return line.startswith("#") and not self._is_list
        return not (self._is_list and (line[0] in " \t" or _ITEM.match(line)))

    def _fenced(self, line: str) -> bool:
        """Open or close a fence; tell whether one was closed."""
        found = _FENCE.fullmatch(line.rstrip("\n"))
        if found is None:
            return False
        if not self._fence:
            self._fence = found[1] if "`" not in found[2] or found[1][0] == "~" else ""
            return False
        if found[1].startswith(self._fence) and not found[2].strip():
            self._fence = ""
            return True
        return False

    def _cut(self) -> str:
        block = "".join(self._lines)
        self._lines, self._is_blank, self._is_list = [], False, False
        return block
