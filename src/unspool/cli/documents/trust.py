"""The JSON documents of `lake admin` and of the keys of devices."""

from __future__ import annotations

from unspool.cli.documents.base import JsonDocument, JsonObject


class AdministeredDevice(JsonObject):
    """A device that administrators have signed something of."""

    org: str
    """The organisation."""
    device: str
    """The device."""
    user: str | None
    """The user for whom it was enrolled."""
    key: str | None
    """Its first public key; null if it has none."""
    from_segment: int
    """The first segment that must be signed."""
    accepted: str | None
    """When its key was accepted, in UTC."""
    revoked_from: int | None
    """The first segment that is refused; null if it was not revoked."""


class LakeAdminDocument(JsonDocument):
    """The administrators of an organisation (`lake admin`)."""

    org: str
    """The organisation."""
    key: str | None
    """The public key of the administrator whose data folder this is."""
    administrators: list[str]
    """The public keys of all administrators."""
    requires_keys: bool
    """Whether devices without a key are refused."""
    devices: list[AdministeredDevice]
    """The devices, with `lake admin show`."""


class LakeAdminTokenDocument(JsonDocument):
    """A token for the enrolment of a device (`lake admin enrol`)."""

    org: str
    """The organisation."""
    device: str
    """The device that the token is for."""
    user: str
    """Whose device it will be."""
    hours: float
    """How long the token counts."""
    token: str | None
    """The token; null if it was written into a file."""


class RefusedRegistrationItem(JsonObject):
    """A registration that was not accepted."""

    name: str
    """The object in the store."""
    reason: str
    """Why it was not accepted."""


class LakeAdminAcceptDocument(JsonDocument):
    """The keys of devices that were accepted (`lake admin accept`)."""

    accepted: list[AdministeredDevice]
    """The devices whose keys were accepted now."""
    refused: list[RefusedRegistrationItem]
    """Registrations that were not."""


class LakeAdminRevokeDocument(JsonDocument):
    """A device that was revoked (`lake admin revoke`)."""

    org: str
    """The organisation."""
    device: str
    """The device."""
    revoked_from: int
    """The first segment that is refused."""
    told: bool
    """Whether the device is told by an object in the store."""


class CollectRotateKeyDocument(JsonDocument):
    """The new key of this device (`collect rotate-key`)."""

    org: str
    """The organisation."""
    device: str
    """This machine."""
    epoch: int
    """The number of the key: 1 for the first."""
    from_segment: int
    """The first segment that it signs."""
