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
    """Manifests that cannot be read."""


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
        user, segments, lines = ingested.get(home, ("", 0, 0))
        streams = manifest.streams.values() if manifest else ()
        # Streams that had chains of their own, and the chain of the device. The heartbeat has the lines of both.
        sent_segments = sum(sent.sequence for sent in streams) + (beat.segments if beat else 0)
        sent_lines = max(sum(sent.lines for sent in streams), beat.lines if beat else 0)
        report = beat or manifest
        devices.append(
            DeviceStatus(
                org=home[0],
                user=report.user if report else user,
                device=home[1],
                seen_at=max((words.written for words in (manifest, beat) if words), default=None),
                **_versions(beat),
                streams=max(len(streams), beat.streams if beat else 0),
                sent_segments=sent_segments,
                sent_lines=sent_lines,
                segments=segments,
                lines=lines,
                backlog_segments=max(sent_segments - segments, 0),
                backlog_lines=max(sent_lines - lines, 0),
                pending=beat.pending if beat else 0,
                pending_bytes=beat.pending_bytes if beat else 0,
                failed=beat.failed if beat else 0,
                left=beat.left if beat else False,
            )
        )
    return LakeStatus(devices, quarantined, [name for name, _ in damaged])


def _read_ingested(lake: Lake) -> dict[tuple[str, str], tuple[str, int, int]]:
    """Return for each device its user, and how many segments and lines of it are in the tables."""
    versions: dict[str, int] = {}
    for name in LINES:
        lake.table(name, fresh=True)
        versions |= lake.versions(name)
    found: dict[tuple[str, str], tuple[str, int, int]] = {}
    for org, device, user, id, lines in lake.rows("sources", "SELECT org, device, user, id, all_lines FROM t"):
        in_chain = read_mark(lake.versions("sources"), f"{org}/{device}").sequence
        _, segments, before = found.get((org, device), ("", in_chain, 0))
        # A stream that had a chain of its own has a transaction of its own.
        found[org, device] = (user, segments + versions.get(id, 0), before + lines)
    return found


def status_metrics(status: LakeStatus) -> list[MetricFamily]:
    """Return the numbers of a lake as metrics."""
    present = [device for device in status.devices if not device.left]

    def family(name: str, help_text: str, values: Sequence[float | None]) -> MetricFamily:
        labels = [{"org": device.org, "user": device.user, "device": device.device} for device in present]
        pairs = [(label, value) for label, value in zip(labels, values, strict=True) if value is not None]
        return MetricFamily(f"unspool_lake_{name}", help_text, list(pairs))

    return [
        MetricFamily("unspool_lake_devices", "Devices that have not left.", [({}, len(present))]),
        MetricFamily("unspool_lake_quarantined_objects", "Objects that could not be read.", [({}, status.quarantined)]),
        family(
            "device_seen_timestamp_seconds",
            "When a device last said something, by its clock.",
            [epoch_seconds(device.seen_at) for device in present],
        ),
        family("device_sent_segments", "Segments that were sent.", [device.sent_segments for device in present]),
        family("device_ingested_segments", "Segments in the tables.", [device.segments for device in present]),
        family(
            "device_backlog_segments",
            "Segments that are sent and not in the tables.",
            [device.backlog_segments for device in present],
        ),
        family(
            "device_pending_segments",
            "Parts that wait on the device.",
            [device.pending for device in present],
        ),
        family("device_failed_files", "Files that the device could not read.", [device.failed for device in present]),
    ]


def _versions(beat: DeviceHeartbeat | None) -> dict[str, str | None]:
    if beat is None:
        return {"collector": None, "claude_code": None, "system": None}
    return {"collector": beat.collector, "claude_code": beat.claude_code, "system": beat.system}
