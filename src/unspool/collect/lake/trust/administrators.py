"""Reads and changes the administrators of a lake: `administrators.json`, which only writers of the lake can write.

    {"unspool": "administrators", "version": 1, "orgs": {"acme": ["{signed change 1}", "{signed change 2}", …]}}

Rules
  1. The first change of an organisation names its first administrator, and is signed by that one. Every later change
     has the number and digest of the one before, and is signed by somebody who was an administrator then.
  2. So a change cannot be altered, left out in the middle or repeated. That the first one is the right one, and that
     none is missing at the end, only the access rights of the lake guarantee.
  3. What is wrong here is `Refused` or `Unreadable`: an ingest that does not know whom to believe does nothing.
  4. An organisation that is not in the file has no administrators: its devices are believed, as in a lake without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from unspool.collect.lake.lake import Lake
from unspool.collect.object_store import StoredObject
from unspool.collect.trust import AdministratorKey, is_public_key, open_document
from unspool.errors import NotFound, Refused, Unreadable, UsageError
from unspool.format import DECODE_ERRORS

NAME = "administrators.json"
KIND = "administrators"
VERSION = 1
_CREATE, _ADD, _REMOVE = "create", "add", "remove"
_REQUIRE, _ALLOW = "require-keys", "allow-keyless"


class OrgAdministrators(NamedTuple):
    """The administrators of an organisation."""

    keys: frozenset[str] = frozenset()
    """Their public keys. None: the organisation has no administrators."""
    requires_keys: bool = False
    """Whether devices without a key are refused."""


class AdministratorChange(msgspec.Struct, frozen=True, kw_only=True):
    """One signed change."""

    org: str
    number: int
    previous: str
    """SHA-256 of the document before; nothing for the first."""
    change: str
    key: str = ""
    """Of the administrator who is added or removed."""


class _AdministratorFile(msgspec.Struct, frozen=True):
    unspool: str
    version: int
    # No default value: a file without it would be one without administrators.
    orgs: dict[str, list[str]]


class _SignedBy(msgspec.Struct, frozen=True):
    key: str


def read_administrators(lake: Lake) -> dict[str, OrgAdministrators]:
    """Return the administrators of all organisations that have some."""
    data = lake.object_store.get(NAME)
    changes = {} if data is None else _decode(data, lake.url)
    return {org: _replay(org, documents) for org, documents in changes.items()}


def create_administrators(lake: Lake, key: AdministratorKey) -> OrgAdministrators:
    """Make a key the first administrator of its organisation."""
    return _change(lake, key, _CREATE, key.public_key)


def add_administrator(lake: Lake, key: AdministratorKey, added: str) -> OrgAdministrators:
    """Add an administrator by their public key."""
    if not is_public_key(added):
        raise UsageError("not a public key", hint="the other administrator prints it with `unspool lake admin key`")
    return _change(lake, key, _ADD, added)


def remove_administrator(lake: Lake, key: AdministratorKey, removed: str) -> OrgAdministrators:
    """Remove an administrator; the last one stays."""
    return _change(lake, key, _REMOVE, removed)


def require_keys(lake: Lake, key: AdministratorKey, *, is_required: bool) -> OrgAdministrators:
    """Refuse segments of devices without a key from now on, or accept them again."""
    return _change(lake, key, _REQUIRE if is_required else _ALLOW, "")


def refuse_stranger(administrators: Mapping[str, OrgAdministrators], key: AdministratorKey) -> None:
    """Raise unless a key is that of an administrator of its organisation."""
    keys = administrators.get(key.org, OrgAdministrators()).keys
    if not keys:
        hint = f"create them with `unspool lake admin init --org {key.org}`"
        raise NotFound(f"`{key.org}` has no administrators in this lake", hint=hint)
    if key.public_key not in keys:
        hint = "an administrator adds your key with `unspool lake admin add --key KEY`"
        raise Refused(f"your key is not that of an administrator of `{key.org}`", hint=hint)


def _change(lake: Lake, key: AdministratorKey, change: str, other: str) -> OrgAdministrators:
    def make(before: StoredObject | None) -> bytes:
        orgs = _decode(before.data, lake.url) if before else {}
        documents = orgs.get(key.org, [])
        if documents or change != _CREATE:
            refuse_stranger({key.org: _replay(key.org, documents)}, key)
        previous = _digest(documents[-1]) if documents else ""
        body = AdministratorChange(org=key.org, number=len(documents) + 1, previous=previous, change=change, key=other)
        documents = [*documents, key.sign(KIND, body).decode()]
        # Replayed before it is written: a change that could not be read must not get there.
        _replay(key.org, documents)
        return msgspec.json.encode(_AdministratorFile(KIND, VERSION, {**orgs, key.org: documents}))

    data = lake.object_store.change(NAME, make)
    return _replay(key.org, _decode(data, lake.url)[key.org])


def _replay(org: str, documents: list[str]) -> OrgAdministrators:
    """Return what the changes of an organisation lead to; each must be signed by an administrator of that time."""
    now, previous, hint = OrgAdministrators(), "", "ask who changed the file, and restore it"
    for number, text in enumerate(documents, 1):
        name = f"{NAME} (change {number} of {org})"
        trusted = now.keys if number > 1 else {_signer(text, name)}
        body = open_document(text.encode(), KIND, trusted, AdministratorChange, name=name)
        if (body.org, body.number, body.previous) != (org, number, previous):
            raise Refused(f"`{name}` does not follow the one before it", hint=hint)
        match body.change:
            case "create" if number == 1 and trusted == {body.key}:
                now = now._replace(keys=frozenset({body.key}))
            case "add" if is_public_key(body.key) and body.key not in now.keys:
                now = now._replace(keys=now.keys | {body.key})
            case "remove" if body.key in now.keys and len(now.keys) > 1:
                now = now._replace(keys=now.keys - {body.key})
            case "require-keys" | "allow-keyless":
                now = now._replace(requires_keys=body.change == _REQUIRE)
            case _:
                raise Refused(_describe_impossible(body, now), hint="see `unspool lake admin show`")
        previous = _digest(text)
    return now


def _describe_impossible(body: AdministratorChange, now: OrgAdministrators) -> str:
    if body.change == _CREATE and now.keys:
        return f"`{body.org}` has administrators already"
    if body.change == _ADD and body.key in now.keys:
        return f"that key is an administrator of `{body.org}` already"
    if body.change == _REMOVE and body.key not in now.keys:
        return f"that key is not an administrator of `{body.org}`"
    if body.change == _REMOVE:
        return f"the last administrator of `{body.org}` cannot be removed"
    return f"unknown change `{body.change}` of the administrators of `{body.org}`"


def _signer(text: str, name: str) -> str:
    try:
        return msgspec.json.decode(text, type=_SignedBy).key
    except DECODE_ERRORS as error:
        raise Unreadable(f"cannot read `{name}`: {error}", hint="restore the file") from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _decode(data: bytes, url: str) -> dict[str, list[str]]:
    # Not ignored: without its administrators a lake would believe every device.
    try:
        found = msgspec.json.decode(data, type=_AdministratorFile)
    except DECODE_ERRORS as error:
        raise Unreadable(f"cannot read `{NAME}` of the lake at `{url}`: {error}", hint="restore the file") from None
    if found.unspool != KIND or found.version > VERSION:
        raise Unreadable(f"`{NAME}` of the lake at `{url}` has an unknown version", hint="upgrade unspool")
    if not all(found.orgs.values()):
        raise Refused(f"`{NAME}` of the lake at `{url}` names an organisation without changes", hint="restore the file")
    return found.orgs
