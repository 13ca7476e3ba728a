"""Passages that match: a passage and its line in, what is told of it out. Pure.

Nothing heavy is imported here: a search that the index answers needs no more.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Protocol

from unspool.graph.passages import Json, Passage
from unspool.store.haystacks import Haystack

BEFORE, AFTER = "«", "»"
"""What marks a match in a snippet."""

_AROUND: Final = 60
_LONGEST: Final = 200
_BLANKS = re.compile(r"\s+")


class Asked(Protocol):
    """What is looked for: words, or a pattern."""

    @property
    def needle(self) -> bytes | str:
        """A pattern for re2 of what every line that matches has."""

    @property
    def is_raw(self) -> bool:
        """Whether bytes are what matters, whatever text they are in."""

    def may_be_in(self, line: bytes) -> bool:
        """Tell whether a line could match."""

    def count(self, text: str) -> int:
        """Return how often a text matches."""

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return where in a text it matches."""


class Match(NamedTuple):
    """A passage that matches, and what its line says of it."""

    haystack: Haystack
    offset: int
    number: int
    passage: Passage
    """Without its text."""
    snippet: str
    times: int
    """How often it matches."""
    length: int
    """Characters of the text."""
    matched: frozenset[str]
    """What in the text matches, in lower case."""
    digest: int
    """Tells texts apart."""
    uuid: str | None
    timestamp: str | None
    session_id: str | None
    agent_id: str | None
    cwd: str | None
    indexed: bool = True
    """Whether the index would find it, were it up to date."""


def match(asked: Asked, haystack: Haystack, place: tuple[int, int], passage: Passage, line: Json) -> Match:
    """Return a passage as a match; `place` is the line's offset and the passage's number."""
    text = passage.text
    spans = asked.spans(text)
    return Match(
        haystack,
        *place,
        passage._replace(text=""),
        snippet(text, spans),
        max(len(spans), 1),
        len(text),
        frozenset(text[start:end].lower() for start, end in spans),
        hash(text),
        _text(line.get("uuid")),
        _text(line.get("timestamp")),
        _text(line.get("sessionId")) or _text(line.get("session_id")),
        _text(line.get("agentId")),
        _text(line.get("cwd")),
    )


def snippet(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the words around the first match, on one line, with all matches in them marked."""
    first, last = spans[0] if spans else (0, 0)
    start = max(first - _AROUND, 0)
    end = min(max(last + _AROUND, start + 2 * _AROUND), start + _LONGEST, len(text))
    pieces, at = ["…" if start else ""], start
    for begins, ends in spans:
        if at <= begins < end:
            ends = min(ends, end)
            pieces += [text[at:begins], BEFORE, text[begins:ends], AFTER]
            at = ends
    pieces += [text[at:end], "…" if end < len(text) else ""]
    return _BLANKS.sub(" ", "".join(pieces)).strip()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
