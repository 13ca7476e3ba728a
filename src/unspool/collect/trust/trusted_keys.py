"""Reads which administrators a machine trusts: `trusted-administrators.json` in its data folder.

    {"unspool": "trusted-administrators", "version": 1, "keys": {"acme": ["5f1c…"]}}

Rules
  1. What one of them has signed may keep sessions from being sent (`notices.py`). Nobody else may.
  2. The administrator whose token a machine enrolled with is trusted from then on; others are named by its user. The
     object store has no list of them: whoever may write there could add themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from unspool.collect.trust.signatures import is_public_key
from unspool.errors import NotFound, Unreadable, UsageError
from unspool.files import make_data_folder, raise_unwritable, read_whole, write_atomically
from unspool.format import DECODE_ERRORS

NAME = "trusted-administrators.json"
VERSION = 1
_KIND = "trusted-administrators"
_LIMIT = 1024 * 1024


class TrustedAdministrators(msgspec.Struct, frozen=True):
    """The content of the file."""

    unspool: str = _KIND
    version: int = VERSION
    keys: dict[str, list[str]] = {}
    """By organisation: the public keys of its administrators."""


def read_trusted_keys(folder: Path) -> Mapping[str, frozenset[str]]:
    """Return the public keys that a machine trusts, by organisation."""
    path = folder / NAME
    try:
        found = msgspec.json.decode(read_whole(path, _LIMIT), type=TrustedAdministrators)
    except NotFound:
        return {}
    except DECODE_ERRORS as error:
        raise Unreadable(f"cannot read `{path}`: {error}", hint="restore the file") from None
    if found.unspool != _KIND or found.version > VERSION:
        raise Unreadable(f"`{path}` has an unknown version", hint="upgrade unspool")
    # A key that is none would make every check fail with another message than "not signed".
    return {org: frozenset(filter(is_public_key, keys)) for org, keys in found.keys.items()}


def add_trusted_keys(folder: Path, org: str, keys: tuple[str, ...]) -> None:
    """Let a machine trust more administrators of an organisation."""
    for key in keys:
        if not is_public_key(key):
            raise UsageError(f"not a public key: `{key}`", hint="it has 64 hexadecimal digits; ask the administrator")
    known = dict(read_trusted_keys(folder))
    known[org] = frozenset({*known.get(org, ()), *keys})
    sorted_keys = {name: sorted(found) for name, found in sorted(known.items())}
    data = msgspec.json.format(msgspec.json.encode(TrustedAdministrators(keys=sorted_keys))) + b"\n"
    with raise_unwritable(f"cannot write `{folder / NAME}`"):
        make_data_folder(folder)
        write_atomically(folder / NAME, data)
