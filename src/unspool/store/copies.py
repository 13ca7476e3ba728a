"""One hit for what is there several times: scored matches in, each passage once out. Pure.

Rules
  1. A line that several files have, or that was written again, is one hit: in the file of its own session if that has
     it, rather in a file that is there than in the archive, rather as it is now than as it was.
  2. Lines without a uuid are one if their session, kind, text and time are.
  3. Structured data that repeats the result on its line is no hit of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from unspool.store.matches import Match

S = TypeVar("S")


class Scored(NamedTuple):
    """A match, or a row of the index that will be one when its line is read."""

    score: float
    time: int
    match: Match | None
    row: tuple[Any, ...] = ()


def one_of_each(found: Iterable[tuple[Scored, S]]) -> list[tuple[Scored, S]]:
    """Return what was found without what is there twice, the best first; whatever comes with each stays with it."""
    found = list(found)
    results = {
        _line(one.match): one.match.matched for one, _ in found if one.match and one.match.passage.kind == "tool_result"
    }
    chosen: dict[object, tuple[Scored, S]] = {}
    for one, where in sorted(found, key=lambda pair: order(pair[0])):
        match = one.match
        assert match is not None
        if match.passage.kind == "structured" and match.matched <= results.get(_line(match), frozenset()):
            continue
        same = key(match)
        known = chosen.get(same)
        if known is None:
            chosen[same] = (one, where)
        elif known[0].match is not None and _strangeness(match) < _strangeness(known[0].match):
            chosen[same] = (one._replace(score=known[0].score), where)
    return list(chosen.values())


def order(one: Scored) -> tuple[float, int, str, int, int]:
    """Return what matches are sorted by: the best first, then the newest."""
    if one.match is None:
        return (-one.score, -one.time, "", -one.row[0], one.row[2])
    return (-one.score, -one.time, one.match.haystack.path, one.match.offset, one.match.number)


def key(match: Match) -> object:
    """Return what copies of a passage have in common."""
    if match.uuid is not None:
        return match.uuid, match.passage.kind, match.number, match.digest
    if match.haystack.kind == "tool-result":
        return match.haystack.path
    return match.session_id, match.passage.kind, match.digest, match.timestamp


def _strangeness(match: Match) -> tuple[bool, int, int, str]:
    """Return how little a file is where a passage belongs."""
    haystack = match.haystack
    return match.session_id != haystack.session_id, haystack.kept, -haystack.generation, haystack.path


def place(match: Match) -> tuple[str, int, int, int]:
    """Return where a passage stands."""
    return match.haystack.path, match.haystack.generation, match.offset, match.number


def _line(match: Match | None) -> tuple[str, int, int] | None:
    return place(match)[:3] if match else None
