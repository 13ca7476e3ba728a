"""Whom a team believes: signatures with Ed25519, and the keys of its administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unspool.lazy_door import lazy_door

# fmt: off
if TYPE_CHECKING:
    from unspool.collect.trust.administrators import (
        AdministratorKey, create_administrator_key, read_administrator_key,
    )
    from unspool.collect.trust.signing import (
        is_public_key, is_signed, make_signing_key, open_document, public_key, sign_bytes, sign_document,
    )

__all__ = [
    "AdministratorKey", "create_administrator_key", "is_public_key", "is_signed", "make_signing_key",
    "open_document", "public_key", "read_administrator_key", "sign_bytes", "sign_document",
]

__getattr__ = lazy_door(__name__, {
    "administrators": "AdministratorKey create_administrator_key read_administrator_key",
    "signing":
        "is_public_key is_signed make_signing_key open_document public_key sign_bytes sign_document",
})
