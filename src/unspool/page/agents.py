"""The agents of a session as a tree: a view in; who started whom, when, at what cost out.

Rules
  1. Who started whom is told by the surest sign, as in `graph/agents.py`: the meta file, a result, progress, the
     prompt.
  2. Opening a session reads no agent. The tree reads them all if they are not too many (`AFFORDABLE`); else of each the
     beginning and the end, and what only all lines can tell is left out, not guessed.
  3. What was read of an agent is remembered as long as its file is as it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from unspool.errors import UnspoolError
from unspool.export.describe_calls import first_line
from unspool.format.blocks import Text
from unspool.format.entry import Entry, Item
from unspool.format.records import Assistant, User
from unspool.format.side_files.json import AgentMeta, parse_agent_meta
from unspool.format.tools.agents import AgentInput
from unspool.format.tools.parse import parse_input
from unspool.graph.session_facts_from_entries import is_special
from unspool.graph.turns import Speaker, speaker, text_of
from unspool.page.index import Index, prompt_digest
from unspool.read.lines import LineBuffer
from unspool.read.scan import Source
from unspool.read.tail import decode_lines

if TYPE_CHECKING:
    from unspool.page.view import View

AFFORDABLE = 48_000_000
"""Bytes of all agents' files together that are read for the tree."""
_END = 65_536
"""Bytes of the beginning and the end that are looked at."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """An agent in the tree."""

    id: str
    kind: str = "task"
    """`task`, `warm-up`, `special` or `workflow`."""
    type: str | None = None
    description: str | None = None
    model: str | None = None
    status: str = ""
    """`done`, `failed`, `running`; nothing if no call says so."""
    started: str | None = None
    last: str | None = None
    calls: int | None = None
    peak: int | None = None
    output: int | None = None
    cost: int | None = None
    result: str = ""
    key: str | None = None
    """The row of the call that started it."""
    bytes: int = 0
    members: tuple[Member, ...] = ()
    """The agents it started."""


class AgentTree(msgspec.Struct, frozen=True):
    """All agents of a session."""

    members: tuple[Member, ...] = ()
    """Those that a call of the session started, and in them those that they started."""
    others: tuple[Member, ...] = ()
    """Those without a call: warm-ups, forks the program makes for itself, orphans."""
    is_whole: bool = True
    """Whether every file was read to the end."""

    def __iter__(self) -> Iterator[Member]:
        for member in (*self.members, *self.others):
            yield from _each(member)

    @property
    def cost(self) -> int:
        """Micro-dollars, as far as it is known."""
        return sum(member.cost or 0 for member in self)


class _Look(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of an agent."""

    size: int
    modified: int
    prompt: str = ""
    is_warm: bool = False
    model: str | None = None
    started: str | None = None
    last: str | None = None
    result: str = ""
    calls: int | None = None
    peak: int | None = None
    output: int | None = None
    cost: int | None = None
    index: Index | None = None
    """Where its own calls are, if it was read whole."""


class _Links(NamedTuple):
    """Who was read, which call started each, and whom each started; under nobody those of the session."""

    looks: dict[str, _Look]
    calls: dict[str, str]
    children: dict[str | None, list[str]]


class Crew:
    """The agents of a session, read as far as needed."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._looks: dict[str, _Look] = {}

    @property
    def sources(self) -> Sequence[Source]:
        """The files of the agents."""
        return self._view.session.agent_sources

    @cached_property
    def by_call(self) -> dict[str, str]:
        """Agents by the calls that started them, as meta files and prompts tell."""
        found = {meta.tool_use_id: id for id, meta in self._metas.items() if meta.tool_use_id}
        index = self._view.index
        known = {*found.values(), *index.agents.values()}
        for source in self.sources if index.prompts and not self._view.agent_id else ():
            id = _id(source)
            if id not in known and not is_special(id):
                for call in index.prompts.get(prompt_digest(self._ends(source).prompt), ()):
                    if call not in found and call not in index.agents:
                        found[call] = id
                        break
        return found

    @cached_property
    def _metas(self) -> dict[str, AgentMeta]:
        home = self._view.session.home
        found: dict[str, AgentMeta] = {}
        for source in self.sources:
            meta = home.metas.get(source.path)
            if meta is not None:
                try:
                    found[_id(source)] = parse_agent_meta(home.reader.whole(meta.path))
                except (UnspoolError, msgspec.DecodeError):
                    continue
        return found

    def tree(self) -> AgentTree:
        """Return all agents, with what is known of them."""
        whole = sum(source.size for source in self.sources) <= AFFORDABLE
        looks = {_id(source): self._whole(source) if whole else self._ends(source) for source in self.sources}
        calls, parents = self._links(looks)
        children: dict[str | None, list[str]] = {}
        for id in looks:
            if id in calls:
                children.setdefault(parents.get(id), []).append(id)
        seen: set[str] = set()
        links = _Links(looks, calls, children)
        members = tuple(self._member(id, links, seen) for id in children.get(None, ()))
        rest = [id for id in looks if id not in seen]
        others = tuple(self._member(id, links._replace(children={}), seen) for id in rest)
        return AgentTree(tuple(sorted(members, key=_started)), tuple(sorted(others, key=_started)), whole)

    def _links(self, looks: dict[str, _Look]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the call that started each agent, and the agent that made that call, if it was one."""
        calls: dict[str, str] = {}
        parents: dict[str, str] = {}
        indexes: list[tuple[str | None, Index]] = [(None, self._view.index)]
        indexes += [(id, look.index) for id, look in looks.items() if look.index is not None]
        metas = {id: meta.tool_use_id for id, meta in self._metas.items() if meta.tool_use_id}
        for parent, index in indexes:
            told = {agent: call for call, agent in reversed(index.agents.items())}
            for id, look in looks.items():
                if id in calls or id == parent:
                    continue
                meant = metas.get(id)
                asked = index.prompts.get(prompt_digest(look.prompt), ()) if look.prompt.strip() else ()
                free = [call for call in asked if call not in calls.values()]
                call = meant if meant in index.calls else told.get(id) or next(iter(free), None)
                if call is not None and index.calls.get(call) is not None and index.calls[call].use >= 0:
                    calls[id] = call
                    if parent is not None:
                        parents[id] = parent
        return calls, parents

    def _member(self, id: str, links: _Links, seen: set[str]) -> Member:
        seen.add(id)
        look, meta = links.looks[id], self._metas.get(id, AgentMeta())
        inner = [child for child in links.children.get(id, ()) if child not in seen]
        parent = self._caller(links.calls.get(id), links.looks)
        called = parent[1].calls[links.calls[id]] if parent else None
        given = self._given(f"{parent[0]}{called.key}") if parent and called and not meta.agent_type else None
        status = "" if called is None else "running" if called.result < 0 else "failed" if called.failed else "done"
        return Member(
            id=id,
            kind=_kind(id, look, self._path(id)),
            type=meta.agent_type or (given.subagent_type if given else None),
            description=meta.description or (given.description if given else first_line(look.prompt)[:120]) or None,
            model=look.model,
            status=status,
            started=look.started,
            last=look.last,
            calls=look.calls,
            peak=look.peak,
            output=look.output,
            cost=look.cost,
            result=look.result,
            key=f"{parent[0]}{called.key}" if parent and called else None,
            bytes=look.size,
            members=tuple(self._member(child, links, seen) for child in inner if child not in seen),
        )

    def _given(self, key: str) -> AgentInput | None:
        """Return what a call asked of an agent."""
        view, offset, block = self._view.split(key)
        call = view.call_at(offset, block)
        given = parse_input(call.name, call.input) if call else None
        return given if isinstance(given, AgentInput) else None

    def _caller(self, call: str | None, looks: dict[str, _Look]) -> tuple[str, Index] | None:
        if call is None:
            return None
        indexes = [("", self._view.index), *((f"{id}/", look.index) for id, look in looks.items() if look.index)]
        return next(((prefix, index) for prefix, index in indexes if call in index.calls), None)

    def _path(self, id: str) -> str:
        return next((source.place for source in self.sources if _id(source) == id), "")

    def _whole(self, source: Source) -> _Look:
        """Return what all lines of an agent tell."""
        id = _id(source)
        look = self._looks.get(id)
        if look is not None and look.index is not None and (look.size, look.modified) == (source.size, source.modified):
            return look
        ends = self._ends(source)
        try:
            view = self._view.agent(id)
        except UnspoolError:
            return ends
        head = view.outline().head
        self._looks[id] = msgspec.structs.replace(
            ends,
            model=head.models[0] if head.models else ends.model,
            calls=head.calls,
            peak=head.peak,
            output=head.usage.output,
            cost=head.usage.cost,
            started=head.started,
            last=head.last,
            index=view.index,
        )
        return self._looks[id]

    def _ends(self, source: Source) -> _Look:
        """Return what beginning and end of an agent's file tell."""
        id = _id(source)
        look = self._looks.get(id)
        if look is not None and (look.size, look.modified) == (source.size, source.modified):
            return look
        reader = self._view.session.home.reader
        try:
            head = reader.part(source.path, 0, _END)
            tail = reader.part(source.path, source.size - _END, _END) if source.size > _END else b""
        except UnspoolError:
            head = tail = b""
        first = [item for item in _items(head) if isinstance(item, Entry)]
        last = [item for item in _items(tail[tail.find(b"\n") + 1 :]) if isinstance(item, Entry)] or first
        users = [entry.record for entry in first if isinstance(entry.record, User)]
        answers = [entry.record for entry in (*first, *last) if isinstance(entry.record, Assistant)]
        texts = [block.text for one in answers for block in one.message.blocks if isinstance(block, Text)]
        times = [entry.record.timestamp for entry in (*first, *last) if entry.record.timestamp]
        self._looks[id] = _Look(
            size=source.size,
            modified=source.modified,
            prompt=text_of(users[0].message.blocks) if users else "",
            is_warm=bool(users) and speaker(users[0]) is Speaker.WARMUP,
            model=next((one.message.model for one in answers if one.message.model), None),
            started=times[0] if times else None,
            last=times[-1] if times else None,
            result=first_line(texts[-1])[:300] if texts else "",
        )
        return self._looks[id]


def _items(data: bytes) -> list[Item]:
    buffer = LineBuffer()
    return [*decode_lines(buffer.feed(data)), *decode_lines(buffer.finish())]


def _id(source: Source) -> str:
    return source.agent_id or source.path.stem


def _kind(id: str, look: _Look, path: str) -> str:
    if "/subagents/workflows/" in path:
        return "workflow"
    return "special" if is_special(id) else "warm-up" if look.is_warm else "task"


def _started(member: Member) -> tuple[str, str]:
    return member.started or "~", member.id


def _each(member: Member) -> Iterator[Member]:
    yield member
    for one in member.members:
        yield from _each(one)
