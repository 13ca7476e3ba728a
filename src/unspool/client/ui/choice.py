"""Holds a choice prompt while the user answers it: keys in, the chosen options out.

Rules
  1. No key counts that was pressed before the prompt could be read (`KEY_DELAY_SECONDS`, kept by the screen).
  2. Texts are made safe for a terminal by the code that shows them.
"""

from __future__ import annotations

from typing import NamedTuple

KEY_DELAY_SECONDS = 0.4
"""How long keys are still meant for what was shown before."""
MAX_ROWS = 9
"""Options that are shown at a time."""


class ChoiceOption(NamedTuple):
    """An option of a choice prompt."""

    label: str
    detail: str = ""
    key: str = ""
    """A letter that chooses it at once."""
    text_prompt: str = ""
    """What to ask for, if the option needs a text: `what should it do instead?`"""


class ChoiceResult(NamedTuple):
    """The chosen options, by index, and the text that one of them needed."""

    indices: tuple[int, ...]
    text: str = ""

    @property
    def first(self) -> int:
        """The first chosen option."""
        return self.indices[0]


class ChoicePrompt:
    """A question with options, while it is open."""

    def __init__(self, title: str, options: list[ChoiceOption], *, multiple: bool = False, cursor: int = 0) -> None:
        self.title = title
        self.options = options
        self.multiple = multiple
        self.cursor = min(cursor, max(len(options) - 1, 0))
        self.marked: set[int] = set()
        self.text_option: ChoiceOption | None = None
        """The chosen option that waits for its text."""

    def press(self, key: str) -> ChoiceResult | None:
        """Handle a key; return the result if the key chose one."""
        match key:
            case "up" | "down":
                self.cursor = (self.cursor + (1 if key == "down" else -1)) % max(len(self.options), 1)
            case "space" if self.multiple:
                self.marked ^= {self.cursor}
            case "enter" if self.options:
                return self._choose(self.cursor)
            case _:
                return self._choose_by_key(key)
        return None

    def enter_text(self, text: str) -> ChoiceResult:
        """Return the result with the text that the chosen option needed."""
        return ChoiceResult(self._indices(self.cursor), text.strip())

    def window(self) -> range:
        """Return the indices of the options that are shown: those around the cursor."""
        first = max(0, min(self.cursor - MAX_ROWS // 2, len(self.options) - MAX_ROWS))
        return range(first, min(first + MAX_ROWS, len(self.options)))

    def _choose_by_key(self, key: str) -> ChoiceResult | None:
        for index, option in enumerate(self.options):
            if key == option.key or (key == str(index + 1) and not self.multiple):
                self.cursor = index
                return self._choose(index)
        return None

    def _choose(self, index: int) -> ChoiceResult | None:
        if self.options[index].text_prompt:
            self.text_option = self.options[index]
            return None
        return ChoiceResult(self._indices(index))

    def _indices(self, index: int) -> tuple[int, ...]:
        return tuple(sorted(self.marked)) if self.multiple and self.marked else (index,)
