"""Sends the spans and data points of sessions, as far as the receiver has not confirmed them.

Rules
  1. What was confirmed is recorded request by request: after a failure or a kill in the middle, the next run sends the
     rest. Ids and points depend on the sessions alone, so what is sent twice counts once.
  2. A session that cannot be read is left out and named; the others are sent.
  3. What a receiver rejects of a request it took (`partial_success`) is counted and named, and not sent again, as the
     protocol demands. A request that is too large is divided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from unspool.errors import TelemetryFailed, UnspoolError
from unspool.read import Skipped
from unspool.store import StoreAccess
from unspool.telemetry.endpoint import METRICS, TRACES, TelemetryEndpoint
from unspool.telemetry.mapping import (
    MAPPING_EDITION,
    DataPoint,
    Span,
    TextPolicy,
    digest_signal,
    map_points,
    map_spans,
    point_key,
)
from unspool.telemetry.positions import SentItem, SentPositions, open_positions, session_key
from unspool.telemetry.protobuf import decode_rejection, encode_points, encode_spans
from unspool.telemetry.sender import TelemetrySender
from unspool.telemetry.session_reader import SessionGroup, group_sessions

_MAX_ITEMS: Final = 512
"""Spans or points of one request."""
_MAX_BYTES: Final = 2_000_000
"""Of a request before it is compressed, approximately; receivers take 4 MB and more."""
_MAX_NOTES: Final = 5


class TelemetryReport(msgspec.Struct):
    """What was sent."""

    sessions: int = 0
    """Sessions of which something was sent."""
    unchanged: int = 0
    """Sessions of which the receiver has everything."""
    spans: int = 0
    points: int = 0
    rejected: int = 0
    """Spans and points that the receiver did not take."""
    notes: list[str] = []
    """What the receiver said about those."""
    redactions: dict[str, int] = {}
    """Secrets that were replaced in what was read, by kind."""


class _Waiting(NamedTuple):
    """A span or point that waits to be sent."""

    sent: SentItem
    signal: Span | DataPoint
    size: int


class _Finished(NamedTuple):
    """A session of which everything is sent or waits."""

    session: bytes
    fingerprint: bytes
    items: frozenset[bytes]


class TelemetryExporter:
    """Sends sessions to one receiver."""

    def __init__(
        self,
        endpoint: TelemetryEndpoint,
        sender: TelemetrySender,
        texts: TextPolicy,
        rules_version: str,
        *,
        again: bool = False,
    ) -> None:
        """Take the receiver, what decides on texts, and the version of its rules; `again` sends all once more."""
        self._endpoint, self._sender, self._texts = endpoint, sender, texts
        self._resource = {name: texts.name(value) for name, value in endpoint.resource}
        self._editions = (str(MAPPING_EDITION), rules_version, str(texts.content))
        self._again = again
        self.report = TelemetryReport()

    def send(
        self,
        access: StoreAccess,
        is_chosen: Callable[[SessionGroup], bool],
        on_session: Callable[[int], None] = lambda _: None,
    ) -> TelemetryReport:
        """Send the chosen sessions; `on_session` is called with the bytes of each."""
        with open_positions(access.folder, self._endpoint.identity) as positions:
            batch = _Batch(self._endpoint, self._sender, positions, self._resource, self.report)
            for group in group_sessions(access):
                if is_chosen(group):
                    try:
                        self._send_group(group, positions, batch)
                    except TelemetryFailed:
                        raise
                    except UnspoolError as error:
                        access.skip(*(Skipped(session.path, error.reason) for session in group.sessions))
                    on_session(sum(session.source.size for session in group.sessions))
            batch.flush()
        self.report.redactions = dict(sorted(self._texts.redactions.items()))
        return self.report

    def _send_group(self, group: SessionGroup, positions: SentPositions, batch: _Batch) -> None:
        key, fingerprint = session_key(group.id), group.fingerprint(*self._editions)
        if not self._again and positions.fingerprint(key) == fingerprint:
            self.report.unchanged += 1
            return
        spans = map_spans(group.read(), self._texts)
        known = {} if self._again else positions.digests(key)
        items: list[tuple[str, bytes, Span | DataPoint]] = [(TRACES, b"s" + span.span_id, span) for span in spans]
        items += [(METRICS, b"p" + point_key(point), point) for point in map_points(spans)]
        items = [item for item in items if item[0] in self._endpoint.signals]
        is_new = False
        for signal, item, encoded in items:
            digest = digest_signal(encoded)
            if known.get(item) != digest:
                is_new = True
                batch.add(signal, SentItem(key, item, digest), encoded)
        self.report.sessions += is_new
        self.report.unchanged += not is_new
        batch.finish(_Finished(key, fingerprint, frozenset(item for _, item, _ in items)))


class _Batch:
    """Collects spans and points until there are enough for a request, and sends them."""

    def __init__(
        self,
        endpoint: TelemetryEndpoint,
        sender: TelemetrySender,
        positions: SentPositions,
        resource: dict[str, str],
        report: TelemetryReport,
    ) -> None:
        self._endpoint, self._sender, self._positions = endpoint, sender, positions
        self._resource, self._report = resource, report
        self._waiting: dict[str, list[_Waiting]] = {TRACES: [], METRICS: []}
        self._sizes: Counter[str] = Counter()
        self._finished: list[_Finished] = []

    def add(self, signal: str, item: SentItem, encoded: Span | DataPoint) -> None:
        """Add a span or a point; if there are enough, send them."""
        size = len(msgspec.msgpack.encode(encoded))
        if self._sizes[signal] + size > _MAX_BYTES or len(self._waiting[signal]) >= _MAX_ITEMS:
            self._flush_signal(signal)
        self._waiting[signal].append(_Waiting(item, encoded, size))
        self._sizes[signal] += size

    def finish(self, finished: _Finished) -> None:
        """Note that all of a session was added."""
        self._finished.append(finished)
        if len(self._finished) >= _MAX_ITEMS or not any(self._waiting.values()):
            self.flush()

    def flush(self) -> None:
        """Send what waits; then the sessions that were added are done."""
        for signal in self._waiting:
            self._flush_signal(signal)
        for one in self._finished:
            self._positions.finish(*one)
        self._finished.clear()

    def _flush_signal(self, signal: str) -> None:
        waiting, self._waiting[signal], self._sizes[signal] = self._waiting[signal], [], 0
        if waiting:
            self._post(signal, waiting)

    def _post(self, signal: str, waiting: Sequence[_Waiting]) -> None:
        try:
            answer = self._sender.post(signal, self._encode(signal, [one.signal for one in waiting]))
        except TelemetryFailed as error:
            if not error.is_too_large or len(waiting) == 1:
                raise
            half = len(waiting) // 2
            self._post(signal, waiting[:half])
            self._post(signal, waiting[half:])
            return
        rejected, words = decode_rejection(answer)
        self._positions.record(one.sent for one in waiting)
        self._report.rejected += min(rejected, len(waiting))
        note = self._endpoint.hide_secrets(" ".join(words.split()))
        if note and note not in self._report.notes and len(self._report.notes) < _MAX_NOTES:
            self._report.notes.append(note)
        if signal == TRACES:
            self._report.spans += len(waiting)
        else:
            self._report.points += len(waiting)

    def _encode(self, signal: str, found: Iterable[Span | DataPoint]) -> bytes:
        if signal == TRACES:
            return encode_spans((one for one in found if isinstance(one, Span)), self._resource)
        return encode_points((one for one in found if isinstance(one, DataPoint)), self._resource)
