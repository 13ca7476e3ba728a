"""Collects sessions of many machines: the collector on each of them, and the lake that reads what they send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.collect.collector import (
        add_progress, collect_sessions, limit_rate, preview_segments, publish_progress,
    )
    from unspool.collect.enrolment import (
        Enrolment, check_device_name, enrol_device, enrol_with_token, parse_enrolment_options, read_enrolment,
        remove_enrolment, replace_enrolment, rotate_device_key,
    )
    from unspool.collect.flush_schedule import FlushSchedule
    from unspool.collect.foreign_offsets import read_offsets, write_offsets
    from unspool.collect.heartbeat import DeviceHeartbeat, describe_system, send_heartbeat
    from unspool.collect.metrics import MetricFamily, epoch_seconds, format_metrics
    from unspool.collect.object_store import open_object_store
    from unspool.collect.segment_maker import CollectionPlan, CollectionReport, SegmentTools
    from unspool.collect.selection import OPTIONAL, CollectCandidate, SelectionRules, find_candidates, is_refused
    from unspool.collect.service_units import (
        COLLECTOR, INGEST, Service, log_path, service_commands, unit_path, unit_text,
    )
    from unspool.collect.state import collector_lock, known_targets, open_state

__all__ = [
    "COLLECTOR", "INGEST", "OPTIONAL", "CollectCandidate", "CollectionPlan", "CollectionReport", "DeviceHeartbeat",
    "Enrolment", "FlushSchedule", "MetricFamily", "SegmentTools", "SelectionRules", "Service", "add_progress",
    "check_device_name", "collect_sessions", "collector_lock", "describe_system", "enrol_device",
    "enrol_with_token", "epoch_seconds", "find_candidates", "format_metrics", "is_refused", "known_targets",
    "limit_rate", "log_path", "open_object_store", "open_state", "parse_enrolment_options", "preview_segments",
    "publish_progress", "read_enrolment", "read_offsets", "remove_enrolment", "replace_enrolment",
    "rotate_device_key", "send_heartbeat", "service_commands", "unit_path", "unit_text", "write_offsets",
]

__getattr__ = lazy_door(__name__, {
    "collector": "add_progress collect_sessions limit_rate preview_segments publish_progress",
    "enrolment":
        "Enrolment check_device_name enrol_device enrol_with_token parse_enrolment_options read_enrolment "
        "remove_enrolment replace_enrolment rotate_device_key",
    "flush_schedule": "FlushSchedule",
    "foreign_offsets": "read_offsets write_offsets",
    "heartbeat": "DeviceHeartbeat describe_system send_heartbeat",
    "metrics": "MetricFamily epoch_seconds format_metrics",
    "object_store": "open_object_store",
    "segment_maker": "CollectionPlan CollectionReport SegmentTools",
    "selection": "OPTIONAL CollectCandidate SelectionRules find_candidates is_refused",
    "service_units": "COLLECTOR INGEST Service log_path service_commands unit_path unit_text",
    "state": "collector_lock known_targets open_state",
})
