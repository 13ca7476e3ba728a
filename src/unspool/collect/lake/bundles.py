"""Keeps the segments of a stream together in one object of the lake, so that a round fetches only what is new.

    bundles/<stream id>

Rules
  1. A bundle is a cache. It has objects of the object store, byte for byte, by their names. What it lacks is fetched
     from there, also if it is missing or damaged. The chain of a stream is checked in the same way in either case.
  2. It is written again when `_LOOSE` segments are not in it: for the old segments of a stream a round makes at most
     that many requests and one more, however many segments there are.
  3. It is written after the rows. A failure or a kill before costs only requests.
  4. Only segments that were read and fit into their chain are bundled: a damaged one may be repaired under its name.
  5. Streams that have not grown for days are not bundled: they are read once.
  6. `lake vacuum` removes the bundles of streams that have not grown for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec

from unspool.collect.lake.streams import SegmentChain
from unspool.collect.object_store import SegmentStore
from unspool.errors import ObjectStoreFailed

FOLDER = "bundles"
_LOOSE = 8
_AT_ONCE = 8
_RECENT = timedelta(days=2)
_LARGEST = 64 * 1024 * 1024
"""Bytes of a stream's segments up to which they are bundled: a bundle is written as a whole."""

_decoder = msgspec.msgpack.Decoder(dict[str, bytes])


def read_bundles(object_store: SegmentStore, streams: Iterable[SegmentChain]) -> dict[str, bytes]:
    """Return the objects in the bundles of streams, by name. Streams of few segments have none."""
    ids = [stream.id for stream in streams if stream.last > _LOOSE]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        bundles = list(pool.map(lambda id: _read_bundle(object_store, id), ids))
    return {name: data for bundle in bundles for name, data in bundle.items()}


def write_bundles(
    object_store: SegmentStore,
    streams: Iterable[tuple[SegmentChain, int]],
    objects: Mapping[str, bytes],
    bundled: Mapping[str, bytes],
) -> None:
    """Write the bundles of streams, given with their last good segment, of which several objects are in none."""
    changed = {}
    for stream, last in streams:
        # Two objects of one number: which of them is the right one is decided anew each time.
        single = [stream.segments[number][0] for number in range(1, last + 1) if len(stream.segments[number]) == 1]
        bundle = {listed.name: objects[listed.name] for listed in single if listed.name in objects}
        is_growing = bool(single) and datetime.now(UTC) - single[-1].modified < _RECENT
        if is_growing and stream.size <= _LARGEST and sum(name not in bundled for name in bundle) >= _LOOSE:
            changed[stream.id] = bundle
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # Rule 3: the rows are committed, and the next round tries again.
        list(pool.map(lambda item: _write_bundle(object_store, *item), changed.items()))


def remove_bundles(object_store: SegmentStore, before: datetime, *, really: bool) -> int:
    """Remove the bundles that were written before a time; return how many. Without `really` only count them."""
    old = [listed.name for listed in object_store.names(FOLDER) if listed.modified < before]
    for name in old if really else ():
        object_store.delete(name)
    return len(old)


def _read_bundle(object_store: SegmentStore, id: str) -> dict[str, bytes]:
    data = object_store.get(f"{FOLDER}/{id}")
    try:
        return _decoder.decode(data) if data else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _write_bundle(object_store: SegmentStore, id: str, bundle: Mapping[str, bytes]) -> None:
    with suppress(ObjectStoreFailed):
        object_store.overwrite(f"{FOLDER}/{id}", msgspec.msgpack.encode(bundle))
