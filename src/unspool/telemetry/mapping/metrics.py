"""Maps the spans of a session to data points: sums that grow from the beginning of the session on.

Rules
  1. Points are made from spans alone, so both say the same.
  2. A series is a session's: sessions can be sent one by one, and again, and each sum stays true. It begins a
     millisecond before the session does, whatever is added later.
  3. A series has a point for each quarter of an hour in which it grew, at the time of the last change in it.
  4. A session's file may name any number of models and tools: those after the first `MAX_VALUES` count as one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from unspool.format import QUARTER
from unspool.telemetry.mapping import signals
from unspool.telemetry.mapping.signals import INSTRUMENTS, Attributes, DataPoint, Distribution, Span, SpanKind
from unspool.telemetry.mapping.spans import OTHER

MAX_VALUES: Final = 100
"""Different values of one attribute in the series of a session."""
_LIMITED: Final = frozenset({"gen_ai.request.model", "gen_ai.tool.name", "unspool.project", "error.type"})
_SHARED: Final = ("gen_ai.conversation.id", "unspool.project")
_MODEL: Final = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model")

_Key: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]


class _Change(NamedTuple):
    """By how much a series grows at a time."""

    time: int
    metric: str
    attributes: tuple[tuple[str, str], ...]
    amount: int | float


def map_points(spans: Sequence[Span]) -> list[DataPoint]:
    """Return the data points of a session's spans, of each series in the order of their times."""
    if not spans:
        return []
    start = max(0, spans[0].start - 1)
    limit = _ValueLimit()
    changes = sorted(
        (change._replace(attributes=limit.apply(change.attributes)) for span in spans for change in _changes(span)),
        key=lambda change: max(change.time, start + 1),
    )
    series: dict[_Key, _Series] = {}
    for change in changes:
        key = (change.metric, change.attributes)
        if (points := series.get(key)) is None:
            points = series[key] = _Series(change.metric, dict(change.attributes), start)
        points.add(max(change.time, start + 1), change.amount)
    return [point for points in series.values() for point in points.finish()]


class _ValueLimit:
    """Replaces the values of an attribute after the first `MAX_VALUES`."""

    def __init__(self) -> None:
        self._seen: dict[str, set[str]] = {}

    def apply(self, attributes: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple((name, self._limited(name, value)) for name, value in attributes)

    def _limited(self, name: str, value: str) -> str:
        if name not in _LIMITED:
            return value
        seen = self._seen.setdefault(name, set())
        if value not in seen and len(seen) >= MAX_VALUES:
            return OTHER
        seen.add(value)
        return value


class _Series:
    """The points of one series so far, and what it amounts to."""

    def __init__(self, metric: str, attributes: Attributes, start: int) -> None:
        self._metric, self._attributes, self._start = metric, attributes, start
        self._bounds = INSTRUMENTS[metric].boundaries
        self._points: list[DataPoint] = []
        self._time: int | None = None
        # Money is added up in whole micro-dollars: a sum of fractions would not be what `usage` says.
        self._sum: int | float = 0
        self._count, self._least, self._most = 0, float("inf"), 0.0
        self._buckets = [0] * (len(self._bounds) + 1)

    def add(self, time: int, amount: int | float) -> None:
        if self._time is not None and time // QUARTER != self._time // QUARTER:
            self._points.append(self._point())
        self._time = time
        self._sum += amount
        if self._bounds:
            self._count += 1
            self._least, self._most = min(self._least, amount), max(self._most, amount)
            self._buckets[bisect_left(self._bounds, amount)] += 1

    def finish(self) -> list[DataPoint]:
        return [*self._points, self._point()]

    def _point(self) -> DataPoint:
        value: int | float | Distribution = self._sum
        if self._bounds:
            value = Distribution(self._count, round(float(self._sum), 3), self._least, self._most, tuple(self._buckets))
        elif self._metric == signals.COST:
            value = self._sum / 1_000_000
        return DataPoint(
            metric=self._metric, attributes=self._attributes, start=self._start, time=self._time or 0, value=value
        )


def _changes(span: Span) -> Iterator[_Change]:
    match span.attributes.get("gen_ai.operation.name"):
        case "chat" if span.is_failed:
            yield from _counted(span, signals.ERRORS, ("gen_ai.operation.name", "error.type"))
        case "chat":
            yield from _request_changes(span)
        case "execute_tool":
            yield from _call_changes(span)
        case "invoke_agent" if "unspool.turn.kind" in span.attributes:
            yield from _counted(span, signals.TURNS, ("unspool.turn.kind",))
        case _:
            pass


def _counted(span: Span, metric: str, names: Sequence[str]) -> Iterator[_Change]:
    yield _Change(span.end, metric, _labels(span, names), 1)


def _request_changes(span: Span) -> Iterator[_Change]:
    assert span.kind is SpanKind.CLIENT
    labels = _labels(span, _MODEL)

    def change(metric: str, amount: int | float, *more: tuple[str, str]) -> _Change:
        return _Change(span.end, metric, (*labels, *more), amount)

    prompt, output = _number(span, "gen_ai.usage.input_tokens"), _number(span, "gen_ai.usage.output_tokens")
    read = _number(span, "gen_ai.usage.cache_read.input_tokens")
    short = _number(span, "unspool.usage.cache_creation_5m.input_tokens")
    long = _number(span, "unspool.usage.cache_creation_1h.input_tokens")
    yield change(signals.RESPONSES, 1)
    yield change(signals.TOKEN_USAGE, prompt, ("gen_ai.token.type", "input"))
    yield change(signals.TOKEN_USAGE, output, ("gen_ai.token.type", "output"))
    kinds = {
        "input": prompt - read - short - long,
        "output": output,
        "cache_read": read,
        "cache_write_5m": short,
        "cache_write_1h": long,
    }
    for kind, amount in kinds.items():
        if amount:
            yield change(signals.TOKENS, amount, ("unspool.token.type", kind))
    cost = span.attributes.get("unspool.cost")
    if isinstance(cost, float):
        yield change(signals.COST, round(cost * 1_000_000))
    for metric, name in (
        (signals.UNPRICED, "unspool.unpriced_tokens"),
        (signals.WEB_SEARCHES, "unspool.usage.web_searches"),
    ):
        if amount := _number(span, name):
            yield change(metric, amount)
    if span.end > span.start:
        yield change(signals.OPERATION_DURATION, (span.end - span.start) / 1000)


def _call_changes(span: Span) -> Iterator[_Change]:
    yield from _counted(span, signals.TOOL_CALLS, ("gen_ai.tool.name", "unspool.tool.state"))
    if span.is_failed:
        yield from _counted(span, signals.ERRORS, ("gen_ai.operation.name", "gen_ai.tool.name", "error.type"))
    if span.end > span.start:
        names = ("gen_ai.operation.name", "gen_ai.tool.name", "error.type")
        yield _Change(span.end, signals.TOOL_DURATION, _labels(span, names), (span.end - span.start) / 1000)


def _labels(span: Span, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    found = ((name, span.attributes.get(name)) for name in (*_SHARED, *names))
    return tuple((name, value) for name, value in found if isinstance(value, str))


def _number(span: Span, name: str) -> int:
    value = span.attributes.get(name, 0)
    return value if isinstance(value, int) else 0
