"""Whom a lake believes: its administrators, the keys of its devices, and the checks of what they have signed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.collect.lake.trust.administrators import (
        OrgAdministrators, add_administrator, create_administrators, read_administrators, refuse_stranger,
        remove_administrator, require_keys,
    )
    from unspool.collect.lake.trust.devices import (
        AcceptReport, DeviceRecord, accept_registrations, has_record, read_records, remove_device_keys,
        revoke_device, sign_records_again,
    )
    from unspool.collect.lake.trust.segment_checks import NO_TRUST, DeviceTrust, LakeTrust, open_trust

__all__ = [
    "NO_TRUST", "AcceptReport", "DeviceRecord", "DeviceTrust", "LakeTrust", "OrgAdministrators",
    "accept_registrations", "add_administrator", "create_administrators", "has_record", "open_trust",
    "read_administrators", "read_records", "refuse_stranger", "remove_administrator", "remove_device_keys",
    "require_keys", "revoke_device", "sign_records_again",
]

__getattr__ = lazy_door(__name__, {
    "administrators":
        "OrgAdministrators add_administrator create_administrators read_administrators refuse_stranger "
        "remove_administrator require_keys",
    "devices":
        "AcceptReport DeviceRecord accept_registrations has_record read_records remove_device_keys revoke_device "
        "sign_records_again",
    "segment_checks": "NO_TRUST DeviceTrust LakeTrust open_trust",
})
