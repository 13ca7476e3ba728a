"""Reads and writes `enrolment.json`: whom a machine collects for.

    {"org": "acme", "user": "me", "device": "5f1c…", "key_id": "9a41…", "key": "…"}

Rules
  1. Only the owner may read the file (0600); one that others may read is refused, because it holds the key.
  2. It is created once, atomically. Organisation, device and key never change: others would mean other streams, and
     everything would be sent again. Only keys that sign are added.
  3. The device's name is random: it says nothing about the machine.
  4. The key makes markers and hashes and never leaves the machine. Devices that share one (`UNSPOOL_KEY`) give equal
     secrets equal markers.
  5. `device_keys` sign what the device sends. A machine that was enrolled with a token has one, and after a rotation
     two: a segment that was not confirmed before may have to be signed with the older one.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from unspool.collect.trust import DeviceKey, EnrolmentToken, make_first_key, make_next_key, open_registration
from unspool.errors import NotFound, Refused, Unreadable, UsageError
from unspool.files import create_atomically, make_data_folder, raise_unwritable, read_private, write_atomically
from unspool.format import DECODE_ERRORS

NAME = "enrolment.json"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LIMIT = 64 * 1024


class Enrolment(msgspec.Struct, frozen=True, omit_defaults=True):
    """The organisation, user and device of a machine, and its key."""

    org: str
    user: str
    device: str
    key_id: str
    key: str
    """As hexadecimal digits."""
    device_keys: list[DeviceKey] = []
    """The keys that sign what the device sends, by epoch: at most the last two."""

    def key_for(self, segment: int) -> DeviceKey | None:
        """Return the key that signs the segment with a number; None if the device has none."""
        fitting = [key for key in self.device_keys if key.from_segment <= segment]
        return next(iter(fitting[-1:] or self.device_keys[:1]), None)

    @property
    def secret(self) -> bytes:
        """The key."""
        return bytes.fromhex(self.key)

    def keyed(self, data: bytes) -> str:
        """Return a hash that nobody can compute for a guessed text without the key."""
        # blake2b takes at most 64 bytes of key.
        return hashlib.blake2b(data, key=self.secret[:64], digest_size=16).hexdigest()


class EnrolmentRequest(NamedTuple):
    """The values for a new enrolment; None means the default."""

    org: str | None = None
    user: str | None = None
    device: str | None = None
    key: str | None = None


def parse_enrolment_options(environment: Mapping[str, str]) -> EnrolmentRequest:
    """Return the values that environment variables give."""
    get = environment.get
    return EnrolmentRequest(get("UNSPOOL_ORG"), get("UNSPOOL_USER"), get("UNSPOOL_DEVICE"), get("UNSPOOL_KEY"))


def enrol_device(folder: Path, request: EnrolmentRequest, environment: Mapping[str, str]) -> Enrolment:
    """Return the enrolment of a machine, created on first use; `Refused` if it differs from the request."""
    try:
        enrolment = read_enrolment(folder)
    except NotFound:
        enrolment = _create_enrolment(folder, request, environment)
    for name in ("org", "user", "device"):
        requested, actual = getattr(request, name), getattr(enrolment, name)
        if requested is not None and requested != actual:
            hint = f"see `{folder / NAME}`; set `$UNSPOOL_HOME` to enrol another data folder"
            raise Refused(f"this machine is enrolled with {name} `{actual}`, not `{requested}`", hint=hint)
    return enrolment


def read_enrolment(folder: Path) -> Enrolment:
    """Return the enrolment of a data folder; it must be valid and private."""
    path = folder / NAME
    data = read_private(path, _LIMIT, "a key")
    try:
        enrolment = msgspec.json.decode(data, type=Enrolment)
        # Org and device become parts of object names: anything but plain names could reach another device's prefix.
        names = (enrolment.org, enrolment.device)
        is_valid = all(_PLAIN.fullmatch(name) for name in names) and len(enrolment.secret) >= 16
    except (*DECODE_ERRORS, ValueError) as error:
        raise Unreadable(
            f"invalid enrolment file: `{path}`: {error}", hint="fix the file, or set `$UNSPOOL_HOME` to another folder"
        ) from None
    if not is_valid:
        raise Unreadable(
            f"invalid enrolment file: `{path}`", hint="fix the file, or set `$UNSPOOL_HOME` to another folder"
        )
    return enrolment


def enrol_with_token(
    folder: Path, token: EnrolmentToken, request: EnrolmentRequest, environment: Mapping[str, str], from_segment: int
) -> Enrolment:
    """Return the enrolment of a machine with its first key, for which a token vouches; nothing is handed over yet.

    A machine that is enrolled without a key gets one, and signs what it sends from a segment on.
    """
    grant = token.grant
    requested = request._replace(org=grant.org, user=grant.user, device=grant.device)
    for name in ("org", "user", "device"):
        wanted = getattr(request, name)
        if wanted is not None and wanted != getattr(requested, name):
            hint = f"leave out the {name}, or ask for another token"
            raise Refused(f"the token is for {name} `{getattr(requested, name)}`, not `{wanted}`", hint=hint)
    # The user of a machine that is enrolled stays as it is there: where it differs, the binding of the lake counts.
    is_enrolled = (folder / NAME).exists()
    enrolment = enrol_device(folder, requested._replace(user=None) if is_enrolled else requested, environment)
    if enrolment.device_keys:
        first = enrolment.device_keys[0]
        registered = open_registration(first.registration.encode(), enrolment.org, enrolment.device, first.epoch)
        # Killed before the key was handed over: the same token goes on.
        if registered.token == token.document:
            return enrolment
        hint = "exchange it with `unspool collect rotate-key --to URL`"
        raise Refused(f"device `{enrolment.device}` has a key already", hint=hint)
    return replace_enrolment(folder, enrolment, [make_first_key(token, from_segment)])


def rotate_device_key(folder: Path, enrolment: Enrolment, from_segment: int) -> Enrolment:
    """Return the enrolment with a new key that signs from a segment on; nothing is handed over yet."""
    if not enrolment.device_keys:
        hint = "ask your administrator for a token, and run `unspool collect enrol --token-file FILE --to URL`"
        raise Refused(f"device `{enrolment.device}` has no key", hint=hint)
    before = enrolment.device_keys[-1]
    new = make_next_key(enrolment.org, enrolment.device, before, from_segment)
    return replace_enrolment(folder, enrolment, [before, new])


def replace_enrolment(folder: Path, enrolment: Enrolment, keys: list[DeviceKey]) -> Enrolment:
    """Write the enrolment of a data folder with other keys that sign."""
    enrolment = msgspec.structs.replace(enrolment, device_keys=keys)
    with raise_unwritable(f"cannot write `{folder / NAME}`"):
        write_atomically(folder / NAME, msgspec.json.format(msgspec.json.encode(enrolment)) + b"\n")
    return enrolment


def remove_enrolment(folder: Path) -> None:
    """Remove the enrolment of a data folder and what was remembered of sending, which is of no use without it."""
    with raise_unwritable(f"cannot remove `{folder / NAME}`"):
        # The enrolment last: killed before, the next `leave` does the rest.
        for name in ("collect.db", "collect.db-wal", "collect.db-shm", NAME):
            (folder / name).unlink(missing_ok=True)


def check_device_name(value: str, what: str = "device") -> None:
    """Raise `UsageError` unless a device or organisation can have this name."""
    if not _PLAIN.fullmatch(value):
        raise UsageError(f"invalid {what} name: `{value}`", hint="use at most 64 letters, digits, `.`, `_` and `-`")


def _create_enrolment(folder: Path, request: EnrolmentRequest, environment: Mapping[str, str]) -> Enrolment:
    org, device = request.org or "default", request.device or secrets.token_hex(8)
    check_device_name(org, "org")
    check_device_name(device)
    user = (request.user or environment.get("USER") or environment.get("LOGNAME") or "someone")[:200]
    key = _parse_key(request.key)
    enrolment = Enrolment(org, user, device, hashlib.sha256(key).hexdigest()[:8], key.hex())
    with raise_unwritable(f"cannot write `{folder / NAME}`"):
        make_data_folder(folder)
        # Never overwritten: if another process was faster, its enrolment counts.
        with suppress(FileExistsError):
            create_atomically(folder / NAME, [msgspec.json.format(msgspec.json.encode(enrolment)) + b"\n"])
    return read_enrolment(folder)


def _parse_key(digits: str | None) -> bytes:
    if digits is None:
        return secrets.token_bytes(32)
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if not 16 <= len(key) <= 64:
        raise UsageError("a key must have 32 to 128 hexadecimal digits", hint="create one with `openssl rand -hex 32`")
    return key
