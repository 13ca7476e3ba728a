"""What a shell command is made of: words, redirections, parts. Data only."""

from __future__ import annotations

from typing import NamedTuple


class Word(NamedTuple):
    """A word of a command."""

    text: str
    raw: str
    has_variable: bool = False
    """Something comes in its place that is not known here: a variable, the output of a command."""
    has_glob: bool = False
    has_braces: bool = False
    has_tilde: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the program gets exactly this text."""
        return not (self.has_variable or self.has_glob or self.has_braces or self.has_tilde)


class Redirect(NamedTuple):
    """A file that a part reads or writes by itself."""

    is_write: bool
    target: Word


class Part(NamedTuple):
    """A simple command."""

    words: tuple[Word, ...] = ()
    assigned: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    scripts: tuple[str, ...] = ()
    """Texts that it is fed with by `<<` and `<<<`."""
    raw: str = ""

    @property
    def program(self) -> str:
        """The first word; nothing if there is none."""
        return self.words[0].text if self.words else ""


class Command(NamedTuple):
    """All that a text would run."""

    parts: tuple[Part, ...]
    doubts: tuple[str, ...] = ()
