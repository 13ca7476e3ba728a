"""Compares for each device what it has sent with what is in the tables, by numbers alone.

Rules
  1. Only manifests, heartbeats, the table `sources` and the logs of three tables are read: no segment, and no listing
     of segments.
  2. Manifest and heartbeat may be some minutes behind the segments. A backlog of nothing therefore means: nothing older
     than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from unspool.collect.heartbeat import DeviceHeartbeat, read_heartbeats
from unspool.collect.lake.chains import read_mark
from unspool.collect.lake.lake import Lake
from unspool.collect.lake.tables import LINES
from unspool.collect.manifest import read_manifests
from unspool.collect.metrics import MetricFamily, epoch_seconds
from unspool.collect.object_store import SegmentStore


class DeviceStatus(NamedTuple):
    """How far a device is, in the object store and in the tables."""

    org: str
    user: str
    device: str
    seen_at: str | None
    """When it last said something: by its heartbeat, else by its manifest."""
    collector: str | None
    claude_code: str | None
    system: str | None
    streams: int
    sent_segments: int
    sent_lines: int
    """By its heartbeat and its manifest."""
    segments: int
    lines: int
    """In the tables."""
    backlog_segments: int
    backlog_lines: int
    """Sent, and not in the tables."""
    lag_seconds: float
    """How much older the newest segment in the tables is than what the device said last; 0 without a backlog."""
    redactions: int
    """Secrets that were replaced in what is in the tables."""
    pending: int
    pending_bytes: int
    """Waiting on the device."""
    failed: int
    """Files that it could not read."""
    left: bool


class LakeStatus(NamedTuple):
    """The devices of a lake, and how many objects are in quarantine."""

    devices: list[DeviceStatus]
    quarantined: int
    damaged: list[str]
    """Unreadable manifests."""


def read_status(lake: Lake, object_store: SegmentStore) -> LakeStatus:
    """Return how far every device is."""
    # The tables first: what is in them was sent before, so a backlog is never less than nothing.
    lake.table("sources", fresh=True)
    ingested = _read_ingested(lake)
    lake.table("quarantine", fresh=True)
    ((quarantined,),) = lake.rows("quarantine", "SELECT count(*) FROM t")
    damaged: list[tuple[str, str]] = []
    manifests = {(manifest.org, manifest.device): manifest for manifest in read_manifests(object_store, damaged)}
    heartbeats = {(beat.org, beat.device): beat for beat in read_heartbeats(object_store)}
    devices = []
    for home in sorted({*ingested, *manifests, *heartbeats}):
        manifest, beat = manifests.get(home), heartbeats.get(home)
        here = ingested.get(home, _Ingested())
        streams = manifest.streams.values() if manifest else ()
        # Streams that had chains of their own, and the chain of the device. The heartbeat has the lines of both.
        sent_segments = sum(sent.sequence for sent in streams) + (beat.segments if beat else 0)
        sent_lines = max(sum(sent.lines for sent in streams), beat.lines if beat else 0)
        report = beat or manifest
        seen_at = max((words.written for words in (manifest, beat) if words), default=None)
        backlog = max(sent_segments - here.segments, 0)
        devices.append(
            DeviceStatus(
                org=home[0],
                user=report.user if report else here.user,
                device=home[1],
                seen_at=seen_at,
                **_versions(beat),
                streams=max(len(streams), beat.streams if beat else 0),
                sent_segments=sent_segments,
                sent_lines=sent_lines,
                segments=here.segments,
                lines=here.lines,
                backlog_segments=backlog,
                backlog_lines=max(sent_lines - here.lines, 0),
                lag_seconds=_seconds_between(here.written, seen_at) if backlog else 0.0,
                redactions=here.redactions,
                pending=beat.pending if beat else 0,
                pending_bytes=beat.pending_bytes if beat else 0,
                failed=beat.failed if beat else 0,
                left=beat.left if beat else False,
            )
        )
    return LakeStatus(devices, quarantined, [name for name, _ in damaged])


class _Ingested(NamedTuple):
    """What of a device is in the tables."""

    user: str = ""
    segments: int = 0
    lines: int = 0
    redactions: int = 0
    written: float | None = None
    """When the newest segment of it was made, in seconds since 1970."""


def _read_ingested(lake: Lake) -> dict[tuple[str, str], _Ingested]:
    versions: dict[str, int] = {}
    for name in LINES:
        lake.table(name, fresh=True)
        versions |= lake.versions(name)
    found: dict[tuple[str, str], _Ingested] = {}
    query = "SELECT org, device, user, id, all_lines, redactions, written FROM t"
    for org, device, user, id, lines, redactions, written in lake.rows("sources", query):
        in_chain = read_mark(lake.versions("sources"), f"{org}/{device}").sequence
        before = found.get((org, device), _Ingested(segments=in_chain))
        times = (before.written, written.timestamp() if written else None)
        found[org, device] = _Ingested(
            user,
            # A stream that had a chain of its own has a transaction of its own.
            before.segments + versions.get(id, 0),
            before.lines + lines,
            before.redactions + (redactions or 0),
            max((time for time in times if time is not None), default=None),
        )
    return found


def _seconds_between(start: float | None, end: str | None) -> float:
    last = epoch_seconds(end)
    return 0.0 if start is None or last is None else max(last - start, 0.0)


def status_metrics(status: LakeStatus) -> list[MetricFamily]:
    """Return the numbers of a lake as metrics."""
    present = [device for device in status.devices if not device.left]

    def family(name: str, help_text: str, values: Sequence[float | None]) -> MetricFamily:
        labels = [_labels(device) for device in present]
        pairs = [(label, value) for label, value in zip(labels, values, strict=True) if value is not None]
        return MetricFamily(f"unspool_lake_{name}", help_text, list(pairs))

    return [
        MetricFamily("unspool_lake_devices", "Devices that have not left.", [({}, len(present))]),
        MetricFamily("unspool_lake_quarantined_objects", "Unreadable objects.", [({}, status.quarantined)]),
        MetricFamily("unspool_lake_damaged_manifests", "Unreadable manifests.", [({}, len(status.damaged))]),
        MetricFamily("unspool_lake_device_info", "Versions of a device.", [(_info(device), 1) for device in present]),
        family(
            "device_seen_timestamp_seconds",
            "When a device last said something, by its clock.",
            [epoch_seconds(device.seen_at) for device in present],
        ),
        family("device_sent_segments", "Segments sent.", [device.sent_segments for device in present]),
        family("device_ingested_segments", "Segments in the tables.", [device.segments for device in present]),
        family(
            "device_backlog_segments",
            "Segments sent and not in the tables.",
            [device.backlog_segments for device in present],
        ),
        family("device_backlog_lines", "Lines of them.", [device.backlog_lines for device in present]),
        family(
            "device_lag_seconds",
            "How much older the newest segment in the tables is than what the device said last; 0 without a backlog.",
            [device.lag_seconds for device in present],
        ),
        family("device_redactions", "Secrets replaced in what is in the tables.", [one.redactions for one in present]),
        family(
            "device_pending_segments",
            "Parts that wait on the device.",
            [device.pending for device in present],
        ),
        family("device_pending_bytes", "Their size.", [device.pending_bytes for device in present]),
        family("device_failed_files", "Files that the device could not read.", [device.failed for device in present]),
    ]


def _labels(device: DeviceStatus) -> dict[str, str]:
    return {"org": device.org, "user": device.user, "device": device.device}


def _info(device: DeviceStatus) -> dict[str, str]:
    names = {"collector": device.collector, "claude_code": device.claude_code, "system": device.system}
    return _labels(device) | {name: value or "" for name, value in names.items()}


def _versions(beat: DeviceHeartbeat | None) -> dict[str, str | None]:
    if beat is None:
        return {"collector": None, "claude_code": None, "system": None}
    return {"collector": beat.collector, "claude_code": beat.claude_code, "system": beat.system}
