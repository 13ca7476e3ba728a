"""Finds out what `lake forget` has to remove: devices, sessions, streams and the segments that hold them.

Rules
  1. Which devices may hold something is looked up in the tables. Devices with segments that were not ingested, that an
     earlier `lake forget` did not finish, or that may have sent the same again are always read. With `is_every_device`
     all are.
  2. All segments of such a device are read: only they have everything that was sent.
  3. A session has the files that are its own, and every line elsewhere that has its id: in the history, in the index,
     in a fork. A project has the files below its folder, its sessions, and the lines elsewhere that say they are of it:
     by `cwd`, or, in files that are no transcripts, by its key or folder anywhere.
  4. A user has the devices that are bound to it, that were enrolled for it, or that say its name. A device that others
     use too is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from unspool.collect.heartbeat import read_heartbeats
from unspool.collect.lake.chains import group_by_number, read_mark
from unspool.collect.lake.lake import Lake, any_of_predicate
from unspool.collect.lake.lifecycle.forget_filter import forget_app, refuse_older_list
from unspool.collect.lake.streams import last_before_gap, list_pending, list_streams
from unspool.collect.lake.tables import LINES
from unspool.collect.lake.trust import has_record, read_administrators, read_records
from unspool.collect.lake.users import read_users
from unspool.collect.manifest import read_manifests
from unspool.collect.object_store import SegmentStore
from unspool.collect.segments import (
    SegmentHeader,
    SegmentLine,
    decode_part_header,
    parse_device_segment_name,
    unpack_device_segment,
    unpack_header,
)
from unspool.collect.selection import matches_project
from unspool.collect.trust.device_keys import FOLDER as REGISTRATIONS
from unspool.collect.trust.tombstones import REFUSE, ForgetRules
from unspool.errors import NotFound, Refused, Unreadable
from unspool.format import DECODE_ERRORS
from unspool.paths import project_key
from unspool.store.columns import LINE_KINDS, sql_literal


class ForgetRequest(NamedTuple):
    """What is to be forgotten."""

    users: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    """As `org/device`."""
    sessions: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    """Keys, names of folders or paths; `*` stands for anything."""
    then: str = REFUSE
    """What the collectors of forgotten devices do next."""
    is_every_device: bool = False
    keep_since: str | None = None
    """Forget the segments that were made before this day."""
    pseudonyms: Mapping[str, str] = {}
    """By user: the name in the tables, where that is another."""


class ForgetPlan(NamedTuple):
    """What is forgotten, found in tables and segments."""

    whole: dict[str, int]
    """By device (`org/device`) that is forgotten as a whole: the number of its last segment."""
    sessions: frozenset[str]
    projects: ProjectNames
    streams: dict[str, set[str]]
    """By device: the streams that are forgotten as a whole."""
    project_streams: dict[str, set[str]]
    kept_after: dict[str, int]
    """By device: the number of the last segment that is too old to be kept."""
    unfinished: frozenset[str]
    """Devices whose rows may be older than their segments: an earlier run was killed, or it was for another lake."""
    homes: tuple[str, ...]
    """The devices to work on."""

    @property
    def orgs(self) -> list[str]:
        """Their organisations."""
        return sorted({home.partition("/")[0] for home in self.homes})


class ProjectNames:
    """The keys of forgotten projects, and the folders that have them."""

    def __init__(self, keys: Iterable[str], folders: Iterable[str]) -> None:
        self.keys = frozenset(keys)
        names = sorted({*self.keys, *folders}, key=len, reverse=True)
        # A folder's name may begin with another's: `/work/app2` is not `/work/app`.
        words = "|".join(map(re.escape, names))
        self._pattern = re.compile(rf"(?:{words})(?![\w.-])") if names else None

    def drops_line(self, header: SegmentHeader, line: SegmentLine) -> bool:
        """Return whether a line of another project's file, or of none, is of one of these."""
        if self._pattern is None or not self._pattern.search(line.raw):
            return False
        if header.kind not in LINE_KINDS:
            return True
        try:
            cwd = msgspec.json.decode(line.raw, type=_Cwd).cwd
        except DECODE_ERRORS:
            return False
        return isinstance(cwd, str) and project_key(cwd) in self.keys


class _Cwd(msgspec.Struct):
    cwd: Any = None


def make_plan(lake: Lake, object_store: SegmentStore, request: ForgetRequest, rules: ForgetRules) -> ForgetPlan:
    """Find what is to be forgotten; `NotFound` if a name stands for nothing."""
    whole = _find_devices(lake, object_store, request, rules)
    keys = _find_projects(lake, request.projects, rules)
    sessions = {session.lower() for session in request.sessions}
    if keys:
        query = f"SELECT DISTINCT session_id FROM t WHERE {any_of_predicate('project_key', keys)}"
        sessions |= {id.lower() for (id,) in lake.rows("sources", query) if id}
    unfinished = _find_unfinished(lake, rules)
    projects = ProjectNames(keys, _find_folders(lake, keys))
    homes = set(unfinished) | (_find_homes(lake, keys, sessions) if keys or sessions else set())
    if keys or sessions:
        homes |= _pending_homes(lake, object_store)
        # What was sent again is not in the tables.
        homes |= rules.find_homes(sessions, of_projects=bool(keys))
    if request.is_every_device:
        listing = list_streams(object_store, None, lake.stream_id)
        homes |= {*listing.chains, *(stream.home for stream in listing.streams.values())}
    streams: dict[str, set[str]] = {}
    project_streams: dict[str, set[str]] = {}
    for home in sorted(homes - whole.keys()):
        for _, header in read_headers(object_store, home):
            is_of_project = header.project is not None and header.project in keys
            if is_of_project and header.session:
                sessions.add(header.session.lower())
            if is_of_project:
                project_streams.setdefault(home, set()).add(header.stream)
            if is_of_project or (header.session or "").lower() in sessions:
                streams.setdefault(home, set()).add(header.stream)
    kept_after = _find_old(object_store, request.keep_since, rules) if request.keep_since else {}
    homes |= {*whole, *kept_after}
    # Extended and signed anew, an older list would look like the newest.
    refuse_older_list(rules, (lake.versions(name) for name in LINES), sorted(homes))
    return ForgetPlan(
        whole=whole,
        sessions=frozenset(sessions),
        projects=projects,
        streams=streams,
        project_streams=project_streams,
        kept_after=kept_after,
        unfinished=unfinished,
        homes=tuple(sorted(homes)),
    )


def _find_unfinished(lake: Lake, rules: ForgetRules) -> frozenset[str]:
    lake.table("entries", fresh=True)
    done = lake.versions("entries")
    behind = {home for home, number in rules.touched.items() if done.get(forget_app(home), 0) < number}
    return frozenset({*rules.unfinished, *behind})


def _find_old(object_store: SegmentStore, day: str, rules: ForgetRules) -> dict[str, int]:
    """Return by device the number of the last segment that was made before a day, if it was kept until now."""
    found = {}
    for home, listed in list_streams(object_store).chains.items():
        numbers = group_by_number(listed)
        end = last_before_gap(numbers)
        # Nothing behind a gap: with a single object that has a high number, all that the device still sends would go.
        chain = [pair for number in range(1, end + 1) for pair in numbers[number]]
        if not chain:
            continue
        # A name has the day on which the segment before it was made.
        number = max((name.sequence - 1 for _, name in chain if name.day < day), default=0)
        item, last = chain[-1]
        if last.day < day and (data := object_store.get(item.name)) is not None:
            with suppress(Unreadable):
                number = last.sequence if unpack_device_segment(data)[0].next_day < day else number
        if number > max(rules.kept_after(home), 0):
            found[home] = number
    return found


def read_headers(object_store: SegmentStore, home: str) -> Iterator[tuple[int, SegmentHeader]]:
    """Yield the headers of all parts of a device with the number of their segment; damaged segments are left out."""
    for name, data in read_objects(object_store, home):
        parsed = parse_device_segment_name(name)
        try:
            if parsed is None:
                yield 0, unpack_header(data)
                continue
            for part in unpack_device_segment(data)[1]:
                yield parsed.sequence, decode_part_header(part.text)
        except Unreadable:
            continue


def read_objects(object_store: SegmentStore, home: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and bytes of all segments of a device, in order."""
    for listed in sorted(object_store.names(f"segments/{home}")):
        data = object_store.get(listed.name)
        if data is not None:
            yield listed.name, data


def _find_devices(lake: Lake, object_store: SegmentStore, request: ForgetRequest, rules: ForgetRules) -> dict[str, int]:
    """Return the devices that are forgotten as a whole, with the number of their last segments."""
    homes, administrators = set(request.devices), read_administrators(lake)
    records = read_records(lake, administrators) if request.users else {}
    for user in request.users:
        written = request.pseudonyms.get(user, user)
        query = f"SELECT DISTINCT concat(org, '/', device) FROM t WHERE \"user\" = {sql_literal(written)}"
        found = {home for (home,) in lake.rows("sources", query)}
        found |= {home for home, bound in read_users(lake, administrators).items() if bound in (user, written)}
        found |= {home for home, record in records.items() if record.user in (user, written)}
        found |= {f"{beat.org}/{beat.device}" for beat in read_heartbeats(object_store) if beat.user == user}
        found |= {f"{one.org}/{one.device}" for one in read_manifests(object_store, []) if one.user == user}
        # Its name may be gone already, after an earlier run that was killed.
        if not found and not rules.unfinished:
            raise NotFound(f"no device of the user `{user}`", hint="list devices with `unspool lake status`")
        for home in sorted(found):
            _check_only_user(lake, home, written)
        homes |= found
    whole = {}
    for home in sorted(homes):
        names = [listed.name for listed in object_store.names(f"segments/{home}")]
        if not names and home in request.devices and not _is_enrolled(lake, object_store, home):
            raise NotFound(f"no segments of the device `{home}`", hint="list devices with `unspool lake status`")
        numbers = [parsed.sequence for parsed in map(parse_device_segment_name, names) if parsed]
        whole[home] = max(numbers, default=0)
    return whole


def _is_enrolled(lake: Lake, object_store: SegmentStore, home: str) -> bool:
    """Return whether a device that has sent nothing has a key, or waits for one to be accepted."""
    org, _, device = home.partition("/")
    return has_record(lake, org, device) or any(True for _ in object_store.names(f"{REGISTRATIONS}/{home}"))


def _check_only_user(lake: Lake, home: str, user: str) -> None:
    org, _, device = home.partition("/")
    query = f'SELECT DISTINCT "user" FROM t WHERE org = {sql_literal(org)} AND device = {sql_literal(device)}'
    others = sorted({other for (other,) in lake.rows("sources", query)} - {user, ""})
    if others:
        words = f"the device `{home}` has rows of `{others[0]}` too"
        raise Refused(words, hint="name sessions, or devices one by one: `--device ORG/DEVICE`")


def _find_projects(lake: Lake, patterns: Iterable[str], rules: ForgetRules) -> set[str]:
    known = {key for (key,) in lake.rows("sources", "SELECT DISTINCT project_key FROM t") if key}
    found = set()
    for pattern in patterns:
        matching = {key for key in known if matches_project(key, pattern)}
        # A whole key may be of segments that were not ingested, or of an earlier run that was killed.
        if not matching and not pattern.startswith("-") and not rules.unfinished:
            raise NotFound(f"no project matches `{pattern}`", hint="name its key, as in the table `sources`")
        found |= matching or ({pattern} if pattern.startswith("-") else set())
    return found


def _find_folders(lake: Lake, keys: set[str]) -> set[str]:
    if not keys:
        return set()
    query = f"SELECT DISTINCT cwd FROM t WHERE cwd IS NOT NULL AND {any_of_predicate('project', keys)}"
    return {cwd for (cwd,) in lake.rows("entries", query) if project_key(cwd) in keys}


def _find_homes(lake: Lake, keys: set[str], sessions: set[str]) -> set[str]:
    """Return the devices that have something of these projects and sessions in the tables."""
    home, wheres = "SELECT DISTINCT concat(org, '/', device) FROM t WHERE ", {}
    of_sources = [any_of_predicate("project_key", keys)] if keys else []
    if sessions:
        of_sources.append(any_of_predicate("lower(session_id)", sessions))
        wheres["entries"] = any_of_predicate("lower(session_id)", sessions)
    wheres["sources"] = " OR ".join(of_sources)
    # Some of these are in lines of the history or an index only.
    texts = [f"raw LIKE {sql_literal(f'%{text}%')}" for text in sorted(sessions | keys)]
    wheres["side_files"] = " OR ".join(texts)
    return {found for name, where in wheres.items() for (found,) in lake.rows(name, home + where)}


def _pending_homes(lake: Lake, object_store: SegmentStore) -> set[str]:
    """Return the devices with segments that are not in the tables, and those with chains for each stream."""
    lake.table("sources", fresh=True)
    marks = dict(lake.versions("sources"))
    listing = list_pending(object_store, None, lake.stream_id, lambda home: read_mark(marks, home).start(home))
    pending = {stream.home for stream in listing.streams.values() if stream.last > marks_of(lake).get(stream.id, 0)}
    return pending | listing.chains.keys()


def marks_of(lake: Lake) -> dict[str, int]:
    """Return the transactions of the tables of lines."""
    return {**lake.versions("entries"), **lake.versions("side_files")}
