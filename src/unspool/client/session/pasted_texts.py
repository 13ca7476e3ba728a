"""Folds pasted texts into placeholders such as `[Pasted text #1 +499 lines]`, and puts them back.

The placeholders are those of Claude Code 2.1.326: the number counts line ends, not lines, and a long text of one line
has none.

Rules
  1. What is sent and written to the session is the whole text. The prompt, the screen and `history.jsonl` show the
     placeholder.
  2. A placeholder whose text is not known is a text like any other.
  3. The pasted path of a picture becomes `[Image #1]`, and so does a picture itself: it is sent with the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

MIN_FOLDED_LINE_ENDS = 3
"""Claude Code 2.1.326 shows three lines as they are, and folds four."""
MIN_FOLDED_CHARACTERS = 800
_PLACEHOLDER = re.compile(r"\[Pasted text #(\d{1,9})(?: \+\d{1,9} lines)?\]")


_PICTURE = re.compile(r"\[Image #(\d{1,9})\]")
_PICTURE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})
_MAX_PATH = 4096


class PastedTexts:
    """The pasted texts of one terminal, by number."""

    def __init__(self) -> None:
        self.by_number: dict[int, str] = {}
        self._pictures: dict[int, Path | bytes] = {}

    def add_picture(self, picture: Path | bytes) -> str:
        """Keep a pasted picture or its path, and return its placeholder."""
        number = len(self._pictures) + 1
        self._pictures[number] = picture
        return f"[Image #{number}]"

    def find_pictures(self, text: str) -> list[Path | bytes]:
        """Return the pictures, or their paths, whose placeholders are in a text."""
        numbers = dict.fromkeys(int(number) for number in _PICTURE.findall(text))
        return [self._pictures[number] for number in numbers if number in self._pictures]

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


def find_picture(text: str, folder: Path) -> Path | None:
    """Return the picture that a pasted text is the path of: as it is, in quotes, with escapes, or as an address."""
    text = text.strip()
    if not text or len(text) > _MAX_PATH or "\n" in text or "\0" in text:
        return None
    if text.startswith("file://"):
        from urllib.parse import unquote

        text = unquote(text.removeprefix("file://"))
    elif text[0] in "'\"" and text[-1] == text[0]:
        text = text[1:-1]
    try:
        # A terminal that a file is dragged to escapes blanks.
        for name in (text, text.replace("\\ ", " ")):
            path = folder / Path(name).expanduser()
            if path.suffix.lower() in _PICTURE_SUFFIXES and path.is_file():
                return path
    except (OSError, RuntimeError):  # no such user; a name that is too long
        pass
    return None


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
