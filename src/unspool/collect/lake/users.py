"""Binds devices to users: `users.json` in the lake, which only writers of the lake can write.

Rules
  1. The header of a segment says whose device it is, and a device can write anything there. Where a device is bound,
     the binding counts: nobody's costs can be booked on somebody else.
  2. A device that is not bound is the user's for whom an administrator has enrolled it (`trust/devices.py`). Without
     that, it is taken at its word.
  3. A binding counts for what is ingested from then on. `lake ingest --again` derives earlier rows anew; lines that are
     in `entries` and `side_files` keep the user they came with.
  4. `lake verify` names a device whose manifest says another user.
  5. The bindings of an organisation with administrators are one document, signed by one of them. Without a valid
     signature, nothing is ingested or verified. Other organisations of the lake have unsigned bindings.
  6. A file with signed bindings has another kind (`signed-users`): an earlier version refuses it, and does not take it
     for one without bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from unspool.collect.lake.lake import Lake
from unspool.collect.lake.streams import ReadSegment
from unspool.collect.lake.trust.administrators import OrgAdministrators, read_administrators, refuse_stranger
from unspool.collect.object_store import StoredObject
from unspool.collect.trust import AdministratorKey, open_document
from unspool.errors import Refused, Unreadable
from unspool.format import DECODE_ERRORS

NAME = "users.json"
VERSION = 1
_PLAIN, _SIGNED = "users", "signed-users"
_HINT = "sign the bindings with `unspool lake users --set`, or ask who changed the file"


class UserBindings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of `users.json`."""

    unspool: str
    version: int
    devices: dict[str, str] = {}
    """By device (`org/device`): its user. Of organisations without administrators."""
    orgs: dict[str, str] = {}
    """By organisation: its signed bindings."""


class OrgUserBindings(msgspec.Struct, frozen=True):
    """The signed bindings of an organisation."""

    org: str
    devices: dict[str, str]
    """By device (`org/device`): its user."""


def read_users(lake: Lake, administrators: Mapping[str, OrgAdministrators] | None = None) -> dict[str, str]:
    """Return the users of the devices that are bound."""
    administrators = read_administrators(lake) if administrators is None else administrators
    data = lake.object_store.get(NAME)
    return _open_bindings(_decode(data, lake.url) if data else None, administrators, lake.url)


def bind_users(
    lake: Lake,
    changes: Mapping[str, str | None],
    read_key: Callable[[str], AdministratorKey] | None = None,
) -> dict[str, str]:
    """Bind devices to users, or with None no longer; return all bindings.

    `read_key` returns the key of an organisation's administrator, which signs; it is not needed without administrators.
    """
    administrators = read_administrators(lake)
    changed = {device.partition("/")[0] for device in changes} & administrators.keys()
    keys = {org: read_key(org) for org in changed} if read_key else {}
    for org in changed:
        if org not in keys:
            raise Refused(f"bindings of `{org}` must be signed by an administrator", hint=_HINT)
        refuse_stranger(administrators, keys[org])

    def make(before: StoredObject | None) -> bytes:
        found = _decode(before.data, lake.url) if before else None
        devices: dict[str, str | None] = {**_open_bindings(found, administrators, lake.url), **changes}
        return _make_file(found, {device: user for device, user in devices.items() if user is not None}, keys)

    return _open_bindings(_decode(lake.object_store.change(NAME, make), lake.url), administrators, lake.url)


def sign_bindings(lake: Lake, key: AdministratorKey) -> None:
    """Sign the bindings of an organisation, signed by others or unsigned: its first administrator does so once."""

    def make(before: StoredObject | None) -> bytes:
        found = _decode(before.data, lake.url) if before else UserBindings(_PLAIN, VERSION)
        devices = dict(found.devices)
        if key.org in found.orgs:
            trusted = read_administrators(lake).get(key.org, OrgAdministrators()).keys
            devices |= _open_org(found.orgs[key.org], key.org, trusted)
        return _make_file(found, devices, {key.org: key})

    lake.object_store.change(NAME, make)


def with_bound_user(
    reads: list[ReadSegment], user: str | None, name_user: Callable[[str], str] | None = None
) -> list[ReadSegment]:
    """Return segments with the user that their device is bound to, else with the pseudonym of their own."""
    if user is None and name_user is None:
        return reads
    named = []
    for read in reads:
        header = read.segment.header
        name = user if user is not None else name_user(header.user) if name_user else header.user
        segment = read.segment._replace(header=msgspec.structs.replace(header, user=name))
        named.append(read._replace(segment=segment))
    return named


def _make_file(found: UserBindings | None, bound: Mapping[str, str], signers: Mapping[str, AdministratorKey]) -> bytes:
    """Return the file with these bindings; those of the organisations of the signers are signed anew."""
    orgs = dict(found.orgs) if found else {}
    for org, key in signers.items():
        own = {device: user for device, user in sorted(bound.items()) if device.partition("/")[0] == org}
        orgs[org] = key.sign(_PLAIN, OrgUserBindings(org, own)).decode()
    devices = {device: user for device, user in sorted(bound.items()) if device.partition("/")[0] not in orgs}
    return msgspec.json.encode(UserBindings(_SIGNED if orgs else _PLAIN, VERSION, devices, orgs))


def _open_bindings(
    found: UserBindings | None, administrators: Mapping[str, OrgAdministrators], url: str
) -> dict[str, str]:
    """Return all bindings; `Refused` if those of an organisation with administrators are not signed."""
    found = found or UserBindings(_PLAIN, VERSION)
    bound = dict(found.devices)
    if unsigned := sorted({device.partition("/")[0] for device in bound} & administrators.keys()):
        raise Refused(f"`{NAME}` of the lake at `{url}` has unsigned bindings of `{unsigned[0]}`", hint=_HINT)
    if missing := sorted(administrators.keys() - found.orgs.keys()):
        # Signed when the first administrator was made: without it, somebody has removed it.
        raise Refused(f"`{NAME}` of the lake at `{url}` lacks the signed bindings of `{missing[0]}`", hint=_HINT)
    for org, document in found.orgs.items():
        if org not in administrators:
            raise Refused(f"`{NAME}` is signed, and `{org}` has no administrators in the lake at `{url}`", hint=_HINT)
        bound |= _open_org(document, org, administrators[org].keys)
    return dict(sorted(bound.items()))


def _open_org(document: str, org: str, trusted: frozenset[str]) -> dict[str, str]:
    body = open_document(document.encode(), _PLAIN, trusted, OrgUserBindings, name=f"{NAME} ({org})")
    if body.org != org or any(device.partition("/")[0] != org for device in body.devices):
        raise Refused(f"`{NAME} ({org})` has bindings of another organisation", hint=_HINT)
    return body.devices


def _decode(data: bytes, url: str) -> UserBindings:
    # Not ignored: without its bindings a lake would take every device at its word.
    try:
        bindings = msgspec.json.decode(data, type=UserBindings)
    except DECODE_ERRORS as error:
        raise Unreadable(f"cannot read `{NAME}` of the lake at `{url}`: {error}", hint="restore the file") from None
    is_known = (bindings.unspool == _PLAIN and not bindings.orgs) or bindings.unspool == _SIGNED
    if not is_known or bindings.version > VERSION:
        raise Unreadable(f"`{NAME}` of the lake at `{url}` has an unknown version", hint="upgrade unspool")
    return bindings
