"""Checks the signatures of segments and heartbeats against the keys of their devices.

Rules
  1. A device with an accepted key must sign every segment from the one on that its record names. A segment that is not
     signed, is signed with another key, or is not what was signed, is refused. Its device waits, and no other.
  2. The key of a segment is that of the epoch into which its number falls, whatever epoch the segment names.
  3. From the segment of a revocation on, everything is refused, also what a later key has signed.
  4. A device without a record is believed as ever, unless its organisation requires keys. But if it signs, its key must
     be accepted first: else whoever writes in its name could choose a key.
  5. What was ingested before keys were required stays; only new segments are refused for that.
  6. A segment that an administrator has rewritten is not what its device signed. Whoever reads the chain has found a
     signed tombstone of exactly these bytes before it asks here (`ReceivedSegment.is_rewritten`).
  7. If the record of a device is damaged or not signed, everything of that device is refused, and nothing of others.
  8. An organisation without administrators has no accepted keys: nothing of it is checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

from unspool.collect.heartbeat import DeviceHeartbeat
from unspool.collect.lake.chains import ReceivedSegment
from unspool.collect.lake.lake import Lake
from unspool.collect.lake.trust.administrators import OrgAdministrators, read_administrators
from unspool.collect.lake.trust.devices import DeviceRecord, read_record, recorded_homes
from unspool.collect.object_store import SegmentStore
from unspool.collect.trust import KeyRegistration, read_later_keys, split_signed_line
from unspool.errors import Refused, Unreadable

_AT_ONCE = 16
"""Devices that are asked for in parallel."""


class DeviceTrust:
    """What is required of a device, and the keys that it may sign with."""

    def __init__(
        self,
        record: DeviceRecord | None,
        keys: Sequence[KeyRegistration],
        *,
        requires_key: bool = False,
        has_administrators: bool = False,
        refusal: str | None = None,
    ) -> None:
        self.record, self._keys = record, keys
        self.refusal = refusal
        """Why nothing of the device is accepted; None if its record is fine."""
        self._requires_key, self._has_administrators = requires_key, has_administrators

    @property
    def user(self) -> str | None:
        """The user for whom an administrator has enrolled the device."""
        return self.record.user if self.record else None

    @property
    def revoked_from(self) -> int | None:
        """The first segment that is refused because the device was revoked."""
        return self.record.revoked_from if self.record else None

    @property
    def has_key(self) -> bool:
        """Whether the device has an accepted key."""
        return bool(self._keys)

    def check_new(self, received: ReceivedSegment) -> str | None:
        """Return why a segment that is not in the tables is refused; None if it is not."""
        return self._check(received, is_new=True)

    def check_known(self, received: ReceivedSegment) -> str | None:
        """Return why a segment that may be in the tables is refused; None if it is not."""
        return self._check(received, is_new=False)

    def refuse_from(self, number: int) -> str | None:
        """Return why no segment with this number or a later one can be accepted; None if one can."""
        if self.refusal is not None:
            return self.refusal
        if self.revoked_from is not None and number >= self.revoked_from:
            return f"its device was revoked from segment {self.revoked_from:,} on"
        return None

    def refuse_unsigned(self) -> str | None:
        """Return why new segments of the layout without signatures are refused; None if they are not."""
        if self.refusal is not None or self.revoked_from is not None:
            return self.refusal or "its device was revoked"
        if self.has_key:
            return "it is not signed, and its device has a key"
        return "its device has no accepted key, and the organisation requires one" if self._requires_key else None

    def is_heartbeat_signed(self, heartbeat: DeviceHeartbeat, data: bytes) -> bool:
        """Return whether a heartbeat may be believed."""
        if not self.has_key:
            return True
        line, first = split_signed_line(data), self._key_of(heartbeat.segments)
        # From before the device had a key. It is behind the segments, so nothing can be hidden or invented with it.
        if line is None and heartbeat.segments < self._keys[0].from_segment:
            return True
        # It may be from before or after the rotation that its last segment is next to.
        fitting = [key for key in self._keys if line and key.epoch == line.epoch >= first.epoch]
        return bool(line and fitting and line.is_signed_by(fitting[0].key, "heartbeat"))

    def _check(self, received: ReceivedSegment, *, is_new: bool) -> str | None:
        number = received.header.sequence
        if reason := self.refuse_from(number):
            return reason
        if received.is_rewritten:
            return None
        line = split_signed_line(received.line)
        if not self.has_key:
            if line is not None and self._has_administrators and is_new:
                return "it is signed with a key that no administrator has accepted"
            return self.refuse_unsigned() if is_new else None
        key = self._key_of(number)
        if line is None:
            return "it is not signed, and its device has a key" if number >= self._keys[0].from_segment else None
        if line.epoch != key.epoch:
            return _describe_epoch(line.epoch, key.epoch, len(self._keys))
        if not line.is_signed_by(key.key, "segment"):
            return "its signature is not that of its device"
        digest = hashlib.sha256()
        for part in received.parts:
            digest.update(part.text)
        if received.header.parts_digest != digest.hexdigest():
            return "its parts are not those that its device signed"
        return None

    def _key_of(self, number: int) -> KeyRegistration:
        fitting = [key for key in self._keys if key.from_segment <= number]
        return fitting[-1] if fitting else self._keys[0]


class LakeTrust:
    """Whom a lake believes, as far as it is asked: each device is read once."""

    def __init__(
        self,
        lake: Lake | None,
        object_store: SegmentStore | None,
        administrators: Mapping[str, OrgAdministrators],
        *,
        devices: Mapping[str, DeviceTrust] = MappingProxyType({}),
    ) -> None:
        self._lake, self._object_store, self.administrators = lake, object_store, administrators
        self._devices: dict[str, DeviceTrust] = dict(devices)
        """Those that are known already."""

    def device(self, home: str) -> DeviceTrust:
        """Return what is required of a device (`org/device`)."""
        if home not in self._devices:
            org, _, device = home.partition("/")
            own = self.administrators.get(org)
            if own is None or self._lake is None:
                self._devices[home] = DeviceTrust(None, ())
            else:
                try:
                    self._add(home, own, read_record(self._lake, org, device, own))
                except (Refused, Unreadable) as error:
                    self._devices[home] = DeviceTrust(None, (), refusal=error.message)
        return self._devices[home]

    @property
    def administrator_keys(self) -> dict[str, frozenset[str]]:
        """The public keys of the administrators of each organisation."""
        return {org: own.keys for org, own in self.administrators.items()}

    def of_device(self, home: str) -> dict[str, OrgAdministrators]:
        """Return the administrators of a device's organisation, by its name; nothing if it has none."""
        org = home.partition("/")[0]
        return {org: self.administrators[org]} if org in self.administrators else {}

    def read_all(self) -> dict[str, DeviceRecord]:
        """Read the records of all devices at once, and return them by `org/device`."""
        if self._lake is None or not self.administrators:
            return {}
        homes = recorded_homes(self._lake, self.administrators)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            # Each makes two requests, which take as long as the store is far away.
            found = zip(homes, pool.map(self.device, homes), strict=True)
            return {home: device.record for home, device in found if device.record is not None}

    def _add(self, home: str, own: OrgAdministrators, record: DeviceRecord | None) -> None:
        keys: list[KeyRegistration] = []
        if record is not None and record.key and self._object_store is not None:
            first = KeyRegistration(
                org=record.org,
                device=record.device,
                epoch=1,
                key=record.key,
                from_segment=record.from_segment,
                proof="",
            )
            keys = read_later_keys(self._object_store, first)
        self._devices[home] = DeviceTrust(
            record,
            keys,
            requires_key=own.requires_keys,
            has_administrators=True,
        )


def open_trust(lake: Lake, object_store: SegmentStore) -> LakeTrust:
    """Return whom a lake believes; `Refused` if what its administrators signed was changed."""
    return LakeTrust(lake, object_store, read_administrators(lake))


def _describe_epoch(told: int, expected: int, last: int) -> str:
    if told > last:
        return f"it is signed with key {told:,} of its device, which is not registered"
    return f"it is signed with key {told:,} of its device, and key {expected:,} counts there"


NO_TRUST = LakeTrust(None, None, {})
"""Of a lake without administrators: every device is believed."""
