"""Makes and checks the tokens that devices enrol with: one device each, once, and not for long.

    administrator ─ signs ▶ grant (device, user, key of the token, expiry) ─ token = grant + private key of the token
    device ─ signs its new public key with the token's ▶ proof, beside the grant (`device_keys.py`)

Rules
  1. A token is a grant that an administrator has signed, and the private key that belongs to it. The grant can be
     published. The private key never is: the proof shows that the device had it.
  2. A grant names one device. The registration of a device has one name in the object store and is put if that name is
     free, so a token that was used once is of no use to anybody else.
  3. Whether it had expired is decided by the time at which the store got the registration, not by when it is accepted.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from unspool.collect.trust.administrators import AdministratorKey
from unspool.collect.trust.signatures import SignedDocument, make_signing_key, open_document, public_key
from unspool.errors import Unreadable
from unspool.format import DECODE_ERRORS

KIND = "enrolment-token"
_PREFIX = "unspool-token-1."
_LONGEST = 16 * 1024


class TokenGrant(msgspec.Struct, frozen=True, kw_only=True):
    """What an administrator grants with a token."""

    org: str
    device: str
    user: str
    id: str
    key: str
    """The public key of the token."""
    expires: str
    """In UTC."""


class EnrolmentToken(NamedTuple):
    """A token: the signed grant, and the private key that belongs to it."""

    document: str
    grant: TokenGrant
    """As the document says; the device cannot check who has signed it."""
    private_key: str

    def __repr__(self) -> str:
        # Never in a log or a traceback.
        return f"EnrolmentToken({self.grant.org}/{self.grant.device})"


class _TokenText(msgspec.Struct, frozen=True):
    document: str
    private_key: str


def make_token(administrator: AdministratorKey, device: str, user: str, now: datetime, hours: float) -> str:
    """Return the text of a new token for a device."""
    private_key = make_signing_key()
    expires = (now + timedelta(hours=hours)).astimezone(UTC)
    grant = TokenGrant(
        org=administrator.org,
        device=device,
        user=user,
        id=secrets.token_hex(8),
        key=public_key(private_key),
        expires=f"{expires:%Y-%m-%dT%H:%M:%SZ}",
    )
    text = _TokenText(administrator.sign(KIND, grant).decode(), private_key)
    return _PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(text)).decode().rstrip("=")


def parse_token(text: str) -> EnrolmentToken:
    """Return the token that a text holds; `Unreadable` if it is none. The text is never part of the message."""
    text = text.strip()
    hint = "copy the whole line that `unspool lake admin enrol` printed"
    if not text.startswith(_PREFIX) or len(text) > _LONGEST:
        raise Unreadable("not an enrolment token", hint=hint)
    encoded = text.removeprefix(_PREFIX)
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)), type=_TokenText)
        document = msgspec.json.decode(found.document, type=SignedDocument)
        grant = msgspec.json.decode(document.body, type=TokenGrant)
        is_valid = document.unspool == KIND and public_key(found.private_key) == grant.key
    except (*DECODE_ERRORS, binascii.Error, ValueError):
        raise Unreadable("damaged enrolment token", hint=hint) from None
    if not is_valid:
        raise Unreadable("damaged enrolment token", hint=hint)
    return EnrolmentToken(found.document, grant, found.private_key)


def open_grant(document: str, administrators: Collection[str]) -> TokenGrant:
    """Return a grant that one of the administrators has signed; else `Refused` or `Unreadable`."""
    return open_document(document.encode(), KIND, administrators, TokenGrant, name="enrolment token")


def token_signer(token: EnrolmentToken) -> str:
    """Return the public key of the administrator who has signed a token; `Refused` if the signature is not valid."""
    key = msgspec.json.decode(token.document, type=SignedDocument).key
    open_grant(token.document, {key})
    return key


def is_expired(grant: TokenGrant, when: datetime) -> bool:
    """Return whether a token was used too late; a time that cannot be read counts as past."""
    try:
        expires = datetime.fromisoformat(grant.expires)
    except ValueError:
        return True
    return expires.tzinfo is None or when > expires
