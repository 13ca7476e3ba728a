"""Publishes and reads the manifests of devices: `manifests/<org>/<device>.json`.

Rules
  1. It is written after segments were confirmed, never before. It may be behind them, and never ahead.
  2. Nobody needs it to read segments; it is for `lake verify`, to notice what has gone.
  3. Whoever writes it keeps what another one wrote: of a stream, the later state counts.
  4. The digest of a stream is that of its last segment. A segment names the digest of the one before it, so this one
     stands for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from unspool.collect.object_store import SegmentStore
from unspool.errors import ObjectStoreFailed, Unreadable

FOLDER = "manifests"
VERSION = 1
_ATTEMPTS = 5


class SentStream(msgspec.Struct, frozen=True):
    """How far a stream has been sent."""

    sequence: int
    """Of its last segment: so many there are."""
    lines: int
    """In all of them."""
    digest: str
    """Of the last one."""


class DeviceManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The streams of a device."""

    unspool: str = "manifest"
    version: int = VERSION
    org: str
    user: str
    device: str
    written: str
    streams: dict[str, SentStream] = {}


def manifest_name(org: str, device: str) -> str:
    """Return the object's name for a device."""
    return f"{FOLDER}/{org}/{device}.json"


def read_manifests(place: SegmentStore) -> Iterator[DeviceManifest]:
    """Yield the manifests of all devices; one that is damaged is `Unreadable`."""
    for found in place.names(FOLDER):
        data = place.get(found.name)
        if data is not None and found.name.endswith(".json"):
            yield decode_manifest(data, found.name)


def publish_manifest(place: SegmentStore, ours: DeviceManifest) -> None:
    """Write a device's manifest, together with what another collector of the same device wrote."""
    name = manifest_name(ours.org, ours.device)
    for _ in range(_ATTEMPTS):
        before = place.stored(name)
        theirs = _streams(before.data, name) if before else {}
        merged = msgspec.structs.replace(ours, streams=merge_manifests(theirs, ours.streams))
        if place.replace(name, msgspec.json.encode(merged), before):
            return
    raise ObjectStoreFailed(f"the manifest `{name}` changes faster than it can be written", hint="try again")


def merge_manifests(theirs: Mapping[str, SentStream], ours: Mapping[str, SentStream]) -> dict[str, SentStream]:
    """Return the later state of each stream."""
    later = {stream: sent for stream, sent in ours.items() if _number(theirs.get(stream)) <= sent.sequence}
    return dict(sorted({**theirs, **later}.items()))


def decode_manifest(data: bytes, name: str) -> DeviceManifest:
    """Return what an object says."""
    try:
        found = msgspec.json.decode(data, type=DeviceManifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"not a manifest: `{name}`: {error}") from None
    if found.unspool != "manifest" or found.version > VERSION:
        raise Unreadable(f"not a manifest that this unspool knows: `{name}`", hint="upgrade unspool")
    return found


def _streams(data: bytes, name: str) -> dict[str, SentStream]:
    """Return what is to be kept; of a damaged one nothing: segments tell the same."""
    try:
        return decode_manifest(data, name).streams
    except Unreadable:
        return {}


def _number(sent: SentStream | None) -> int:
    return sent.sequence if sent else 0
