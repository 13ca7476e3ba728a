"""Whom a team believes: signatures with Ed25519, the keys of administrators and devices, and enrolment tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.collect.trust.administrators import (
        AdministratorKey, create_administrator_key, read_administrator_key,
    )
    from unspool.collect.trust.device_keys import (
        DeviceKey, KeyRegistration, make_first_key, make_next_key, open_registration, parse_registration_name,
        publish_key, read_later_keys, refuse_revoked, registration_name, revocation_name, split_signed_line,
    )
    from unspool.collect.trust.notices import NoticeFilter
    from unspool.collect.trust.signatures import (
        is_public_key, is_signed, make_signing_key, open_document, public_key, sign_bytes, sign_document,
    )
    from unspool.collect.trust.tokens import (
        EnrolmentToken, is_expired, make_token, open_grant, parse_token, token_signer,
    )
    from unspool.collect.trust.tombstones import find_notice, sign_tombstones_again
    from unspool.collect.trust.trusted_keys import add_trusted_keys, read_trusted_keys

__all__ = [
    "AdministratorKey", "DeviceKey", "EnrolmentToken", "KeyRegistration", "NoticeFilter", "add_trusted_keys",
    "create_administrator_key", "find_notice", "is_expired", "is_public_key", "is_signed", "make_first_key",
    "make_next_key", "make_signing_key", "make_token", "open_document", "open_grant", "open_registration",
    "parse_registration_name", "parse_token", "public_key", "publish_key", "read_administrator_key", "read_later_keys",
    "read_trusted_keys", "refuse_revoked", "registration_name", "revocation_name", "sign_bytes", "sign_document",
    "sign_tombstones_again", "split_signed_line", "token_signer",
]

__getattr__ = lazy_door(__name__, {
    "administrators": "AdministratorKey create_administrator_key read_administrator_key",
    "device_keys":
        "DeviceKey KeyRegistration make_first_key make_next_key open_registration parse_registration_name "
        "publish_key read_later_keys refuse_revoked registration_name revocation_name split_signed_line",
    "notices": "NoticeFilter",
    "signatures":
        "is_public_key is_signed make_signing_key open_document public_key sign_bytes sign_document",
    "tokens": "EnrolmentToken is_expired make_token open_grant parse_token token_signer",
    "tombstones": "find_notice sign_tombstones_again",
    "trusted_keys": "add_trusted_keys read_trusted_keys",
})
