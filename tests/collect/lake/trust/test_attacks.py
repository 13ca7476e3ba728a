"""What a thief, a lying device or a hostile store can try: each is refused or named, and only its device waits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from tests.collect.lake.lakes import TestLake, expected
from tests.collect.lake.sending import Device, Made
from tests.collect.lake.trust.teams import Team, put
from tests.faults.world import World
from unspool.collect.heartbeat import heartbeat_name
from unspool.collect.lake import run
from unspool.collect.lake.chains import BEGINNING, follow_device_chain
from unspool.collect.lake.run import IngestJob
from unspool.collect.lake.streams import BadSegment
from unspool.collect.lake.trust import open_trust, require_keys, revoke_device
from unspool.collect.object_store import ListedObject, SegmentStore
from unspool.collect.segments import (
    format_device_segment_name,
    pack_device_segment,
    segment_digest,
    unpack_device_segment,
    unpack_signed_segment,
)
from unspool.collect.trust import (
    create_administrator_key,
    make_first_key,
    make_token,
    parse_token,
    registration_name,
)
from unspool.collect.trust.tombstones import TOMBSTONE_KIND, SegmentTombstone, tombstone_name
from unspool.store.archive import compress


def altered(made: Made, how: str, key: Device) -> bytes:
    """Return a segment as somebody without the key of its device can alter it."""
    header, parts, line = unpack_signed_segment(made.data)
    texts = [part.text for part in parts]
    body = b"".join(texts)
    match how:
        case "unsigned":
            return pack_device_segment(msgspec.structs.replace(header, parts_digest=msgspec.UNSET), texts)
        case "another key":
            return pack_device_segment(header, texts, key.key)
        case "another user":
            return compress(line.replace(b'"user":"ada"', b'"user":"eve"') + b"\n" + body, 1)
        case "other lines":
            return compress(line + b"\n" + body.replace(b"assistant", b"attendant"), 1)
        case "another epoch":
            return compress(line.replace(b'"epoch":1', b'"epoch":2') + b"\n" + body, 1)
        case _:
            # No signature ends in these: the last byte is 16 at most, and often 0.
            return compress(line[:-4] + b'ff"}' + b"\n" + body, 1)


ALTERATIONS = {
    "unsigned": "it is not signed, and its device has a key",
    "another key": "its signature is not that of its device",
    "another user": "its signature is not that of its device",
    "other lines": "its parts are not those that its device signed",
    "another epoch": "it is signed with key 2 of its device, which is not registered",
    "another signature": "its signature is not that of its device",
}


def test_an_altered_segment_is_refused_whatever_was_altered(team: Team, world: World) -> None:
    *_, last = team.device().send(world.root)
    thief = team.device("thief")
    check = open_trust(team.opened, team.place).device("acme/laptop").check_new
    for how, reason in ALTERATIONS.items():
        data, bad = altered(last, how, thief), list[BadSegment]()
        assert segment_digest(data) != segment_digest(last.data)
        team.place.overwrite(last.name, data)
        listed = sorted(team.place.names("segments/acme/laptop"))
        assert len(list(follow_device_chain(team.place.get, listed, BEGINNING, bad, check=check))) == 2
        assert [(one.name, one.reason) for one in bad] == [(last.name, reason)], how


def test_an_exchanged_tail_is_refused_and_only_its_device_waits(team: Team, world: World) -> None:
    laptop, desktop = team.device("laptop"), team.device("desktop", "bob")
    *before, last = laptop.send(world.root)
    desktop.send(world.root)
    team.place.overwrite(last.name, altered(last, "unsigned", desktop))
    assert team.reasons() == {last.name: ALTERATIONS["unsigned"]}
    lines = team.lake.lines()
    assert {line for line in lines if line[0] == "desktop"} == set(expected(world.root, "desktop"))
    assert {line[1] for line in lines if line[0] == "laptop"} == {one.header.source for one in before}
    assert ("bad segment", last.name) in team.problems()
    # The device has the right bytes: once they are back, nothing is lost.
    team.place.overwrite(last.name, last.data)
    assert team.reasons() == {}
    assert {line for line in team.lake.lines() if line[0] == "laptop"} == set(expected(world.root))
    assert team.problems(is_full=True) == set()


def test_a_segment_that_is_replayed_under_another_name_is_refused(team: Team, world: World) -> None:
    laptop, desktop = team.device("laptop"), team.device("desktop", "bob")
    first, *_ = laptop.send(world.root)
    following = laptop._chain._replace(sequence=laptop._chain.sequence + 1)
    next_name = format_device_segment_name(following)
    team.place.overwrite(next_name, first.data)
    other = first.name.replace("laptop", desktop.device)
    team.place.overwrite(other, first.data)
    assert team.reasons() == dict.fromkeys((next_name, other), "its header belongs to another segment")
    assert {line[0] for line in team.lake.lines()} == {"laptop"}


def test_another_user_in_a_signed_segment_is_the_user_of_the_enrolment(team: Team, world: World) -> None:
    device = team.device("laptop", "ada")
    device.user = "eve"
    device.send(world.root)
    assert team.reasons() == {}
    assert team.lake.rows("SELECT DISTINCT user FROM entries") == [("ada",)]
    assert team.problems() == {("user", "acme/laptop")}


def test_what_a_stolen_key_signs_after_the_revocation_is_refused_and_named(team: Team, world: World) -> None:
    device = team.device()
    first, second, third = device.make(world.root)
    put(device, [first])
    assert team.reasons() == {}
    put(device, [second])
    record = revoke_device(team.opened, team.key, team.administrators, "laptop")
    assert record.revoked_from == 2
    assert team.reasons() == {second.name: "its device was revoked from segment 2 on"}
    # A new key, which the thief can register with the old one, does not help.
    team.rotate(device, 3)
    put(device, [third])
    assert team.reasons() == {second.name: "its device was revoked from segment 2 on"}
    assert {line[1] for line in team.lake.lines()} == {first.header.source}
    assert ("revoked device", "acme/laptop") in team.problems()
    # Also of what is in the tables already, if it turns out that the key was stolen earlier.
    assert revoke_device(team.opened, team.key, team.administrators, "laptop", 1).revoked_from == 1
    assert revoke_device(team.opened, team.key, team.administrators, "laptop", 9).revoked_from == 1
    (problem,) = [one for one in team.lake.verify().problems if one.what == "revoked device"]
    assert problem.words == "segments 1 to 3 were sent with a device key that is revoked from 1 on"


def test_an_old_key_signs_nothing_after_a_rotation(team: Team, world: World) -> None:
    device = team.device()
    first, second, third = device.make(world.root)
    put(device, [first, second])
    old = team.rotate(device, 3)
    header, parts = unpack_device_segment(third.data)
    texts = [part.text for part in parts]
    team.place.put_new(third.name, pack_device_segment(header, texts, old))
    assert team.reasons() == {third.name: "it is signed with key 1 of its device, and key 2 counts there"}
    team.place.overwrite(third.name, pack_device_segment(header, texts, device.key))
    assert team.reasons() == {}
    assert team.lake.lines() == expected(world.root)


def test_a_rotation_that_the_key_before_has_not_signed_counts_for_nothing(team: Team, world: World) -> None:
    device, thief = team.device(), team.device("thief")
    first, second, _ = device.make(world.root)
    put(device, [first])
    own, device.key = device.key, thief.key
    stolen = team.rotate(device, 2)
    assert stolen is thief.key
    header, parts = unpack_device_segment(second.data)
    team.place.put_new(second.name, pack_device_segment(header, [part.text for part in parts], device.key))
    assert team.reasons() == {second.name: "it is signed with key 2 of its device, which is not registered"}
    assert own is not None


def test_segments_of_the_older_layout_cannot_go_around_the_key(team: Team, world: World) -> None:
    team.device()
    stranger = Device(team.place, "laptop")
    names = [one.name for one in stranger.send(world.root)]
    assert team.reasons() == dict.fromkeys(names, "it is not signed, and its device has a key")
    assert not team.lake.lines()


def test_a_heartbeat_that_the_device_has_not_signed_is_named_and_not_believed(team: Team, world: World) -> None:
    device = team.device()
    device.send(world.root)
    assert team.reasons() == {}
    assert team.problems() == set()
    forged = team.place.get(heartbeat_name("acme", "laptop"))
    assert forged is not None
    team.place.overwrite(heartbeat_name("acme", "laptop"), forged.replace(b'"segments":3', b'"segments":9'))
    assert team.problems() == {("heartbeat", "acme/laptop")}


def test_a_record_that_no_administrator_has_signed_stops_its_device_only(team: Team, world: World) -> None:
    laptop, desktop = team.device("laptop"), team.device("desktop", "bob")
    first, *_ = laptop.send(world.root)
    desktop.send(world.root)
    record = team.opened.object_store.get("devices/acme/laptop.json") or b""
    team.opened.object_store.overwrite("devices/acme/laptop.json", record.replace(b"ada", b"eve"))
    assert team.reasons() == {first.name: "`devices/acme/laptop.json` is not signed by a trusted administrator"}
    assert {line[0] for line in team.lake.lines()} == {"desktop"}
    assert ("device record", "acme/laptop") in team.problems()


def test_a_device_that_signs_before_its_key_is_accepted_waits(team: Team, world: World) -> None:
    device = team.device(is_accepted=False)
    made = device.send(world.root)
    assert team.reasons() == {made[0].name: "it is signed with a key that no administrator has accepted"}
    assert [record.device for record in team.accept().accepted] == ["laptop"]
    assert team.reasons() == {}
    assert team.lake.lines() == expected(world.root)


def test_devices_without_a_key_send_until_keys_are_required(team: Team, world: World) -> None:
    device = Device(team.place, "old")
    device.is_chained, device.most_parts = True, 1
    first, *rest = device.make(world.root)
    put(device, [first])
    assert team.reasons() == {}
    require_keys(team.opened, team.key, is_required=True)
    put(device, rest)
    assert team.reasons() == {rest[0].name: "its device has no accepted key, and the organisation requires one"}
    # What came before stays, also when all rows are derived anew.
    assert not team.lake.ingest(again=True).segments
    assert {line[1] for line in team.lake.lines()} == {first.header.source}
    require_keys(team.opened, team.key, is_required=False)
    assert team.reasons() == {}


def test_a_device_that_gets_a_key_later_signs_from_then_on(team: Team, world: World) -> None:
    device = Device(team.place, "laptop")
    device.is_chained, device.most_parts = True, 1
    first, second, third = device.make(world.root)
    put(device, [first])
    key = make_first_key(parse_token(team.token("laptop")), 2)
    team.place.put_new(registration_name("acme", "laptop", 1), key.registration.encode())
    assert team.accept().refused == []
    put(device, [second])
    assert team.reasons() == {second.name: "it is not signed, and its device has a key"}
    for made in (second, third):
        header, parts = unpack_device_segment(made.data)
        team.place.overwrite(made.name, pack_device_segment(header, [part.text for part in parts], key))
    # The third one names the digest of the unsigned second one.
    assert team.reasons() == {third.name: "it does not follow the segment before it"}


class HostileStore(SegmentStore):
    """A store that lists each object twice, keeps some out of its listings, and returns old objects."""

    def __init__(self, store: SegmentStore) -> None:
        super().__init__(store.url, store._store, store._folder)
        self.hidden: set[str] = set()
        self.old: dict[str, bytes] = {}

    def names(self, prefix: str, after: str | None = None, before: str | None = None) -> Iterator[ListedObject]:
        for listed in super().names(prefix, after, before):
            if listed.name not in self.hidden:
                yield from (listed, listed)

    def get(self, name: str) -> bytes | None:
        return self.old.get(name) or super().get(name)


@pytest.fixture
def hostile(team: Team, monkeypatch: pytest.MonkeyPatch) -> HostileStore:
    store = HostileStore(team.place)
    monkeypatch.setattr(run, "open_source", lambda *_: store)
    return store


def test_a_store_that_lists_late_and_twice_delays_and_doubles_nothing(
    team: Team, hostile: HostileStore, world: World
) -> None:
    _, second, third = team.device().send(world.root)
    hostile.hidden = {second.name}
    report = run.run_once(IngestJob(team.lake.url, str(team.lake.folder)), {})
    assert (report.waiting, report.segments, report.bad) == (1, 1, ())
    hostile.hidden = set()
    assert team.reasons() == {}
    assert team.lake.lines() == expected(world.root)
    assert team.problems(is_full=True) == set()
    hostile.hidden = {third.name}
    team.lake.place = hostile
    assert {what for what, _ in team.problems()} == {"segments no longer exist", "missing segments"}


def test_a_store_that_returns_an_old_object_in_place_of_another_is_noticed(
    team: Team, hostile: HostileStore, world: World
) -> None:
    first, second, third = team.device().send(world.root)
    hostile.old = {second.name: first.data}
    assert team.reasons() == {second.name: "its header belongs to another segment"}
    hostile.old = {}
    assert team.reasons() == {}
    hostile.old = {third.name: second.data}
    team.lake.place = hostile
    assert team.problems() == {("exchanged segment", third.name)}


def test_a_removed_tail_is_named_though_the_store_has_removed_it_before_the_ingest(team: Team, world: World) -> None:
    *_, last = team.device().send(world.root)
    team.place.delete(last.name)
    assert team.reasons() == {}
    assert team.problems() == {("missing segments", "acme/laptop")}


def test_a_lake_without_administrators_believes_signed_segments_as_ever(
    lake: TestLake, world: World, tmp_path: Path
) -> None:
    elsewhere = create_administrator_key(tmp_path / "elsewhere", "acme")
    device = lake.device(is_chained=True)
    device.key = make_first_key(parse_token(make_token(elsewhere, "laptop", "ada", datetime.now(UTC), 1)), 1)
    device.send(world.root)
    assert lake.ingest().bad == ()
    assert lake.verify().problems == ()


@pytest.mark.parametrize("what", ["its own", "of other bytes", "of another segment", "of a stranger", "none"])
def test_a_rewritten_segment_is_accepted_for_its_own_tombstone_only(
    team: Team, world: World, tmp_path: Path, what: str
) -> None:
    first, *_, last = team.device().send(world.root)
    header, parts, _ = unpack_signed_segment(last.data)
    original = segment_digest(last.data)
    header = msgspec.structs.replace(header, parts_digest=msgspec.UNSET, original=original)
    data = pack_device_segment(header, [part.text for part in parts])
    team.place.overwrite(last.name, data)
    key = create_administrator_key(tmp_path / "stranger", "acme") if what == "of a stranger" else team.key
    digest = "0" * 64 if what == "of other bytes" else segment_digest(data)
    segment = first.name if what == "of another segment" else last.name
    tombstone = SegmentTombstone(segment=segment, original=original, digest=digest, replaced=digest)
    if what != "none":
        team.place.overwrite(tombstone_name(last.name), key.sign(TOMBSTONE_KIND, tombstone))
    bad = team.reasons()
    assert (last.name in bad) == (what != "its own")
    assert (("bad segment", last.name) in team.problems()) == (what != "its own")
