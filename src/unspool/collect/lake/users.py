"""Binds devices to users: `users.json` in the lake, which only its administrators can write.

Rules
  1. The header of a segment says whose device it is, and a device can write anything there. Where a device is bound,
     the binding counts: nobody's costs can be booked on somebody else.
  2. A device that is not bound is taken at its word.
  3. A binding counts for what is ingested from then on. `lake ingest --again` derives earlier rows anew; lines that are
     in `entries` and `side_files` keep the user they came with.
  4. `lake verify` names a device whose manifest says another user.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unspool.collect.lake.lake import Lake
from unspool.collect.lake.streams import ReadSegment
from unspool.errors import ObjectStoreFailed, Unreadable

NAME = "users.json"
VERSION = 1
_ATTEMPTS = 5


class UserBindings(msgspec.Struct, frozen=True):
    """The content of `users.json`."""

    unspool: str = "users"
    version: int = VERSION
    devices: dict[str, str] = {}
    """By device (`org/device`): its user."""


def read_users(lake: Lake) -> dict[str, str]:
    """Return the users of the devices that are bound."""
    data = lake.object_store.get(NAME)
    return {} if data is None else _decode(data, lake.url)


def bind_users(lake: Lake, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Bind devices to users, or with None no longer; return all bindings."""
    for _ in range(_ATTEMPTS):
        before = lake.object_store.stored(NAME)
        devices: dict[str, str | None] = {**(_decode(before.data, lake.url) if before else {}), **changes}
        bound = {device: user for device, user in sorted(devices.items()) if user is not None}
        if lake.object_store.replace(NAME, msgspec.json.encode(UserBindings(devices=bound)), before):
            return bound
    raise ObjectStoreFailed(f"too many concurrent writers on `{NAME}` of `{lake.url}`", hint="try again")


def with_bound_user(reads: list[ReadSegment], user: str | None) -> list[ReadSegment]:
    """Return segments with the user that their device is bound to; unchanged if it is not bound."""
    if user is None:
        return reads
    return [
        read._replace(segment=read.segment._replace(header=msgspec.structs.replace(read.segment.header, user=user)))
        for read in reads
    ]


def _decode(data: bytes, url: str) -> dict[str, str]:
    # Not ignored: without its bindings a lake would take every device at its word.
    try:
        bindings = msgspec.json.decode(data, type=UserBindings)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(f"cannot read `{NAME}` of the lake at `{url}`: {error}", hint="restore the file") from None
    if bindings.unspool != "users" or bindings.version > VERSION:
        raise Unreadable(f"`{NAME}` of the lake at `{url}` has an unknown version", hint="upgrade unspool")
    return bindings.devices
