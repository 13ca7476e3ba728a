"""The agents of a session as a tree: which call started each, when it worked, and what it cost.

Rules
  1. Which call started an agent is decided by the surest sign (`graph/agents.py`): the meta file, a result, progress or
     a notification, the line it was forked after, the prompt.
  2. Opening a session reads no agent: there may be a thousand of them, and gigabytes. The tree reads them all if they
     are not too large (`MAX_BYTES_READ_WHOLE`); else the beginning and the end of each, and what only all lines can
     tell is left out, not guessed.
  3. What was read of an agent is remembered as long as its file is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from unspool.errors import UnspoolError
from unspool.format import Assistant, Entry, ForkContextRef, Text, User
from unspool.format.side_files import AgentMeta, parse_object
from unspool.format.tools import AgentInput, parse_input
from unspool.graph import (
    AgentSigns,
    Speaker,
    choose_calls,
    classify_user_record,
    first_line,
    is_special_fork,
    join_text,
)
from unspool.page.index import SessionIndex, prompt_digest
from unspool.read import LineBuffer, Source, decode_lines

if TYPE_CHECKING:
    from unspool.page.view import PageView

MAX_BYTES_READ_WHOLE = 48_000_000
"""Bytes of all agents' files together that are read for the tree."""
_END_BYTES = 65_536
"""How much of the beginning and of the end of a large file is read."""


class AgentNode(msgspec.Struct, frozen=True, kw_only=True):
    """An agent in the tree."""

    id: str
    kind: str = "task"
    """`task`, `warm-up`, `special` or `workflow`."""
    type: str | None = None
    description: str | None = None
    model: str | None = None
    status: str = ""
    """`done`, `failed`, `running`; nothing if no call tells."""
    started: str | None = None
    last: str | None = None
    calls: int | None = None
    peak: int | None = None
    output: int | None = None
    cost: int | None = None
    result: str = ""
    key: str | None = None
    """The row of the call that started it, or of the line after which it was forked."""
    bytes: int = 0
    members: tuple[AgentNode, ...] = ()
    """The agents it started."""


class AgentTree(msgspec.Struct, frozen=True):
    """All agents of a session."""

    members: tuple[AgentNode, ...] = ()
    """Those that a call of the session started, and in them those that they started."""
    others: tuple[AgentNode, ...] = ()
    """Those without a call: warm-ups, forks that Claude Code makes for itself, orphans."""
    is_whole: bool = True
    """Whether every file was read to the end."""

    def __iter__(self) -> Iterator[AgentNode]:
        return (node for node, _ in walk_agents((*self.members, *self.others)))


def walk_agents(nodes: Iterable[AgentNode], depth: int = 0) -> Iterator[tuple[AgentNode, int]]:
    """Yield agents and those that they started, each with its depth in the tree."""
    for node in nodes:
        yield node, depth
        yield from walk_agents(node.members, depth + 1)


class _Summary(msgspec.Struct, frozen=True):
    """What was read of an agent's file."""

    node: AgentNode
    modified: int
    prompt: str = ""
    is_warmup: bool = False
    forked_from: str | None = None
    """The line of its parent after which it was forked."""
    index: SessionIndex | None = None
    """Where its own calls are, if the file was read whole."""

    def is_of(self, source: Source) -> bool:
        """Tell whether a file is still as it was read."""
        return (self.node.bytes, self.modified) == (source.size, source.modified)


class AgentReader:
    """Reads the agents of a session as far as they are needed."""

    def __init__(self, view: PageView) -> None:
        self._view = view
        self._summaries: dict[str, _Summary] = {}

    @cached_property
    def by_call(self) -> dict[str, str]:
        """Agents by the calls that started them, as meta files and prompts tell."""
        agents = {meta.tool_use_id: id for id, meta in self._metas.items() if meta.tool_use_id}
        index = self._view.index
        known = {*agents.values(), *index.agents.values()}
        sources = self._view.session.agent_sources if index.agent_prompts and not self._view.agent_id else ()
        unknown = [source for source in sources if _agent_id(source) not in known]
        signs = [_signs(self._read_ends(source), None) for source in unknown]
        links = choose_calls(signs, index.calls, (), index.agent_prompts, taken=[*agents, *index.agents])
        return agents | {call: id for id, (call, _) in links.items()}

    @cached_property
    def _metas(self) -> dict[str, AgentMeta]:
        home = self._view.session.home
        metas: dict[str, AgentMeta] = {}
        for source in self._view.session.agent_sources:
            meta = home.metas.get(source.path)
            if meta is not None:
                with suppress(UnspoolError, msgspec.DecodeError):
                    metas[_agent_id(source)] = parse_object(home.reader.whole(meta.path), AgentMeta)
        return metas

    def read_tree(self) -> AgentTree:
        """Return all agents, with what is known of them."""
        sources = {_agent_id(source): source for source in self._view.session.agent_sources}
        is_whole = sum(source.size for source in sources.values()) <= MAX_BYTES_READ_WHOLE
        read = self._read_whole if is_whole else self._read_ends
        summaries = {id: read(source) for id, source in sources.items()}
        calls, parents = self._link(summaries)
        forks = self._link_forks(summaries, calls)
        children: dict[str | None, list[str]] = {}
        for id in summaries:
            if id in calls:
                children.setdefault(parents.get(id), []).append(id)
            elif id in forks:
                children.setdefault(forks[id][0], []).append(id)
        indexes = {"": self._view.index}
        indexes |= {f"{id}/": summary.index for id, summary in summaries.items() if summary.index}
        # Each agent is shown once, also where damaged files say that agents started each other.
        seen: set[str] = set()

        def build(id: str, *, nested: bool) -> AgentNode:
            seen.add(id)
            node = self._describe(summaries[id], sources[id].place, calls.get(id), indexes)
            if id in forks:
                parent, offset = forks[id]
                node = replace(node, key=None if offset is None else f"{f'{parent}/' if parent else ''}{offset}.0")
            inner = children.get(id, ()) if nested else ()
            return replace(node, members=tuple(build(child, nested=True) for child in inner if child not in seen))

        members = [build(id, nested=True) for id in children.get(None, ())]
        others = [build(id, nested=False) for id in summaries if id not in seen]
        return AgentTree(tuple(sorted(members, key=_start_order)), tuple(sorted(others, key=_start_order)), is_whole)

    def _link(self, summaries: dict[str, _Summary]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the call that started each agent, and the agent that made that call, if it was one."""
        indexes: list[tuple[str | None, SessionIndex]] = [(None, self._view.index)]
        indexes += [(id, summary.index) for id, summary in summaries.items() if summary.index is not None]
        makers: dict[str, str | None] = {}
        reported: dict[str, str] = {}
        by_prompt: dict[str, list[str]] = {}
        for maker, index in indexes:
            for call, indexed in index.calls.items():
                if indexed.use >= 0:
                    makers.setdefault(call, maker)
            for call, agent in index.agents.items():
                # A file that names its own agent repeats what was said before it was forked.
                if agent != maker:
                    reported.setdefault(agent, call)
            for prompt, alike in index.agent_prompts.items():
                by_prompt.setdefault(prompt, []).extend(alike)
        signs = [_signs(summary, self._metas.get(id)) for id, summary in summaries.items()]
        links = choose_calls(signs, makers, [("result", reported)], by_prompt)
        calls = {id: call for id, (call, _) in links.items() if makers[call] != id}
        return calls, {id: maker for id, call in calls.items() if (maker := makers[call]) is not None}

    def _link_forks(
        self, summaries: dict[str, _Summary], calls: dict[str, str]
    ) -> dict[str, tuple[str | None, int | None]]:
        """Return for each agent that a person forked the agent it was forked from, if it was one, and the line."""
        indexes: list[tuple[str | None, SessionIndex]] = [(None, self._view.index)]
        indexes += [(id, summary.index) for id, summary in summaries.items() if summary.index is not None]
        forks: dict[str, tuple[str | None, int | None]] = {}
        for id, summary in summaries.items():
            if summary.forked_from and id not in calls and not is_special_fork(id):
                places = ((parent, index.branches.find_offset(summary.forked_from)) for parent, index in indexes)
                found = (place for place in places if place[0] != id and place[1] is not None)
                forks[id] = next(found, (None, None))
        return forks

    def _describe(self, summary: _Summary, place: str, call: str | None, indexes: dict[str, SessionIndex]) -> AgentNode:
        """Add to an agent what its meta file and the call that started it tell."""
        id = summary.node.id
        meta = self._metas.get(id, AgentMeta())
        prefix = next((prefix for prefix, index in indexes.items() if call in index.calls), None)
        indexed = indexes[prefix].calls[call] if prefix is not None and call is not None else None
        key = f"{prefix}{indexed.key}" if indexed else None
        task = self._read_task(key) if key and not meta.agent_type else None
        status = "" if indexed is None else "running" if indexed.result < 0 else "failed" if indexed.failed else "done"
        kind = "special" if is_special_fork(id) else "warm-up" if summary.is_warmup else "task"
        described = task.description if task else first_line(summary.prompt)[:120]
        return replace(
            summary.node,
            kind="workflow" if "/subagents/workflows/" in place else kind,
            type=meta.agent_type or (task.subagent_type if task else None),
            description=meta.description or described or None,
            status=status,
            key=key,
        )

    def _read_task(self, key: str) -> AgentInput | None:
        """Return the input of the call that started an agent."""
        view, offset, number = self._view.locate(key)
        call = view.sections.read_call(offset, number)
        task = parse_input(call.name, call.input) if call else None
        return task if isinstance(task, AgentInput) else None

    def _read_whole(self, source: Source) -> _Summary:
        """Summarise all lines of an agent's file."""
        ends = self._read_ends(source)
        if ends.index is not None:
            return ends
        id = ends.node.id
        try:
            view = self._view.open_agent(id)
        except UnspoolError:
            return ends
        head = view.outline().head
        node = replace(
            ends.node,
            model=head.models[0] if head.models else ends.node.model,
            calls=head.calls,
            peak=head.peak,
            output=head.usage.output,
            cost=head.usage.cost_micros,
            started=head.started,
            last=head.last,
        )
        self._summaries[id] = replace(ends, node=node, index=view.index)
        return self._summaries[id]

    def _read_ends(self, source: Source) -> _Summary:
        """Summarise the beginning and the end of an agent's file."""
        id = _agent_id(source)
        summary = self._summaries.get(id)
        if summary is not None and summary.is_of(source):
            return summary
        reader = self._view.session.home.reader
        try:
            head = reader.part(source.path, 0, _END_BYTES)
            tail = reader.part(source.path, source.size - _END_BYTES, _END_BYTES) if source.size > _END_BYTES else b""
        except UnspoolError:
            head = tail = b""
        first = _entries(head)
        # The tail begins in the middle of a line.
        records = [entry.record for entry in (*first, *(_entries(tail[tail.find(b"\n") + 1 :]) or first))]
        prompt = next((entry.record for entry in first if isinstance(entry.record, User)), None)
        answers = [record.message for record in records if isinstance(record, Assistant)]
        texts = [block.text for message in answers for block in message.blocks if isinstance(block, Text)]
        times = [record.timestamp for record in records if record.timestamp]
        node = AgentNode(
            id=id,
            bytes=source.size,
            model=next((message.model for message in answers if message.model), None),
            started=times[0] if times else None,
            last=times[-1] if times else None,
            result=first_line(texts[-1])[:300] if texts else "",
        )
        references = [entry.record for entry in first if isinstance(entry.record, ForkContextRef)]
        forked = next((reference.parent_last_uuid for reference in references if reference.parent_last_uuid), None)
        text = join_text(prompt.message.blocks) if prompt else ""
        is_warmup = prompt is not None and classify_user_record(prompt) is Speaker.WARMUP
        self._summaries[id] = _Summary(node, source.modified, text, is_warmup, forked)
        return self._summaries[id]


def _signs(summary: _Summary, meta: AgentMeta | None) -> AgentSigns:
    """Return what tells which call started an agent; a fork is not linked by its prompt, which it repeats."""
    id, prompt = summary.node.id, summary.prompt
    by_prompt = prompt.strip() and not (summary.forked_from or summary.is_warmup or is_special_fork(id))
    return AgentSigns(id, meta.tool_use_id if meta else None, prompt_digest(prompt) if by_prompt else "")


def _entries(data: bytes) -> list[Entry]:
    buffer = LineBuffer()
    items = [*decode_lines(buffer.feed(data)), *decode_lines(buffer.finish())]
    return [item for item in items if isinstance(item, Entry)]


def _agent_id(source: Source) -> str:
    return source.agent_id or source.path.stem


def _start_order(node: AgentNode) -> tuple[str, str]:
    return node.started or "~", node.id
