"""Keeps the accepted keys of devices in the lake, each device in a small signed file: `devices/<org>/<device>.json`.

Rules
  1. A record is signed by an administrator. It has the first key of the device, the user whose it is, and whether it
     was revoked. Later keys follow from the first one (`unspool.collect.trust.device_keys`): a rotation changes no
     record.
  2. One file per device: with ten thousand devices a change writes some hundred bytes, not megabytes, and two
     administrators who accept or revoke do not wait for each other. An ingest reads those of devices with new segments.
  3. A key is accepted if an administrator has signed the grant of its token, the token was for this device and not
     expired when the store got the registration, and the device has no record. A record is never replaced by a new key.
  4. A revocation only ever moves to an earlier segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from unspool.collect.lake.chains import read_mark
from unspool.collect.lake.lake import Lake
from unspool.collect.lake.streams import last_before_gap
from unspool.collect.lake.trust.administrators import OrgAdministrators
from unspool.collect.object_store import SegmentStore, StoredObject
from unspool.collect.segments import FOLDER as SEGMENTS
from unspool.collect.segments import parse_device_segment_name
from unspool.collect.trust import (
    AdministratorKey,
    is_expired,
    open_document,
    open_grant,
    open_registration,
    parse_registration_name,
    registration_name,
    revocation_name,
)
from unspool.collect.trust.tombstones import notice_name
from unspool.errors import ObjectStoreFailed, Refused, Unreadable

FOLDER = "devices"
_KIND, _REVOCATION = "device", "device-revocation"
_REGISTRATIONS = "enrolments"
_AT_ONCE = 16
"""Objects that are fetched or written in parallel."""


class DeviceRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an administrator has signed of a device."""

    org: str
    device: str
    user: str | None = None
    token: str = ""
    """The id of the token that it was enrolled with."""
    key: str = ""
    """Its first public key; nothing if it has none and was revoked."""
    from_segment: int = 1
    """The first segment that must be signed."""
    accepted: str = ""
    """When, in UTC."""
    revoked_from: int | None = None
    """The first segment that is refused."""
    revoked: str = ""
    """When, in UTC."""

    @property
    def home(self) -> str:
        """The device with its organisation."""
        return f"{self.org}/{self.device}"


class RefusedRegistration(NamedTuple):
    """A registration that was not accepted, and why."""

    name: str
    reason: str


class AcceptReport(NamedTuple):
    """What became of the registrations that waited."""

    accepted: list[DeviceRecord]
    refused: list[RefusedRegistration]


def record_name(org: str, device: str) -> str:
    """Return the name of the file of a device."""
    return f"{FOLDER}/{org}/{device}.json"


def read_record(lake: Lake, org: str, device: str, administrators: OrgAdministrators) -> DeviceRecord | None:
    """Return the record of a device; None if it has none, `Refused` if no administrator has signed it."""
    name = record_name(org, device)
    data = lake.object_store.get(name)
    return None if data is None else _open_record(data, org, device, administrators, name)


def read_records(lake: Lake, administrators: Mapping[str, OrgAdministrators]) -> dict[str, DeviceRecord]:
    """Return the records of all devices, by `org/device`."""
    homes = [home.split("/") for home in recorded_homes(lake, administrators)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda home: read_record(lake, home[0], home[1], administrators[home[0]]), homes)
        return {record.home: record for record in found if record is not None}


def recorded_homes(lake: Lake, organisations: Iterable[str]) -> list[str]:
    """Return all devices that have a record, as `org/device`."""
    return sorted(f"{org}/{device}" for org in organisations for device in _recorded_devices(lake, org))


def accept_registrations(
    lake: Lake, object_store: SegmentStore, key: AdministratorKey, administrators: OrgAdministrators
) -> AcceptReport:
    """Accept the keys of all devices of an organisation that have registered one with a valid token."""
    known = _recorded_devices(lake, key.org)
    names = [listed.name for listed in object_store.names(f"{_REGISTRATIONS}/{key.org}")]
    parsed = {name: found for name in names if (found := parse_registration_name(name)) and found[0] == key.org}
    waiting = sorted({device for _, device, epoch in parsed.values() if epoch == 1} - known)

    def accept(device: str) -> DeviceRecord | RefusedRegistration:
        try:
            record = _check_registration(object_store, key.org, device, administrators)
        except (Refused, Unreadable) as error:
            return RefusedRegistration(registration_name(key.org, device, 1), error.message)
        # Only if there is none: of two registrations that are accepted at once, one counts.
        if not lake.object_store.put_new(record_name(key.org, device), key.sign(_KIND, record)):
            return RefusedRegistration(registration_name(key.org, device, 1), "the device has a key already")
        return record

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        outcomes = list(pool.map(accept, waiting))
    accepted = [outcome for outcome in outcomes if isinstance(outcome, DeviceRecord)]
    return AcceptReport(accepted, [outcome for outcome in outcomes if isinstance(outcome, RefusedRegistration)])


def revoke_device(
    lake: Lake,
    key: AdministratorKey,
    administrators: OrgAdministrators,
    device: str,
    from_segment: int | None = None,
    *,
    object_store: SegmentStore | None = None,
) -> DeviceRecord:
    """Refuse what a device sends from a segment on; without a number, all that was not ingested yet.

    With the object store, the device is told.
    """
    if from_segment is None:
        marks = []
        # An ingest that was killed may have added lines only: those count as ingested, and it must be able to finish.
        for table in ("entries", "sources"):
            lake.table(table, fresh=True)
            marks.append(read_mark(lake.versions(table), f"{key.org}/{device}").sequence)
        from_segment = max(marks) + 1
    name, first = record_name(key.org, device), from_segment

    def make(before: StoredObject | None) -> bytes:
        # A device that never had a key can be revoked too: its credentials may be stolen as well.
        record = DeviceRecord(org=key.org, device=device)
        if before is not None:
            record = _open_record(before.data, key.org, device, administrators, name)
        number = min(first, record.revoked_from or first)
        return key.sign(_KIND, msgspec.structs.replace(record, revoked_from=number, revoked=_now()))

    record = _open_record(lake.object_store.change(name, make), key.org, device, administrators, name)
    if object_store is not None:
        object_store.overwrite(revocation_name(key.org, device), key.sign(_REVOCATION, record))
    return record


def sign_records_again(
    lake: Lake, key: AdministratorKey, administrators: OrgAdministrators, is_due: Callable[[bytes], bool]
) -> int:
    """Sign records anew that are due, and return how many: those of an administrator who is to be removed."""

    def sign(device: str) -> bool:
        name = record_name(key.org, device)
        before = lake.object_store.stored(name)
        if before is None or not is_due(before.data):
            return False
        record = _open_record(before.data, key.org, device, administrators, name)
        if not lake.object_store.replace(name, key.sign(_KIND, record), before):
            raise ObjectStoreFailed(f"another administrator has changed `{name}`", hint="try again")
        return True

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return sum(pool.map(sign, sorted(_recorded_devices(lake, key.org))))


def remove_device_keys(lake: Lake, object_store: SegmentStore, org: str, device: str) -> None:
    """Remove the record of a device, the registrations of its keys, and what it was told of a revocation."""
    # The record last: while it is there, a run that was killed finds the device.
    for listed in list(object_store.names(f"{_REGISTRATIONS}/{org}/{device}")):
        # The notice stays: the device must learn that it was removed.
        if listed.name != notice_name(org, device):
            object_store.delete(listed.name)
    lake.object_store.delete(record_name(org, device))


def has_record(lake: Lake, org: str, device: str) -> bool:
    """Return whether a device has a record."""
    return lake.object_store.get(record_name(org, device)) is not None


def _check_registration(
    object_store: SegmentStore, org: str, device: str, administrators: OrgAdministrators
) -> DeviceRecord:
    """Return the record for a registration; `Refused` or `Unreadable` if it must not be accepted."""
    stored = object_store.stored(registration_name(org, device, 1))
    if stored is None:
        raise Refused("it is gone")
    registration = open_registration(stored.data, org, device, 1)
    grant = open_grant(registration.token, administrators.keys)
    if (grant.org, grant.device) != (org, device):
        raise Refused(f"its token is for device `{grant.org}/{grant.device}`")
    if not registration.is_vouched_for(grant.key):
        raise Refused("it has a copy of the grant, and no proof of the token")
    if is_expired(grant, stored.modified):
        raise Refused(f"its token expired at {grant.expires}")
    # With a later first segment, everything before could be sent by anybody. So could it with a single object that has
    # a high number: only what has no gap counts. The one more is that which was being sent when the key was made.
    if registration.from_segment > _count_segments(object_store, org, device) + 2:
        raise Refused(f"it signs from segment {registration.from_segment:,} on, and has not sent as many")
    return DeviceRecord(
        org=org,
        device=device,
        user=grant.user,
        token=grant.id,
        key=registration.key,
        from_segment=registration.from_segment,
        accepted=_now(),
    )


def _count_segments(object_store: SegmentStore, org: str, device: str) -> int:
    """Return how many segments the chain of a device has before a gap."""
    listed = object_store.names(f"{SEGMENTS}/{org}/{device}")
    numbers = {name.sequence for name in (parse_device_segment_name(one.name) for one in listed) if name}
    return last_before_gap(numbers)


def _recorded_devices(lake: Lake, org: str) -> set[str]:
    folder = f"{FOLDER}/{org}/"
    listed: Iterable[str] = (one.name for one in lake.object_store.names(folder.rstrip("/")))
    return {name.removeprefix(folder).removesuffix(".json") for name in listed if name.endswith(".json")}


def _open_record(data: bytes, org: str, device: str, administrators: OrgAdministrators, name: str) -> DeviceRecord:
    record = open_document(data, _KIND, administrators.keys, DeviceRecord, name=name)
    if (record.org, record.device) != (org, device):
        raise Refused(f"`{name}` is the record of another device", hint="ask who changed the file")
    return record


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
