"""Reads sessions for the mapping: all files of each, and the requests that it pays for.

Rules
  1. Requests and what they cost come from the ledger of `unspool usage`, so sums are the same. Those of deleted files
     of which nothing else is left are included.
  2. One session is read at a time. The fingerprint of one that is not read is made of the sizes and times of its files
     and of its requests: a request may move to another session without a change of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from unspool.graph import find_tool_calls, link_agents, split_turns
from unspool.home import Session, read_agent_file
from unspool.read import Source
from unspool.store import PriceLookup, StoreAccess
from unspool.store.usage import UsageQuery
from unspool.telemetry.mapping import AgentRecords, BilledRequest, SessionCopy, TracedSession

_NANOS: Final = 1_000_000


class SessionGroup(NamedTuple):
    """All sessions of one id, and the requests that they pay for."""

    id: str
    sessions: Sequence[Session]
    requests: Sequence[BilledRequest]

    @property
    def changed(self) -> int:
        """When the files were last changed, in milliseconds since 1970."""
        return max((session.source.modified for session in self.sessions), default=0) // _NANOS

    def fingerprint(self, *editions: str) -> bytes:
        """Return a digest of everything that the spans are made of, without reading a session."""
        digest = blake2b(digest_size=16)
        for session in self.sessions:
            metas = session.home.metas
            for source in (session.source, *session.agent_sources):
                for file in (source, metas.get(source.path)):
                    if file is not None:
                        digest.update(repr((file.place, file.size, file.modified)).encode("utf-8", "surrogatepass"))
        for request in self.requests:
            digest.update(repr((request.file, request.project, request.bill)).encode("utf-8", "surrogatepass"))
            digest.update(repr(msgspec.structs.astuple(request.response)).encode("utf-8", "surrogatepass"))
        digest.update(repr(editions).encode("utf-8", "surrogatepass"))
        return digest.digest()

    def read(self) -> TracedSession:
        """Read the session; `UnspoolError` if a file of it cannot be read."""
        return TracedSession(self.id, [_read_copy(session) for session in self.sessions], self.requests, self.changed)


def group_sessions(access: StoreAccess) -> Iterator[SessionGroup]:
    """Yield the sessions by their ids, the one changed longest ago first: receivers like the order of time."""
    requests = _read_requests(access)
    sessions: dict[str, list[Session]] = {}
    for session in access.home.sessions():
        sessions.setdefault(session.id, []).append(session)
    ids = dict.fromkeys((*requests, *sessions))
    groups = [
        SessionGroup(id, sorted(sessions.get(id, ()), key=lambda one: str(one.own_path)), requests.get(id, ()))
        for id in ids
    ]
    yield from sorted(groups, key=lambda group: (group.changed, group.id))


def _read_requests(access: StoreAccess) -> dict[str, list[BilledRequest]]:
    """Return the billed requests by the session that pays, in an order that is always the same."""
    prices = PriceLookup(access.preferences.prices)
    found: dict[str, list[BilledRequest]] = {}
    for request in access.ledger.requests(UsageQuery()):
        billed = BilledRequest(request.file, request.project, request.response, prices.bill([request.response]))
        found.setdefault(request.session, []).append(billed)
    for requests in found.values():
        requests.sort(key=lambda one: (one.response.timestamp or "", one.response.id, one.file))
    return found


def _read_copy(session: Session) -> SessionCopy:
    # Of a session whose own file is missing, the first of its agents' files stands for it: it has no lines of its own.
    entries = () if session.is_missing else session.entries
    sources = (session.source, *session.agent_sources) if session.is_missing else session.agent_sources
    facts = session.facts
    return SessionCopy(
        file=str(session.path),
        key=session.source.project or "",
        project=session.project,
        title="" if session.is_missing else session.title,
        branch=facts.branch,
        version=facts.versions[-1] if facts.versions else None,
        entries=entries,
        turns=split_turns(entries),
        calls=find_tool_calls(entries),
        agents=_read_agents(session, sources),
    )


def _read_agents(session: Session, sources: Sequence[Source]) -> list[AgentRecords]:
    files = [read_agent_file(source, session.home, session.id) for source in sources]
    agents = link_agents(() if session.is_missing else session.entries, files)
    return [
        AgentRecords(str(source.path), agent, file.entries)
        for source, agent, file in zip(sources, agents, files, strict=True)
    ]
