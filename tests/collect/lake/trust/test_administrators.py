"""Administrators of a lake: who is one, what they sign, and what happens if it was changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from unspool.collect.heartbeat import DeviceHeartbeat
from unspool.collect.lake import sign_bindings
from unspool.collect.lake.lake import MARK, Lake, LakeMarker, open_lake
from unspool.collect.lake.trust import (
    DeviceTrust,
    accept_registrations,
    add_administrator,
    create_administrators,
    open_trust,
    read_administrators,
    read_records,
    remove_administrator,
    require_keys,
    revoke_device,
    sign_records_again,
)
from unspool.collect.lake.trust.administrators import NAME
from unspool.collect.lake.trust.devices import record_name
from unspool.collect.lake.users import NAME as USERS
from unspool.collect.lake.users import UserBindings, bind_users, read_users
from unspool.collect.object_store import SegmentStore, open_object_store
from unspool.collect.trust import (
    AdministratorKey,
    EnrolmentToken,
    make_first_key,
    make_signing_key,
    make_token,
    open_registration,
    parse_token,
    publish_key,
    registration_name,
)
from unspool.errors import NotFound, Refused, Unreadable, UnspoolError, UsageError

ADA, BOB, EVE = (AdministratorKey("acme", make_signing_key()) for _ in range(3))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake of which no table is needed."""
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / MARK).write_bytes(msgspec.json.encode(LakeMarker()))
    lake = open_lake(str(tmp_path / "lake"), {})
    bind_users(lake, {"acme/old": "ada", "other/d": "zoe"})
    create_administrators(lake, ADA)
    sign_bindings(lake, ADA)
    return lake


@pytest.fixture
def place(tmp_path: Path) -> SegmentStore:
    return open_object_store((tmp_path / "place").as_uri(), {})


def keys_of(lake: Lake) -> frozenset[str]:
    return read_administrators(lake)["acme"].keys


def key_for(key: AdministratorKey) -> Any:
    return lambda _: key


def change_file(lake: Lake, name: str, change: Any) -> None:
    said = msgspec.json.decode(lake.object_store.get(name) or b"")
    change(said)
    lake.object_store.overwrite(name, msgspec.json.encode(said))


def hand_over(place: SegmentStore, token: EnrolmentToken, device: str = "laptop", segment: int = 1) -> None:
    publish_key(place, "acme", device, make_first_key(token, segment))


def token(device: str = "laptop", key: AdministratorKey = ADA, hours: float = 1, ago: float = 0) -> EnrolmentToken:
    return parse_token(make_token(key, device, "ada", datetime.now(UTC) - timedelta(hours=ago), hours))


def refusals(lake: Lake, place: SegmentStore) -> list[str]:
    report = accept_registrations(lake, place, ADA, read_administrators(lake)["acme"])
    assert report.accepted == []
    return [one.reason for one in report.refused]


def test_administrators_are_added_and_removed_by_administrators(lake: Lake) -> None:
    assert keys_of(lake) == {ADA.public_key}
    with pytest.raises(Refused, match="not that of an administrator"):
        add_administrator(lake, EVE, EVE.public_key)
    add_administrator(lake, ADA, BOB.public_key)
    remove_administrator(lake, BOB, ADA.public_key)
    assert keys_of(lake) == {BOB.public_key}
    with pytest.raises(Refused, match="not that of an administrator"):
        add_administrator(lake, ADA, ADA.public_key)


def test_what_makes_no_sense_is_refused_and_changes_nothing(lake: Lake) -> None:
    with pytest.raises(Refused, match="the last administrator"):
        remove_administrator(lake, ADA, ADA.public_key)
    with pytest.raises(Refused, match="already"):
        add_administrator(lake, ADA, ADA.public_key)
    with pytest.raises(Refused, match="has administrators already"):
        create_administrators(lake, ADA)
    with pytest.raises(Refused, match="not that of an administrator"):
        create_administrators(lake, EVE)
    with pytest.raises(Refused, match="is not an administrator"):
        remove_administrator(lake, ADA, EVE.public_key)
    with pytest.raises(UsageError):
        add_administrator(lake, ADA, "me")
    with pytest.raises(NotFound, match="has no administrators"):
        add_administrator(lake, AdministratorKey("other", make_signing_key()), BOB.public_key)
    assert keys_of(lake) == {ADA.public_key}


def test_a_file_of_administrators_that_was_changed_is_refused(lake: Lake) -> None:
    add_administrator(lake, ADA, BOB.public_key)
    add_administrator(lake, BOB, EVE.public_key)
    original = lake.object_store.get(NAME)
    assert original is not None
    first, second, third = msgspec.json.decode(original)["orgs"]["acme"]
    for documents in ([second, third], [first, third], [first, third, second], [first, second, second], []):
        change_file(lake, NAME, lambda said, documents=documents: said["orgs"].update(acme=documents))
        with pytest.raises(UnspoolError):
            read_administrators(lake)
    lake.object_store.overwrite(NAME, original.replace(b'"org', b'"gro'))
    with pytest.raises((Refused, Unreadable)):
        open_trust(lake, lake.object_store)
    lake.object_store.overwrite(NAME, original)
    assert len(keys_of(lake)) == 3


def test_bindings_are_signed_by_an_administrator_and_those_of_other_organisations_are_not(lake: Lake) -> None:
    assert read_users(lake) == {"acme/old": "ada", "other/d": "zoe"}
    assert bind_users(lake, {"acme/new": "bob"}, key_for(ADA))["acme/new"] == "bob"
    bind_users(lake, {"other/e": "yan"})
    for key in (None, key_for(EVE)):
        with pytest.raises(Refused):
            bind_users(lake, {"acme/new": "eve"}, key)
    assert read_users(lake) == {"acme/new": "bob", "acme/old": "ada", "other/d": "zoe", "other/e": "yan"}


def test_bindings_that_no_administrator_has_signed_are_refused_in_one_line(lake: Lake) -> None:
    signed = lake.object_store.get(USERS)
    assert signed is not None
    for change in (
        lambda said: said["devices"].update({"acme/laptop": "eve"}),
        lambda said: said["orgs"].update(acme=said["orgs"]["acme"].replace("ada", "eve")),
        lambda said: said["orgs"].pop("acme"),
    ):
        change_file(lake, USERS, change)
        with pytest.raises(Refused):
            read_users(lake)
        lake.object_store.overwrite(USERS, signed)
    lake.object_store.overwrite(USERS, msgspec.json.encode(UserBindings("users", 1, {"acme/laptop": "eve"})))
    with pytest.raises(Refused, match="unsigned bindings of `acme`"):
        read_users(lake)
    lake.object_store.delete(USERS)
    with pytest.raises(Refused, match="lacks the signed bindings"):
        read_users(lake)
    lake.object_store.overwrite(USERS, signed)
    lake.object_store.delete(NAME)
    with pytest.raises(Refused, match="`acme` has no administrators"):
        read_users(lake)


def test_an_earlier_version_does_not_take_signed_bindings_for_none(lake: Lake) -> None:
    assert msgspec.json.decode(lake.object_store.get(USERS) or b"")["unspool"] != "users"


def test_a_key_with_a_valid_token_is_accepted_once(lake: Lake, place: SegmentStore) -> None:
    hand_over(place, token())
    administrators = read_administrators(lake)
    (record,) = accept_registrations(lake, place, ADA, administrators["acme"]).accepted
    assert (record.device, record.user, record.from_segment) == ("laptop", "ada", 1)
    assert read_records(lake, administrators) == {"acme/laptop": record}
    # Whatever is in the store later: the record keeps the key.
    place.delete(registration_name("acme", "laptop", 1))
    hand_over(place, token())
    report = accept_registrations(lake, place, ADA, administrators["acme"])
    assert (report.accepted, report.refused) == ([], [])
    assert read_records(lake, administrators) == {"acme/laptop": record}


def test_a_forged_token_is_refused(lake: Lake, place: SegmentStore) -> None:
    hand_over(place, token(key=EVE))
    assert refusals(lake, place) == ["`enrolment token` is not signed by a trusted administrator"]


def test_a_token_of_an_administrator_who_was_removed_is_refused(lake: Lake, place: SegmentStore) -> None:
    hand_over(place, token(key=BOB))
    add_administrator(lake, ADA, BOB.public_key)
    remove_administrator(lake, ADA, BOB.public_key)
    assert refusals(lake, place) == ["`enrolment token` is not signed by a trusted administrator"]


def test_an_expired_token_is_refused(lake: Lake, place: SegmentStore) -> None:
    late = token(ago=2)
    hand_over(place, late)
    assert refusals(lake, place) == [f"its token expired at {late.grant.expires}"]


def test_a_token_that_is_reused_is_refused(lake: Lake, place: SegmentStore) -> None:
    used = token()
    hand_over(place, used)
    with pytest.raises(Refused, match="another key is registered"):
        hand_over(place, used)
    # Under another name it says for whom it was.
    key = make_first_key(used._replace(grant=msgspec.structs.replace(used.grant, device="desktop")), 1)
    publish_key(place, "acme", "desktop", key)
    report = accept_registrations(lake, place, ADA, read_administrators(lake)["acme"])
    assert [record.device for record in report.accepted] == ["laptop"]
    assert [one.reason for one in report.refused] == ["its token is for device `acme/laptop`"]


def test_a_grant_that_was_copied_from_the_store_is_of_no_use(lake: Lake, place: SegmentStore) -> None:
    published = token()
    hand_over(place, published._replace(private_key=make_signing_key()))
    assert refusals(lake, place) == ["it has a copy of the grant, and no proof of the token"]


def test_a_key_that_signs_from_a_segment_far_ahead_is_refused(lake: Lake, place: SegmentStore) -> None:
    hand_over(place, token(), segment=1000)
    assert refusals(lake, place) == ["it signs from segment 1,000 on, and has not sent as many"]


def test_a_registration_of_any_content_is_refused_and_hinders_nobody(lake: Lake, place: SegmentStore) -> None:
    for number, data in enumerate((b"", b"{}", b"\xff", b'{"key": 1}')):
        place.put_new(registration_name("acme", f"d{number}", 1), data)
    hand_over(place, token())
    report = accept_registrations(lake, place, ADA, read_administrators(lake)["acme"])
    assert [record.device for record in report.accepted] == ["laptop"]
    assert len(report.refused) == 4


def test_a_record_that_was_changed_is_refused(lake: Lake, place: SegmentStore) -> None:
    for device in ("laptop", "desktop"):
        hand_over(place, token(device), device)
    accept_registrations(lake, place, ADA, read_administrators(lake)["acme"])
    lake.object_store.overwrite(
        record_name("acme", "laptop"), lake.object_store.get(record_name("acme", "desktop")) or b""
    )
    found = open_trust(lake, place).device("acme/laptop")
    assert found.refusal == "`devices/acme/laptop.json` is the record of another device"
    assert found.refuse_unsigned() == found.refuse_from(1) == found.refusal
    change_file(lake, record_name("acme", "desktop"), lambda said: said.update(body=said["body"].replace("ada", "eve")))
    refusal = open_trust(lake, place).device("acme/desktop").refusal
    assert refusal == "`devices/acme/desktop.json` is not signed by a trusted administrator"
    lake.object_store.overwrite(record_name("acme", "desktop"), b"")
    assert open_trust(lake, place).device("acme/desktop").refusal
    assert open_trust(lake, place).read_all() == {}


def test_what_a_removed_administrator_signed_counts_when_another_has_signed_it_again(
    lake: Lake, place: SegmentStore
) -> None:
    add_administrator(lake, ADA, BOB.public_key)
    hand_over(place, token())
    accept_registrations(lake, place, BOB, read_administrators(lake)["acme"])
    assert sign_records_again(lake, ADA, read_administrators(lake)["acme"], lambda data: b"nobody" in data) == 0
    signed = BOB.public_key.encode()
    assert sign_records_again(lake, ADA, read_administrators(lake)["acme"], lambda data: signed in data) == 1
    remove_administrator(lake, ADA, BOB.public_key)
    assert open_trust(lake, place).device("acme/laptop").has_key


def test_a_device_without_a_key_can_be_revoked_too_and_is_told(lake: Lake, place: SegmentStore) -> None:
    administrators = read_administrators(lake)["acme"]
    record = revoke_device(lake, ADA, administrators, "old", 4, object_store=place)
    assert record.revoked_from == 4
    found = open_trust(lake, place).device("acme/old")
    assert (found.has_key, found.refuse_from(3), bool(found.refuse_from(4))) == (False, None, True)
    assert [one.name for one in place.names("enrolments")] == ["enrolments/acme/old/revoked.json"]


def test_a_heartbeat_from_before_the_first_key_needs_no_signature(lake: Lake, place: SegmentStore) -> None:
    key = make_first_key(token(), 3)
    first = open_registration(key.registration.encode(), "acme", "laptop", 1)
    device = DeviceTrust(None, [first], has_administrators=True)
    for segments, needs_one in ((2, False), (3, True)):
        beat = DeviceHeartbeat(org="acme", user="ada", device="laptop", written="", collector="1", segments=segments)
        line = msgspec.json.encode(beat)
        assert device.is_heartbeat_signed(beat, line) is not needs_one
        assert device.is_heartbeat_signed(beat, key.sign_line("heartbeat", line))
        assert not device.is_heartbeat_signed(beat, key.sign_line("segment", line))


def test_whether_keys_are_required_is_signed(lake: Lake, place: SegmentStore) -> None:
    assert open_trust(lake, place).device("acme/x").refuse_unsigned() is None
    require_keys(lake, ADA, is_required=True)
    assert open_trust(lake, place).device("acme/x").refuse_unsigned()
    assert open_trust(lake, place).device("other/x").refuse_unsigned() is None
    with pytest.raises(Refused):
        require_keys(lake, EVE, is_required=False)


def test_a_key_that_signs_from_later_than_what_was_sent_is_refused(lake: Lake, place: SegmentStore) -> None:
    folder = "segments/acme/laptop/2000-01-01"
    # One object with a high number would let everything before it be sent without a signature.
    for number in (1, 2, 900_000):
        place.put_new(f"{folder}/{number:012d}-0000000000000000.jsonl.zst", b"")
    hand_over(place, token(), segment=5)
    assert refusals(lake, place) == ["it signs from segment 5 on, and has not sent as many"]
    place.delete(registration_name("acme", "laptop", 1))
    hand_over(place, token(), segment=4)
    (record,) = accept_registrations(lake, place, ADA, read_administrators(lake)["acme"]).accepted
    assert record.from_segment == 4
