"""Holds a choice prompt while the user answers it: keys in, the chosen options out.

A prompt that is a list to pick from (`filters`) is narrowed by typing: its options have no letters and no numbers.

Rules
  1. No key counts that was pressed before the prompt could be read (`KEY_DELAY_SECONDS`, kept by the screen).
  2. Texts are made safe for a terminal by the code that shows them.
  3. An option stays if each typed word occurs in its texts, or if the search found it (`SearchOptions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

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
    id: str = ""
    """What it stands for, where a search may find it too."""


class ChoiceResult(NamedTuple):
    """The chosen options, by index, and the text that one of them needed."""

    indices: tuple[int, ...]
    text: str = ""

    @property
    def first(self) -> int:
        """The first chosen option."""
        return self.indices[0]


SearchOptions: TypeAlias = Callable[[str], Sequence[ChoiceOption]]
"""Returns the options that match what was typed, in whatever they stand for. It may take long and runs in a thread."""


class ChoicePrompt:
    """A question with options, while it is open."""

    def __init__(
        self,
        title: str,
        options: list[ChoiceOption],
        *,
        multiple: bool = False,
        cursor: int = 0,
        filters: bool = False,
        search: SearchOptions | None = None,
    ) -> None:
        self.title = title
        self.options = options
        self.multiple = multiple
        self.filters = filters
        self.search = search
        self.query = ""
        """What was typed to narrow the list."""
        self.visible = [*range(len(options))]
        """The options that match it, by index."""
        self.cursor = min(cursor, max(len(options) - 1, 0))
        """The index of the option that Enter chooses."""
        self._found: dict[str, str] = {}
        """The details of the options that the search found for what is typed now, by their ids."""
        self.marked: set[int] = set()
        self.text_option: ChoiceOption | None = None
        """The chosen option that waits for its text."""

    def press(self, key: str) -> ChoiceResult | None:
        """Handle a key; return the result if the key chose one."""
        match key:
            case "up" | "down":
                self._move(1 if key == "down" else -1)
            case "space" if self.multiple:
                self.marked ^= {self.cursor}
            case "enter":
                return self._choose(self.cursor) if self.cursor in self.visible else None
            case "backspace" if self.filters:
                self.set_query(self.query[:-1])
            case _ if self.filters:
                typed = " " if key == "space" else key
                if typed.isprintable():
                    self.set_query(self.query + typed)
            case _:
                return self._choose_by_key(key)
        return None

    def set_query(self, query: str) -> None:
        """Narrow the list to the options that match."""
        self.query, self._found = query, {}
        self._narrow()

    def add_found(self, query: str, found: Sequence[ChoiceOption]) -> None:
        """Take the options that a search found; those that are not in the list are added to it."""
        if query != self.query:
            return  # more was typed meanwhile
        known = {option.id for option in self.options}
        self.options += [option for option in found if option.id not in known]
        self._found = {option.id: option.detail for option in found}
        self._narrow()

    def detail(self, index: int) -> str:
        """Return what stands beside an option: where it was found, or what it says of itself."""
        return self._found.get(self.options[index].id) or self.options[index].detail

    def _narrow(self) -> None:
        words = self.query.casefold().split()
        self.visible = [
            index
            for index, option in enumerate(self.options)
            if (option.id and option.id in self._found)
            or all(word in f"{option.label} {option.detail}".casefold() for word in words)
        ]
        if self.cursor not in self.visible:
            self.cursor = self.visible[0] if self.visible else -1

    def _move(self, step: int) -> None:
        if self.visible:
            place = self.visible.index(self.cursor)
            self.cursor = self.visible[(place + step) % len(self.visible)]

    def enter_text(self, text: str) -> ChoiceResult:
        """Return the result with the text that the chosen option needed."""
        return ChoiceResult(self._indices(self.cursor), text.strip())

    def window(self) -> list[int]:
        """Return the indices of the options that are shown: those around the cursor."""
        place = self.visible.index(self.cursor) if self.cursor in self.visible else 0
        first = max(0, min(place - MAX_ROWS // 2, len(self.visible) - MAX_ROWS))
        return self.visible[first : first + MAX_ROWS]

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
