"""Publishes and reads the manifests of devices: `manifests/<org>/<device>.json`.

Rules
  1. It is written after segments were confirmed, never before: it may be behind them, but not ahead.
  2. It is not needed to read segments; `lake verify` uses it to notice missing ones.
  3. A writer keeps the streams that another collector wrote; of each stream the later state counts.
  4. It lists every stream, so a device with many files writes it less often: at most 100 bytes a second. In between,
     the heartbeat says that something was sent (`heartbeat.py`).
  5. The digest of a stream is that of its last segment. A segment's name holds the digest of the one before it, so this
     one covers all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec

from unspool.collect.object_store import SegmentStore
from unspool.errors import ObjectStoreFailed, Unreadable

FOLDER = "manifests"
VERSION = 1
_ATTEMPTS = 5
_STREAM_BYTES, _BYTES_PER_SECOND = 137, 100


class SentStream(msgspec.Struct, frozen=True):
    """How far a stream has been sent."""

    sequence: int
    """The number of its last segment, and so the number of its segments."""
    lines: int
    """In all segments."""
    digest: str
    """Of the last segment."""


class DeviceManifest(msgspec.Struct, frozen=True, kw_only=True):
    """How far each stream of a device has been sent."""

    unspool: str = "manifest"
    version: int = VERSION
    org: str
    user: str
    device: str
    written: str
    streams: dict[str, SentStream] = {}


def publish_interval(streams: int) -> float:
    """Return how many seconds to wait between two manifests of so many streams: a minute to an hour.

    >>> publish_interval(10), publish_interval(1000), publish_interval(100_000)
    (60.0, 1370.0, 3600.0)
    """
    return min(max(streams * _STREAM_BYTES / _BYTES_PER_SECOND, 60.0), 3600.0)


def manifest_name(org: str, device: str) -> str:
    """Return the name of the object for a device."""
    return f"{FOLDER}/{org}/{device}.json"


def read_manifests(
    object_store: SegmentStore, damaged: list[tuple[str, str]] | None = None
) -> Iterator[DeviceManifest]:
    """Yield the manifests of all devices; the name and error of a damaged one is added to a list, or raised."""
    for listed in object_store.names(FOLDER):
        if not listed.name.endswith(".json") or (data := object_store.get(listed.name)) is None:
            continue
        try:
            yield decode_manifest(data, listed.name)
        except Unreadable as error:
            if damaged is None:
                raise
            damaged.append((listed.name, error.message))


def publish_manifest(object_store: SegmentStore, ours: DeviceManifest) -> None:
    """Write a device's manifest, merged with what another collector of the same device wrote."""
    name = manifest_name(ours.org, ours.device)
    for _ in range(_ATTEMPTS):
        before = object_store.stored(name)
        # A damaged manifest is replaced without its streams: the segments themselves say the same.
        theirs: dict[str, SentStream] = {}
        with suppress(Unreadable):
            theirs = decode_manifest(before.data, name).streams if before else {}
        merged = msgspec.structs.replace(ours, streams=merge_manifests(theirs, ours.streams))
        if object_store.replace(name, msgspec.json.encode(merged), before):
            return
    raise ObjectStoreFailed(f"too many concurrent writers on the manifest `{name}`", hint="try again")


def merge_manifests(theirs: Mapping[str, SentStream], ours: Mapping[str, SentStream]) -> dict[str, SentStream]:
    """Return the later state of each stream."""
    later = {
        stream: sent
        for stream, sent in ours.items()
        if stream not in theirs or theirs[stream].sequence <= sent.sequence
    }
    return dict(sorted({**theirs, **later}.items()))


def decode_manifest(data: bytes, name: str) -> DeviceManifest:
    """Decode a manifest; `Unreadable` if it is damaged or of a newer version."""
    try:
        manifest = msgspec.json.decode(data, type=DeviceManifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"invalid manifest: `{name}`: {error}") from None
    if manifest.unspool != "manifest" or manifest.version > VERSION:
        raise Unreadable(f"unsupported manifest version: `{name}`", hint="upgrade unspool")
    return manifest
