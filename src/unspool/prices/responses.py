"""What was billed, once each. In: entries. Out: one `Response` for each answer the API gave.

Every line of an answer repeats its usage, and resumed sessions, forks, replayed sidechains and progress lines repeat
the lines.

Rules
  1. Of the lines of a response one counts, with all its numbers: the one with the most output tokens; then one of the
     main chain before a sidechain's; then the one with the most other tokens; then an agent's own line before a
     progress line that tells of it; then one in the file named after its session or agent that was not forked from
     another; then the earliest; then source and offset decide.
  2. A response is dated by the earliest of its lines, and final when any of them has a stop reason; if none has, the
     output may be a count from the beginning of the stream.
  3. The order of lines and of files changes nothing; nor does it matter whether files are put together from lines
     (`of_entry`) or from responses (`responses`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from unspool.format.entry import Entry
from unspool.prices.answers import Response, of_entry

S = TypeVar("S", bound=int | str)
"""What a caller calls its sources: numbers or paths."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Counted(NamedTuple, Generic[S]):
    """A response, where the line that counts is, and where those are that were merged into it."""

    source: S
    response: Response
    merged: tuple[tuple[S, int], ...]


def responses(entries: Iterable[Entry], file: str = "") -> list[Response]:
    """Return the responses of a file, in the order they first appear; `file` is its name or path."""
    found = (of_entry(entry, file) for entry in entries)
    return [counted.response for counted in unique((0, one) for one in found if isinstance(one, Response))]


def unique(found: Iterable[tuple[S, Response]]) -> list[Counted[S]]:
    """Return each response once, whichever sources have it, in the order they first appear."""
    groups: dict[str, list[tuple[S, Response]]] = {}
    for source, response in found:
        groups.setdefault(response.id, []).append((source, response))
    return [_counted(group) for group in groups.values()]


def _counted(group: list[tuple[S, Response]]) -> Counted[S]:
    (source, best), *others = group if len(group) == 1 else sorted(group, key=lambda pair: _rank(*pair))
    if not others:
        return Counted(source, best, ())
    timestamp = min((response.timestamp for _, response in group), key=_time)
    final = any(response.final for _, response in group)
    merged = tuple((place, response.offset) for place, response in others)
    return Counted(source, replace(best, timestamp=timestamp, final=final), merged)


def _rank(source: S, response: Response) -> tuple[object, ...]:
    """Return what puts the line that counts first (rule 1)."""
    return (
        -response.output,
        response.sidechain,
        -response.prompt,
        -response.web_searches,
        response.retold,
        not response.at_home,
        _time(response.counted_at),
        source,
        response.offset,
    )


def _time(timestamp: str | None) -> tuple[bool, int, str]:
    """Return what sorts timestamps by time, whatever their offset; those that are none come last."""
    try:
        time = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return True, 0, timestamp or ""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return False, (aware - _EPOCH) // timedelta(microseconds=1), timestamp or ""
