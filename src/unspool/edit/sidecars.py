"""The side files of a new session: what each becomes. Bytes in, bytes out.

| file                           | becomes                                                                     |
|--------------------------------|-----------------------------------------------------------------------------|
| an agent's lines, a journal    | the same under the new session's id, new ids for its lines, same call ids   |
| an agent beside the session    | the same under a new agent id: those of all sessions lie in one folder      |
| a todo list                    | the same under a new name                                                   |
| a plan                         | a copy under a new name, so that each session has its own                   |
| an entry of the index          | one more entry                                                              |
| anything else                  | a copy                                                                      |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from unspool.edit.identity import Identity, made, made_agent, rewritten
from unspool.edit.manuscript import Manuscript
from unspool.errors import Refused
from unspool.format.entry import Entry
from unspool.format.patch import encode, patch


def agent_lines(agent: Manuscript, new: Identity, seed: bytes) -> bytes:
    """Return the lines of an agent's file, or of a journal, under the new ids."""
    own = {entry.record.uuid: made(seed, entry.record.uuid) for entry in agent.entries if entry.record.uuid}
    here = replace(new, uuids={**new.uuids, **own})
    pieces: list[bytes | memoryview] = []
    whole = memoryview(agent.data)
    for item in agent.items:
        if isinstance(item, Entry):
            pieces.append(rewritten(item, here))
        elif item is not agent.torn:
            pieces.append(whole[item.offset : item.offset + item.length])
    if pieces and bytes(pieces[-1][-1:]) != b"\n":
        pieces.append(b"\n")
    return b"".join(pieces)


def new_agents(ids: Iterable[str], seed: bytes) -> dict[str, str]:
    """Return new ids for agents that lie beside other sessions' agents."""
    return {id: made_agent(seed, id) for id in ids}


def new_slugs(slugs: Iterable[str], seed: bytes) -> dict[str, str]:
    """Return new names for plans."""
    return {slug: f"{slug}-{made(seed, slug)[:6]}" for slug in slugs}


def in_json(path: str) -> bytes:
    """Return a piece of a path as it stands in JSON."""
    return encode(path)[1:-1]


def todo_name(name: str, new: Identity) -> str:
    """Return the name of a todo list: `<session>-agent-<agent>.json`."""
    session, _, rest = name.partition("-agent-")
    agent = rest.removesuffix(".json")
    changed = new.session if agent == session else new.agents.get(agent, agent)
    return f"{new.session}-agent-{changed}.json"


def index_with(document: bytes, new: Identity, path: str, modified: int) -> bytes | None:
    """Return an index with one more entry, like that of the source; None if the source has none."""
    try:
        value = msgspec.json.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    entries: Any = value.get("entries") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        return None
    own = next((one for one in entries if isinstance(one, dict) and one.get("sessionId") == new.source), None)
    if own is None:
        return None
    entry = {**own, "sessionId": new.session, "fullPath": path, "fileMtime": modified}
    try:
        return patch(document, {("entries", len(entries)): entry})
    except Refused:
        return None
