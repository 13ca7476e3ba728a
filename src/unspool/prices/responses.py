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

from collections.abc import Iterable, Iterator
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


class Counting(Generic[S]):
    """Takes responses from any number of sources and keeps each once."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group[S]] = {}

    def add(self, source: S, response: Response) -> None:
        """Take what a line, or a whole file, says of a response."""
        group = self._groups.get(response.id)
        if group is None:
            self._groups[response.id] = _Group(source, response)
        else:
            group.add(source, response)

    def repeat(self, source: S, id: str, offset: int, *, final: bool, size: int) -> None:
        """Take a line that cannot count, of a response that is there already."""
        self._groups[id].repeat(source, offset, final=final, size=size)

    def counted(self) -> Iterator[Counted[S]]:
        """Yield each response once, in the order they first appeared."""
        return (group.counted() for group in self._groups.values())


def responses(entries: Iterable[Entry], file: str = "") -> list[Response]:
    """Return the responses of a file, in the order they first appear; `file` is its name or path."""
    found = (of_entry(entry, file) for entry in entries)
    return [counted.response for counted in unique((0, one) for one in found if isinstance(one, Response))]


def unique(found: Iterable[tuple[S, Response]]) -> list[Counted[S]]:
    """Return each response once, whichever sources have it, in the order they first appear."""
    counting = Counting[S]()
    for source, response in found:
        counting.add(source, response)
    return list(counting.counted())


class _Group(Generic[S]):
    """What was said of one response so far."""

    __slots__ = ("_best", "_earliest", "_final", "_others", "_sizes", "_source")

    def __init__(self, source: S, response: Response) -> None:
        self._source, self._best = source, response
        self._earliest, self._final = response.timestamp, response.final
        self._others: list[tuple[S, int]] = []
        self._sizes = {source: response.size}

    def add(self, source: S, response: Response) -> None:
        if _before(source, response, self._source, self._best):
            self._others.append((self._source, self._best.offset))
            self._source, self._best = source, response
        else:
            self._others.append((source, response.offset))
        if _is_earlier(response.timestamp, self._earliest):
            self._earliest = response.timestamp
        self._final = self._final or response.final
        self._sizes[source] = self._sizes.get(source, 0) + response.size

    def repeat(self, source: S, offset: int, *, final: bool, size: int) -> None:
        self._others.append((source, offset))
        self._final = self._final or final
        self._sizes[source] = self._sizes.get(source, 0) + size

    def counted(self) -> Counted[S]:
        if not self._others:
            return Counted(self._source, self._best, ())
        size = 0 if self._final else max(self._sizes.values())
        response = replace(self._best, timestamp=self._earliest, final=self._final, size=size)
        return Counted(self._source, response, tuple(sorted(self._others)))


def _before(source: S, response: Response, other_source: S, other: Response) -> bool:
    """Tell whether the first of two counts (rule 1)."""
    if response.output != other.output:
        return response.output > other.output
    rank, other_rank = _rank(response), _rank(other)
    if rank != other_rank:
        return rank < other_rank
    if response.counted_at != other.counted_at:
        return _is_earlier(response.counted_at, other.counted_at)
    return (source, response.offset) < (other_source, other.offset)


def _rank(response: Response) -> tuple[bool, int, int, bool, bool]:
    return (
        response.sidechain,
        -response.prompt,
        -response.web_searches,
        response.retold,
        not response.at_home,
    )


def _is_earlier(timestamp: str | None, other: str | None) -> bool:
    """Compare times. As the program writes them (`2026-01-05T09:00:00.000Z`) they sort as they are."""
    if timestamp and other and len(timestamp) == len(other) == _WRITTEN and timestamp[-1] == other[-1] == "Z":
        return timestamp < other
    return _time(timestamp) < _time(other)


_WRITTEN = len("2026-01-05T09:00:00.000Z")


def _time(timestamp: str | None) -> tuple[bool, int, str]:
    """Return what sorts timestamps by time, whatever their offset; those that are none come last."""
    try:
        time = datetime.fromisoformat(timestamp or "")
    except ValueError:
        return True, 0, timestamp or ""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return False, (aware - _EPOCH) // timedelta(microseconds=1), timestamp or ""
