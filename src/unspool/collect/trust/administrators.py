"""Keeps the private key of an administrator: `administrator-ORG.json` in the data folder.

Rules
  1. Only the owner may read the file (0600); one that others may read is refused.
  2. It is created once and never overwritten: what an older key has signed would no longer count.
  3. The private key never leaves the machine. The lake and the enrolments of devices hold the public key.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from unspool.collect.trust.signatures import is_public_key, make_signing_key, public_key, sign_document
from unspool.errors import NotFound, Refused, Unreadable, UsageError
from unspool.files import create_atomically, make_data_folder, raise_unwritable, read_private
from unspool.format import DECODE_ERRORS

_LIMIT = 64 * 1024
_ORGANISATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class AdministratorKey(msgspec.Struct, frozen=True):
    """The key that an administrator of an organisation signs with."""

    org: str
    private_key: str

    @property
    def public_key(self) -> str:
        """The key that others check the signatures with."""
        return public_key(self.private_key)

    def sign(self, kind: str, body: object) -> bytes:
        """Return a signed document."""
        return sign_document(self.private_key, kind, body)

    def __repr__(self) -> str:
        # Never in a log or a traceback.
        return f"AdministratorKey(org={self.org!r})"


def create_administrator_key(folder: Path, org: str) -> AdministratorKey:
    """Create the key of an organisation's administrator in a data folder; one that exists is `Refused`."""
    path = _path(folder, org)
    key = AdministratorKey(org, make_signing_key())
    with raise_unwritable(f"cannot write `{path}`"):
        make_data_folder(folder)
        try:
            create_atomically(path, [msgspec.json.format(msgspec.json.encode(key)) + b"\n"])
        except FileExistsError:
            raise Refused(f"`{path}` exists already", hint="keep it: what it has signed counts only with it") from None
    return read_administrator_key(folder, org)


def read_administrator_key(folder: Path, org: str) -> AdministratorKey:
    """Return the key of an organisation's administrator; it must be valid and private."""
    path = _path(folder, org)
    try:
        data = read_private(path, _LIMIT, "a key")
    except NotFound:
        hint = "create one with `unspool lake admin init`, or run this where the key is"
        raise NotFound(f"no administrator key of `{org}` in `{folder}`", hint=hint) from None
    try:
        key = msgspec.json.decode(data, type=AdministratorKey)
    except DECODE_ERRORS as error:
        raise Unreadable(f"invalid administrator key: `{path}`: {error}", hint="restore the file") from None
    if key.org != org or not is_public_key(key.private_key):
        raise Unreadable(f"invalid administrator key: `{path}`", hint="restore the file")
    return key


def _path(folder: Path, org: str) -> Path:
    if not _ORGANISATION.fullmatch(org):
        raise UsageError(f"invalid org name: `{org}`", hint="use at most 64 letters, digits, `.`, `_` and `-`")
    return folder / f"administrator-{org}.json"
