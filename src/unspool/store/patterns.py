"""What a person searches for as a regular expression: it is asked of raw bytes, and of the texts in them. Pure.

Rules
  1. The bytes of a line are what matters. In them a quotation mark is `\\"`: a text of the line matches if the pattern
     is in it, or in it as JSON writes it.
  2. Patterns are re2's: whatever they are, the time they take grows with the bytes, and no faster.
"""

from __future__ import annotations

import json
from typing import Any

from unspool.errors import Usage


class Pattern:
    """A regular expression."""

    is_raw = True

    def __init__(self, pattern: str) -> None:
        import re2

        try:
            self._pattern = compiled(pattern)
        except re2.error as error:
            said = error.args[0].decode(errors="replace") if error.args else "it cannot be read"
            hint = "patterns are those of re2: no look-around, no back-references"
            raise Usage(f"not a pattern: `{pattern}`: {said}", hint=hint) from None
        self.needle = pattern

    def may_be_in(self, line: bytes) -> bool:
        """Tell whether a line could match: it was found by its bytes."""
        return True

    def count(self, text: str) -> int:
        """Return how often a text matches."""
        return len(self.spans(text)) or int(self._pattern.search(_written(text)) is not None)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where in a text it matches; nowhere if it does only as JSON writes it."""
        found: list[tuple[int, int]] = []
        for match in self._pattern.finditer(_clean(text)):
            found.append(match.span())
            if len(found) == _MOST:
                break
        return found


def compiled(pattern: bytes | str) -> Any:
    """Return a pattern as re2 has it; of bytes, a byte is a byte."""
    import re2

    options = re2.Options()
    options.log_errors = False
    if isinstance(pattern, bytes):
        options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(pattern, options)


_MOST = 100
"""Matches in a text that are counted."""


def _written(text: str) -> str:
    return json.dumps(_clean(text), ensure_ascii=False)[1:-1]


def _clean(text: str) -> str:
    """Return text that can be encoded."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
