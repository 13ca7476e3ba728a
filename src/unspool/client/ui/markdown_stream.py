"""Splits Markdown that arrives in pieces into blocks that will not change any more.

Rules
  1. The blocks joined together are the text: nothing is lost, nothing is repeated.
  2. How the text was cut into pieces does not matter.
  3. An open code fence, and a list that may continue, are not cut.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")


class MarkdownStream:
    """A Markdown text of which only the beginning has arrived."""

    def __init__(self) -> None:
        self._partial = ""
        """The last line, which is not complete yet."""
        self._lines: list[str] = []
        self._fence = ""
        self._is_list = False
        self._is_blank = False

    @property
    def tail(self) -> str:
        """The text that may still change."""
        return "".join(self._lines) + self._partial

    def feed(self, text: str) -> list[str]:
        """Add more of the text; return the blocks that are complete now."""
        *lines, self._partial = (self._partial + text).split("\n")
        return [block for line in lines for block in self._add_line(line + "\n")]

    def flush(self) -> str:
        """Return the rest of the text, and start again."""
        rest = self.tail
        self._lines, self._partial, self._fence, self._is_list, self._is_blank = [], "", "", False, False
        return rest

    def _add_line(self, line: str) -> list[str]:
        """Add a line; return the blocks it completes: the one before it, the one it ends."""
        complete = [self._take_block()] if self._starts_block(line) else []
        if not self._lines:
            self._is_list = bool(_ITEM.match(line))
        self._lines.append(line)
        is_closed = self._toggle_fence(line)
        self._is_blank = not line.strip() and not self._fence
        if is_closed and not self._is_list:
            complete.append(self._take_block())
        return complete

    def _starts_block(self, line: str) -> bool:
        if not self._lines or self._fence or not line.strip():
            return False
        if not self._is_blank:
            return line.startswith("#") and not self._is_list
        return not (self._is_list and (line[0] in " \t" or _ITEM.match(line)))

    def _toggle_fence(self, line: str) -> bool:
        """Open or close a fence; return whether one was closed."""
        found = _FENCE.fullmatch(line.rstrip("\n"))
        if found is None:
            return False
        if not self._fence:
            # A line of backticks with a backtick in its info string is inline code, and no fence (CommonMark).
            self._fence = found[1] if "`" not in found[2] or found[1][0] == "~" else ""
            return False
        if found[1].startswith(self._fence) and not found[2].strip():
            self._fence = ""
            return True
        return False

    def _take_block(self) -> str:
        block = "".join(self._lines)
        self._lines, self._is_blank, self._is_list = [], False, False
        return block
