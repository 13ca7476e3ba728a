"""Links the sub-agents of a session to the tool calls that started them.

Rules
  1. An agent is identified by its session and its id; the same id may be used again in another session.
  2. A link is made by the most certain sign there is: the meta file's `toolUseId`, the result's `agentId`, lines that
     report on it (progress, the notification of its end), the exact prompt. (Of 1,751 agents whose parent file was
     there: 1,543 by result or progress, 144 by prompt.)
  3. An agent may be started by another agent: the calls of all files of a session count.
  4. An agent that a person forked (`/fork`) has no call. Its first line, `fork-context-ref`, names the line of its
     parent after which it was forked: that is its link.
  5. Warm-ups, forks that Claude Code makes for itself (`acompact-…`, `aprompt_suggestion-…`, …) and agents of workflows
     or teams have no call to be linked to; their class says so.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from enum import Enum

import msgspec

from unspool.format import AgentProgress, Entry, ForkContextRef, Progress, User
from unspool.format.side_files import AgentMeta
from unspool.format.tools import AGENT_TOOLS, AgentInput, parse_input
from unspool.graph.prompts import Speaker, parse_task_notification
from unspool.graph.session_facts import is_special_fork
from unspool.graph.tool_calls import ToolCall, find_tool_calls
from unspool.graph.turns import classify_user_record, first_text, join_text


class AgentClass(Enum):
    """What an agent is for."""

    TASK = "task"
    WARMUP = "warmup"
    SPECIAL = "special"
    WORKFLOW = "workflow"
    TEAMMATE = "teammate"
    ORPHAN = "orphan"
    """One assistant line and no sign of where it came from (2.0.5x)."""


class AgentFile(msgspec.Struct, frozen=True):
    """The file of an agent, before the agent is linked to a call."""

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
    """`meta`, `result`, `progress`, `prompt` or `fork`."""
    type: str | None = None
    description: str | None = None
    prompt: str = ""
    forked_from: str | None = None
    """The uuid of the line of its parent after which it was forked, if no call started it."""

    def __repr__(self) -> str:
        return f"<Agent {self.id} {self.type or self.kind.value}: {(self.description or self.prompt)[:60]!r}>"

    @property
    def is_linked(self) -> bool:
        """Whether it is known where it was started."""
        return self.call is not None or self.forked_from is not None

    @property
    def linkable(self) -> bool:
        """Whether a tool call must have started it."""
        return self.kind is AgentClass.TASK


class AgentSigns(msgspec.Struct, frozen=True):
    """What tells of an agent which call started it."""

    id: str
    call: str | None = None
    """The call that its meta file names."""
    prompt: str = ""
    """Its prompt, in the form in which prompts of calls are looked up; empty if it must not be linked by it."""


def choose_calls(
    agents: Sequence[AgentSigns],
    known: Container[str],
    reported: Sequence[tuple[str, Mapping[str, str]]],
    by_prompt: Mapping[str, Sequence[str]],
    taken: Iterable[str] = (),
) -> dict[str, tuple[str, str]]:
    """Return by the ids of agents the calls that started them, and the signs that tell it (rule 2).

    Calls are `known` by their ids; `reported` has the calls that lines name for agents, by signs, the surest first.
    Calls that are `taken` have their agents already.
    """
    chosen: dict[str, tuple[str, str]] = {}
    for agent in agents:
        signs = [("meta", agent.call), *((sign, calls.get(agent.id)) for sign, calls in reported)]
        found = ((call, sign) for sign, call in signs if call is not None and call in known)
        if (link := next(found, None)) is not None:
            chosen[agent.id] = link
    # Certain links first: a call that has its agent must not be given to another with the same prompt.
    gone = {*taken, *(call for call, _ in chosen.values())}
    for agent in agents:
        if agent.id in chosen or not agent.prompt:
            continue
        free = (call for call in by_prompt.get(agent.prompt, ()) if call in known and call not in gone)
        if (call := next(free, None)) is not None:
            chosen[agent.id] = call, "prompt"
            gone.add(call)
    return chosen


def link_agents(main: Sequence[Entry], files: Sequence[AgentFile]) -> list[Agent]:
    """Return the agents of a session, linked to the calls that started them."""
    calls: dict[str, ToolCall] = {}
    for entries in (main, *(file.entries for file in files)):
        for call in find_tool_calls(entries):
            # The file of a forked agent repeats the calls before the fork without their results.
            if call.id not in calls or (call.result and not calls[call.id].result):
                calls[call.id] = call
    starters = [call for call in calls.values() if call.name in AGENT_TOOLS]
    by_prompt: dict[str, list[str]] = {}
    for call in starters:
        input = parse_input(call.name, call.input)
        prompt = (input.prompt or "").strip() if isinstance(input, AgentInput) else ""
        by_prompt.setdefault(prompt, []).append(call.id)
    by_progress = _index_by_progress(main, *(file.entries for file in files))
    agents = [_link_fork(_describe(file), file) for file in files]
    signs = [
        AgentSigns(agent.id, (file.meta or AgentMeta()).tool_use_id, _linkable_prompt(agent))
        for agent, file in zip(agents, files, strict=True)
    ]
    reported = [("result", _index_by_result(starters)), ("progress", by_progress)]
    links = choose_calls(signs, calls, reported, by_prompt)
    return [
        _link(agent, calls[links[agent.id][0]], links[agent.id][1]) if agent.id in links else agent for agent in agents
    ]


def _linkable_prompt(agent: Agent) -> str:
    """Return the prompt that an agent may be linked by, word for word: not if it was forked or is of another class."""
    return "" if agent.is_linked or agent.kind is not AgentClass.TASK else agent.prompt.strip()


def _describe(file: AgentFile) -> Agent:
    meta = file.meta or AgentMeta()
    first = next((entry.record for entry in file.entries if isinstance(entry.record, User)), None)
    return Agent(
        id=file.id,
        kind=_classify(file, first),
        type=meta.agent_type or None,
        description=meta.description or None,
        prompt=join_text(first.message.blocks) if first else "",
    )


def _link_fork(agent: Agent, file: AgentFile) -> Agent:
    """Link an agent to the line after which it was forked, if its file names it."""
    references = (entry.record for entry in file.entries if isinstance(entry.record, ForkContextRef))
    uuid = next((reference.parent_last_uuid for reference in references if reference.parent_last_uuid), None)
    # Claude Code forks the conversation for itself too; those agents are of their own class.
    if uuid is None or agent.kind in (AgentClass.SPECIAL, AgentClass.WORKFLOW):
        return agent
    return msgspec.structs.replace(agent, kind=AgentClass.TASK, linked_by="fork", forked_from=uuid)


def _link(agent: Agent, call: ToolCall, linked_by: str) -> Agent:
    input = parse_input(call.name, call.input)
    known = input if isinstance(input, AgentInput) else None
    return msgspec.structs.replace(
        agent,
        kind=AgentClass.TASK,
        call=call,
        linked_by=linked_by,
        forked_from=None,
        type=agent.type or (known.subagent_type if known else None),
        description=agent.description or (known.description if known else None),
    )


def _classify(file: AgentFile, first: User | None) -> AgentClass:
    if file.in_workflow:
        return AgentClass.WORKFLOW
    if is_special_fork(file.id):
        return AgentClass.SPECIAL
    if first is None:
        return AgentClass.ORPHAN
    if classify_user_record(first) is Speaker.WARMUP:
        return AgentClass.WARMUP
    if first.team_name or join_text(first.message.blocks).startswith("<teammate-message"):
        return AgentClass.TEAMMATE
    return AgentClass.TASK


def _index_by_result(starters: Iterable[ToolCall]) -> dict[str, str]:
    """Return the ids of calls by the id of the agent that their result names."""
    calls: dict[str, str] = {}
    for call in starters:
        structured = call.structured
        for name in ("agent_id", "teammate_id"):
            id = getattr(structured, name, None)
            if isinstance(id, str):
                calls.setdefault(id, call.id)
    return calls


def _index_by_progress(*files: Sequence[Entry]) -> dict[str, str]:
    """Return the ids of calls by the id of the agent that progress lines and notifications name."""
    call_ids: dict[str, str] = {}
    for entries in files:
        for entry in entries:
            match entry.record:
                case Progress(data=AgentProgress(agent_id=str(agent)), parent_tool_use_id=str(call)):
                    call_ids.setdefault(agent, call)
                case User(message=message):
                    if named := parse_task_notification(first_text(message.blocks)):
                        call_ids.setdefault(*named)
                case _:
                    pass
    return call_ids
