"""Reads and signs what an administrator says was forgotten.

    tombstones/<org>.json                                 everything that was forgotten in an organisation
    tombstones/<org>/<device>/<day>/<number>-<digest>.json    the digests of one rewritten segment
    enrolments/<org>/<device>/forgotten.json              what one device must not send again

Rules
  1. Each is a document that an administrator of the organisation has signed. An unsigned one is `Refused`, never
     ignored: without it, what was forgotten would come back.
  2. A rewritten segment keeps its name and says in its header which digest it had (`original`). That alone proves
     nothing: the tombstone names both digests. A segment with any other bytes is refused.
  3. A tombstone is put before its segment is overwritten. So it also names the bytes that are being replaced: a process
     that is killed between the two leaves a segment that can still be read.
  4. No document has the name of a session, project, file or user. A session is a salted hash of its random id. Streams
     are keyed hashes of paths: only their device can tell which file is meant. It finds forgotten projects by them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from unspool.collect.trust.signatures import open_document, sign_again
from unspool.errors import ObjectStoreFailed, Refused, Unreadable

if TYPE_CHECKING:
    from unspool.collect.object_store import SegmentStore
    from unspool.collect.trust.administrators import AdministratorKey

FOLDER = "tombstones"
_NOTICES, _NOTICE = "enrolments", "forgotten.json"
LIST_KIND, NOTICE_KIND, TOMBSTONE_KIND = "forgotten", "forgotten-notice", "tombstone"
REFUSE, RESTART = "refuse", "restart"
_SESSION_ID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_AT_ONCE = 16
"""Objects that are signed again in parallel."""
_MEMORY = 65536
"""Session ids whose hash is remembered: the same ones are in every line."""

Get = Callable[[str], bytes | None]
DigestReader = Callable[[str, bytes, str], str]
"""Returns the digest that the next name in a chain has, from an object's name, its bytes and what its header says."""


class SegmentTombstone(msgspec.Struct, frozen=True, kw_only=True):
    """What a rewritten segment was, and what it is."""

    segment: str
    """Its name."""
    original: str
    """The digest that it had when the device sent it; the next name in the chain has it."""
    digest: str
    """The digest that it has now."""
    replaced: str
    """The digest that it had before it was rewritten last."""


class ForgottenDevice(msgspec.Struct, frozen=True):
    """A device all of whose segments were forgotten up to a number."""

    sequence: int
    then: str
    """What its collector does next: `refuse` or `restart`."""


class ForgottenList(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was forgotten in an organisation."""

    org: str
    number: int = 0
    """One more with each change."""
    salt: str
    sessions: list[str] = []
    """Salted hashes of session ids."""
    devices: dict[str, ForgottenDevice] = {}
    streams: dict[str, list[str]] = {}
    """By device: the streams that are forgotten as a whole."""
    project_streams: dict[str, list[str]] = {}
    """By device: those of them that belong to a forgotten project."""
    kept_after: dict[str, int] = {}
    """By device: the number of the last segment that is too old to be kept."""
    touched: dict[str, int] = {}
    """By device: the number of the last change that rewrote a segment of it."""
    noticed: list[str] = []
    """Devices that have a notice: those of which something else went than what was too old."""
    unfinished: list[str] = []
    """Devices of which the tables may still have what was forgotten."""


class ForgottenNotice(msgspec.Struct, frozen=True, kw_only=True):
    """What a device must not send again."""

    org: str
    device: str
    salt: str
    sessions: list[str] = []
    whole: ForgottenDevice | None = None
    streams: list[str] = []
    project_streams: list[str] = []


def list_name(org: str) -> str:
    """Return the name of the list of an organisation."""
    return f"{FOLDER}/{org}.json"


def notice_name(org: str, device: str) -> str:
    """Return the name of the notice to a device: in a folder that its policy lets it list and read."""
    return f"{_NOTICES}/{org}/{device}/{_NOTICE}"


def tombstone_name(segment: str) -> str:
    """Return the name of the tombstone of a segment.

    >>> tombstone_name("segments/acme/d1/2026-01-05/000000000001-0000000000000000.jsonl.zst")
    'tombstones/acme/d1/2026-01-05/000000000001-0000000000000000.json'
    """
    return f"{FOLDER}/{segment.removeprefix('segments/').removesuffix('.jsonl.zst')}.json"


def hash_session(salt: str, session: str) -> str:
    """Return the salted hash of a session's id."""
    return hashlib.sha256(f"{salt}\0{session.lower()}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def notice_for(forgotten: ForgottenList, device: str) -> ForgottenNotice:
    """Return what a device is told of a list."""
    return ForgottenNotice(
        org=forgotten.org,
        device=device,
        salt=forgotten.salt,
        sessions=forgotten.sessions,
        whole=forgotten.devices.get(device),
        streams=forgotten.streams.get(device, []),
        project_streams=forgotten.project_streams.get(device, []),
    )


def read_list(get: Get, org: str, trusted: Collection[str]) -> ForgottenList | None:
    """Return what was forgotten in an organisation; None if nothing was."""
    data = get(list_name(org))
    return None if data is None else open_list(data, org, trusted)


def open_list(data: bytes, org: str, trusted: Collection[str]) -> ForgottenList:
    """Return the list of an organisation that an administrator has signed; another one is `Refused`."""
    name = list_name(org)
    found = open_document(data, LIST_KIND, trusted, ForgottenList, name=name)
    # A list of another organisation that the same administrator has signed is no list of this one.
    if found.org != org:
        raise Refused(f"`{name}` is about another organisation", hint="ask who changed the file")
    return found


def read_notice(get: Get, org: str, device: str, trusted: Collection[str]) -> ForgottenNotice | None:
    """Return what a device must not send again; None if nothing was forgotten."""
    name = notice_name(org, device)
    data = get(name)
    if data is None:
        return None
    if not trusted:
        hint = "name the key of an administrator: `unspool collect enrol --administrator KEY`"
        raise Refused(
            f"an administrator has removed sessions of this device, and `{name}` cannot be checked", hint=hint
        )
    notice = open_document(data, NOTICE_KIND, trusted, ForgottenNotice, name=name)
    if (notice.org, notice.device) != (org, device):
        raise Refused(f"`{name}` is about another device", hint="ask who changed the file")
    return notice


def find_notice(object_store: SegmentStore, org: str, device: str, trusted: Collection[str]) -> ForgottenNotice | None:
    """Return what a device must not send again; None if nothing was forgotten."""
    # Listed first: S3 answers a get of a missing object with 403 unless the whole bucket may be listed.
    names = {listed.name for listed in object_store.names(f"{_NOTICES}/{org}/{device}")}
    return read_notice(object_store.get, org, device, trusted) if notice_name(org, device) in names else None


def sign_tombstones_again(
    object_store: SegmentStore, key: AdministratorKey, trusted: Collection[str], former: str
) -> int:
    """Sign anew what the key of one administrator has signed: list, notices, tombstones. Return how many."""
    prefix = f"{_NOTICES}/{key.org}"
    kinds = {one.name: NOTICE_KIND for one in object_store.names(prefix) if one.name.endswith(f"/{_NOTICE}")}
    kinds |= {one.name: TOMBSTONE_KIND for one in object_store.names(f"{FOLDER}/{key.org}")}
    kinds[list_name(key.org)] = LIST_KIND

    def sign(name: str) -> bool:
        before = object_store.stored(name)
        if before is None or former.encode() not in before.data:
            return False
        signed = sign_again(key.private_key, before.data, kinds[name], trusted, name=name)
        if not object_store.replace(name, signed, before):
            raise ObjectStoreFailed(f"another administrator has changed `{name}`", hint="try again")
        return True

    # In parallel: there is a tombstone for each segment that was rewritten.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return sum(pool.map(sign, sorted(kinds)))


def plain_digest(name: str, data: bytes, original: str) -> str:
    """Return the digest of an object that nobody has rewritten; a rewritten one is `Unreadable`."""
    if original:
        raise Unreadable(f"`{name}` was rewritten, and no administrator is known here who may do that")
    return hashlib.sha256(data).hexdigest()


def read_tombstone(get: Get, segment: str, trusted: Collection[str]) -> SegmentTombstone | None:
    """Return the tombstone of a segment; None if there is none."""
    name = tombstone_name(segment)
    data = get(name)
    if data is None:
        return None
    tombstone = open_document(data, TOMBSTONE_KIND, trusted, SegmentTombstone, name=name)
    if tombstone.segment != segment:
        raise Refused(f"`{name}` is about another segment", hint="ask who changed the file")
    return tombstone


def original_digest(get: Get, trusted: Collection[str], name: str, data: bytes, original: str) -> str:
    """Return the digest that a segment had when its device sent it; `original` is what its header says."""
    digest = hashlib.sha256(data).hexdigest()
    if not original:
        return digest
    tombstone = read_tombstone(get, name, trusted)
    if tombstone is None:
        raise Unreadable(f"`{name}` was rewritten, and has no tombstone")
    if tombstone.original != original or digest not in (tombstone.digest, tombstone.replaced):
        raise Refused(f"`{name}` is not what its tombstone says", hint="restore it from the store's version history")
    return original


class ForgetRules:
    """What was forgotten in some organisations."""

    def __init__(self, lists: Mapping[str, ForgottenList]) -> None:
        self._lists = lists
        self._streams = {
            f"{org}/{device}": frozenset(names) for org, one in lists.items() for device, names in one.streams.items()
        }
        self._devices = {
            f"{org}/{device}": whole for org, one in lists.items() for device, whole in one.devices.items()
        }
        self._touched = {
            f"{org}/{device}": number for org, one in lists.items() for device, number in one.touched.items()
        }
        self._kept_after = {
            f"{org}/{device}": number for org, one in lists.items() for device, number in one.kept_after.items()
        }
        self._hashes = {org: frozenset(one.sessions) for org, one in lists.items() if one.sessions}
        self._known: dict[tuple[str, str], bool] = {}

    @property
    def unfinished(self) -> list[str]:
        """The devices (`org/device`) of which the tables may still have what was forgotten."""
        return [f"{org}/{device}" for org, one in self._lists.items() for device in one.unfinished]

    @property
    def touched(self) -> dict[str, int]:
        """The number of the last change of each device (`org/device`) of which segments were rewritten."""
        return dict(self._touched)

    def find_homes(self, sessions: Collection[str], *, of_projects: bool) -> set[str]:
        """Return the devices that had one of these sessions, or anything of a project that was forgotten."""
        found = set()
        for org, one in self._lists.items():
            is_known = any(self.is_session(org, session) for session in sessions)
            devices = one.touched if is_known else one.project_streams if of_projects else {}
            found |= {f"{org}/{device}" for device in devices}
        return found

    def number(self, home: str) -> int:
        """Return the number of the last change that concerns a device; 0 if there is none."""
        return self._touched.get(home, 0)

    def device(self, home: str) -> ForgottenDevice | None:
        """Return how a device was forgotten as a whole; None if it was not."""
        return self._devices.get(home)

    def kept_after(self, home: str) -> int:
        """Return the number of the last segment of a device that is too old to be kept; -1 if none is."""
        return self._kept_after.get(home, -1)

    def concerns(self, org: str, home: str) -> bool:
        """Return whether anything that a device sends may be forgotten."""
        return org in self._hashes or home in self._touched

    def is_forgotten(self, home: str, position: int, stream: str, session: str | None) -> bool:
        """Return whether a whole part is forgotten; `position` is the number of its segment in the device's chain."""
        whole = self._devices.get(home)
        if whole is not None and (whole.then == REFUSE or position <= whole.sequence):
            return True
        if stream in self._streams.get(home, ()) or position <= self.kept_after(home):
            return True
        return session is not None and self.is_session(home.partition("/")[0], session)

    def is_session(self, org: str, session: str) -> bool:
        """Return whether a session is forgotten."""
        hashes = self._hashes.get(org)
        if hashes is None:
            return False
        known = self._known.get((org, session))
        if known is None:
            if len(self._known) >= _MEMORY:
                self._known.clear()
            known = self._known[org, session] = hash_session(self._lists[org].salt, session) in hashes
        return known

    def names_session(self, org: str, text: str) -> bool:
        """Return whether a text has the id of a forgotten session."""
        return org in self._hashes and any(self.is_session(org, id) for id in session_ids(text))


def session_ids(text: str) -> Iterator[str]:
    """Yield everything in a text that has the form of a session's id."""
    return (match[0] for match in _SESSION_ID.finditer(text))
