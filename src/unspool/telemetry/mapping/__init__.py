"""Maps the records of sessions to spans and data points of OpenTelemetry. Pure: it knows no wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.telemetry.mapping.metrics import map_points
    from unspool.telemetry.mapping.records import AgentRecords, BilledRequest, SessionCopy, TracedSession
    from unspool.telemetry.mapping.signals import (
        INSTRUMENTS, MAPPING_EDITION, SCHEMA_URL, Attributes, DataPoint, Distribution, Instrument, Span, SpanKind,
        digest_signal, make_span_id, make_trace_id, point_key,
    )
    from unspool.telemetry.mapping.spans import map_spans
    from unspool.telemetry.mapping.texts import TextPolicy

__all__ = [
    "INSTRUMENTS", "MAPPING_EDITION", "SCHEMA_URL", "AgentRecords", "Attributes", "BilledRequest", "DataPoint",
    "Distribution", "Instrument", "SessionCopy", "Span", "SpanKind", "TextPolicy", "TracedSession", "digest_signal",
    "make_span_id", "make_trace_id", "map_points", "map_spans", "point_key",
]

__getattr__ = lazy_door(__name__, {
    "metrics": "map_points",
    "records": "AgentRecords BilledRequest SessionCopy TracedSession",
    "signals":
        "INSTRUMENTS MAPPING_EDITION SCHEMA_URL Attributes DataPoint Distribution Instrument Span SpanKind "
        "digest_signal make_span_id make_trace_id point_key",
    "spans": "map_spans",
    "texts": "TextPolicy",
})
