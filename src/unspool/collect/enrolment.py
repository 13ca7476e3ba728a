"""Reads and writes `enrolment.json`: whom a machine collects for.

    {"org": "acme", "user": "me", "device": "5f1c…", "key_id": "9a41…", "key": "…"}

Rules
  1. The file is for the user alone (0600); one that others may read is refused, for it holds the key.
  2. It is made once, whole, and never overwritten: another device or key would be another set of streams, and all that
     was sent would be sent again.
  3. The device's name is random: nothing of the machine is in it.
  4. The key makes markers and hashes; it never leaves the machine. Devices that share one (`UNSPOOL_KEY`) mark equal
     secrets equally.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from unspool.errors import NotFound, Refused, Unreadable, Unwritable, UsageError
from unspool.files import read_whole

NAME = "enrolment.json"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LIMIT = 64 * 1024


class Enrolment(msgspec.Struct, frozen=True):
    """Whose segments a machine makes."""

    org: str
    user: str
    device: str
    key_id: str
    key: str
    """As hexadecimal digits."""

    @property
    def secret(self) -> bytes:
        """The key."""
        return bytes.fromhex(self.key)

    def keyed(self, data: bytes) -> str:
        """Return a hash that nobody without the key can try out."""
        return hashlib.blake2b(data, key=self.secret[:64], digest_size=16).hexdigest()


class EnrolmentRequest(NamedTuple):
    """What is to stand in a new enrolment; what is not said has a default."""

    org: str | None = None
    user: str | None = None
    device: str | None = None
    key: str | None = None


def parse_enrolment_options(environment: Mapping[str, str]) -> EnrolmentRequest:
    """Return what the environment says."""
    get = environment.get
    return EnrolmentRequest(get("UNSPOOL_ORG"), get("UNSPOOL_USER"), get("UNSPOOL_DEVICE"), get("UNSPOOL_KEY"))


def enrol_device(folder: Path, wish: EnrolmentRequest, environment: Mapping[str, str]) -> Enrolment:
    """Return the enrolment of a machine; made on first use. What it says must be what is wished for."""
    try:
        found = read_enrolment(folder)
    except NotFound:
        found = _made(folder, wish, environment)
    for name in ("org", "user", "device"):
        wished, there = getattr(wish, name), getattr(found, name)
        if wished is not None and wished != there:
            hint = f"`{folder / NAME}` says so; another data folder (`$UNSPOOL_HOME`) may be enrolled otherwise"
            raise Refused(f"this machine is enrolled with {name} `{there}`, not `{wished}`", hint=hint)
    return found


def read_enrolment(folder: Path) -> Enrolment:
    """Return what the file says."""
    path = folder / NAME
    data = read_whole(path, _LIMIT)
    if path.stat().st_mode & 0o077:
        raise Refused(f"others may read `{path}`, which holds a key", hint=f"chmod 600 {path}")
    try:
        found = msgspec.json.decode(data, type=Enrolment)
        good = _PLAIN.fullmatch(found.org) and _PLAIN.fullmatch(found.device) and len(found.secret) >= 16
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise Unreadable(f"not an enrolment: `{path}`: {error}", hint="mend it, or enrol in another folder") from None
    if not good:
        raise Unreadable(f"not an enrolment: `{path}`", hint="mend it, or enrol in another folder")
    return found


def _made(folder: Path, wish: EnrolmentRequest, environment: Mapping[str, str]) -> Enrolment:
    org, device = wish.org or "default", wish.device or secrets.token_hex(8)
    for name, value in (("org", org), ("device", device)):
        if not _PLAIN.fullmatch(value):
            raise UsageError(
                f"not a name for the {name}: `{value}`", hint="letters, digits, `.`, `_` and `-`; at most 64"
            )
    user = (wish.user or environment.get("USER") or environment.get("LOGNAME") or "someone")[:200]
    key = _key(wish.key)
    made = Enrolment(org, user, device, hashlib.sha256(key).hexdigest()[:8], key.hex())
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = folder / f".{NAME}.{secrets.token_hex(4)}"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was faster: its word counts
                os.link(beside, folder / NAME)
        finally:
            beside.unlink()
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise Unwritable(f"cannot write `{folder / NAME}`: {reason}") from None
    return read_enrolment(folder)


def _key(given: str | None) -> bytes:
    if given is None:
        return secrets.token_bytes(32)
    try:
        key = bytes.fromhex(given)
    except ValueError:
        key = b""
    if not 16 <= len(key) <= 64:
        raise UsageError("a key has 32 to 128 hexadecimal digits", hint="`openssl rand -hex 32` makes one")
    return key
