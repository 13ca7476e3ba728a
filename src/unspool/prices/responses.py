"""What was billed, once each. In: what lines or files say. Out: one `Response` for each answer the API gave.

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
     or from files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from unspool.format.moments import moment
from unspool.prices.answers import Response

S = TypeVar("S", bound=int | str)
"""What a caller calls its sources: numbers or paths."""


class Counted(NamedTuple, Generic[S]):
    """A response, where the line that counts is, and where those are that were merged into it."""

    source: S
    response: Response
    merged: tuple[tuple[S, int], ...]


class Counting(Generic[S]):
    """Takes responses from any number of sources and keeps each once."""

    def __init__(self) -> None:
        self._groups: dict[str, _Once[S] | _Group[S]] = {}

    def add(self, source: S, response: Response, others: Sequence[int] = ()) -> None:
        """Take what a line, or a whole file, says of a response; `others` are lines that were merged into it before."""
        group = self._groups.get(response.id)
        if group is None:
            self._groups[response.id] = (source, response, others)
            return
        if isinstance(group, tuple):
            group = self._groups[response.id] = _Group(*group)
        group.add(source, response, others)

    def billed(self) -> Iterator[tuple[S, Response]]:
        """Yield each response once, in the order they first appeared, with the source of the line that counts."""
        for group in self._groups.values():
            yield group[:2] if isinstance(group, tuple) else group.billed()

    def counted(self) -> Iterator[Counted[S]]:
        """Yield the same, with the lines that were merged."""
        for group in self._groups.values():
            if isinstance(group, tuple):
                source, response, others = group
                yield Counted(source, response, tuple((source, offset) for offset in others))
            else:
                yield Counted(*group.billed(), tuple(sorted(group.others)))


_Once: TypeAlias = tuple[S, Response, Sequence[int]]
"""What is known of a response that was told of once, as most are; with nothing to compare, no more is needed."""


def unique(found: Iterable[tuple[S, Response]]) -> list[Counted[S]]:
    """Return each response once, whichever sources have it, in the order they first appear."""
    counting = Counting[S]()
    for source, response in found:
        counting.add(source, response)
    return list(counting.counted())


class _Group(Generic[S]):
    """What was said of one response so far."""

    __slots__ = ("_best", "_earliest", "_final", "_sizes", "_source", "others")

    def __init__(self, source: S, response: Response, others: Sequence[int]) -> None:
        self._source, self._best = source, response
        self._earliest, self._final = response.timestamp, response.final
        self.others: list[tuple[S, int]] = [(source, offset) for offset in others]
        self._sizes: dict[S, int] = {source: response.size}
        """The size in each source."""

    def add(self, source: S, response: Response, others: Sequence[int]) -> None:
        self.others += [(source, offset) for offset in others]
        if _before(source, response, self._source, self._best):
            self.others.append((self._source, self._best.offset))
            self._source, self._best = source, response
        else:
            self.others.append((source, response.offset))
        if _is_earlier(response.timestamp, self._earliest):
            self._earliest = response.timestamp
        self._final = self._final or response.final
        self._sizes[source] = self._sizes.get(source, 0) + response.size

    def billed(self) -> tuple[S, Response]:
        size = 0 if self._final else max(self._sizes.values())
        return self._source, replace(self._best, timestamp=self._earliest, final=self._final, size=size)


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
    """Compare times, whatever their offset; those that are none come last. Of one moment, what is written decides."""
    if timestamp == other:
        return False
    time, other_time = moment(timestamp), moment(other)
    if time is None or other_time is None or time == other_time:
        return (time is None, timestamp or "") < (other_time is None, other or "")
    return time < other_time
