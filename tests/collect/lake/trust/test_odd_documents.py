"""Documents that a device or a store can make odd: each is named in one line, and nobody else waits for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import pytest

from tests.collect.lake.lakes import TestLake
from tests.collect.lake.sending import Made
from tests.faults.world import World
from unspool.collect.heartbeat import heartbeat_name, read_heartbeats
from unspool.collect.lake.lake import open_lake
from unspool.collect.lake.lifecycle.plan import ProjectNames
from unspool.collect.lake.status import read_status
from unspool.collect.lake.trust import read_administrators
from unspool.collect.lake.users import read_users
from unspool.collect.lake.verify.state import VerifiedDevice, VerifiedLake, read_verified, write_verified
from unspool.collect.manifest import decode_manifest
from unspool.collect.object_store import SegmentStore
from unspool.collect.segments import SegmentLine, decode_part_header
from unspool.collect.trust import open_document, open_registration, parse_token
from unspool.collect.trust.tombstones import LIST_KIND, ForgottenList
from unspool.errors import ObjectStoreFailed, UnspoolError
from unspool.store.archive import compress, decompress_at_most

NESTED = "[" * 5000 + "]" * 5000
"""Deeper than any parser follows, also in a field that nobody knows."""
LARGE = 2**63

Header: TypeAlias = dict[str, Any]
Lines: TypeAlias = list[dict[str, Any]]


def changed(made: Made, change: Callable[[Header, Header, Lines], None]) -> bytes:
    """Return a segment of one part that its device has made odd."""
    first, second, *rest = decompress_at_most(made.data, 1 << 28).split(b"\n")
    header, part, lines = json.loads(first), json.loads(second), [json.loads(line) for line in rest if line]
    change(header, part, lines)
    text = b"".join(written(one) + b"\n" for one in (part, *lines))
    header["parts"][0]["size"] = len(text)
    return compress(written(header) + b"\n" + text, 1)


def written(value: object) -> bytes:
    """Return JSON with something nested in place of `NESTED`."""
    return json.dumps(value, separators=(",", ":")).replace('"NESTED"', NESTED).encode()


def set_stream(header: Header, part: Header, name: str) -> None:
    """Give a part another stream, of which an earlier part seems to be missing."""
    header["parts"][0] |= {"stream": name, "sequence": 2}
    part |= {"stream": name, "sequence": 2}


ODD: dict[str, Callable[[Header, Header, Lines], None]] = {
    "nested header": lambda header, _, __: header.update(later="NESTED"),
    "nested entry": lambda header, _, __: header["parts"][0].update(later="NESTED"),
    "nested part": lambda _, part, __: part.update(later="NESTED"),
    "nested line": lambda _, __, lines: lines[0].update(later="NESTED"),
    "large place": lambda _, __, lines: lines[0].update(offset=LARGE),
    "negative length": lambda _, __, lines: lines[0].update(length=-1),
    "another folder": lambda header, part, _: set_stream(header, part, "../../x"),
    "no folder": lambda header, part, _: set_stream(header, part, "//"),
    "long name": lambda header, part, _: set_stream(header, part, "x" * 5000),
    "zero byte": lambda header, part, _: set_stream(header, part, "\0"),
}


@pytest.mark.parametrize("how", ODD)
def test_an_odd_segment_is_named_and_only_its_device_waits(lake: TestLake, world: World, how: str) -> None:
    devices = [lake.device(name, is_chained=True) for name in ("a-odd", "b-fine")]
    for device in devices:
        device.most_parts = 1
    first, *_ = devices[0].make(world.root)
    lake.place.overwrite(first.name, changed(first, ODD[how]))
    devices[1].send(world.root)
    assert {bad.name for bad in lake.ingest().bad} == {first.name}
    assert {line[0] for line in lake.lines()} == {"b-fine"}
    # Parts are decoded if they are in the tables: else the segment is one that an ingest did not take.
    assert {one.where for one in lake.verify().problems} & {first.name, "acme/a-odd"}


def test_a_device_that_says_it_has_sent_very_many_segments_does_not_stop_a_verification(
    lake: TestLake, world: World
) -> None:
    device = lake.device(is_chained=True)
    device.send(world.root)
    lake.ingest()
    (beat,) = read_heartbeats(lake.place)
    many = msgspec.structs.replace(beat, segments=10**15)
    lake.place.overwrite(heartbeat_name("acme", "laptop"), msgspec.json.encode(many))
    sent = {"sequence": 10**15, "lines": 1, "digest": ""}
    says = {"unspool": "manifest", "org": "acme", "user": "ada", "device": "laptop", "written": "", "streams": {}}
    says["streams"] = {"0" * 32: sent}
    lake.place.overwrite("manifests/acme/laptop.json", msgspec.json.encode(says))
    found = {one.where: one.words for one in lake.verify().problems if one.what == "missing segments"}
    assert found["acme/laptop"] == "2, 3, 4, 5, 6, 7, 8, 9, 10, 11 …"
    assert found["acme/laptop/" + "0" * 32].endswith("10 …")


def test_odd_heartbeats_and_manifests_are_left_out(lake: TestLake, world: World) -> None:
    lake.device(is_chained=True).send(world.root)
    (beat,) = read_heartbeats(lake.place)
    fields = {**msgspec.to_builtins(beat), "device": "odd"}
    for name, value in (("later", "NESTED"), ("lines", 10**30), ("segments", -1), ("user", None)):
        lake.place.overwrite(heartbeat_name("acme", "odd"), written({**fields, name: value}))
        assert list(read_heartbeats(lake.place)) == [beat], name
    says = {"unspool": "manifest", "org": "acme", "user": "ada", "device": "laptop", "written": ""}
    # Of another device too: who may write below the own name only must not speak for others.
    lake.place.overwrite("manifests/acme/odd.json", msgspec.json.encode(says))
    status = read_status(open_lake(str(lake.folder), {}), lake.place)
    assert [(device.device, device.streams) for device in status.devices] == [("laptop", beat.streams)]
    assert status.damaged == ["manifests/acme/odd.json"]


def test_nested_documents_are_errors_in_one_line(lake: TestLake) -> None:
    opened, place = open_lake(str(lake.folder), {}), lake.place
    nested = written({"later": "NESTED"})
    opened.object_store.overwrite("administrators.json", nested)
    opened.object_store.overwrite("users.json", nested)
    calls: list[Callable[[], object]] = [
        lambda: open_document(nested, LIST_KIND, (), ForgottenList, name="list"),
        lambda: open_registration(nested, "acme", "laptop", 1),
        lambda: decode_manifest(nested, "manifests/acme/laptop.json"),
        lambda: decode_part_header(nested),
        lambda: read_administrators(opened),
        lambda: read_users(opened, {}),
        lambda: parse_token("unspool-token-1.W1tbW1tb"),
    ]
    for call in calls:
        with pytest.raises(UnspoolError) as raised:
            call()
        assert "\n" not in raised.value.message
    names = ProjectNames({"-home-ada-app"}, ())
    header = decode_part_header(written(PART))
    line = SegmentLine(0, 1, f'{{"cwd":{NESTED},"x":"-home-ada-app"}}')
    assert names.drops_line(header, line) is False
    with pytest.raises(ObjectStoreFailed, match="cannot have this"):
        place.get("segments/acme/../x")


PART = {
    "unspool": "segment", "version": 1, "org": "acme", "user": "ada", "device": "laptop", "key_id": "", "stream": "",
    "sequence": 1, "previous": "", "source": "", "kind": "session", "generation": 1, "start": 0, "end": 0, "lines": 0,
    "rules": "", "written": "", "head": "", "boundary": "",
}  # fmt: skip


def test_a_record_of_what_was_verified_that_lacks_a_table_counts_as_none(lake: TestLake) -> None:
    store: SegmentStore = open_lake(str(lake.folder), {}).object_store
    device = VerifiedDevice(
        day="", sequence=-1, digest=0, objects="", lines={}, stream_objects="", stream_lines={}, has_heartbeat=False
    )
    assert write_verified(store, VerifiedLake(devices={"acme/laptop": device}))
    assert read_verified(store) == VerifiedLake()
