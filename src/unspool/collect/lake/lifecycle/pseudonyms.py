"""Writes a pseudonym in place of each user's name into the tables of a lake.

Rules
  1. A pseudonym is a keyed hash of the name: the same person has the same one on every device. The key is in a file of
     the administrator, outside the lake. Without it nobody can tell whose a pseudonym is, or try out names.
  2. The lake has a mark (`pseudonyms.json`) with the key's id. Whoever writes into it must have this key: a name that
     is written once cannot be taken back. So a lake is marked while it is empty, and never unmarked.
  3. A user who is bound to a device (`users.json`) is there by the pseudonym too.
  4. Heartbeats and segments in the object store have the names. With them and the key, a pseudonym is found again.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from unspool.collect.heartbeat import read_heartbeats
from unspool.collect.lake.lake import Lake
from unspool.collect.manifest import read_manifests
from unspool.collect.object_store import SegmentStore
from unspool.errors import NotFound, Refused, Unreadable
from unspool.files import create_atomically, raise_unwritable, read_private
from unspool.format import DECODE_ERRORS

NAME = "pseudonyms.json"
VERSION = 1
_LIMIT = 64 * 1024


class PseudonymMark(msgspec.Struct, frozen=True):
    """The content of `pseudonyms.json` in a lake."""

    key_id: str
    unspool: str = "pseudonyms"
    version: int = VERSION


class PseudonymKey(msgspec.Struct, frozen=True):
    """The content of the file with the key."""

    key: str
    unspool: str = "pseudonym-key"
    version: int = VERSION

    @property
    def id(self) -> str:
        """Its name in the lake."""
        return hashlib.sha256(f"id\0{self.key}".encode()).hexdigest()[:16]

    def name_user(self, user: str) -> str:
        """Return the pseudonym of a user; of nobody it is nothing."""
        if not user:
            return ""
        digest = hmac.new(bytes.fromhex(self.key), user.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return f"user-{digest.hexdigest()[:16]}"

    def __repr__(self) -> str:
        # Never in a log or a traceback.
        return f"PseudonymKey(id={self.id!r})"


def mark_lake(lake: Lake, path: Path) -> PseudonymKey:
    """Let an empty lake have pseudonyms; the key is created if there is no file."""
    if lake.object_store.get(NAME) is None and lake.rows("sources", "SELECT id FROM t LIMIT 1"):
        raise Refused(
            f"the lake at `{lake.url}` has names of users already", hint="create a new lake, and ingest again"
        )
    key = _create_key(path)
    lake.object_store.put_new(NAME, msgspec.json.encode(PseudonymMark(key.id)))
    return _check_mark(lake, key)


def open_pseudonyms(lake: Lake, path: Path | None) -> PseudonymKey | None:
    """Return the key that a lake needs; None if it has names. `Refused` without it, or with another."""
    if lake.object_store.get(NAME) is not None:
        if path is None:
            words = f"the lake at `{lake.url}` has pseudonyms"
            raise Refused(words, hint="name the file with their key: `--pseudonyms FILE`")
        return _check_mark(lake, _read_key(path))
    if path is not None:
        raise Refused(f"the lake at `{lake.url}` has names of users", hint="create one with `lake init --pseudonyms`")
    return None


def has_pseudonyms(lake: Lake) -> bool:
    """Return whether a lake has pseudonyms in place of names."""
    return lake.object_store.get(NAME) is not None


def reveal_users(object_store: SegmentStore, key: PseudonymKey, users: Iterable[str] = ()) -> Mapping[str, str]:
    """Return by pseudonym the users that devices name, and more that may have one."""
    names = {beat.user for beat in read_heartbeats(object_store)}
    names |= {manifest.user for manifest in read_manifests(object_store, [])}
    return {key.name_user(name): name for name in sorted({*names, *users}) if name}


def _check_mark(lake: Lake, key: PseudonymKey) -> PseudonymKey:
    data = lake.object_store.get(NAME)
    try:
        mark = msgspec.json.decode(data or b"", type=PseudonymMark)
    except DECODE_ERRORS as error:
        raise Unreadable(f"cannot read `{NAME}` of the lake: {error}", hint="restore the file") from None
    if mark.key_id != key.id:
        raise Refused("the pseudonyms of this lake have another key", hint="name the file it was created with")
    return key


def _create_key(path: Path) -> PseudonymKey:
    key = PseudonymKey(secrets.token_hex(32))
    with raise_unwritable(f"cannot write `{path}`"), suppress(FileExistsError):
        create_atomically(path, [msgspec.json.format(msgspec.json.encode(key)) + b"\n"])
    return _read_key(path)


def _read_key(path: Path) -> PseudonymKey:
    try:
        data = read_private(path, _LIMIT, "a key")
    except NotFound:
        raise NotFound(f"no file `{path}`", hint="name the file that `lake init --pseudonyms` has created") from None
    with suppress(*DECODE_ERRORS, ValueError):
        key = msgspec.json.decode(data, type=PseudonymKey)
        if len(bytes.fromhex(key.key)) == 32 and key.unspool == "pseudonym-key" and key.version <= VERSION:
            return key
    raise Unreadable(f"invalid key of pseudonyms: `{path}`", hint="restore the file")
