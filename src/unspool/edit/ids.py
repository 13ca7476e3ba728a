"""A session under other ids: its own, its lines', its agents'.

Rules
  1. Every pointer in every kind of line is changed with what it points to; one that leads out of the session stays.
     Ids of API messages, requests, prompts and calls stay: by them a copy is known as one, and counted once.
  2. New ids follow from a seed and the old id. The same seed gives the same ids; no state, no chance.
  3. Only values of pointers are changed, all other bytes stay. The text of a conversation is never searched for ids,
     but for the paths of the session's own side files.
  4. A copied line says where it came from (`forkedFrom`), the first time it is copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeAlias

import msgspec

from unspool.errors import Refused
from unspool.format.entry import Entry
from unspool.format.json_edit import Path, encode, patch
from unspool.format.meta_records import FileHistoryDelta, FileHistorySnapshot, LastPrompt, Summary
from unspool.format.records import CompactMetadata, System, User
from unspool.graph.turns import Speaker, speaker


class Identity(msgspec.Struct, frozen=True):
    """Old ids to new ones."""

    source: str
    session: str
    uuids: dict[str, str]
    agents: dict[str, str] = {}
    """Agents that need another id, because their files lie beside those of other sessions."""
    paths: tuple[tuple[bytes, bytes], ...] = ()
    """Pieces of paths of the session's own files, as they stand in JSON: old and new."""
    slugs: dict[str, str] = {}
    """Names of plans."""
    keeps_ids: bool = False
    """Whether session and lines keep their ids: only paths change."""


def identity(source: str, session: str, seed: bytes, uuids: Iterable[str]) -> Identity:
    """Return new ids for the lines of a session."""
    return Identity(source, session, {uuid: made(seed, uuid) for uuid in uuids})


def known_as(new: Identity) -> Callable[[str], str]:
    """Return what tells the source's name for something that the copy speaks of."""
    back = {value: key for key, value in new.uuids.items()}
    return lambda subject: " ".join(back.get(word, word) for word in subject.split(" "))


def made(seed: bytes, old: str) -> str:
    """Return the new id for an old one: a random-looking UUID.

    >>> made(b"seed", "a") == made(b"seed", "a") != made(b"seed", "b")
    True
    """
    digits = hashlib.blake2b(old.encode("utf-8", "surrogatepass"), digest_size=16, key=seed[:64]).hexdigest()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def made_agent(seed: bytes, old: str) -> str:
    """Return the new id of an agent: of the same make and length, so that the program knows it for one."""
    head = old.rstrip("0123456789abcdef")
    digits = hashlib.blake2b(old.encode(errors="replace"), digest_size=32, key=seed[:64]).hexdigest()
    return (head or "a" * old.startswith("a")) + digits[: max(len(old) - len(head or "a" * old.startswith("a")), 6)]


def rewritten(entry: Entry, new: Identity) -> bytes:
    """Return a line under the new ids."""
    line = bytes(entry.raw)
    if not new.keeps_ids:
        uuid = entry.record.uuid
        is_first = uuid is not None and entry.record.forked_from is None
        line = _with_ids(line, entry, new, uuid if is_first else None)
    for old, changed in new.paths:
        if old in line and not _is_human(entry):
            line = line.replace(old, changed)
    return line


def overwritten(buffer: bytearray, entry: Entry, new: Identity) -> bytes | None:
    """Change the pointers of a line where it stands in a copy of the file; return what is to be added before its end.

    None: it cannot be done that way (a value of another length, or one that stands there twice), `rewritten` can. Most
    lines can: an id is as long as another, and no line has to be copied to change it.
    """
    start, record = entry.offset, entry.record
    end = start + entry.length
    if new.keeps_ids or (record.uuid is not None and buffer[end - 2 : end] != b"}\n") or record.forked_from is not None:
        return None
    find = buffer.find
    for path, old, value in _pointers(entry, new):
        if len(path) > 1 or type(old) is not str or type(value) is not str or len(old) != len(value):
            return None
        key = _KEYS[path[0]]
        needle = key + old.encode("utf-8", "replace") + b'"'
        at = find(needle, start, end)
        if at < 0 or find(needle, at + 1, end) >= 0:
            return None
        at += len(key)
        buffer[at : at + len(value)] = value.encode()
    for piece, _ in new.paths:
        if find(piece, start, end) >= 0:
            return None
    return _origin(new, record.uuid) if record.uuid is not None else b""


def _origin(new: Identity, uuid: str) -> bytes:
    return b',"forkedFrom":' + encode({"sessionId": new.source, "messageUuid": uuid})


def readdressed(entry: Entry, new: Identity) -> bytes:
    """Return a line that was not copied under the new ids: it has no origin."""
    return bytes(entry.raw) if new.keeps_ids else _with_ids(bytes(entry.raw), entry, new, None)


_Pointer: TypeAlias = tuple[Path, str | list[str], str | list[str]]
"""The way to a pointer, what is there, what comes there."""


def _with_ids(line: bytes, entry: Entry, new: Identity, origin: str | None) -> bytes:
    """Change the pointers of a line, and say where it came from.

    A pointer whose key and value stand on the line once is replaced as text: there are many lines, and a patch looks
    at every byte of them.
    """
    hard: list[tuple[Path, object]] = []
    for path, old, value in _pointers(entry, new):
        if len(path) == 1 and type(old) is str and type(value) is str:
            key = _KEYS[path[0]]
            needle = key + old.encode("utf-8", "replace") + b'"'
            if line.count(needle) == 1:
                line = line.replace(needle, key + value.encode() + b'"')
                continue
        hard.append((path, value))
    if origin is not None:
        if line.endswith(b"}\n") and not line.endswith(b"{}\n"):
            line = b"".join([line[:-2], _origin(new, origin), b"}\n"])
        else:
            hard.append((("forkedFrom",), {"sessionId": new.source, "messageUuid": origin}))
    for way, wanted in hard:
        with suppress(Refused):  # a line that had to be mended to be read; it is kept as it is
            line = patch(line, {way: wanted})
    return line


_KEYS: dict[str | int, bytes] = {
    name: encode(name) + b':"'
    for name in (
        "sessionId", "session_id", "agentId", "slug", "uuid", "parentUuid", "sourceToolAssistantUUID",
        "interruptedMessageId", "logicalParentUuid", "refusedUserMessageUuid", "leafUuid", "messageId",
        "snapshotMessageId",
    )
}  # fmt: skip
_SESSION, _SESSION_AGAIN, _AGENT, _SLUG = ("sessionId",), ("session_id",), ("agentId",), ("slug",)
_UUID, _PARENT, _CALL = ("uuid",), ("parentUuid",), ("sourceToolAssistantUUID",)


def _pointers(entry: Entry, new: Identity) -> list[_Pointer]:
    """Return the pointers of a line that change. Most lines have three or four, and there are many lines."""
    record, uuids = entry.record, new.uuids
    found: list[_Pointer] = []
    if record.session_id is not None:
        found.append((_SESSION, record.session_id, new.session))
    if record.session_id_again is not None:
        found.append((_SESSION_AGAIN, record.session_id_again, new.session))
    if record.agent_id in new.agents:
        found.append((_AGENT, record.agent_id or "", new.agents[record.agent_id or ""]))
    if record.slug in new.slugs:
        found.append((_SLUG, record.slug or "", new.slugs[record.slug or ""]))
    if record.uuid in uuids:
        found.append((_UUID, record.uuid or "", uuids[record.uuid or ""]))
    if record.parent_uuid in uuids:
        found.append((_PARENT, record.parent_uuid or "", uuids[record.parent_uuid or ""]))
    if type(record) in _WITH_MORE:
        found += [(path, old, uuids[old]) for path, old in _single(entry) if old is not None and old in uuids]
        found += _several(entry, new)
    return found


_WITH_MORE = frozenset({User, System, LastPrompt, Summary, FileHistorySnapshot, FileHistoryDelta})


def _several(entry: Entry, new: Identity) -> Iterator[_Pointer]:
    match entry.record:
        case User() as record:
            if record.summarized_turn_prompt_uuids:
                yield from _lists((("summarizedTurnPromptUuids",), record.summarized_turn_prompt_uuids), new=new)
            yield from _agent_result(entry, new)
        case System() as record:
            if record.retracted_message_uuids:
                yield from _lists((("retractedMessageUuids",), record.retracted_message_uuids), new=new)
            if record.compact_metadata is not None:
                yield from _preserved(record.compact_metadata, new)
        case _:
            pass


def _single(entry: Entry) -> tuple[tuple[Path, str | None], ...]:
    """Return the pointers to one line each, besides the parent."""
    record = entry.record
    if isinstance(record, User):
        return (_CALL, record.source_tool_assistant_uuid), (("interruptedMessageId",), record.interrupted_message_id)
    match record:
        case System(logical_parent_uuid=logical, refused_user_message_uuid=refused):
            return (("logicalParentUuid",), logical), (("refusedUserMessageUuid",), refused)
        case LastPrompt(leaf_uuid=target) | Summary(leaf_uuid=target):
            return ((("leafUuid",), target),)
        case FileHistorySnapshot(message_id=message, snapshot=snapshot):
            # The inner one first: both have the same name, and may have the same value.
            return (("snapshot", "messageId"), snapshot.message_id), (("messageId",), message)
        case FileHistoryDelta(message_id=message, snapshot_message_id=of):
            return (("messageId",), message), (("snapshotMessageId",), of)
        case _:
            return ()


def _lists(*found: tuple[Path, tuple[str, ...]], new: Identity) -> Iterator[tuple[Path, list[str], list[str]]]:
    for path, old in found:
        if any(uuid in new.uuids for uuid in old):
            yield path, [*old], [new.uuids.get(uuid, uuid) for uuid in old]


def _preserved(metadata: CompactMetadata, new: Identity) -> Iterator[_Pointer]:
    segment, kept = metadata.preserved_segment, metadata.preserved_messages
    if segment is not None:
        ends = (("headUuid", segment.head_uuid), ("anchorUuid", segment.anchor_uuid), ("tailUuid", segment.tail_uuid))
        for name, old in ends:
            if old in new.uuids:
                yield ("compactMetadata", "preservedSegment", name), old or "", new.uuids[old or ""]
    if kept is not None:
        if kept.anchor_uuid in new.uuids:
            yield ("compactMetadata", "preservedMessages", "anchorUuid"), "", new.uuids[kept.anchor_uuid or ""]
        yield from _lists(
            (("compactMetadata", "preservedMessages", "uuids"), kept.uuids),
            (("compactMetadata", "preservedMessages", "allUuids"), kept.all_uuids),
            new=new,
        )


def _agent_result(entry: Entry, new: Identity) -> Iterator[_Pointer]:
    if not new.agents or not isinstance(entry.record, User):
        return
    try:
        result = msgspec.json.decode(entry.record.tool_use_result, type=_AgentResult)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    if result.agentId in new.agents:
        yield ("toolUseResult", "agentId"), "", new.agents[result.agentId or ""]


class _AgentResult(msgspec.Struct):
    agentId: str | None = None  # noqa: N815 - the file's own name


def _is_human(entry: Entry) -> bool:
    return isinstance(entry.record, User) and speaker(entry.record) is Speaker.HUMAN
