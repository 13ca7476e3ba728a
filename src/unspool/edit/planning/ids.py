"""Gives a copied session new ids, in its lines and in its side files: its own, those of its lines, agents and plans.

| side file                      | becomes                                                                     |
|--------------------------------|-----------------------------------------------------------------------------|
| an agent's lines, a journal    | the same under the new session's id, new ids for its lines, same call ids   |
| an agent beside the session    | the same under a new agent id: those of all sessions lie in one folder      |
| a todo list                    | the same under a new name                                                   |
| a plan                         | a copy under a new name, so that each session has its own                   |
| an entry of the index          | one more entry                                                              |
| anything else                  | a copy                                                                      |

Rules
  1. Every pointer in every kind of line is changed with what it points to; one that leads out of the session stays.
     Ids of API messages, requests, prompts and tool calls stay: by them a copy is recognised, and billed once.
  2. New ids are derived from a seed and the old id. The same seed gives the same ids: no state, no randomness.
  3. Only values of pointers are changed, all other bytes stay. The text of a conversation is never searched for ids,
     but for the paths of the session's own side files.
  4. A copied line says where it came from (`forkedFrom`), the first time it is copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from unspool.edit.session_text import SessionText
from unspool.errors import Refused
from unspool.format import (
    AnyRecord,
    Assistant,
    Attachment,
    CompactMetadata,
    Entry,
    FileHistoryDelta,
    FileHistorySnapshot,
    JsonPath,
    LastPrompt,
    Progress,
    Summary,
    System,
    User,
    encode_json,
    patch,
)
from unspool.graph import Speaker, classify_user_record


class IdMap(msgspec.Struct, frozen=True):
    """Maps old ids to new ones."""

    source: str
    session: str
    uuids: dict[str, str]
    agents: dict[str, str] = {}
    """Agents that need another id, because their files lie beside those of other sessions."""
    paths: tuple[tuple[bytes, bytes], ...] = ()
    """Parts of paths of the session's own files, as they stand in JSON: old and new."""
    slugs: dict[str, str] = {}
    """Names of plans."""
    keeps_ids: bool = False
    """Whether session and lines keep their ids: only paths change."""


def map_ids(source: str, session: str, seed: bytes, uuids: Iterable[str]) -> IdMap:
    """Return new ids for the lines of a session."""
    return IdMap(source, session, {uuid: derive_uuid(seed, uuid) for uuid in uuids})


def source_subject(id_map: IdMap) -> Callable[[str], str]:
    """Return a function that translates the subject of a violation in the copy into the source's ids."""
    back = {value: key for key, value in id_map.uuids.items()}
    return lambda subject: " ".join(back.get(word, word) for word in subject.split(" "))


def derive_uuid(seed: bytes, old: str) -> str:
    """Return the new id for an old one: a UUID that looks random.

    >>> derive_uuid(b"seed", "a") == derive_uuid(b"seed", "a") != derive_uuid(b"seed", "b")
    True
    """
    digits = hashlib.blake2b(old.encode("utf-8", "surrogatepass"), digest_size=16, key=seed[:64]).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANTS[digits[16]]}{digits[17:20]}-{digits[20:]}"


_VARIANTS = dict(zip("0123456789abcdef", "89ab" * 4, strict=True))
"""The digit that marks the variant of a UUID, by the random digit in its place."""


def derive_agent_id(seed: bytes, old: str) -> str:
    """Return the new id of an agent: of the same form and length, so that Claude Code recognises it."""
    head = old.rstrip("0123456789abcdef") or "a" * old.startswith("a")
    digits = hashlib.blake2b(old.encode(errors="replace"), digest_size=32, key=seed[:64]).hexdigest()
    return head + digits[: max(len(old) - len(head), 6)]


def rewrite_line(entry: Entry, id_map: IdMap) -> bytes:
    """Return a copied line under the new ids."""
    line = bytes(entry.raw)
    if not id_map.keeps_ids:
        uuid = entry.record.uuid
        is_first_copy = uuid is not None and entry.record.forked_from is None
        line = _rewrite_ids(line, entry, id_map, uuid if is_first_copy else None)
    for old, new in id_map.paths:
        # What a person typed is never changed, not even a path in it.
        if old in line and not (isinstance(entry.record, User) and classify_user_record(entry.record) is Speaker.HUMAN):
            line = line.replace(old, new)
    return line


class LineCopier:
    """Rewrites the lines of a session under new ids, one after the other."""

    def __init__(self, id_map: IdMap) -> None:
        self._id_map = id_map
        self._paths = [old for old, _ in id_map.paths]
        self._encoded: dict[str, tuple[bytes, bytes, str]] = {}
        """Ids as they stand in the file, with the new ones: nearly each is on several lines."""
        # All but the id of the line: it is the same for every line.
        self._origin = _encode_origin(id_map, "").removesuffix(b'""}')

    def rewrite(self, entry: Entry) -> bytes | bytearray:
        """Return a line under the new ids: in nearly all lines, they are put where the old ones were."""
        line = self._overwrite_ids(entry)
        return rewrite_line(entry, self._id_map) if line is None else line

    def _overwrite_ids(self, entry: Entry) -> bytearray | None:
        """Change the pointers of a line in a copy of it; None where a value has another length, or is there twice."""
        record, line = entry.record, bytearray(entry.raw)
        uuid = record.uuid
        if self._id_map.keeps_ids or record.forked_from is not None or (uuid is not None and not line.endswith(b"}\n")):
            return None
        find = line.find
        for path, old, value in _find_pointers(record, self._id_map):
            if len(path) > 1 or type(old) is not str or type(value) is not str:
                return None
            key = _KEYS[path[0]]
            known = self._encoded.get(old)
            if known is None or known[2] is not value:
                known = self._encoded[old] = old.encode("utf-8", "replace") + b'"', value.encode() + b'"', value
            before, after, _ = known
            needle = key + before
            at = find(needle)
            if at < 0 or len(before) != len(after) or find(needle, at + 1) >= 0:
                return None
            at += len(key)
            line[at : at + len(after)] = after
        for part in self._paths:
            if find(part) >= 0:
                return None
        if uuid is not None:
            line[-2:] = b"%b%b}}\n" % (self._origin, encode_json(uuid))
        return line


def rewrite_inserted_line(entry: Entry, id_map: IdMap) -> bytes:
    """Return a line that the edit itself adds, under the new ids: it is no copy and has no origin."""
    return bytes(entry.raw) if id_map.keeps_ids else _rewrite_ids(bytes(entry.raw), entry, id_map, None)


def rewrite_agent_lines(agent: SessionText, id_map: IdMap, seed: bytes) -> bytes:
    """Return the lines of an agent's file, or of a journal, under the new ids."""
    own = {entry.record.uuid: derive_uuid(seed, entry.record.uuid) for entry in agent.entries if entry.record.uuid}
    agent_map = msgspec.structs.replace(id_map, uuids={**id_map.uuids, **own})
    pieces: list[bytes | memoryview] = []
    whole = memoryview(agent.data)
    for item in agent.items:
        if isinstance(item, Entry):
            pieces.append(rewrite_line(item, agent_map))
        elif item is not agent.unfinished_line:
            pieces.append(whole[item.offset : item.offset + item.length])
    if pieces and bytes(pieces[-1][-1:]) != b"\n":
        pieces.append(b"\n")
    return b"".join(pieces)


def new_todo_name(name: str, id_map: IdMap) -> str:
    """Return the new name of a todo list: `<session>-agent-<agent>.json`."""
    session, _, rest = name.partition("-agent-")
    agent = rest.removesuffix(".json")
    # The list of the main conversation has the session's id in the place of the agent's.
    new_agent = id_map.session if agent == session else id_map.agents.get(agent, agent)
    return f"{id_map.session}-agent-{new_agent}.json"


def add_index_entry(document: bytes, id_map: IdMap, path: str, modified: int) -> bytes | None:
    """Return an index of sessions with one more entry, like that of the source; None if the source has none."""
    try:
        value = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    entries: Any = value.get("entries") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        return None
    own = next((one for one in entries if isinstance(one, dict) and one.get("sessionId") == id_map.source), None)
    if own is None:
        return None
    entry = {**own, "sessionId": id_map.session, "fullPath": path, "fileMtime": modified}
    try:
        return patch(document, {("entries", len(entries)): entry})
    except Refused:
        return None


def _encode_origin(id_map: IdMap, uuid: str) -> bytes:
    return b',"forkedFrom":' + encode_json({"sessionId": id_map.source, "messageUuid": uuid})


_Pointer: TypeAlias = tuple[JsonPath, str | list[str], str | list[str]]
"""The path of a pointer, its value, and its new value."""


def _rewrite_ids(line: bytes, entry: Entry, id_map: IdMap, origin: str | None) -> bytes:
    """Change the pointers of a line, and add where it came from.

    A pointer whose key and value are on the line once is replaced as text: there are many lines, and a patch looks at
    every byte of them.
    """
    patches: list[tuple[JsonPath, object]] = []
    for path, old, value in _find_pointers(entry.record, id_map):
        if len(path) == 1 and type(old) is str and type(value) is str:
            key = _KEYS[path[0]]
            needle = key + old.encode("utf-8", "replace") + b'"'
            if line.count(needle) == 1:
                line = line.replace(needle, key + value.encode() + b'"')
                continue
        patches.append((path, value))
    if origin is not None:
        if line.endswith(b"}\n") and not line.endswith(b"{}\n"):
            line = b"".join([line[:-2], _encode_origin(id_map, origin), b"}\n"])
        else:
            patches.append((("forkedFrom",), {"sessionId": id_map.source, "messageUuid": origin}))
    for path, new in patches:
        with suppress(Refused):  # a line that had to be repaired to be read; it is kept as it is
            line = patch(line, {path: new})
    return line


_KEYS: dict[str | int, bytes] = {
    name: encode_json(name) + b':"'
    for name in (
        "sessionId", "session_id", "agentId", "slug", "uuid", "parentUuid", "sourceToolAssistantUUID",
        "interruptedMessageId", "logicalParentUuid", "refusedUserMessageUuid", "leafUuid", "messageId",
        "snapshotMessageId",
    )
}  # fmt: skip
# Built once: a path is looked at for every line of the file.
_SESSION, _SESSION_AGAIN, _AGENT, _SLUG = ("sessionId",), ("session_id",), ("agentId",), ("slug",)
_UUID, _PARENT, _CALL = ("uuid",), ("parentUuid",), ("sourceToolAssistantUUID",)


def _find_pointers(record: AnyRecord, id_map: IdMap) -> list[_Pointer]:
    """Return the pointers of a line that change. Most lines have three or four, and there are many lines."""
    uuids = id_map.uuids
    pointers: list[_Pointer] = []
    if record.session_id is not None:
        pointers.append((_SESSION, record.session_id, id_map.session))
    if record.session_id_again is not None:
        pointers.append((_SESSION_AGAIN, record.session_id_again, id_map.session))
    # Written out, and not a loop over tuples that are built for every line.
    if id_map.agents and (old := record.agent_id) is not None and (new := id_map.agents.get(old)) is not None:
        pointers.append((_AGENT, old, new))
    if id_map.slugs and (old := record.slug) is not None and (new := id_map.slugs.get(old)) is not None:
        pointers.append((_SLUG, old, new))
    if (old := record.uuid) is not None and (new := uuids.get(old)) is not None:
        pointers.append((_UUID, old, new))
    if (old := record.parent_uuid) is not None and (new := uuids.get(old)) is not None:
        pointers.append((_PARENT, old, new))
    if type(record) in _WITHOUT_OTHER_POINTERS:
        return pointers
    for place, target in _other_pointers(record):
        if isinstance(target, str):
            if target in uuids:
                pointers.append((place, target, uuids[target]))
        elif target and any(uuid in uuids for uuid in target):
            pointers.append((place, [*target], [uuids.get(uuid, uuid) for uuid in target]))
    if type(record) is User and id_map.agents:
        pointers += _agent_result_pointer(record, id_map)
    return pointers


_WITHOUT_OTHER_POINTERS = frozenset({Assistant, Attachment, Progress})
"""The most frequent records for which `_other_pointers` has none: `match` would try its cases for each of them."""


def _other_pointers(record: AnyRecord) -> Iterable[tuple[JsonPath, str | tuple[str, ...] | None]]:
    """Return the pointers of a record to other lines, besides the parent: one each, or a list of them."""
    match record:
        case User():
            return (
                (_CALL, record.source_tool_assistant_uuid),
                (("interruptedMessageId",), record.interrupted_message_id),
                (("summarizedTurnPromptUuids",), record.summarized_turn_prompt_uuids),
            )
        case System():
            return (
                (("logicalParentUuid",), record.logical_parent_uuid),
                (("refusedUserMessageUuid",), record.refused_user_message_uuid),
                (("retractedMessageUuids",), record.retracted_message_uuids),
                *_preserved_pointers(record.compact_metadata or CompactMetadata()),
            )
        case LastPrompt(leaf_uuid=target) | Summary(leaf_uuid=target):
            return ((("leafUuid",), target),)
        case FileHistorySnapshot(message_id=message, snapshot=snapshot):
            # The inner one first: both have the same name, and may have the same value.
            return (("snapshot", "messageId"), snapshot.message_id), (("messageId",), message)
        case FileHistoryDelta(message_id=message, snapshot_message_id=of):
            return (("messageId",), message), (("snapshotMessageId",), of)
        case _:
            return ()


def _preserved_pointers(metadata: CompactMetadata) -> Iterator[tuple[JsonPath, str | tuple[str, ...] | None]]:
    if segment := metadata.preserved_segment:
        path = ("compactMetadata", "preservedSegment")
        yield (*path, "headUuid"), segment.head_uuid
        yield (*path, "anchorUuid"), segment.anchor_uuid
        yield (*path, "tailUuid"), segment.tail_uuid
    if kept := metadata.preserved_messages:
        path = ("compactMetadata", "preservedMessages")
        yield (*path, "anchorUuid"), kept.anchor_uuid
        yield (*path, "uuids"), kept.uuids
        yield (*path, "allUuids"), kept.all_uuids


def _agent_result_pointer(record: User, id_map: IdMap) -> Iterator[_Pointer]:
    try:
        result = msgspec.json.decode(record.tool_use_result, type=_AgentResult)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return
    if result.agentId is not None and result.agentId in id_map.agents:
        yield ("toolUseResult", "agentId"), result.agentId, id_map.agents[result.agentId]


class _AgentResult(msgspec.Struct):
    agentId: str | None = None  # noqa: N815 - the file's own name
