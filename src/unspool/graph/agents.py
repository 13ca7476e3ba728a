"""Links the sub-agents of a session to the tool calls that started them.

Rules
  1. An agent is identified by its session and its id; the same id may be used again in another session.
  2. A link is made by the most certain sign there is: the meta file's `toolUseId`, the result's `agentId`, progress
     lines, the exact prompt. (Of 1,751 agents whose parent file was there: 1,543 by result or progress, 144 by prompt.)
  3. An agent may be started by another agent: the calls of all files of a session count.
  4. Warm-ups, forks that Claude Code makes for itself (`acompact-…`, `aprompt_suggestion-…`, …) and agents of workflows
     or teams have no call to be linked to; their class says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import msgspec

from unspool.format import AgentProgress, Entry, Progress, User
from unspool.format.side_files import AgentMeta
from unspool.format.tools import AGENT_TOOLS, AgentInput, parse_input
from unspool.graph.session_facts import is_special_fork
from unspool.graph.speakers import Speaker
from unspool.graph.tool_calls import ToolCall, find_tool_calls
from unspool.graph.turns import classify_user_record, join_text


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
    """`meta`, `result`, `progress` or `prompt`."""
    type: str | None = None
    description: str | None = None
    prompt: str = ""

    @property
    def linkable(self) -> bool:
        """Whether a tool call must have started it."""
        return self.kind is AgentClass.TASK


def link_agents(main: Sequence[Entry], files: Sequence[AgentFile]) -> list[Agent]:
    """Return the agents of a session, linked to the calls that started them."""
    calls: dict[str, ToolCall] = {}
    for entries in (main, *(file.entries for file in files)):
        for call in find_tool_calls(entries):
            # The file of a forked agent repeats the calls before the fork without their results.
            if call.id not in calls or (call.result and not calls[call.id].result):
                calls[call.id] = call
    starters = [call for call in calls.values() if call.name in AGENT_TOOLS]
    by_result = _index_by_result(starters)
    by_progress = _index_by_progress(main, *(file.entries for file in files))
    by_prompt: dict[str, list[ToolCall]] = {}
    for call in starters:
        input = parse_input(call.name, call.input)
        prompt = (input.prompt or "").strip() if isinstance(input, AgentInput) else ""
        by_prompt.setdefault(prompt, []).append(call)
    # Certain links first: a call that has its agent must not be given to another with the same prompt.
    agents = [_link_by_id(file, calls, by_result, by_progress) for file in files]
    taken = {agent.call.id for agent in agents if agent.call}
    return [_link_by_prompt(agent, by_prompt, taken) for agent in agents]


def _link_by_id(
    file: AgentFile, calls: Mapping[str, ToolCall], by_result: Mapping[str, ToolCall], by_progress: Mapping[str, str]
) -> Agent:
    meta = file.meta or AgentMeta()
    first = next((entry.record for entry in file.entries if isinstance(entry.record, User)), None)
    agent = Agent(
        id=file.id,
        kind=_classify(file, first),
        type=meta.agent_type or None,
        description=meta.description or None,
        prompt=join_text(first.message.blocks) if first else "",
    )
    signs = [
        ("meta", calls.get(meta.tool_use_id or "")),
        ("result", by_result.get(file.id)),
        ("progress", calls.get(by_progress.get(file.id, ""))),
    ]
    return next((_link(agent, call, sign) for sign, call in signs if call), agent)


def _link_by_prompt(agent: Agent, by_prompt: Mapping[str, list[ToolCall]], taken: set[str]) -> Agent:
    """Link an agent by its prompt, word for word, if nothing more certain did; each call starts one agent."""
    if agent.call or agent.kind is not AgentClass.TASK or not agent.prompt.strip():
        return agent
    for call in by_prompt.get(agent.prompt.strip(), []):
        if call.id not in taken:
            taken.add(call.id)
            return _link(agent, call, "prompt")
    return agent


def _link(agent: Agent, call: ToolCall, linked_by: str) -> Agent:
    input = parse_input(call.name, call.input)
    known = input if isinstance(input, AgentInput) else None
    return msgspec.structs.replace(
        agent,
        kind=AgentClass.TASK,
        call=call,
        linked_by=linked_by,
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


def _index_by_result(starters: Iterable[ToolCall]) -> dict[str, ToolCall]:
    """Return the calls by the id of the agent that their result names."""
    calls: dict[str, ToolCall] = {}
    for call in starters:
        structured = call.structured
        for name in ("agent_id", "teammate_id"):
            id = getattr(structured, name, None)
            if isinstance(id, str):
                calls.setdefault(id, call)
    return calls


def _index_by_progress(*files: Sequence[Entry]) -> dict[str, str]:
    """Return the ids of calls by the id of the agent that their progress lines name."""
    call_ids: dict[str, str] = {}
    for entries in files:
        for entry in entries:
            match entry.record:
                case Progress(data=AgentProgress(agent_id=str(agent)), parent_tool_use_id=str(call)):
                    call_ids.setdefault(agent, call)
                case _:
                    pass
    return call_ids
