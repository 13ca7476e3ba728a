"""Folds pasted texts into placeholders such as `[Pasted text #1 +499 lines]`, and puts them back.

The placeholders are those of Claude Code 2.1.326: the number counts line ends, not lines, and a long text of one line
has none.

Rules
  1. What is sent and written to the session is the whole text. The prompt, the screen and `history.jsonl` show the
     placeholder.
  2. A placeholder whose text is not known is a text like any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MIN_FOLDED_LINE_ENDS = 3
"""Claude Code 2.1.326 shows three lines as they are, and folds four."""
MIN_FOLDED_CHARACTERS = 800
_PLACEHOLDER = re.compile(r"\[Pasted text #(\d{1,9})(?: \+\d{1,9} lines)?\]")


class PastedTexts:
    """The pasted texts of one terminal, by number."""

    def __init__(self) -> None:
        self.by_number: dict[int, str] = {}

    def fold(self, text: str) -> str:
        """Keep a pasted text and return its placeholder; a short one is returned as it is."""
        if text.count("\n") < MIN_FOLDED_LINE_ENDS and len(text) < MIN_FOLDED_CHARACTERS:
            return text
        known = next((number for number, other in self.by_number.items() if other == text), None)
        number = known or max(self.by_number, default=0) + 1
        self.by_number[number] = text
        return make_placeholder(number, text)

    def expand(self, text: str) -> str:
        """Return a text with the pasted texts in the place of their placeholders."""
        return expand_pasted(text, self.by_number)

    def fold_known(self, text: str) -> str:
        """Return a text with placeholders in the place of the pasted texts that it contains."""
        return fold_known(text, self.by_number)[0]

    def adopt(self, display: str, pasted: Mapping[int, str]) -> str:
        """Take over the pasted texts of an earlier prompt; return the prompt with the numbers that they have here."""
        return _PLACEHOLDER.sub(
            lambda found: self.fold(pasted[int(found[1])]) if int(found[1]) in pasted else found[0], display
        )


def make_placeholder(number: int, text: str) -> str:
    """Return the placeholder of a pasted text."""
    ends = text.count("\n")
    return f"[Pasted text #{number} +{ends} lines]" if ends else f"[Pasted text #{number}]"


def expand_pasted(text: str, pasted: Mapping[int, str]) -> str:
    """Return a text with pasted texts in the place of their placeholders."""
    return _PLACEHOLDER.sub(lambda found: pasted.get(int(found[1]), found[0]), text)


def fold_known(text: str, pasted: Mapping[int, str]) -> tuple[str, dict[int, str]]:
    """Return a text with placeholders for the pasted texts that it contains, and those texts."""
    used = {}
    # The longest first: one text may be a part of another.
    for number, content in sorted(pasted.items(), key=lambda item: -len(item[1])):
        if content and content in text:
            text = text.replace(content, make_placeholder(number, content))
            used[number] = content
    return text, used
