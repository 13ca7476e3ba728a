"""Keeps the segments or parts of a stream together in one object of the lake, so that a round fetches only what is new.

    bundles/<stream id>    segments of a stream with a chain of its own
    parts/<stream id>      parts of a stream in the chain of its device

Rules
  1. A bundle is a cache. It has objects of the object store, byte for byte, by their names, or parts in their order.
     What it lacks is fetched from there, also if it is missing or damaged. The chain of a stream is checked in the same
     way in either case.
  2. A bundle of segments is written again when `_LOOSE` segments are not in it: for the old segments of a stream a
     round makes at most that many requests and one more, however many there are. A bundle of parts is written whenever
     its stream has grown: no old segment is fetched.
  3. A bundle of segments is written after the rows, one of parts before them: what it has more than the tables is left
     out when it is read. A failure or a kill costs only requests.
  4. Only segments that were read and fit into their chain are bundled: a damaged one may be repaired under its name.
  5. Streams that have not grown for days are not bundled, nor are those of few parts: they are read once.
  6. `lake vacuum` removes the bundles of streams that have not grown for long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import msgspec

from unspool.collect.lake.streams import SegmentChain, StoredPart
from unspool.collect.object_store import SegmentStore
from unspool.errors import ObjectStoreFailed
from unspool.format import DECODE_ERRORS
from unspool.store.archive import compress, decompress_at_most, frame_errors

FOLDER, PARTS_FOLDER = "bundles", "parts"
_LOOSE = 8
_AT_ONCE = 8
_RECENT = timedelta(days=2)
_LARGEST = 64 * 1024 * 1024
"""Bytes of a stream's segments up to which they are bundled: a bundle is written as a whole."""

_LARGEST_TEXT = 1 << 30
FEW_PARTS = 4
"""A stream of so many parts has no bundle before it grows."""

_decoder = msgspec.msgpack.Decoder(dict[str, bytes])
_parts_decoder = msgspec.msgpack.Decoder(list[StoredPart])


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
    listed = (one for folder in (FOLDER, PARTS_FOLDER) for one in object_store.names(folder))
    old = [one.name for one in listed if one.modified < before]
    for name in old if really else ():
        object_store.delete(name)
    return len(old)


def read_part_bundle(object_store: SegmentStore, id: str) -> list[StoredPart]:
    """Return the first parts of a stream; none if it has no bundle, or a damaged one."""
    data = object_store.get(f"{PARTS_FOLDER}/{id}")
    try:
        text = decompress_at_most(data, _LARGEST_TEXT) if data else b"\x90"
    except frame_errors():
        return []
    try:
        return _parts_decoder.decode(text)
    except DECODE_ERRORS:
        return []


def write_part_bundle(object_store: SegmentStore, id: str, parts: Iterable[StoredPart]) -> None:
    """Write the parts of a stream, from the first one on."""
    data = compress(msgspec.msgpack.encode(list(parts)), 1)
    if len(data) <= _LARGEST:
        with suppress(ObjectStoreFailed):
            object_store.overwrite(f"{PARTS_FOLDER}/{id}", data)


def _read_bundle(object_store: SegmentStore, id: str) -> dict[str, bytes]:
    data = object_store.get(f"{FOLDER}/{id}")
    try:
        return _decoder.decode(data) if data else {}
    except DECODE_ERRORS:
        return {}


def _write_bundle(object_store: SegmentStore, id: str, bundle: Mapping[str, bytes]) -> None:
    with suppress(ObjectStoreFailed):
        object_store.overwrite(f"{FOLDER}/{id}", msgspec.msgpack.encode(bundle))
