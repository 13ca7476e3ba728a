"""Heartbeats: a device speaks for itself, and what it says is only read."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.collect.machine import folder_place
from unspool.collect.heartbeat import DeviceHeartbeat, heartbeat_name, read_heartbeats, send_heartbeat
from unspool.collect.manifest import read_manifests


def beat(device: str, written: str = "2026-01-05T00:00:00Z") -> DeviceHeartbeat:
    return DeviceHeartbeat(org="acme", user="ada", device=device, written=written, collector="1.0")


def test_the_last_heartbeat_of_a_device_counts(tmp_path: Path) -> None:
    place = folder_place(tmp_path)
    send_heartbeat(place, beat("d1"))
    send_heartbeat(place, beat("d1", "2026-01-06T00:00:00Z"))
    assert list(read_heartbeats(place)) == [beat("d1", "2026-01-06T00:00:00Z")]
    assert list(read_manifests(place)) == []


def test_a_device_cannot_speak_for_another_and_nonsense_is_left_out(tmp_path: Path) -> None:
    place = folder_place(tmp_path)
    place.put_new(heartbeat_name("acme", "d1"), msgspec.json.encode(beat("d2")))
    place.put_new(heartbeat_name("acme", "d3"), b"\xff{")
    place.put_new(heartbeat_name("acme", "d4"), b"[]")
    assert list(read_heartbeats(place)) == []
