"""Manifests: two collectors of one device keep what the other wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from unspool.collect.manifest import (
    DeviceManifest,
    SentStream,
    decode_manifest,
    manifest_name,
    publish_manifest,
    read_manifests,
)
from unspool.collect.object_store import open_object_store
from unspool.errors import Unreadable


def manifest(**streams: int) -> DeviceManifest:
    sent = {name: SentStream(number, number * 10, f"d{number}") for name, number in streams.items()}
    return DeviceManifest(org="acme", user="me", device="d1", written="2026-01-05T00:00:00Z", streams=sent)


def test_of_a_stream_the_later_state_counts(tmp_path: Path) -> None:
    place = open_object_store(f"file://{tmp_path}", {})
    publish_manifest(place, manifest(a=3, b=1))
    publish_manifest(place, manifest(a=2, b=4, c=1))
    (found,) = read_manifests(place)
    assert found.streams == manifest(a=3, b=4, c=1).streams


def test_a_damaged_manifest_is_named_and_written_anew(tmp_path: Path) -> None:
    place = open_object_store(f"file://{tmp_path}", {})
    for words in (b"", b"[]", b"\xff", b'{"unspool":"segment","org":"a","user":"a","device":"a","written":""}'):
        with pytest.raises(Unreadable, match=r"(invalid|unsupported) manifest"):
            decode_manifest(words, "m")
    place.put_new(manifest_name("acme", "d1"), b"{}")
    with pytest.raises(Unreadable, match=r"manifests/acme/d1\.json"):
        list(read_manifests(place))
    publish_manifest(place, manifest(a=1))
    assert [found.streams for found in read_manifests(place)] == [manifest(a=1).streams]
