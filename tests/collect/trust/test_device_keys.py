"""Keys of devices: who vouches for them, what they sign, and what a token is worth."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unspool.collect.enrolment import (
    NAME,
    EnrolmentRequest,
    enrol_device,
    enrol_with_token,
    read_enrolment,
    rotate_device_key,
)
from unspool.collect.object_store import SegmentStore, open_object_store
from unspool.collect.trust import (
    AdministratorKey,
    DeviceKey,
    is_expired,
    make_first_key,
    make_next_key,
    make_signing_key,
    make_token,
    open_grant,
    open_registration,
    parse_token,
    public_key,
    publish_key,
    read_later_keys,
    refuse_revoked,
    registration_name,
    revocation_name,
    sign_document,
    split_signed_line,
)
from unspool.errors import Refused, Unreadable

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
ADMINISTRATOR = AdministratorKey("acme", make_signing_key())
TOKEN = make_token(ADMINISTRATOR, "laptop", "ada", NOW, 24)
FIRST = make_first_key(parse_token(TOKEN), 1)


@pytest.fixture
def place(tmp_path: Path) -> SegmentStore:
    return open_object_store((tmp_path / "place").as_uri(), {})


def test_a_token_says_for_whom_it_is_and_an_administrator_has_signed_that() -> None:
    token = parse_token(f" {TOKEN}\n")
    grant = open_grant(token.document, {ADMINISTRATOR.public_key})
    assert (grant.org, grant.device, grant.user, grant.expires) == ("acme", "laptop", "ada", "2026-01-06T12:00:00Z")
    assert token.private_key not in repr(token)
    with pytest.raises(Refused):
        open_grant(token.document, {public_key(make_signing_key())})


def test_a_token_expires() -> None:
    grant = parse_token(TOKEN).grant
    assert not is_expired(grant, NOW + timedelta(hours=24))
    assert is_expired(grant, NOW + timedelta(hours=24, seconds=1))
    assert is_expired(msgspec.structs.replace(grant, expires="never"), NOW)
    assert is_expired(msgspec.structs.replace(grant, expires="2999-01-01T00:00:00"), NOW)


@given(st.text() | st.text().map("unspool-token-1.".__add__) | st.integers(17, len(TOKEN) - 1).map(TOKEN.__getitem__))
def test_what_is_no_token_is_said_to_be_none_without_its_text(text: str) -> None:
    with pytest.raises(Unreadable, match=r"^(not an|damaged) enrolment token$"):
        parse_token(text)


def test_a_registration_shows_that_the_device_had_the_token_and_has_the_key() -> None:
    registration = open_registration(FIRST.registration.encode(), "acme", "laptop", 1)
    token = parse_token(TOKEN)
    assert registration.is_vouched_for(token.grant.key)
    assert token.private_key not in FIRST.registration
    assert FIRST.private_key not in FIRST.registration
    assert FIRST.private_key not in repr(FIRST)
    for changed in ({"key": public_key(make_signing_key())}, {"device": "other"}, {"epoch": 2}, {"from_segment": 7}):
        assert not msgspec.structs.replace(registration, **changed).is_vouched_for(token.grant.key)


@pytest.mark.parametrize("place_of_it", [("acme", "other", 1), ("umbrella", "laptop", 1), ("acme", "laptop", 2)])
def test_a_registration_counts_at_its_own_name_only(place_of_it: tuple[str, str, int]) -> None:
    with pytest.raises(Refused, match="another device or epoch"):
        open_registration(FIRST.registration.encode(), *place_of_it)


def test_nobody_registers_a_key_that_is_not_theirs() -> None:
    registration = open_registration(FIRST.registration.encode(), "acme", "laptop", 1)
    thief = make_signing_key()
    with pytest.raises(Refused, match="not signed with the key in it"):
        open_registration(sign_document(thief, "device-key", registration), "acme", "laptop", 1)
    document = msgspec.json.decode(sign_document(thief, "device-key", registration))
    document["key"] = registration.key
    with pytest.raises(Refused, match="not signed with the key in it"):
        open_registration(msgspec.json.encode(document), "acme", "laptop", 1)


@given(st.binary())
def test_a_registration_of_any_bytes_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises((Refused, Unreadable)):
        open_registration(data, "acme", "laptop", 1)


def test_keys_follow_each_other_up_to_one_that_the_key_before_has_not_signed(place: SegmentStore) -> None:
    second = make_next_key("acme", "laptop", FIRST, 5)
    third = make_next_key("acme", "laptop", second, 3)
    assert third.from_segment == 5  # never before the one that it replaces
    stranger = make_next_key("acme", "laptop", DeviceKey(3, 9, make_signing_key(), ""), 9)
    for key in (FIRST, second, third, stranger):
        publish_key(place, "acme", "laptop", key)
    first = open_registration(FIRST.registration.encode(), "acme", "laptop", 1)
    assert [key.epoch for key in read_later_keys(place, first)] == [1, 2, 3]
    place.overwrite(registration_name("acme", "laptop", 2), b"{}")
    assert [key.epoch for key in read_later_keys(place, first)] == [1]


def test_a_key_is_handed_over_once_and_another_one_is_refused(place: SegmentStore) -> None:
    publish_key(place, "acme", "laptop", FIRST)
    publish_key(place, "acme", "laptop", FIRST)
    with pytest.raises(Refused, match="another key is registered for epoch 1"):
        publish_key(place, "acme", "laptop", make_first_key(parse_token(TOKEN), 1))


def test_a_revoked_device_is_told(place: SegmentStore) -> None:
    refuse_revoked(place, "acme", "laptop")
    place.put_new(revocation_name("acme", "laptop"), b"{}")
    with pytest.raises(Refused, match="device `laptop` of `acme` was revoked"):
        refuse_revoked(place, "acme", "laptop")


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none(), min_size=1))
def test_a_signed_line_is_json_with_the_same_fields_and_holds_for_its_bytes_and_purpose(said: dict[str, str]) -> None:
    line = msgspec.json.encode(said)
    signed = FIRST.sign_line("segment", line)
    assert msgspec.json.decode(signed) == {**said, "epoch": 1, "signature": signed[-130:-2].decode()}
    found, key = split_signed_line(signed), public_key(FIRST.private_key)
    assert found is not None
    assert (found.signed, found.epoch) == (line[:-1] + b',"epoch":1', 1)
    assert found.is_signed_by(key, "segment")
    assert not found.is_signed_by(key, "heartbeat")
    assert not found.is_signed_by(public_key(make_signing_key()), "segment")


@given(st.data())
def test_no_changed_line_keeps_its_signature(data: st.DataObject) -> None:
    line = bytearray(FIRST.sign_line("segment", b'{"org":"acme"}'))
    position = data.draw(st.integers(0, len(line) - 1))
    line[position] ^= data.draw(st.integers(1, 255))
    found = split_signed_line(bytes(line))
    assert found is None or not found.is_signed_by(public_key(FIRST.private_key), "segment")


@given(st.binary())
def test_any_bytes_are_a_line_without_a_signature(line: bytes) -> None:
    assert split_signed_line(line) is None


def test_a_machine_enrols_with_a_token_and_again_with_the_same(tmp_path: Path) -> None:
    token = parse_token(TOKEN)
    made = enrol_with_token(tmp_path, token, EnrolmentRequest(), {}, 1)
    assert (made.org, made.user, made.device) == ("acme", "ada", "laptop")
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    assert enrol_with_token(tmp_path, token, EnrolmentRequest(), {}, 1) == made == read_enrolment(tmp_path)
    other = parse_token(make_token(ADMINISTRATOR, "laptop", "ada", NOW, 24))
    with pytest.raises(Refused, match="has a key already"):
        enrol_with_token(tmp_path, other, EnrolmentRequest(), {}, 1)


def test_a_token_is_for_the_device_that_it_names(tmp_path: Path) -> None:
    token = parse_token(TOKEN)
    with pytest.raises(Refused, match="the token is for user `ada`, not `eve`"):
        enrol_with_token(tmp_path, token, EnrolmentRequest(user="eve"), {}, 1)
    enrol_device(tmp_path, EnrolmentRequest("acme", "ada", "desktop"), {})
    with pytest.raises(Refused, match="enrolled with device `desktop`, not `laptop`"):
        enrol_with_token(tmp_path, token, EnrolmentRequest(), {}, 1)


def test_a_machine_that_was_enrolled_without_a_key_keeps_everything_else(tmp_path: Path) -> None:
    before = enrol_device(tmp_path, EnrolmentRequest("acme", "me", "laptop"), {})
    after = enrol_with_token(tmp_path, parse_token(TOKEN), EnrolmentRequest(), {}, 8)
    assert msgspec.structs.replace(after, device_keys=[]) == before
    assert [(key.epoch, key.from_segment) for key in after.device_keys] == [(1, 8)]


def test_a_segment_is_signed_with_the_key_of_its_number(tmp_path: Path) -> None:
    plain = enrol_device(tmp_path / "plain", EnrolmentRequest(), {})
    assert plain.key_for(1) is None
    assert b"device_keys" not in (tmp_path / "plain" / NAME).read_bytes()
    with pytest.raises(Refused, match="has no key"):
        rotate_device_key(tmp_path / "plain", plain, 4)
    enrolment = enrol_with_token(tmp_path, parse_token(TOKEN), EnrolmentRequest(), {}, 3)
    for number in (7, 9):
        enrolment = rotate_device_key(tmp_path, enrolment, number)
    keys = {number: enrolment.key_for(number) for number in (1, 3, 6, 7, 8, 9, 99)}
    epochs = {number: key.epoch for number, key in keys.items() if key}
    assert epochs == {1: 2, 3: 2, 6: 2, 7: 2, 8: 2, 9: 3, 99: 3}
    assert read_enrolment(tmp_path) == enrolment


def test_a_device_gets_no_more_keys_than_are_read(place: SegmentStore) -> None:
    last = FIRST
    publish_key(place, "acme", "laptop", last)
    for epoch in range(2, 1000):
        last = make_next_key("acme", "laptop", last, epoch)
        place.overwrite(registration_name("acme", "laptop", epoch), last.registration.encode())
    found = read_later_keys(place, open_registration(FIRST.registration.encode(), "acme", "laptop", 1))
    assert [key.epoch for key in found] == list(range(1, 1000))
    with pytest.raises(Refused, match="has had 999 keys"):
        make_next_key("acme", "laptop", last, 1000)
