"""A `Person` at a terminal: what is asked, put so that it can be judged; what is picked, as an answer.

Rules
  1. All of what a call would do is shown before it is asked about: a whole command, a whole change. It is cleaned, so
     that it reads as what it is.
  2. Only what was picked is allowed. Esc is no, and ends the turn.

[merged: picking.py] A question with answers to pick from: keys in, what was picked out. Pure.

Rules
  1. Nothing is picked by a key that was pressed before the question could be read (`PAUSE`).
  2. What is shown is cleaned by whoever shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from unspool.client.protocols import Choice, Permit, Ruling, Wish
from unspool.client.ui.render import Drawing
from unspool.display.safe import clean_line

PAUSE = 0.4
"""Seconds during which keys are meant for what was there before."""
ROWS = 9
"""Answers that are shown at a time."""


class Option(NamedTuple):
    """An answer."""

    label: str
    detail: str = ""
    key: str = ""
    """A letter that picks it at once."""
    wants: str = ""
    """What to ask for in words, if it wants any: `what should it do instead?`"""


class Picked(NamedTuple):
    """What was picked: places, and words."""

    places: tuple[int, ...]
    words: str = ""

    @property
    def place(self) -> int:
        """The one that was picked."""
        return self.places[0]


class Picking:
    """A question while it is open."""

    def __init__(self, title: str, options: list[Option], *, several: bool = False, at: int = 0) -> None:
        self.title = title
        self.options = options
        self.several = several
        self.cursor = min(at, max(len(options) - 1, 0))
        self.marked: set[int] = set()
        self.wanted: Option | None = None
        """The answer that waits for words."""

    def press(self, key: str) -> Picked | None:
        """Take a key; return what was picked, if that is what it did."""
        match key:
            case "up" | "down":
                self.cursor = (self.cursor + (1 if key == "down" else -1)) % max(len(self.options), 1)
            case "space" if self.several:
                self.marked ^= {self.cursor}
            case "enter" if self.options:
                return self._pick(self.cursor)
            case _:
                return self._letter(key)
        return None

    def said(self, words: str) -> Picked:
        """Take the words that were wanted."""
        return Picked(self._places(self.cursor), words.strip())

    def window(self) -> range:
        """Return which answers are shown: some around the one that is looked at."""
        first = max(0, min(self.cursor - ROWS // 2, len(self.options) - ROWS))
        return range(first, min(first + ROWS, len(self.options)))

    def _letter(self, key: str) -> Picked | None:
        for place, option in enumerate(self.options):
            if key == option.key or (key == str(place + 1) and not self.several):
                self.cursor = place
                return self._pick(place)
        return None

    def _pick(self, place: int) -> Picked | None:
        if self.options[place].wants:
            self.wanted = self.options[place]
            return None
        return Picked(self._places(place))

    def _places(self, place: int) -> tuple[int, ...]:
        return tuple(sorted(self.marked)) if self.several and self.marked else (place,)


EDITS = ("Edit", "Write", "MultiEdit", "NotebookEdit")


class Asks(Protocol):
    """Where something can be shown and asked."""

    def show(self, text: str) -> None:
        """Show a text."""

    async def pick(self, picking: Picking) -> Picked | None:
        """Ask."""


class Somebody:
    """Who sits there."""

    def __init__(
        self, screen: Asks, drawing: Callable[[], Drawing], interrupt: Callable[[], object], *, trusts: bool = False
    ) -> None:
        self._screen = screen
        self._drawing = drawing
        self._interrupt = interrupt
        self._trusts = trusts
        """Whether the folder is trusted: else a rule that is kept in it would not act."""

    async def permit(self, wish: Wish, ruling: Ruling) -> Permit:
        """Ask whether a call may be made."""
        answers = _answers(wish, ruling, trusts=self._trusts)
        self._screen.show(self._drawing().wish(wish, ruling))
        who = f"the agent {wish.agent}" if wish.agent else "it"
        title = clean_line(f"May {who} do this? {wish.tool}({self._drawing().target(wish.tool, wish.input)})")
        picked = await self._screen.pick(Picking(title, [option for option, _ in answers]))
        if picked is None:
            self._interrupt()
            return Permit(allowed=False)
        permit = answers[picked.place][1]
        return permit if permit.allowed else Permit(allowed=False, words=picked.words)

    async def choose(self, choices: tuple[Choice, ...]) -> dict[str, str] | None:
        """Ask which answers are meant."""
        answers = {}
        for choice in choices:
            options = [Option(label, words) for label, words in choice.options]
            other = Option("Something else", wants="what?")
            title = f"{choice.header}: {choice.question}" if choice.header else choice.question
            picked = await self._screen.pick(Picking(title, [*options, other], several=choice.several))
            if picked is None:
                return None
            labels = [options[place].label for place in picked.places if place < len(options)]
            answers[choice.question] = ", ".join([*labels, *([picked.words] if picked.words else [])])
        return answers

    async def approve(self, plan: str) -> Permit:
        """Ask whether a plan is good."""
        self._screen.show(self._drawing().plan(plan))
        answers = [
            (Option("Yes, and make the edits without asking", key="a"), Permit(allowed=True, mode="acceptEdits")),
            (Option("Yes, and ask before each edit", key="y"), Permit(allowed=True, mode="default")),
            (Option("No, go on planning", key="n", wants="what should be different?"), Permit(allowed=False)),
        ]
        picked = await self._screen.pick(Picking("Is this plan good?", [option for option, _ in answers]))
        if picked is None:
            self._interrupt()
            return Permit(allowed=False)
        permit = answers[picked.place][1]
        return permit if permit.allowed else Permit(allowed=False, words=picked.words)


def _answers(wish: Wish, ruling: Ruling, *, trusts: bool) -> list[tuple[Option, Permit]]:
    found = [(Option("Yes", key="y"), Permit(allowed=True))]
    if wish.tool in EDITS:
        option = Option("Yes, and all edits from now on", key="a")
        found.append((option, Permit(allowed=True, mode="acceptEdits")))
    for rule in ruling.suggestions[:1] if wish.tool not in EDITS else ():
        session = Permit(allowed=True, rule=rule, keep="session")
        always = Permit(allowed=True, rule=rule, keep="local")
        found.append((Option(f"Yes, and {rule} from now on in this session", key="s"), session))
        if trusts:
            found.append((Option(f"Yes, and always {rule} in this folder", key="a"), always))
    no = Option("No, and say what to do instead", key="n", wants="what instead?")
    return [*found, (no, Permit(allowed=False))]
