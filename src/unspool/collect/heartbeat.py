"""Writes and reads the heartbeats of devices: `manifests/<org>/<device>.heartbeat`.

Rules
  1. A heartbeat says that a collector runs, which versions, how much it has sent, and how much waits. It is small and
     overwritten each time: every minute in which something was sent, else every quarter of an hour.
  2. It is the manifest of the device too: it has the number and the digest of the last segment, so `lake verify`
     notices missing ones. It may be behind the segments, but not ahead.
  3. For an ingest, a new heartbeat is the hint that its device has sent something. No data depends on it: a store that
     refuses it is no reason to stop collecting.
  4. The name does not end with `.json`: earlier versions take every `.json` there for a manifest.
  5. A device with a key signs it (`trust/device_keys.py`).
  6. `left` says that the device was taken out (`collect leave`) and will not come again.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from unspool.collect.manifest import FOLDER
from unspool.collect.object_store import SegmentStore
from unspool.collect.segments import BoundedCount
from unspool.format import DECODE_ERRORS

if TYPE_CHECKING:
    from unspool.collect.trust import DeviceKey

VERSION = 1
SUFFIX = ".heartbeat"


class DeviceHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """What a collector said last of itself."""

    unspool: str = "heartbeat"
    version: int = VERSION
    org: str
    user: str
    device: str
    written: str
    """When, by the device's clock, in UTC."""
    collector: str
    """The version of unspool."""
    claude_code: str | None = None
    """The version of Claude Code that wrote last."""
    system: str = ""
    """The operating system and its version."""
    streams: BoundedCount = 0
    segments: BoundedCount = 0
    """The number of the last segment in the chain of the device."""
    lines: BoundedCount = 0
    """All that was sent, in all streams."""
    digest: str = ""
    """Of the last segment."""
    pending: BoundedCount = 0
    """Parts that wait to be sent."""
    pending_bytes: BoundedCount = 0
    failed: BoundedCount = 0
    """Files that could not be read in the last round."""
    redactions: BoundedCount = 0
    """Secrets that were replaced in the last round."""
    left: bool = False


def describe_system() -> str:
    """Return the name and version of the operating system, without the name of the machine."""
    return f"{platform.system()} {platform.release()}"[:100]


def heartbeat_name(org: str, device: str) -> str:
    """Return the name of the object for a device."""
    return f"{FOLDER}/{org}/{device}{SUFFIX}"


def send_heartbeat(object_store: SegmentStore, heartbeat: DeviceHeartbeat, key: DeviceKey | None = None) -> None:
    """Overwrite the heartbeat of a device; with a key it is signed."""
    line = msgspec.json.encode(heartbeat)
    if key is not None:
        line = key.sign_line("heartbeat", line)
    object_store.overwrite(heartbeat_name(heartbeat.org, heartbeat.device), line)


def read_heartbeats(object_store: SegmentStore) -> Iterator[DeviceHeartbeat]:
    """Yield the heartbeats of all devices; what cannot be read, or speaks of another device, is left out."""
    return (heartbeat for heartbeat, _ in read_signed_heartbeats(object_store))


def read_signed_heartbeats(object_store: SegmentStore) -> Iterator[tuple[DeviceHeartbeat, bytes]]:
    """Yield the same, each with its bytes, which a signature covers."""
    for listed in object_store.names(FOLDER):
        if not listed.name.endswith(SUFFIX) or (data := object_store.get(listed.name)) is None:
            continue
        try:
            heartbeat = msgspec.json.decode(data, type=DeviceHeartbeat)
        except DECODE_ERRORS:
            continue
        # A device can write below its own name only: there it may not speak for another.
        if heartbeat_name(heartbeat.org, heartbeat.device) == listed.name:
            yield heartbeat, data
