"""Sub-agents and the calls that started them.

Rules
  1. An agent is known by its session and its id; the same id may be used again in another session.
  2. A link is made by the surest sign there is: the meta file's `toolUseId`, the result's `agentId`, progress lines,
     the exact prompt. (Of 1,751 agents whose parent file was there: 1,543 by result or progress, 144 by prompt.)
  3. An agent may be started by another agent: the calls of all files of a session are looked at.
  4. Warm-ups, forks the program makes for itself (`acompact-…`, `aprompt_suggestion-…`, …) and agents of workflows or
     teams have no call to be linked to; their class says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import msgspec

from unspool.format.entry import Entry
from unspool.format.progress import AgentProgress
from unspool.format.records import Progress, User
from unspool.format.side_files.json import AgentMeta
from unspool.format.tools.agents import AgentInput
from unspool.format.tools.parse import parse_input
from unspool.graph.session_facts_from_entries import is_special
from unspool.graph.tool_calls import ToolCall, tool_calls
from unspool.graph.turns import Speaker, speaker, text_of


class AgentClass(Enum):
    """What an agent is for."""

    TASK = "task"
    WARMUP = "warmup"
    SPECIAL = "special"
    WORKFLOW = "workflow"
    TEAMMATE = "teammate"
    ORPHAN = "orphan"
    """One assistant line and nothing to tell where it came from (2.0.5x)."""


class AgentFile(msgspec.Struct, frozen=True):
    """What is known of an agent before it is linked."""

    id: str
    entries: Sequence[Entry]
    meta: AgentMeta | None = None
    in_workflow: bool = False


class Agent(msgspec.Struct, frozen=True):
    """A sub-agent."""

    id: str
    kind: AgentClass
    call: ToolCall | None = None
    """The call that started it, in the session's file or in another agent's."""
    linked_by: str | None = None
    """`meta`, `result`, `progress` or `prompt`."""
    type: str | None = None
    description: str | None = None
    prompt: str = ""

    @property
    def linkable(self) -> bool:
        """Whether there should be a call for it."""
        return self.kind is AgentClass.TASK


_STARTERS = frozenset({"Task", "Agent"})


def agents(main: Sequence[Entry], files: Sequence[AgentFile]) -> list[Agent]:
    """Return the agents of a session, linked to the calls that started them."""
    calls: dict[str, ToolCall] = {}
    for entries in (main, *(file.entries for file in files)):
        for call in tool_calls(entries):
            if call.id not in calls or (call.result and not calls[call.id].result):  # forks repeat calls, not results
                calls[call.id] = call
    starters = [call for call in calls.values() if call.name in _STARTERS]
    by_result = _by_result(starters)
    by_progress = _by_progress(main, *(file.entries for file in files))
    by_prompt: dict[str, list[ToolCall]] = {}
    for call in starters:
        by_prompt.setdefault(_prompt_of(call), []).append(call)
    taken: set[str] = set()
    found = [_linked(file, calls, by_result, by_progress) for file in files]
    taken.update(agent.call.id for agent in found if agent.call)
    return [_by_prompt(agent, by_prompt, taken) for agent in found]


def _linked(
    file: AgentFile, calls: Mapping[str, ToolCall], by_result: Mapping[str, ToolCall], by_progress: Mapping[str, str]
) -> Agent:
    meta = file.meta or AgentMeta()
    kind = _class(file)
    signs = [
        ("meta", calls.get(meta.tool_use_id or "")),
        ("result", by_result.get(file.id)),
        ("progress", calls.get(by_progress.get(file.id, ""))),
    ]
    linked_by, call = next(((sign, call) for sign, call in signs if call), (None, None))
    given = _input(call) if call else None
    return Agent(
        id=file.id,
        kind=AgentClass.TASK if call else kind,
        call=call,
        linked_by=linked_by,
        type=meta.agent_type or (given.subagent_type if given else None),
        description=meta.description or (given.description if given else None),
        prompt=_first_prompt(file.entries),
    )


def _by_prompt(agent: Agent, by_prompt: Mapping[str, list[ToolCall]], taken: set[str]) -> Agent:
    """Link an agent by its prompt, word for word, if nothing surer did; each call starts one agent."""
    if agent.call or agent.kind is not AgentClass.TASK or not agent.prompt.strip():
        return agent
    for call in by_prompt.get(agent.prompt.strip(), []):
        if call.id not in taken:
            taken.add(call.id)
            given = _input(call)
            return msgspec.structs.replace(
                agent,
                call=call,
                linked_by="prompt",
                type=agent.type or (given.subagent_type if given else None),
                description=agent.description or (given.description if given else None),
            )
    return agent


def _class(file: AgentFile) -> AgentClass:
    if file.in_workflow:
        return AgentClass.WORKFLOW
    if is_special(file.id):
        return AgentClass.SPECIAL
    users = [entry.record for entry in file.entries if isinstance(entry.record, User)]
    if any(speaker(record) is Speaker.WARMUP for record in users[:1]):
        return AgentClass.WARMUP
    if users and (users[0].team_name or text_of(users[0].message.blocks).startswith("<teammate-message")):
        return AgentClass.TEAMMATE
    return AgentClass.TASK if users else AgentClass.ORPHAN


def _by_result(starters: Iterable[ToolCall]) -> dict[str, ToolCall]:
    found: dict[str, ToolCall] = {}
    for call in starters:
        structured = call.structured
        for name in ("agent_id", "teammate_id"):
            id = getattr(structured, name, None)
            if isinstance(id, str):
                found.setdefault(id, call)
    return found


def _by_progress(*files: Sequence[Entry]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entries in files:
        for entry in entries:
            match entry.record:
                case Progress(data=AgentProgress(agent_id=str(agent)), parent_tool_use_id=str(call)):
                    found.setdefault(agent, call)
                case _:
                    pass
    return found


def _input(call: ToolCall) -> AgentInput | None:
    given = parse_input(call.name, call.input)
    return given if isinstance(given, AgentInput) else None


def _prompt_of(call: ToolCall) -> str:
    given = _input(call)
    return (given.prompt or "").strip() if given else ""


def _first_prompt(entries: Sequence[Entry]) -> str:
    for entry in entries:
        if isinstance(entry.record, User):
            return text_of(entry.record.message.blocks)
    return ""
