"""Reads the manifests that collectors of earlier versions wrote: `manifests/<org>/<device>.json`.

Rules
  1. A manifest lists the streams that a device sent while each had a chain of segments of its own. It stays as it is
     when the device goes on with one chain, of which the heartbeat tells (`heartbeat.py`).
  2. It is not needed to read segments; `lake verify` uses it to notice missing ones.
  3. The digest of a stream is that of its last segment. A segment's name holds the digest of the one before it, so this
     one covers all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from unspool.collect.object_store import SegmentStore
from unspool.collect.segments import BoundedCount
from unspool.errors import Unreadable
from unspool.format import DECODE_ERRORS

FOLDER = "manifests"
VERSION = 1


class SentStream(msgspec.Struct, frozen=True):
    """How far a stream has been sent."""

    sequence: BoundedCount
    """The number of its last segment, and so the number of its segments."""
    lines: BoundedCount
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


def decode_manifest(data: bytes, name: str) -> DeviceManifest:
    """Decode a manifest; `Unreadable` if it is damaged or of a newer version."""
    try:
        manifest = msgspec.json.decode(data, type=DeviceManifest)
    except DECODE_ERRORS as error:
        raise Unreadable(f"invalid manifest: `{name}`: {error}") from None
    if manifest.unspool != "manifest" or manifest.version > VERSION:
        raise Unreadable(f"unsupported manifest version: `{name}`", hint="upgrade unspool")
    # A device can write below its own name only: there it may not speak for another.
    if f"{FOLDER}/{manifest.org}/{manifest.device}.json" != name:
        raise Unreadable(f"invalid manifest: `{name}` is about another device")
    return manifest
