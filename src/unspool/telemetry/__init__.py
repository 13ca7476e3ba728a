"""Sends sessions as traces and metrics to receivers of OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.telemetry.endpoint import SIGNALS, TelemetryEndpoint, read_endpoint
    from unspool.telemetry.exporter import TelemetryExporter, TelemetryReport
    from unspool.telemetry.protobuf import check_messages
    from unspool.telemetry.sender import SendTiming, TelemetrySender
    from unspool.telemetry.session_reader import SessionGroup, group_sessions

__all__ = [
    "SIGNALS", "SendTiming", "SessionGroup", "TelemetryEndpoint", "TelemetryExporter", "TelemetryReport",
    "TelemetrySender", "check_messages", "group_sessions", "read_endpoint",
]

__getattr__ = lazy_door(__name__, {
    "endpoint": "SIGNALS TelemetryEndpoint read_endpoint",
    "exporter": "TelemetryExporter TelemetryReport",
    "protobuf": "check_messages",
    "sender": "SendTiming TelemetrySender",
    "session_reader": "SessionGroup group_sessions",
})
