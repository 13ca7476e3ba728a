"""Signs bytes and documents with Ed25519, and checks the signatures.

A signed document is one JSON object:

    {"unspool": "tombstone", "version": 1, "key": "5f1c…", "body": "{…}", "signature": "9a41…"}

Rules
  1. What is signed is the kind of the document, a zero byte and the bytes of the body. So a signature of one kind is no
     signature of another. The body is a string: JSON that is written again need not be the same bytes.
  2. The key in a document only says which key to check with. The caller names the keys that count.
  3. Whatever is wrong with a signature, a key or a document is `Refused` or `Unreadable`; nothing is taken half.
  4. Keys and signatures are hexadecimal digits. A private key is its 32 bytes (the seed of RFC 8032).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from typing import Any, TypeVar

import msgspec

from unspool.errors import Refused, Unreadable
from unspool.format import DECODE_ERRORS

_T = TypeVar("_T")
VERSION = 1


class SignedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document of an organisation with the signature of an administrator or a device."""

    unspool: str
    version: int = VERSION
    key: str
    body: str
    signature: str


def make_signing_key() -> str:
    """Return a new private key."""
    return secrets.token_hex(32)


def public_key(private_key: str) -> str:
    """Return the public key of a private key."""
    # Loading `cryptography` takes some 20 ms, and a collector without a key of its own needs none of it.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(_parse_key(private_key)).public_key().public_bytes_raw().hex()


def is_public_key(text: str) -> bool:
    """Return whether a text has the form of a public key.

    >>> is_public_key("ab" * 32), is_public_key("ab"), is_public_key("zz" * 32)
    (True, False, False)
    """
    try:
        return len(_parse_key(text)) == 32
    except Refused:
        return False


def sign_bytes(private_key: str, purpose: str, data: bytes) -> str:
    """Return the signature of bytes for a purpose, which is part of what is signed."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(_parse_key(private_key)).sign(_message(purpose, data)).hex()


def is_signed(key: str, purpose: str, data: bytes, signature: str) -> bool:
    """Return whether a signature of these bytes for this purpose was made with the private key of a public key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(_parse_key(key)).verify(bytes.fromhex(signature), _message(purpose, data))
    except (InvalidSignature, ValueError, Refused):
        return False
    return True


def sign_document(private_key: str, kind: str, body: Any) -> bytes:
    """Return a document with a signature; its body is a struct or a plain JSON value."""
    text = msgspec.json.encode(body)
    signature = sign_bytes(private_key, kind, text)
    document = SignedDocument(unspool=kind, key=public_key(private_key), body=text.decode(), signature=signature)
    return msgspec.json.encode(document)


def open_document(data: bytes, kind: str, trusted: Collection[str], type: type[_T], *, name: str) -> _T:
    """Return the body of a document that one of the trusted keys has signed.

    A damaged document is `Unreadable`, one that no trusted key has signed is `Refused`. `name` is used in messages.
    """
    try:
        document = msgspec.json.decode(data, type=SignedDocument)
    except DECODE_ERRORS as error:
        raise Unreadable(f"cannot read `{name}`: {error}", hint="restore the file") from None
    if document.unspool != kind:
        raise Unreadable(f"`{name}` is not a document of the kind `{kind}`", hint="restore the file")
    if document.version > VERSION:
        raise Unreadable(f"`{name}` has an unknown version", hint="upgrade unspool")
    text = document.body.encode()
    if document.key not in trusted or not is_signed(document.key, kind, text, document.signature):
        raise Refused(f"`{name}` is not signed by a trusted administrator", hint="ask who changed the file")
    try:
        return msgspec.json.decode(text, type=type)
    except DECODE_ERRORS as error:
        raise Unreadable(f"cannot read `{name}`: {error}", hint="upgrade unspool, or restore the file") from None


def sign_again(private_key: str, data: bytes, kind: str, trusted: Collection[str], *, name: str) -> bytes:
    """Return a document that one of the trusted keys has signed with another signature; its body keeps its bytes."""
    open_document(data, kind, trusted, dict[str, Any], name=name)
    body = msgspec.json.decode(data, type=SignedDocument).body
    signature = sign_bytes(private_key, kind, body.encode())
    return msgspec.json.encode(
        SignedDocument(unspool=kind, key=public_key(private_key), body=body, signature=signature)
    )


def _message(purpose: str, data: bytes) -> bytes:
    return purpose.encode() + b"\0" + data


def _parse_key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    # `fromhex` ignores spaces: one key would have several spellings.
    if len(key) != 32 or key.hex() != text:
        raise Refused("a key must have 64 lowercase hexadecimal digits")
    return key
