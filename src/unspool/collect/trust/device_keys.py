"""Makes the keys of devices, hands them over, and signs what devices send.

    enrolments/<org>/<device>/<epoch, 6 digits>.json    the public key of an epoch, and why it counts
    enrolments/<org>/<device>/revoked.json              an administrator has revoked the device

Rules
  1. A device makes its keys itself; the private ones are in `enrolment.json` only.
  2. The first key counts because an administrator's token vouches for it, each later one because the key before it
     does. So a key is rotated without an administrator, and a list of keys has one beginning.
  3. The key of an epoch signs from one segment on, up to the first segment of the next epoch. A stolen old key signs
     nothing that is new.
  4. A registration is signed with the key that it registers: nobody can register a key that is not theirs.
  5. What is signed of a segment or heartbeat is its first line up to the signature, byte for byte. JSON that is written
     again need not be the same bytes, and fields that a later version adds are covered too. An earlier version ignores
     `epoch` and `signature`, and reads the rest as ever.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from unspool.collect.trust.signatures import (
    SignedDocument,
    is_public_key,
    is_signed,
    make_signing_key,
    open_document,
    public_key,
    sign_bytes,
    sign_document,
)
from unspool.collect.trust.tokens import EnrolmentToken
from unspool.errors import Refused, Unreadable
from unspool.format import DECODE_ERRORS

if TYPE_CHECKING:
    from unspool.collect.object_store import SegmentStore

FOLDER = "enrolments"
SEGMENT, HEARTBEAT = "segment", "heartbeat"
"""What a signature of a line is for."""
_KIND, _PROOF = "device-key", "device-key-proof"
_LAST_EPOCH = 999
"""An ingest reads the registrations of all keys of a device, one after the other."""
_SIGNED = re.compile(rb'(.*,"epoch":([0-9]{1,6})),"signature":"([0-9a-f]{128})"\}', re.DOTALL)
_NAME = re.compile(rf"{FOLDER}/([^/]+)/([^/]+)/([0-9]{{6}})\.json")


class DeviceKey(msgspec.Struct, frozen=True):
    """The private key of a device for an epoch, as `enrolment.json` has it."""

    epoch: int
    from_segment: int
    """The first segment that it signs."""
    private_key: str
    registration: str
    """The document that registers it."""

    def sign_line(self, purpose: str, line: bytes) -> bytes:
        """Return a JSON object with the epoch and a signature of all of it."""
        signed = line[:-1] + b',"epoch":%d' % self.epoch
        return signed + b',"signature":"%s"}' % sign_bytes(self.private_key, purpose, signed).encode()

    def __repr__(self) -> str:
        # Never in a log or a traceback.
        return f"DeviceKey(epoch={self.epoch})"


class SignedLine(NamedTuple):
    """A line with a signature, taken apart."""

    signed: bytes
    epoch: int
    signature: str

    def is_signed_by(self, key: str, purpose: str) -> bool:
        """Return whether the signature was made with the private key of a public key."""
        return is_signed(key, purpose, self.signed, self.signature)


class KeyRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """The public key of a device for an epoch."""

    org: str
    device: str
    epoch: int
    key: str
    from_segment: int
    token: str = ""
    """The grant of the token, for the first epoch."""
    proof: str
    """The signature of the token's key, or of the key of the epoch before."""

    def is_vouched_for(self, key: str) -> bool:
        """Return whether this public key, of a token or of the epoch before, vouches for it."""
        return is_signed(
            key, _PROOF, _promise(self.org, self.device, self.epoch, self.key, self.from_segment), self.proof
        )


def registration_name(org: str, device: str, epoch: int) -> str:
    """Return the name of the object that registers the key of an epoch."""
    return f"{FOLDER}/{org}/{device}/{epoch:06d}.json"


def revocation_name(org: str, device: str) -> str:
    """Return the name of the object that tells a device that it was revoked."""
    return f"{FOLDER}/{org}/{device}/revoked.json"


def parse_registration_name(name: str) -> tuple[str, str, int] | None:
    """Return the organisation, the device and the epoch of an object's name; None if it registers no key.

    >>> parse_registration_name(registration_name("acme", "d1", 2))
    ('acme', 'd1', 2)
    """
    match = _NAME.fullmatch(name)
    return (match[1], match[2], int(match[3])) if match else None


def make_first_key(token: EnrolmentToken, from_segment: int) -> DeviceKey:
    """Return the first key of the device that a token is for."""
    grant = token.grant
    return _make_key(grant.org, grant.device, 1, from_segment, voucher=token.private_key, token=token.document)


def make_next_key(org: str, device: str, before: DeviceKey, from_segment: int) -> DeviceKey:
    """Return a key that follows another one."""
    if before.epoch >= _LAST_EPOCH:
        hint = "ask your administrator for a token, and enrol this machine as another device"
        raise Refused(f"device `{device}` has had {_LAST_EPOCH} keys, and can have no more", hint=hint)
    first = max(from_segment, before.from_segment)
    return _make_key(org, device, before.epoch + 1, first, voucher=before.private_key, token="")


def open_registration(data: bytes, org: str, device: str, epoch: int) -> KeyRegistration:
    """Return the registration of a key; `Refused` if it is not signed with that key or is that of another one."""
    name = registration_name(org, device, epoch)
    try:
        key = msgspec.json.decode(data, type=SignedDocument).key
        found = open_document(data, _KIND, {key}, KeyRegistration, name=name)
    except Refused:
        raise Refused(f"`{name}` is not signed with the key in it") from None
    except DECODE_ERRORS as error:
        raise Unreadable(f"cannot read `{name}`: {error}") from None
    if found.key != key or not is_public_key(key):
        raise Refused(f"`{name}` is not signed with the key in it")
    if (found.org, found.device, found.epoch) != (org, device, epoch) or found.from_segment < 1:
        raise Refused(f"`{name}` registers the key of another device or epoch")
    return found


def split_signed_line(line: bytes) -> SignedLine | None:
    """Return a signed line in its parts; None if it has no signature.

    >>> split_signed_line(b'{"a":1}') is None
    True
    """
    match = _SIGNED.fullmatch(line)
    return SignedLine(match[1], int(match[2]), match[3].decode()) if match else None


def read_later_keys(object_store: SegmentStore, first: KeyRegistration) -> list[KeyRegistration]:
    """Return the keys of a device from the first one on: each must be vouched for by the one before it."""
    keys = [first]
    names = _list_names(object_store, first.org, first.device)
    for epoch in range(2, _LAST_EPOCH + 1):
        name = registration_name(first.org, first.device, epoch)
        data = object_store.get(name) if name in names else None
        if data is None:
            break
        try:
            key = open_registration(data, first.org, first.device, epoch)
        except (Refused, Unreadable):
            # What a stranger has put there registers nothing. Segments that need it are refused by their epoch.
            break
        if not key.is_vouched_for(keys[-1].key) or key.from_segment < keys[-1].from_segment:
            break
        keys.append(key)
    return keys


def publish_key(object_store: SegmentStore, org: str, device: str, key: DeviceKey) -> None:
    """Put the registration of a key into the object store, unless it is there; `Refused` if another one is."""
    name, data = registration_name(org, device, key.epoch), key.registration.encode()
    # Listed first, though a put would tell too: with a policy that forbids overwriting, a store may refuse that put.
    if name not in _list_names(object_store, org, device) and object_store.put_new(name, data):
        return
    if object_store.get(name) != data:
        hint = "tell your administrator: a token was used twice, or a key was stolen"
        raise Refused(f"another key is registered for epoch {key.epoch} of device `{device}`", hint=hint)


def refuse_revoked(object_store: SegmentStore, org: str, device: str) -> None:
    """Raise `Refused` if the device was revoked."""
    # Its signature is not checked: who can write there can keep the device from sending anyway. It is listed and not
    # fetched: S3 answers a get of a missing object with 403 unless the whole bucket may be listed.
    if revocation_name(org, device) in _list_names(object_store, org, device):
        hint = "ask your administrator for a token; then `unspool collect leave --yes` and enrol again"
        raise Refused(f"device `{device}` of `{org}` was revoked", hint=hint)


def _list_names(object_store: SegmentStore, org: str, device: str) -> set[str]:
    return {listed.name for listed in object_store.names(f"{FOLDER}/{org}/{device}")}


def _make_key(org: str, device: str, epoch: int, from_segment: int, *, voucher: str, token: str) -> DeviceKey:
    private_key = make_signing_key()
    key = public_key(private_key)
    registration = KeyRegistration(
        org=org,
        device=device,
        epoch=epoch,
        key=key,
        from_segment=from_segment,
        token=token,
        proof=sign_bytes(voucher, _PROOF, _promise(org, device, epoch, key, from_segment)),
    )
    return DeviceKey(epoch, from_segment, private_key, sign_document(private_key, _KIND, registration).decode())


def _promise(org: str, device: str, epoch: int, key: str, from_segment: int) -> bytes:
    # A list, not joined text: no two different promises have the same bytes.
    return msgspec.json.encode([org, device, epoch, key, from_segment])
